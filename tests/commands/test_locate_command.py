"""`locate` as people and scripts use it: lists, tables, runs of ours, as a rank of a launcher."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.cli import main
from bench.commands import locate, sweeping
from bench.judge.pairs.locating import Search
from bench.plan import options as command_line
from bench.records import SCHEMA, HostFacts, Location, PairReading, Report
from bench.report.stored import encode
from tests.judge.simulated_fabric import Fabric

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
LIST = DATA / "figures_list" / "pairwise.txt"  # NVIDIA/nccl-tests issue 106, hosts renamed


def told(*arguments: object) -> tuple[int, str]:
    out = io.StringIO()
    return main(["locate", *map(str, arguments)], out), out.getvalue()


def reading(*arguments: object) -> PairReading:
    status, out = told("--json", *arguments)
    assert status == 0
    return msgspec.json.decode(out, type=PairReading)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["locate", *map(str, arguments)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("fabric-bench: ") and printed.err.count("\n") == 1
    return printed.err


def accused(found: PairReading) -> list[tuple[str, object]]:
    return [(f.code, f.where.host or f.where.link or f.where.hosts) for f in found.findings]


# ---------------------------------------------------------------------------- lists of pairs


def test_a_list_of_pairs_names_the_slow_host_and_the_two_of_which_one_is() -> None:
    found = reading(LIST)
    assert accused(found) == [("host-slow", "hostD"), ("not-determinable", ("hostA", "hostE"))]
    (location,) = found.locations
    assert [s.host for s in location.suspects] == ["hostD"]
    assert location.suspects[0].slowdown.value == pytest.approx(1 / 0.56, rel=0.02)
    assert location.undecided == (("hostA", "hostE"),)
    assert any('"crossing TOR" makes no difference' in fact for fact in found.facts)
    good = "hostB, hostC, hostF and hostG"
    assert any(good in fact for fact in found.facts)
    assert found.verdict == "degraded" and found.files == (str(LIST),)


def test_its_screen_ends_with_the_verdict_and_fits_a_terminal() -> None:
    status, screen = told(LIST)
    assert status == 0
    lines = screen.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "verdict: degraded · 2 findings"
    assert "which cannot be told: it is their only pair" in " ".join(screen.split())
    assert re.search(r"hostA or hostE +which cannot be told", screen)


@pytest.mark.parametrize(
    ("fail_on", "status"), [("none", 0), ("broken", 0), ("degraded", 1), ("warning", 1)]
)
def test_a_script_gates_on_what_is_found(fail_on: str, status: int) -> None:
    assert told(LIST, "--fail-on", fail_on)[0] == status


def test_suspects_are_those_that_are_accused_and_no_others(tmp_path: Path) -> None:
    file = tmp_path / "suspects.txt"
    told(LIST, "--suspects", file)
    (line,) = file.read_text().splitlines()
    host, _, reason = line.partition("  ")
    assert host == "hostD" and reason.startswith("host-slow: hostD is slow: both of its pairs")
    alike = tmp_path / "alike.txt"
    alike.write_text("n1,n2 88\nn3,n4 87\nn1,n3 86\nn2,n4 87\n")
    status, screen = told(alike, "--suspects", file)
    assert status == 0 and file.read_text() == ""
    assert "good pairs 87.0 GB/s" in screen and "stands out by 15 % or more" in screen
    assert screen.endswith("verdict: healthy · no single part stands out\n")


def test_suspects_go_through_a_pipe_that_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "suspects"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert told(LIST, "--suspects", pipe)[0] == 0
        assert os.read(reader, 10_000).startswith(b"hostD  host-slow: ")
    finally:
        os.close(reader)
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


def test_a_list_comes_through_a_pipe() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "locate", "-"], cwd=ROOT, input=LIST.read_text(),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("read    <stdin>\n")
    assert "hostD is slow" in done.stdout


ROWS = [("01", "02", 88.1), ("03", "04", 48.7), ("01", "03", 49.0), ("02", "04", 87.2)]
ROWS += [("02", "03", 49.2), ("01", "04", 88.4)]


@pytest.mark.parametrize(
    ("head", "row", "unit"),
    [
        ("host_a,host_b,busbw_gbs", "gpu-{},gpu-{},{:.1f}", 1.0),
        ("pair,bandwidth", "gpu-{0}-gpu-{1},{2:.1f}", 1.0),
        ("pair,busbw", "n{}-n{},{:.1f}", 1.0),
        ("hosts;bw (Gb/s)", "n{}:n{};{:.1f}", 8.0),
        ("src\tdst\tbusbw", "n{}\tn{}\t{:.1f}", 1.0),
        ("from,to,size,busbw_GBps", "rack1-n{},rack1-n{},8589934592,{:.1f}", 1.0),
        ("", '"n{}","n{}","{:.1f}"', 1.0),
        ("# GB/s", "n{}\tn{}\t{:.1f}", 1.0),
        ("", "n{} <-> n{}: {:.1f} Gbit/s", 8.0),
    ],
)
def test_pairs_are_listed_in_many_ways(tmp_path: Path, head: str, row: str, unit: float) -> None:
    lines = [row.format(a, b, value * unit) for a, b, value in ROWS]
    file = tmp_path / "pairs.csv"
    file.write_text("\n".join([head, *lines] if head else lines) + "\n")
    ((code, host),) = accused(reading(file))
    assert code == "host-slow" and str(host).endswith("03")


def test_a_host_that_is_fast_with_somebody_is_not_to_blame_for_its_slow_links(
    tmp_path: Path,
) -> None:
    """Two of three pairs slow and the third as good as any: the host is no slower than that."""
    file = tmp_path / "pairs.txt"
    file.write_text("n1,n2 88\nn3,n4 87\nn1,n3 49\nn2,n3 49.2\nn1,n4 88\nn2,n4 87\n")
    found = reading(file)
    assert set(accused(found)) == {
        ("link-degraded", ("n1", "n3")),
        ("link-degraded", ("n2", "n3")),
    }


def test_slow_pairs_that_no_single_part_explains_are_not_healthy(tmp_path: Path) -> None:
    """The only fast pair of three may have a switch to itself; links that are slow here and there
    are no host's fault."""
    file = tmp_path / "pairs.txt"
    for text, pairs in (
        ("n1,n2 87\nn1,n3 48\nn2,n3 49\n", 2),
        ("n3,n5 49\nn4,n5 89\nn1,n5 49\nn2,n3 88\nn1,n4 49\nn3,n4 89\nn1,n3 87\nn2,n5 88\n", 3),
    ):
        file.write_text(text)
        found = reading(file)
        assert found.findings == () and found.verdict == "inconclusive"
        assert len(found.locations[0].unexplained) == pairs
        screen = told(file)[1]
        assert f"{pairs} slow pairs that no single part explains: n" in screen
        assert screen.endswith("inconclusive · no single part explains the slow pairs\n")


