"""`compare` as people and scripts use it: through main(), on real files and real processes."""

from __future__ import annotations

import gzip
import io
import json
import os
import shlex
import shutil
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from bench.cli import main
from bench.commands import turns
from bench.records import (
    BadInput,
    Candidate,
    Case,
    Comparison,
    CostLine,
    HostFacts,
    Plan,
    PlanSettings,
    Point,
    Report,
    Sample,
    Session,
    Software,
)
from bench.report.stored import Header, encode, plain

DATA = Path(__file__).resolve().parents[1] / "data"
TABLES, PAIRS = DATA / "nccl_tests", DATA / "compare"
EARLY, LATE = TABLES / "h100-nvl-switch-at-650k.txt", TABLES / "h100-nvl-switch-at-1050k.txt"
SIZES = [1 << power for power in range(12, 25)]


def told(*arguments: object) -> tuple[int, str]:
    out = io.StringIO()
    return main(["compare", *map(str, arguments)], out), out.getvalue()


def compared(*arguments: object, status: int = 0) -> Comparison:
    ended, out = told(*arguments, "--json")
    assert ended == status, out
    return msgspec.json.decode(out, type=Comparison)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["compare", *map(str, arguments)]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("fabric-bench: ")
    assert printed.err.count("\n") == 1
    return printed.err


def report(run="r", factor=1.0, seed=0, *, boot="b1", driver="550", hosts=2, candidates=("data",)):
    rng = np.random.default_rng([seed, 7])
    times = [(20e-6 + n / 20e9) * factor * float(np.exp(rng.normal(0, 0.004))) for n in SIZES]
    facts = tuple(
        HostFacts(host=f"h{i}", hostname=f"h{i}", identity=f"{i}", boot_id=f"{boot}-{i}",
                  software=Software(driver=driver, kernel="6.8"))
        for i in range(hosts)
    )  # fmt: skip
    points = tuple(
        Point(size_bytes=n, time_s=t, low_s=t * 0.99, high_s=t * 1.01, iterations=30, sessions=1,
              algbw_gbs=n / t / 1e9, busbw_gbs=n / t / 1e9)
        for n, t in zip(SIZES, times, strict=True)
    )  # fmt: skip
    return Report(
        run=run, verdict="healthy", backend="gloo", hosts=facts,
        plan=Plan(settings=PlanSettings(name="p"), ranks=hosts, hosts=hosts,
                  sizes_bytes=tuple(SIZES)),
        candidates=tuple(Candidate(name=c, kind="network", outcome="measured")
                         for c in candidates),
        lines=tuple(CostLine(candidate=c, collective="all_reduce", ranks=hosts, points=points)
                    for c in candidates),
    )  # fmt: skip


def folder(place: Path, count=5, **how) -> Path:
    """A folder of reports, each one a session: half of them files, half of them run folders."""
    place.mkdir()
    seed = how.pop("seed", 0)
    for at in range(count):
        content = encode(report(f"run-{at}", seed=100 * seed + at, **how))
        if at % 2:
            (place / f"run-{at}").mkdir()
            (place / f"run-{at}" / "report.json").write_bytes(content)
        else:
            (place / f"run-{at}.json").write_bytes(content)
    return place


# ------------------------------------------------------------------------------- public pairs


def test_a_switch_that_moved_is_named_with_its_sizes_although_each_side_ran_once() -> None:
    result = compared(EARLY, LATE, status=1)
    (found,) = [finding for finding in result.findings if finding.code == "regressed"]
    assert (found.where.from_bytes, found.where.to_bytes) == (700_000, 1_000_000)
    assert "700 kB to 1 MB is 2.3 times slower" in found.summary
    assert "all else equal" in found.summary
    assert any("switch" in p.text and "1.1 MB" in p.text for p in found.evidence)
    moved = [cell.size_bytes for cell in result.lines[0].cells if cell.moved]
    assert moved == [700_000, 800_000, 900_000, 1_000_000]


def test_the_same_switch_moved_back_is_a_gain_and_itself_is_neither() -> None:
    assert compared(LATE, EARLY).verdict == "improved"
    same = compared(EARLY, EARLY)
    assert same.verdict == "inconclusive" and not any(c.moved for c in same.lines[0].cells)


