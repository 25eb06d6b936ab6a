"""The judge of a comparison, on sides made by hand: what a repetition is, what is blamed."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from bench.judge import regress
from bench.judge.sides.differences import contrast
from bench.judge.sides.sampling import interleaved, sampling
from bench.judge.sides.topics import of_report
from bench.records import (
    Candidate,
    Comparison,
    HostFacts,
    Plan,
    PlanSettings,
    Report,
    SessionCurve,
    Side,
    SideSession,
    Software,
    Topic,
)

SIZES = tuple(1 << power for power in range(12, 29))
LEVEL = np.array([20e-6 + size / 200e9 for size in SIZES])


def curve(times, candidate="data", collective="all_reduce", **more):
    more = {"ranks": 16, "dtype": "float32", "share": 1.875, **more}
    sizes = more.pop("sizes", SIZES)
    return SessionCurve(
        candidate=candidate, collective=collective, sizes_bytes=tuple(sizes),
        times_s=tuple(float(t) for t in times), scatters=(0.003,) * len(times),
        calls=(1,) * len(times), **more,
    )  # fmt: skip


def session(at, factor=1.0, *, noise=0.004, seed=0, curves=None, **more):
    rng = np.random.default_rng([seed, at, round(1000 * float(np.mean(factor)))])
    times = LEVEL * factor * np.exp(rng.normal(0, noise) + rng.normal(0, 0.002, len(SIZES)))
    more = {"hosts": ("host1", "host2"), "host_count": 2, "backend": "nccl", **more}
    return SideSession(
        name=f"run-{at}", run=f"run-{at}-{seed}", curves=curves or (curve(times),), **more
    )


def side(path, sessions, topics=(), **more):
    more = {"told": ("report",), **more}
    return Side(path=path, sessions=tuple(sessions), topics=tuple(topics), **more)


def plain(count=5, factor=1.0, seed=0, path="side", topics=(), **more):
    return side(path, [session(at, factor, seed=seed, **more) for at in range(count)], topics)


def codes(result: Comparison) -> set[str]:
    return {finding.code for finding in result.findings}


def of(result: Comparison, code: str):
    return next(finding for finding in result.findings if finding.code == code)


def software(**versions: str) -> tuple[Topic, ...]:
    facts = HostFacts(host="host1", hostname="host1", identity="1", software=Software(**versions))
    return tuple(of_report(Report(run="r", verdict="healthy", hosts=(facts,))))


# ------------------------------------------------------------------------------ what changed


def test_one_changed_factor_is_named_and_everything_else_called_equal() -> None:
    before = plain(topics=software(driver="550.54.15", kernel="6.8", nccl="2.20"))
    topics = software(driver="570.86.10", kernel="6.8", nccl="2.20")
    after = plain(factor=1.1, seed=1, topics=topics)
    result = regress.judge(before, after)
    (only,) = result.differences
    assert (only.name, only.before, only.after) == ("driver", "550.54.15", "570.86.10")
    assert result.equal == "everything else equal"
    found = of(result, "regressed")
    assert any("driver 550.54.15 to 570.86.10" in proof.text for proof in found.evidence)
    assert "driver 550.54.15" in found.remedy


def test_two_changed_factors_leave_neither_to_be_blamed() -> None:
    before = plain(topics=software(driver="550", nccl="2.20"))
    after = plain(seed=1, topics=software(driver="570", nccl="2.23"))
    result = regress.judge(before, after)
    assert {d.name for d in result.differences} == {"driver", "NCCL"}
    assert any("one at a time" in doubt for doubt in result.confounders)


def test_what_a_tables_head_does_not_tell_is_not_called_equal() -> None:
    topics = (Topic(name="NCCL", values={"": ("2.30.5",)}),)
    tables = [side("x", [session(0)], topics, told=("table",)) for _ in range(2)]
    assert "driver" in contrast(*tables).equal and "not in them" in contrast(*tables).equal


def test_a_variable_of_one_side_is_unset_on_the_other_only_where_that_one_would_tell() -> None:
    setting = (Topic(name="NCCL_ALGO", values={"host1": ("Ring",)}),)
    known = contrast(side("a", [], setting), side("b", [], told=("report",)))
    assert [(d.before, d.after) for d in known.differences] == [("Ring", "unset")]
    silent = contrast(side("a", [], setting), side("b", [], told=("table",)))
    assert silent.differences == ()


def test_a_difference_on_some_hosts_names_them() -> None:
    values = {f"host{i}": ("mlx5_0:1 4096",) for i in range(4)}
    one = Topic(name="RDMA MTU", values=values)
    other = Topic(name="RDMA MTU", values={**values, "host3": ("mlx5_0:1 1024",)})
    (difference,) = contrast(side("a", [], [one]), side("b", [], [other])).differences
    assert difference.hosts == ("host3",) and "1024" in difference.after


def test_a_reboot_and_other_hosts_are_doubts_not_factors() -> None:
    def facts(boot):
        host = HostFacts(host="host1", hostname="host1", identity=boot, boot_id=boot)
        return tuple(of_report(Report(run="r", verdict="healthy", hosts=(host,))))

    found = contrast(side("a", [], facts("b1")), side("b", [], facts("b2")))
    assert any("rebooted" in doubt for doubt in found.confounders) and not found.factors


def test_clocks_that_differ_by_a_bin_are_alike_and_throttled_ones_are_told() -> None:
    def clocks(mhz):
        return [
            Topic(name="GPU clocks meanwhile", kind="circumstance", values={"h": (f"{mhz} MHz",)})
        ]

    assert contrast(side("a", [], clocks(1980)), side("b", [], clocks(1965))).differences == ()
    found = contrast(side("a", [], clocks(1980)), side("b", [], clocks(1200)))
    assert any("not a slow link" in doubt for doubt in found.confounders)


# ------------------------------------------------------------------------- what a repetition is


def booted(boots, factor=1.0, seed=0, spread=0.0):
    """Three sessions of each boot; boots differ by `spread`."""
    luck = np.random.default_rng(seed + 50).normal(0, spread, len(boots))
    return side(
        "side",
        [
            session(10 * b + at, factor * math.exp(luck[b]), seed=seed, boot=boot)
            for b, boot in enumerate(boots)
            for at in range(3)
        ],
    )


def test_one_boot_a_side_is_told_as_the_weaker_answer_and_a_small_loss_fails_no_gate() -> None:
    result = regress.judge(booted(["b1"]), booted(["b2"], 1.035, 1))
    assert result.weaker and "one boot a side" in result.weaker and result.sample == "session"
    assert of(result, "regressed").severity == "warning"
    large = regress.judge(booted(["b1"]), booted(["b2"], 1.12, 1))
    assert of(large, "regressed").severity == "degraded"


def test_boots_are_the_sample_where_each_side_has_several() -> None:
    names = [[f"{s}{i}" for i in range(4)] for s in "ab"]
    result = regress.judge(booted(names[0], spread=0.02), booted(names[1], seed=1, spread=0.02))
    assert result.sample == "boot" and result.weaker is None
    assert result.lines[0].before_sessions == 4
    assert "regressed" not in codes(result) and "improved" not in codes(result)


def test_sessions_are_the_sample_where_both_sides_lie_on_one_boot() -> None:
    result = regress.judge(booted(["b1"]), booted(["b1"], 1.05, 1))
    assert result.sample == "session" and result.weaker is None
    assert of(result, "regressed").severity == "degraded"


def test_pooling_sessions_of_two_boots_would_accuse_the_luck_of_the_boots() -> None:
    """What the rule is for: boots differ by 4 %, nothing was changed."""
    alarms = {"boot": 0, "session": 0}
    for seed in range(30):
        before = booted(["a1", "a2", "a3"], seed=2 * seed, spread=0.04)
        after = booted(["b1", "b2", "b3"], seed=2 * seed + 1, spread=0.04)
        alarms["boot"] += "regressed" in codes(regress.judge(before, after))
        unknown = [
            msgspec.structs.replace(
                s, sessions=tuple(msgspec.structs.replace(x, boot=None) for x in s.sessions)
            )
            for s in (before, after)
        ]
        alarms["session"] += "regressed" in codes(regress.judge(*unknown))
    assert alarms["boot"] <= 3 < 6 <= alarms["session"]


def test_a_control_that_was_only_rebooted_takes_the_blame_off_the_update() -> None:
    before, after = booted(["b1"]), booted(["b2"], 1.10, 1)
    blamed = regress.judge(before, after, control=booted(["b3"], 1.0, 2))
    assert of(blamed, "regressed").severity == "degraded"
    assert any("did not do this" in proof.text for proof in of(blamed, "regressed").evidence)
    cleared = regress.judge(before, after, control=booted(["b3"], 1.10, 2))
    assert of(cleared, "regressed").severity == "warning"
    assert any("reboot alone" in proof.text for proof in of(cleared, "regressed").evidence)


def test_a_cohort_compares_hosts_and_does_not_doubt_that_they_are_others() -> None:
    def cohort(names, factor, seed):
        return side("side", [
            session(at, factor, seed=seed, hosts=(name,), host_count=1, boot=f"b-{name}",
                    place=1000.0 * at)
            for at, name in enumerate(names)
        ])  # fmt: skip

    result = regress.judge(
        cohort(["h1", "h2", "h3", "h4"], 1.0, 0), cohort(["h5", "h6", "h7", "h8"], 1.08, 1),
        cohort=True,
    )  # fmt: skip
    assert result.sample == "host" and result.confounders == ()
    assert of(result, "regressed").severity == "degraded"


def test_the_same_hosts_before_and_after_are_paired() -> None:
    before = [session(at, 1.0 + 0.1 * at, hosts=(f"h{at}",), host_count=1) for at in range(5)]
    after = [
        session(at, (1.0 + 0.1 * at) * 1.05, hosts=(f"h{at}",), host_count=1, seed=1)
        for at in range(5)
    ]
    result = regress.judge(side("a", before), side("b", after[::-1]))
    assert result.sample == "pairs of hosts" and "regressed" in codes(result)


@pytest.mark.parametrize("common", [0, 1, 2])
def test_a_size_that_no_host_has_on_both_sides_is_left_out(common) -> None:
    """Ladders end at different sizes: some hosts have the largest before, others after."""

    def hosts(path, seed, whole, factor):
        sessions = []
        for at in range(4):
            times = session(at, seed=seed).curves[0].times_s
            times = (*times[:-1], times[-1] * factor)
            kept = len(SIZES) if at in whole else len(SIZES) - 1
            sessions.append(session(
                at, hosts=(f"h{at}",), host_count=1,
                curves=(curve(times[:kept], sizes=SIZES[:kept]),), seed=seed,
            ))  # fmt: skip
        return side(path, sessions)

    result = regress.judge(
        hosts("a", 0, (0, 1), 1.0), hosts("b", 1, range(2 - common, 4 - common), 1.02)
    )
    assert result.sample == "pairs of hosts"
    (line,) = result.lines
    assert line.verdict == "equivalent"
    assert [cell.size_bytes for cell in line.cells] == list(SIZES[: None if common else -1])
    left_out = "left out, as no host has them on both sides: 256 MiB"
    assert (left_out in line.notes) == (not common)
    assert not any(cell.moved for cell in line.cells)


def test_turns_are_told_from_an_order_of_blocks() -> None:
    def at(*places):
        return [session(i, place=float(p)) for i, p in enumerate(places)]

    assert interleaved(at(0, 3, 4), at(1, 2, 5)) is True
    assert interleaved(at(0, 1, 2), at(3, 4, 5)) is False
    assert interleaved(at(0, 1), [session(0), session(1)]) is None


def test_one_boot_against_three_takes_from_the_three_how_boots_differ() -> None:
    chosen = sampling(booted(["a1"]).sessions, booted(["b1", "b2", "b3"]).sessions)
    assert chosen.unit == "boot" and chosen.weaker and "single boot" in chosen.weaker


# ------------------------------------------------------------------------ what is not compared


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"curves": (curve(LEVEL, ranks=64),)}, "ranks 16 before, 64 after"),
        ({"host_count": 8}, "hosts 2 before, 8 after"),
        ({"curves": (curve(LEVEL, dtype="bfloat16"),)}, "element type float32 before"),
        ({"curves": (curve(LEVEL, redop="max"),)}, "operation min before, max after"),
        ({"backend": "gloo"}, "backend nccl before, gloo after"),
        ({"curves": (curve(LEVEL, sizes=[n + 4 for n in SIZES]),)}, "no size is common"),
        ({"curves": (curve(LEVEL, candidate="mgmt"),)}, "nothing was measured on both sides"),
    ],
    ids=["ranks", "hosts", "dtype", "operation", "backend", "sizes", "candidates"],
)
def test_unlike_runs_are_not_compared_and_it_says_why(change, why) -> None:
    before = plain()
    if "operation" in why:
        before = side("a", [session(at, curves=(curve(LEVEL, redop="min"),)) for at in range(3)])
    after = side("b", [session(at, seed=1, **change) for at in range(5)])
    result = regress.judge(before, after)
    assert result.verdict == "not-comparable" and codes(result) == {"not-comparable"}
    assert why in of(result, "not-comparable").summary
    assert of(result, "not-comparable").severity == "warning" and not result.lines


def test_a_candidate_of_one_side_alone_is_a_note_beside_the_answer() -> None:
    after = side("b", [session(at, seed=1, curves=(curve(LEVEL), curve(LEVEL, candidate="new")))
                       for at in range(5)])  # fmt: skip
    result = regress.judge(plain(), after)
    assert any("only after: new all_reduce" in note for note in result.notes)
    assert result.verdict != "not-comparable"


def test_sizes_whose_times_stand_for_another_number_of_calls_are_not_compared() -> None:
    piped = tuple(4 if size < 65536 else 1 for size in SIZES)
    after = side("b", [
        session(at, curves=(msgspec.structs.replace(curve(LEVEL / 2), calls=piped),))
        for at in range(3)
    ])  # fmt: skip
    result = regress.judge(plain(5), after)
    assert min(cell.size_bytes for cell in result.lines[0].cells) == 65536
    assert "4 to 32 KiB cannot be compared" in of(result, "inconclusive").summary


def test_a_table_beside_a_report_is_the_case_with_nothing_set_and_is_doubted() -> None:
    report = side(
        "a", [session(at, curves=(curve(LEVEL, candidate="(default)"),)) for at in (0, 1)]
    )
    table = side("b", [
        session(at, curves=(curve(1.3 * LEVEL, candidate="", part="out-of-place"),), timing="mean")
        for at in (0, 1)
    ], told=("table",))  # fmt: skip
    result = regress.judge(report, table)
    assert result.lines[0].candidate == "(default)"
    assert any("means over calls and ranks" in note for note in result.notes)
    assert all(f.severity != "degraded" for f in result.findings)


# ------------------------------------------------------------------------------ one run a side


def single(factor, seed=0):
    return side("x", [session(0, factor, seed=seed, noise=0.0)])


def test_one_run_a_side_never_tells_luck_from_cause() -> None:
    for factor, severity in ((1.0, "info"), (1.03, "info"), (1.15, "warning"), (0.87, "warning")):
        result = regress.judge(single(1.0), single(factor, 1))
        assert codes(result) == {"inconclusive"}
        assert of(result, "inconclusive").severity == severity
        assert "one run each" in of(result, "inconclusive").summary


def test_one_run_a_side_names_what_is_large_and_local() -> None:
    hole = np.where((np.array(SIZES) >= 2**20) & (np.array(SIZES) <= 2**22), 2.3, 1.0)
    found = of(regress.judge(single(1.0), single(hole, 1)), "regressed")
    assert (found.where.from_bytes, found.where.to_bytes) == (2**20, 2**22)
    assert "2.3 times slower" in found.summary and "all else equal" in found.summary
    assert found.severity == "degraded"


def test_one_run_that_takes_seven_times_as_long_is_beyond_luck() -> None:
    assert of(regress.judge(single(1.0), single(7.0, 1)), "regressed").severity == "degraded"


def test_a_line_whose_sizes_all_moved_alike_is_one_finding_and_else_it_is_two() -> None:
    result = regress.judge(plain(), plain(factor=1.1, seed=1))
    (found,) = [finding for finding in result.findings if finding.code == "regressed"]
    assert (found.where.from_bytes, found.where.to_bytes) == (SIZES[0], SIZES[-1])
    assert found.summary.count(" slower (95 % interval") == 2 and "below 0.0001" in str(found)
    tilted = np.where(np.array(SIZES) < 65536, 0.9, 1.1)
    crossed = regress.judge(plain(), plain(factor=tilted, seed=1))
    assert {"regressed", "improved"} <= codes(crossed)


@pytest.mark.parametrize("factor", [0.9, 0.2, 1.1, 5.0])
@pytest.mark.parametrize("sessions", [3, 5])
def test_sizes_that_stayed_while_the_others_moved_are_not_told_as_moved(factor, sessions) -> None:
    for stayed in (np.array(SIZES) < 65536, np.array(SIZES) >= SIZES[-3]):
        after = plain(sessions, factor=np.where(stayed, 1.0, factor), seed=2)
        result = regress.judge(plain(sessions), after)
        assert {"improved", "regressed"} & codes(result) == {
            "improved" if factor < 1 else "regressed"
        }
        assert not any(cell.moved for cell, same in zip(
            result.lines[0].cells, stayed, strict=True) if same)  # fmt: skip


def test_a_one_off_hides_nothing_and_is_told() -> None:
    def once(path, factor, seed):
        sessions = list(plain(factor=factor, seed=seed).sessions)
        times = list(sessions[2].curves[0].times_s)
        times[12] *= 5
        sessions[2] = session(2, seed=seed, curves=(curve(times),))
        return side(path, sessions)

    same = regress.judge(plain(), once("after", 1.0, 1))
    assert same.verdict == "equivalent"
    assert any("one-offs kept out of the tests, after: 16 MiB in 1 of 5" in note
               for note in same.lines[0].notes)  # fmt: skip
    slower = regress.judge(once("before", 1.0, 0), plain(factor=1.05, seed=1))
    assert slower.verdict == "regressed"


def test_averages_without_rows_never_accuse() -> None:
    def averages(*values):
        return side(
            "x", [SideSession(name=f"{v}", run=f"{v}", average_busbw_gbs=v) for v in values]
        )

    one = regress.judge(averages(362.198), averages(327.981))
    assert codes(one) == {"inconclusive"} and "-9.4 %" in of(one, "inconclusive").summary
    assert "ten runs" in of(one, "inconclusive").remedy
    several = regress.judge(averages(362, 361, 363, 362), averages(328, 327, 329, 328))
    assert "more than chance" in of(several, "inconclusive").summary
    assert all(f.severity in ("info", "warning") for f in several.findings)


# -------------------------------------------------------------------------- beside the figures


def test_a_network_that_hangs_after_the_change_has_regressed() -> None:
    before = plain(2, outcomes={"data": "measured"})
    after = side("b", [session(0, curves=(curve(LEVEL, candidate="mgmt"),),
                               outcomes={"data": "hung", "mgmt": "measured"})])  # fmt: skip
    found = of(regress.judge(before, after), "regressed")
    assert found.kind == "outcome" and found.where.candidate == "data"
    assert found.severity == "broken"


def ended(*outcomes):
    return side("x", [
        session(at, outcomes={"data": outcome}, seed=len(outcomes),
                curves=(curve(LEVEL, candidate="data" if outcome == "measured" else "mgmt"),))
        for at, outcome in enumerate(outcomes)
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "code", "severity"),
    [
        ("mmmmm", "hhhhm", "regressed", "degraded"),
        ("mmmmm", "hmmfm", "regressed", "degraded"),
        ("mmmmm", "mmmmh", "inconclusive", "warning"),
        ("m", "mh", "regressed", "degraded"),
        ("mm", "mmmmmmmmmmmmmmmmmmhh", "inconclusive", "warning"),
        ("mmmmm", "hhf", "regressed", "broken"),
        ("mmmmh", "mmmhh", None, None),
        ("hhhhh", "hmmmm", None, None),
        ("mmmmm", "mmmmm", None, None),
    ],
)
def test_runs_that_hang_where_none_did_are_counted(before, after, code, severity) -> None:
    word = {"m": "measured", "h": "hung", "f": "failed"}
    first, second = (ended(*(word[one] for one in own)) for own in (before, after))
    found = [f for f in regress.judge(first, second).findings if f.kind == "outcome"]
    assert [(f.code, f.severity) for f in found] == ([(code, severity)] if code else [])
    if after == "hmmfm":
        assert found[0].summary == ("data is hung in 1 and failed in 1 of 5 runs after, and was "
                                    "measured in all 5 runs before.")  # fmt: skip
    if after == "hhhhm":
        assert regress.judge(first, second).verdict == "regressed"


def test_sessions_of_one_run_that_hangs_are_one_run_that_hangs() -> None:
    hung = [
        msgspec.structs.replace(one, run="a", outcomes={"data": "hung"})
        for one in plain(4).sessions
    ]
    good = [msgspec.structs.replace(one, outcomes={"data": "measured"})
            for one in plain(4, seed=3).sessions]  # fmt: skip
    result = regress.judge(side("a", good), side("b", [*hung, *good]))
    (found,) = [f for f in result.findings if f.kind == "outcome"]
    assert found.code == "inconclusive" and "hung in 1 of 5 runs" in found.summary


def test_wrong_values_after_the_change_matter_more_than_times() -> None:
    result = regress.judge(plain(3), plain(3, seed=1, wrong=4))
    assert result.findings[0].code == "wrong-result" and result.verdict == "regressed"


def test_channels_that_became_fewer_explain_without_a_figure() -> None:
    def log(nccl, channels, orders):
        return side("x", [], [
            Topic(name="NCCL", values={"": (nccl,)}),
            Topic(name="channels", values={"": (channels,)}),
            Topic(name="ring orders", values={"": (orders,)}),
        ], told=("log",))  # fmt: skip

    found = of(regress.judge(log("2.18", "8", "4"), log("2.26", "2", "all alike")), "regressed")
    assert found.kind == "channels" and found.confidence == "inferred"
    assert "2 channels with NCCL 2.26" in found.summary
    more = regress.judge(log("2.18", "8", "4"), log("2.20", "9", "4"))
    assert "regressed" not in codes(more)


def test_every_code_is_in_the_catalogue_and_every_candidate_is_where_it_belongs() -> None:
    from bench.judge.catalogue import CATALOGUE

    result = regress.judge(plain(), plain(factor=1.1, seed=1))
    assert codes(result) <= set(CATALOGUE)
    found = of(result, "regressed")
    assert (found.where.candidate, found.where.collective) == ("data", "all_reduce")


def test_a_report_without_its_samples_is_compared_by_what_its_points_tell() -> None:
    def summarised(factor, spread):
        made = msgspec.structs.replace(
            curve(LEVEL * factor), sessions=5, spreads=(spread,) * len(SIZES)
        )
        return side("x", [session(0, curves=(made,))])

    assert "regressed" in codes(regress.judge(summarised(1.0, 0.004), summarised(1.08, 0.004)))
    noisy = codes(regress.judge(summarised(1.0, 0.06), summarised(1.08, 0.06)))
    assert noisy == {"inconclusive"}


def test_latency_bandwidth_and_switch_are_told_apart() -> None:
    sizes = np.array(SIZES)
    slower = (20e-6 + sizes / 180e9) / LEVEL
    result = regress.judge(plain(5), plain(5, slower, seed=1))
    line = result.lines[0]
    assert line.latency_s is not None and abs(line.latency_s.change.value) < 0.03
    assert line.bandwidth_bytes_per_s is not None
    assert line.bandwidth_bytes_per_s.change.value == pytest.approx(-0.10, abs=0.015)
    assert {g.sizes: g.verdict for g in line.gates} == {
        "small": "equivalent",
        "large": "regressed",
    }


def test_candidates_of_a_plan_that_differ_are_told_as_a_setting() -> None:
    def topics(*names):
        candidates = tuple(Candidate(name=name, kind="network") for name in names)
        plan = Plan(settings=PlanSettings(name="p"), sizes_bytes=(4096,))
        report = Report(run="r", verdict="healthy", plan=plan, candidates=candidates)
        return tuple(of_report(report))

    found = contrast(side("a", [], topics("data")), side("b", [], topics("data", "mgmt")))
    assert [(d.name, d.kind, d.after) for d in found.differences] == [
        ("candidates", "setting", "data, mgmt")
    ]
    assert found.factors == ()