def test_lists_that_wander_decide_nothing(tmp_path: Path) -> None:
    file = tmp_path / "pairs.txt"
    file.write_text("n1,n2 90\nn3,n4 80\nn1,n3 70\nn2,n4 60\nn1,n4 50\n")
    found = reading(file)
    assert found.findings == () and found.verdict == "inconclusive"


# ---------------------------------------------------------------------------- tables of pairs

TABLE = """# nThread 1 nGpus 1 minBytes 67108864 maxBytes 1073741824 step: 2(factor)
#
#                                                              out-of-place
#       size         count      type   redop    root     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)
"""
SIZES = tuple(64 * 2**20 << step for step in range(5))


def table(gbs: float) -> str:
    """Two ranks: busbw is algbw."""
    rows = [
        f"{size:12d} {size // 4:13d}     float     sum      -1 {size / gbs / 1e3:8.1f}"
        f"{gbs:8.2f}{gbs:8.2f}      0\n"
        for size in SIZES
    ]
    return TABLE + "".join(rows) + f"# Avg bus bandwidth    : {gbs:.4f}\n"


@pytest.mark.parametrize("name", ["all_reduce_node{}-node{}.txt", "node-{}_node-{}.log"])
def test_a_folder_of_tables_is_read_by_the_hosts_in_their_names(tmp_path: Path, name: str) -> None:
    for a, b, value in ROWS:
        (tmp_path / name.format(a, b)).write_text(table(value))
    found = reading(tmp_path)
    ((code, host),) = accused(found)
    assert code == "host-slow" and str(host) in ("node03", "node-03")
    assert len(found.locations[0].figures) == len(ROWS)


def test_two_tables_of_two_hosts_are_no_set_of_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for a, b, value in ROWS[:2]:
        (tmp_path / f"node{a}-node{b}.txt").write_text(table(value))
    assert "expected three or more nccl-tests tables of two hosts" in refused(capsys, tmp_path)


# ---------------------------------------------------------------------------- runs of ours


def run_of(folder: Path, location: Location | None) -> Path:
    hosts = tuple(
        HostFacts(host=f"h{n}", hostname=f"h{n}", identity=str(n), ranks=(n,)) for n in range(6)
    )
    report = Report(
        run="r", schema=SCHEMA, verdict="inconclusive", backend="gloo", hosts=hosts,
        location=location,
    )  # fmt: skip
    folder.mkdir()
    (folder / "report.json").write_bytes(encode(report))
    (folder / "samples.jsonl").write_text("")
    return folder