def test_three_noisy_runs_a_side_show_no_gain_and_no_size_by_itself() -> None:
    result = compared(PAIRS / "threads" / "before", PAIRS / "threads" / "after", status=1)
    assert (result.before.sessions, result.after.sessions) == (3, 3)
    assert "improved" not in {finding.code for finding in result.findings}
    assert not any(cell.moved for cell in result.lines[0].cells)
    assert "none of them surely by itself" in result.findings[0].summary


def test_two_averages_are_no_proof_and_the_driver_is_read_from_the_files_names() -> None:
    result = compared(PAIRS / "driver_535.183.06.txt", PAIRS / "driver_550.144.03.txt")
    (difference,) = result.differences
    assert (difference.name, difference.basis) == ("driver", "inferred")
    (found,) = result.findings
    assert found.code == "inconclusive" and "-9.4 %" in found.summary
    assert "ten runs" in (found.remedy or "") and "--bind-to numa" in (found.remedy or "")
    assert any("reboot" in doubt for doubt in result.confounders)


def test_eight_hosts_and_two_are_not_comparable(tmp_path: Path) -> None:
    lines = (TABLES / "h100-8-and-2-hosts-all_reduce.txt").read_text().splitlines(keepends=True)
    second = [at for at, line in enumerate(lines) if line.startswith("# nThread")][1]
    (tmp_path / "a.txt").write_text("".join(lines[:second]))
    (tmp_path / "b.txt").write_text("".join(lines[second:]))
    result = compared(tmp_path / "a.txt", tmp_path / "b.txt", status=2)
    assert result.verdict == "not-comparable"
    assert "ranks 64 before, 16 after" in result.findings[0].summary
    assert told(tmp_path / "a.txt", tmp_path / "b.txt", "--fail-on", "warning")[0] == 1


def test_logs_of_two_versions_show_the_channels_that_were_lost() -> None:
    logs = DATA / "nccl_log"
    result = compared(logs / "2.18-eight-rings.log", logs / "2.26-two-rings.log", status=1)
    assert result.findings[0].kind == "channels" and "2 channels" in result.findings[0].summary