def test_the_answer_of_a_run_of_ours_is_shown_again(tmp_path: Path) -> None:
    location = Fabric(6, noise=0.003, slow={2: 0.5}).located(Search(candidate="data"))
    found = reading(run_of(tmp_path / "run", location))
    assert [s.host for s in found.locations[0].suspects] == ["h2"]
    assert found.locations[0].rounds
    status, screen = told(tmp_path / "run")
    assert status == 0 and re.search(r"6 hosts · 15 pairs in 5 rounds over data", screen)


def test_a_run_without_pairs_says_how_to_get_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = refused(capsys, run_of(tmp_path / "run", None))
    assert "measured no pairs of hosts" in sentence and "--locate always" in sentence


# ---------------------------------------------------------------------------- bad input


def test_what_holds_no_pairs_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise, empty = tmp_path / "noise.txt", tmp_path / "empty.txt"
    noise.write_bytes(bytes(range(256)) * 40)
    empty.write_text("")
    two = tmp_path / "two.txt"
    two.write_text("n1,n2 88\nn3,n4 87\n")
    for path in (noise, empty, two, tmp_path / "nothing-there", tmp_path):
        assert str(path) in refused(capsys, path)
    one_host = DATA / "nccl_tests" / "h100-nvl-switch-at-650k.txt"
    assert "holds no pairs of hosts" in refused(capsys, one_host)


def test_files_that_cannot_be_written_are_told_before_anything_is_half_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "is a folder" in refused(capsys, LIST, "--suspects", tmp_path)
    assert "no such folder" in refused(capsys, LIST, "--suspects", tmp_path / "no" / "s.txt")
    assert list(tmp_path.iterdir()) == []


def test_options_that_do_not_go_together_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean degraded?" in refused(capsys, LIST, "--fail-on", "degradet")
    assert "--lab measures" in refused(capsys, LIST, "--lab", "healthy")
    assert "a run that measures keeps both in its folder" in refused(
        capsys, "--lab", "healthy", "--json"
    )
    assert 'no lab is called "zzz"' in refused(capsys, "--lab", "zzz")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["n1", "n2", "n3", "n4", "gpu-a-1", "x"]),
            st.sampled_from(["n1", "n2", "n5", "gpu-a-2", "\u2028"]),
            st.one_of(st.floats(allow_nan=True), st.integers(-5, 10**12), st.text(max_size=5)),
        ),
        max_size=12,
    ),
    st.sampled_from([",", " ", "\t", ";", "-", " <-> "]),
)
@settings(max_examples=60, deadline=None)
def test_no_list_brings_it_down(rows: list[tuple[str, str, object]], joint: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pairs.txt"
        text = "\n".join(joint.join((a, b, str(value))) for a, b, value in rows)
        file.write_text(text, errors="surrogateescape")
        assert told(file)[0] in (0, 2)


# ---------------------------------------------------------------------------- measuring


@pytest.fixture
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in list(os.environ):
        if name.endswith(("RANK", "SLURM_PROCID", "LOCALID")):
            monkeypatch.delenv(name)
    return monkeypatch


@pytest.mark.usefixtures("no_launcher")
def test_without_a_path_or_a_launcher_it_says_how_to_start_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for arguments in ((), ("--", "--budget", "60")):
        sentence = refused(capsys, *arguments)
        assert "torchrun … -m bench locate" in sentence and "srun python -m bench" in sentence


def test_a_rank_of_a_launcher_goes_on_as_the_sweep(no_launcher: pytest.MonkeyPatch) -> None:
    become: list[list[str]] = []
    no_launcher.setenv("SLURM_PROCID", "3")
    no_launcher.setattr(os, "execv", lambda program, words: become.append([program, *words]))
    main(["locate", "--fail-on", "degraded", "--", "--interface", "data0"])
    ((program, python, script, *words),) = become
    assert program == python == sys.executable and Path(script) == sweeping.SWEEP
    options = command_line.parse(words)
    assert (options.plan, options.locate, options.fail_on) == ("locate", "always", "degraded")
    assert options.interfaces == ("data0",)


def test_torchrun_starts_it_and_its_options_reach_the_sweep() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node", "1", "-m", "bench", "locate", "--", "--budgit", "5"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "fabric-bench: unknown option '--budgit'; did you mean --budget?" in done.stderr


def test_its_plan_leaves_out_what_no_pair_of_hosts_uses() -> None:
    options = command_line.parse(locate.ALONE)
    from bench.formats import shipped, toml_file
    from bench.records import PlanSettings

    plan = options.settings(toml_file.load(shipped.find("plans", options.plan), PlanSettings))
    assert plan.networks_only and not plan.copies and plan.sessions == 1