CHANNELS = """\
host1:100:100 [0] NCCL INFO NCCL version 2.21.5+cuda12.4
host1:100:110 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC
host1:100:110 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0/GDRDMA
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "P2P/IPC",
            "SHM/direct/direct",
            "peer to peer before and through the host's shared memory",
        ),
        ("/GDRDMA", "", "by GPUDirect RDMA before and over the network by way of host memory"),
        ("NET/IB/0/GDRDMA", "NET/Socket/0", "over RDMA or a plugin before and over sockets after"),
    ],
)
def test_a_slower_carrier_in_place_of_a_faster_one_is_a_regression(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    (tmp_path / "before.log").write_text(CHANNELS)
    (tmp_path / "after.log").write_text(CHANNELS.replace(old, new))
    result = compared(tmp_path / "before.log", tmp_path / "after.log", status=1)
    (found,) = result.findings
    assert found.kind == "carriers" and words in found.summary
    back = compared(tmp_path / "after.log", tmp_path / "before.log")
    assert [f.code for f in back.findings] == ["improved"]
    (tmp_path / "cut.log").write_text("".join(CHANNELS.splitlines(keepends=True)[:2]))
    assert compared(tmp_path / "before.log", tmp_path / "cut.log").verdict == "inconclusive"


def test_ports_whose_mtu_differs_are_told_though_there_is_no_figure() -> None:
    ports = DATA / "ibv_devinfo"
    result = compared(ports / "hostA_ibv.txt", ports / "hostB_ibv.txt")
    assert [(d.name, d.before, d.after) for d in result.differences if "MTU" in d.name] == [
        ("RDMA MTU", "mlx5_0:1 4096", "mlx5_0:1 1024")
    ]


def test_a_job_that_fails_after_the_update_is_explained_by_what_lay_there_before(
    tmp_path: Path,
) -> None:
    """Ports that disagree did no harm until the new NCCL; one folder a side."""
    for side in ("before", "after"):
        (tmp_path / side).mkdir()
        for host in ("hostA", "hostB"):
            shutil.copy(DATA / "ibv_devinfo" / f"{host}_ibv.txt", tmp_path / side)
    same = compared(tmp_path / "before", tmp_path / "before")
    assert same.verdict == "inconclusive" and not any(
        f.code == "mtu-mismatch" for f in same.findings
    )
    shutil.copy(DATA / "nccl_log" / "2.20-roce-local-access.log", tmp_path / "after" / "rank.log")
    result = compared(tmp_path / "before", tmp_path / "after", status=1)
    assert result.verdict == "regressed" and not result.after.skipped
    found = result.findings[0]
    assert (found.code, found.severity) == ("mtu-mismatch", "broken")
    assert any("local access violation" in proof.text for proof in found.evidence)
    assert "it was there already" in found.evidence[-1].text
    assert told(tmp_path / "after", tmp_path / "before")[0] == 0, "put right again is no fault"


def test_a_table_before_and_a_log_of_a_failure_after_is_a_regression_with_its_first_fault() -> (
    None
):
    log = DATA / "nccl_log" / "2.20-roce-local-access.log"
    result = compared(EARLY, log, status=1)
    assert result.verdict == "regressed"
    assert [finding.code for finding in result.findings] == ["first-fault"]
    assert "in no file of BEFORE" in result.findings[0].evidence[-1].text
    failed_twice = compared(log, log)
    assert failed_twice.verdict != "regressed"


def test_links_that_were_whole_before_and_are_not_after_are_a_regression(tmp_path: Path) -> None:
    after = DATA / "nvlink_status" / "v100_two_inactive.txt"
    broken = after.read_text()
    (tmp_path / "whole.txt").write_text(broken.replace("<inactive>", "25.781 GB/s"))
    assert (tmp_path / "whole.txt").read_text() != broken
    result = compared(tmp_path / "whole.txt", after, status=1)
    assert result.verdict == "regressed" and result.findings[0].code == "nvlink-inactive"
    assert compared(after, after).verdict == "inconclusive"
    unlike = compared(EARLY, after, status=1)
    assert unlike.verdict == "not-comparable", "no file of BEFORE would have shown it"


def test_one_file_with_both_tables_is_compared_and_says_which_is_which(tmp_path: Path) -> None:
    (tmp_path / "both.txt").write_text(
        EARLY.read_text() + "\nafter the commit:\n" + LATE.read_text()
    )
    result = compared(tmp_path / "both.txt", status=1)
    assert [
        (f.where.from_bytes, f.where.to_bytes) for f in result.findings if f.code == "regressed"
    ] == [(700_000, 1_000_000)]
    lines = len(EARLY.read_text().splitlines())
    assert "in line 1 is taken as before" in result.notes[0]
    assert int(result.notes[0].split("line ")[-1].split()[0]) > lines
    unlike = compared(TABLES / "h100-8-and-2-hosts-all_reduce.txt", status=2)
    assert (
        unlike.verdict == "not-comparable"
        and "ranks 64 before, 16 after" in unlike.findings[0].summary
    )


def test_one_list_over_versions_has_its_step_told() -> None:
    status, text = told(DATA / "figures_list" / "busbw_by_version.txt")
    assert status == 1 and "between 2.10.3 and 2.11.4" in text


@pytest.mark.parametrize("what", ["nccl", "driver"])
def test_a_folder_of_tables_of_many_versions_has_its_step_told(tmp_path: Path, what: str) -> None:
    versions = {
        "nccl": ("2.18.5", "2.19.3", "2.20.5", "2.21.5", "2.9.9"),
        "driver": ("535.54.03", "535.183.06", "545.23.08", "550.54.15", "470.82.01"),
    }[what]
    for version in versions:
        table = LATE if version == versions[3] else EARLY
        rows = table.read_text().partition("\n")[2]  # its first line would tell NCCL's version
        (tmp_path / f"{what}-{version}.txt").write_text(rows)
    result = compared(tmp_path, status=1)
    (found,) = result.findings
    assert f"between {versions[2]} and {versions[3]}: 9.114 to 7.2032 GB/s" in found.summary
    assert f"versions are those of {what.replace('nccl', 'NCCL')}" in result.notes[1]
    (tmp_path / f"{what}-{versions[3]}.txt").write_text(rows)
    assert compared(tmp_path).verdict == "inconclusive"


# ---------------------------------------------------------------------------------- our own runs


def test_a_folder_of_reports_is_as_many_sessions_whatever_form_they_have(tmp_path: Path) -> None:
    before = folder(tmp_path / "before")
    after = folder(tmp_path / "after", factor=1.08, seed=1, driver="570")
    result = compared(before, after, status=1)
    assert (result.before.sessions, result.after.sessions) == (5, 5)
    assert result.verdict == "regressed" and result.equal == "everything else equal"
    assert result.lines[0].candidate == "data"
    assert {d.name for d in result.differences} >= {"driver"}


def test_a_link_to_a_run_counts_once_and_what_is_damaged_is_named_and_skipped(
    tmp_path: Path,
) -> None:
    before = folder(tmp_path / "before")
    (before / "latest").symlink_to(before / "run-1")
    (before / "cut.json").write_bytes(encode(report())[:3000])
    (before / "notes.md").write_text("not a session")
    (before / "empty").mkdir()
    (before / "noise.bin").write_bytes(os.urandom(2000))
    result = compared(before, folder(tmp_path / "after", seed=1))
    assert result.before.sessions == 5
    assert any("cut.json" in sentence for sentence in result.before.skipped)
    assert result.verdict == "equivalent"


def test_a_run_by_itself_shows_its_own_sessions_and_their_boot(tmp_path: Path) -> None:
    for name, factor, boot in (("before", 1.0, "b1"), ("after", 1.2, "b2")):
        made = report(name, boot=boot)
        place = tmp_path / name
        place.mkdir()
        (place / "report.json").write_bytes(encode(made))
        rng = np.random.default_rng(len(name))
        records: list[object] = [Header(run=name, hosts=made.hosts, plan=made.plan)]
        for k in range(4):
            samples = tuple(
                Sample(collective="all_reduce", size_bytes=n,
                       times_s=tuple(float(t) for t in (20e-6 + n / 20e9) * factor
                                     * np.exp(rng.normal(0, 0.01, 30))))
                for n in SIZES
            )  # fmt: skip
            case = Case(number=k, candidate="data", session=k)
            records.append(
                Session(case=case, outcome="measured", samples=samples, started_at=60.0 * k)
            )
        lines = [msgspec.json.encode(plain(record)) for record in records]
        (place / "samples.jsonl").write_bytes(b"\n".join(lines) + b'\n{"case": {"numb')
    result = compared(tmp_path / "before", tmp_path / "after", status=1)
    assert (result.before.sessions, result.before.runs, result.before.boots) == (4, 1, 1)
    assert result.weaker is not None and "one boot a side" in result.weaker
    assert any("rebooted" in doubt for doubt in result.confounders)


def test_the_same_run_named_by_file_and_by_folder_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "report.json").write_bytes(encode(report()))
    one = compared(tmp_path / "run", tmp_path / "run" / "report.json")
    assert one.verdict == "inconclusive" and one.differences == ()


def test_tables_may_be_packed_and_lie_beside_a_report(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for at in range(3):
            packed = tmp_path / name / f"{at}.txt.gz"
            packed.write_bytes(gzip.compress(EARLY.read_bytes()))
    (tmp_path / "b" / "report.json.txt").write_bytes(encode(report()))
    result = compared(tmp_path / "a", tmp_path / "b")
    assert result.before.sessions == 3 and result.lines[0].before_sessions == 3


# ------------------------------------------------------------------------------------ what it says


def test_the_screen_fits_and_ends_with_the_verdict_and_the_status(tmp_path: Path) -> None:
    before = folder(tmp_path / "before", candidates=("data", "a-network-with-a-long-name"))
    after = folder(tmp_path / "after", factor=1.08, seed=1,
                   candidates=("data", "a-network-with-a-long-name"))  # fmt: skip
    status, text = told(before, after)
    assert status == 1 and all(len(line) <= 80 for line in text.splitlines())
    assert text.rstrip().splitlines()[-1] == "verdict: regressed · 2 regressed · exit 1"
    assert "before" in text and "sessions  5 before, 5 after" in text


def test_fail_on_decides_the_status(tmp_path: Path) -> None:
    sides = folder(tmp_path / "a"), folder(tmp_path / "b", factor=1.08, seed=1)
    assert told(*sides, "--fail-on", "none")[0] == 0
    assert told(*sides, "--fail-on", "broken")[0] == 0
    assert told(*sides, "--fail-on", "degraded")[0] == 1
    assert told(sides[0], sides[0], "--fail-on", "info")[0] == 1


def test_json_is_the_comparison_and_nothing_else(tmp_path: Path) -> None:
    status, out = told(EARLY, LATE, "--json")
    content = json.loads(out)
    assert status == 1 and content["schema"] == 1 and content["verdict"] == "regressed"
    found = content["findings"][0]
    assert found["where"] == {
        "collective": "all_reduce", "from_bytes": 700_000, "to_bytes": 1_000_000,
    }  # fmt: skip


HOSTILE = "<script>alert(1)</script>|\x1b[31m`x`"


def test_markdown_and_page_show_hostile_names_and_act_on_none(tmp_path: Path) -> None:
    sides = [tmp_path / "a", tmp_path / "b"]
    for at, place in enumerate(sides):
        folder(place, factor=1 + 0.1 * at, seed=at, candidates=(HOSTILE,))
    page = tmp_path / "page.html"
    status, text = told(*sides, "--markdown", "--page", page)
    assert status == 1 and "<script>" not in text and "\x1b" not in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1
    html = page.read_text()
    assert "alert(1)</script>|" not in html and "\x1b" not in html
    assert "regressed" in html and 'src="http' not in html
    _, screen = told(*sides)
    assert "\x1b" not in screen


# -------------------------------------------------------------------------------------- bad input


def test_bad_input_is_one_sentence_that_names_it(tmp_path, capsys) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "report.json").write_bytes(encode(report()))
    (tmp_path / "text.txt").write_text("nothing of use\n" * 20)
    (tmp_path / "hollow").mkdir()
    (tmp_path / "old.json").write_text('{"schema": 99, "run": "x", "verdict": "healthy"}')
    (tmp_path / "bad.json").write_text(
        '{"schema": 1, "run": "x", "verdict": "healthy", "lines": 7}'
    )
    assert "no such file" in refused(capsys, run, tmp_path / "absent")
    assert "text.txt" in refused(capsys, run, tmp_path / "text.txt")
    assert "holds no report" in refused(capsys, tmp_path / "hollow", run)
    assert "schema 99" in refused(capsys, tmp_path / "old.json", run)
    assert "bad.json: not a report" in refused(capsys, tmp_path / "bad.json", run)
    assert "BEFORE and AFTER" in refused(capsys, run)
    assert "BEFORE" in refused(capsys)
    assert "one of them" in refused(capsys, run, run, "--json", "--markdown")
    assert "--fail-on" in refused(capsys, run, run, "--fail-on", "degrade")
    assert "no such folder" in refused(capsys, run, run, "--page", tmp_path / "x" / "p.html")
    assert not (tmp_path / "x").exists()


def test_a_side_that_mixes_unlike_runs_says_so(tmp_path: Path) -> None:
    before = folder(tmp_path / "a", 3)
    (before / "other.json").write_bytes(encode(report("other", driver="570")))
    result = compared(before, folder(tmp_path / "b", 3, seed=1))
    assert any("the sessions before are not alike: driver" in text for text in result.confounders)


# ------------------------------------------------------------------------------------ in turns


def command(*words: object) -> str:
    return shlex.join([sys.executable, *map(str, words)])


def test_two_commands_are_run_in_turns_and_what_they_print_is_compared(tmp_path, capsys) -> None:
    order = tmp_path / "order"
    code = "import sys; open(sys.argv[1], 'a').write(sys.argv[2]); print(open(sys.argv[3]).read())"
    words = [command("-c", code, order, name, table)
             for name, table in (("A", EARLY), ("B", LATE))]  # fmt: skip
    status, text = told("--before", words[0], "--after", words[1], "--sessions", 3,
                        "--out", tmp_path / "out")  # fmt: skip
    assert order.read_text() == "ABBAAB"
    assert status == 1 and "interleaved: yes" in text and "sessions  3 before, 3 after" in text
    assert sorted(p.name for p in (tmp_path / "out" / "before").iterdir()) == [
        "1.txt", "2.txt", "3.txt",
    ]  # fmt: skip
    assert "before 1 of 3" in capsys.readouterr().err


def test_a_command_writes_to_the_path_that_it_is_given(tmp_path: Path) -> None:
    code = (
        "import os, shutil, sys; shutil.copy(sys.argv[2], sys.argv[1]); "
        "assert os.environ['FABRIC_BENCH_OUT'] == sys.argv[1]"
    )
    words = command("-c", code, "{out}", EARLY)
    status, _ = told("--before", words, "--after", words, "--sessions", 2, "--out", tmp_path / "o")
    assert status == 0
    assert (tmp_path / "o" / "after" / "2").read_bytes() == EARLY.read_bytes()


def test_a_session_that_fails_is_left_out_and_a_command_that_always_fails_ends_it(
    tmp_path, capsys
) -> None:
    flag = tmp_path / "flag"
    code = (
        "import os, sys\nprint(open(sys.argv[2]).read())\n"
        "first = not os.path.exists(sys.argv[1])\nopen(sys.argv[1], 'w')\nsys.exit(3 * first)"
    )
    good = command("-c", "import sys; print(open(sys.argv[1]).read())", EARLY)
    status, text = told("--before", good, "--after", command("-c", code, flag, EARLY),
                        "--sessions", 3, "--out", tmp_path / "o")  # fmt: skip
    assert status == 0 and "sessions  3 before, 2 after" in text
    assert "exit 3, left out" in capsys.readouterr().err
    bad = command("-c", "import sys; sys.exit(5)")
    assert "failed 2 times in a row" in refused_after(capsys, good, bad, tmp_path / "p")
    assert "cannot be started" in refused_after(capsys, good, "/no/such/program", tmp_path / "q")
    assert "no command line" in refused_after(capsys, good, "echo 'open", tmp_path / "r")
    assert "is there already" in refused_after(capsys, good, good, tmp_path / "o")


def refused_after(capsys, before, after, out) -> str:
    assert main(["compare", "--before", before, "--after", after, "--out", str(out),
                 "--sessions", "2"]) == 2  # fmt: skip
    return capsys.readouterr().err.splitlines()[-1]


def test_a_command_that_never_ends_is_stopped_with_all_that_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "alive"
    child = f"import time\nwhile True: open({str(mark)!r}, 'a').write('x'); time.sleep(0.05)"
    code = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}])\ntime.sleep(60)"
    )
    script = tmp_path / "hangs.py"
    script.write_text(code)
    words = {"before": command(script), "after": command(script)}
    began = time.monotonic()
    with pytest.raises(BadInput, match="in a row"):
        turns.take(words, 3, tmp_path / "o", deadline_s=1.5, say=lambda turn: None)  # type: ignore[arg-type]
    assert time.monotonic() - began < 30
    size = mark.stat().st_size
    time.sleep(0.5)
    assert size > 0 and mark.stat().st_size == size


def test_turns_share_the_hours_evenly() -> None:
    order = [which for which, _ in turns.order(4)]
    assert order == ["before", "after", "after", "before"] * 2
    places = {which: [at for at, w in enumerate(order) if w == which] for which in turns.SIDES}
    assert sum(places["before"]) == sum(places["after"])


def test_the_next_folder_is_one_that_is_not_there(tmp_path: Path) -> None:
    assert turns.next_folder(tmp_path).name == "compare-1"
    (tmp_path / "compare-1").mkdir()
    assert turns.next_folder(tmp_path).name == "compare-2"
    shutil.rmtree(tmp_path / "compare-1")
