"""The command line as people and scripts use it: what it prints, its exit status, its speed."""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench.cli import main
from bench.commands import answer
from bench.judge.catalogue import CATALOGUE
from bench.records import CostLine, Finding, HostFacts, Point, Report, Severity

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = ("facts", "read", "explain", "gate", "report", "lab")
POINT = Point(
    size_bytes=1, time_s=1, low_s=1, high_s=1, iterations=3, sessions=1, algbw_gbs=1, busbw_gbs=1
)


def told(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    return main(arguments, out), out.getvalue()


def report(folder: Path, *severities: Severity, measured: bool = True) -> str:
    """A run's folder that holds findings of these severities."""
    lines = (CostLine(candidate="data", collective="all_reduce", ranks=2, points=(POINT,)),)
    content = Report(
        run="r",
        verdict="degraded" if severities else "healthy",
        lines=lines if measured else (),
        findings=tuple(
            Finding(code="link-degraded", severity=severity, summary=f"it is {severity}")
            for severity in severities
        ),
    )
    (folder / "report.json").write_bytes(msgspec.json.encode(content))
    return str(folder)


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_names_every_command_within_80_columns() -> None:
    status, out = told("--help")
    assert status == 0
    assert all(f"  {command} " in out for command in COMMANDS)
    assert max(map(len, out.splitlines())) <= 80
    assert "..." not in out.partition("Commands:")[2], (
        "a command's summary was cut: shorten its first line"
    )
    assert told() == (status, out), "no argument at all asks for help"


@pytest.mark.parametrize("command", [*COMMANDS, "lab run", "lab up", "lab exec", "lab down"])
def test_every_command_has_help_within_80_columns(command: str) -> None:
    status, out = told(*command.split(), "--help")
    assert status == 0
    assert f"Usage: fabric-bench {command}" in out
    assert max(map(len, out.splitlines())) <= 80


def test_help_answers_at_once_and_without_the_heavy_packages() -> None:
    heavy = {"torch", "numpy", "scipy", "plotly", "pyroute2", "rich", "jinja2", "tabulate"}
    result = python("-X", "importtime", "-m", "bench", "--help")
    assert result.returncode == 0
    imported = {line.split("|")[-1].strip() for line in result.stderr.splitlines()}
    assert not heavy & imported
    # The best of a few: other processes of this machine are not what is measured.
    seconds = []  # of one core, which a busy machine does not stretch
    for _ in range(5):
        begun = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert python("-m", "bench", "--help").returncode == 0
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime)
    assert min(seconds) <= 0.3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--hlep"], "no such option: --hlep; did you mean --help?"),
        (["fact"], "no such command: fact; did you mean facts?"),
        (["zzz"], "no such command: zzz; commands: facts, preflight, expect, read, "),
        (["facts", "--jsno"], "no such option: --jsno; did you mean --json?"),
        (["facts", "--zzzzz"], "no such option: --zzzzz (see fabric-bench facts --help)"),
        (["facts", "x"], "fabric-bench facts: got unexpected extra argument(s) (x)"),
        (["lab"], "fabric-bench lab takes a command: run, up, exec, down, check"),
        (["lab", "rnu"], "no such command: rnu; did you mean run?"),
        (["gate"], "fabric-bench gate: missing argument 'REPORT'"),
        (["gate", "/no/such", "--fail-on"], "--fail-on' requires an argument"),
        (["gate", "/no/such", "--fail-on", "degrade"], "did you mean degraded?"),
        (["gate", "/no/such"], "/no/such: cannot be read: No such file or directory"),
        (["report", "/no/such"], "cannot be read: No such file or directory"),
        (["explain"], "explain takes the code of a finding (all of them: explain --list)"),
        (["explain", "link-degradd"], "did you mean link-degraded?"),
        (["lab", "run", "healty"], 'no lab is called "healty"; did you mean "healthy"?'),
        (["lab", "run", "no.toml"], "no.toml: no such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_and_status_2(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("fabric-bench: ")
    assert printed.err.count("\n") == 1
    assert sentence in printed.err


@pytest.mark.parametrize("code", CATALOGUE)
def test_every_code_is_explained_within_80_columns(code: str) -> None:
    status, out = told("explain", code)
    assert status == 0
    assert out.startswith(code)
    assert all(f"\n  {label} " in out for label in ("means", "how", "fix"))
    assert max(map(len, out.splitlines())) <= 80


def test_the_list_of_codes_has_a_line_for_each() -> None:
    status, out = told("explain", "--list")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == list(CATALOGUE)


def test_facts_of_this_host_are_readable_and_machine_readable() -> None:
    status, out = told("facts")
    assert status == 0
    assert "lo" in out
    assert "loopback" in out
    assert max(map(len, out.splitlines())) <= 80
    status, out = told("facts", "--json")
    assert status == 0
    assert {interface["name"] for interface in json.loads(out)["interfaces"]} >= {"lo"}


def test_facts_ask_nccl_itself() -> None:
    status, out = told("facts", "--ask-nccl", "--json")
    assert status == 0
    assert json.loads(out)["nccl_choices"][0]["basis"] == "asked"


@pytest.mark.parametrize(
    ("severities", "fail_on", "status"),
    [
        ((), "degraded", 0),
        (("info", "warning"), "degraded", 0),
        (("warning",), "warning", 1),
        (("info", "degraded"), "degraded", 1),
        (("broken",), "degraded", 1),
        (("broken",), "none", 0),
        (("info",), "info", 1),
    ],
)
def test_the_gate_closes_at_or_above_the_severity(
    tmp_path: Path, severities: tuple[Severity, ...], fail_on: str, status: int
) -> None:
    assert told("gate", report(tmp_path, *severities), "--fail-on", fail_on)[0] == status


def test_the_gate_names_what_closed_it(tmp_path: Path) -> None:
    folder = report(tmp_path, "info", "broken")
    assert told("gate", folder) == (1, "broken  link-degraded: it is broken\n")


def test_nothing_passes_the_gate_when_nothing_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gate", report(tmp_path, measured=False)]) == 2
    assert "nothing was measured" in capsys.readouterr().err


@pytest.mark.parametrize("fail_on", ["degraded", "none"])
def test_a_run_that_was_cut_short_has_not_passed(tmp_path: Path, fail_on: str) -> None:
    folder = report(tmp_path)
    read = msgspec.json.decode((tmp_path / "report.json").read_bytes(), type=Report)
    cut = msgspec.structs.replace(read, complete=False, missing=("SIGTERM ended the sweep.",))
    (tmp_path / "report.json").write_bytes(msgspec.json.encode(cut))
    assert told("gate", folder, "--fail-on", fail_on) == (
        1, "cut short: SIGTERM ended the sweep; what was not measured has not passed\n",
    )  # fmt: skip


def test_a_file_name_cannot_act_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "\x1b]0;owned\a\x1b[2J.log"
    file.write_bytes(b"\x00\x01")
    for command in ("read", "compare", "gate", "diagnose"):
        assert main([command, str(file)]) == 2
        said = capsys.readouterr().err
        assert "\\x1b]0;owned\\x07\\x1b[2J.log" in said
        assert said.count("\n") == 1 and said.rstrip("\n").isprintable()


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_a_narrow_terminal_gets_every_screen(tmp_path: Path, encoding: str) -> None:
    content = Report(
        run="r", verdict="broken", hosts=(HostFacts(host="h…", hostname="h…", identity="1"),),
        findings=(Finding(code="link-degraded", severity="broken", summary="4 × 2: 主 😀"),),
    )  # fmt: skip
    (tmp_path / "report.json").write_bytes(msgspec.json.encode(content))
    folder = str(tmp_path)
    for arguments, words in (
        (["gate", folder], "broken  link-degraded: 4 x 2: \\u4e3b \\U0001f600"),
        (["facts"], "lo"),
        (["explain", "--list"], "link-degraded"),
        (["explain", "below-expectation"], "means"),
        (["expect"], "fabric-bench expect RUN ... --learn"),
        (["facts", "--json"], '"interfaces"'),
    ):
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding=encoding)
        assert main(arguments, stream) in (0, 1), arguments
        stream.flush()
        assert words in raw.getvalue().decode(encoding), arguments


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii", None])
def test_json_says_the_same_in_every_encoding(encoding: str | None) -> None:
    content = {"h…": 'é × 主 😀 \u2028 \x1b "\\', "n": [1.5, None]}
    text = json.dumps(content, ensure_ascii=False)
    shown = answer.json_for(text, encoding)
    assert json.loads(shown.encode(encoding or "utf-8").decode(encoding or "utf-8")) == content
    assert (shown == text) == (encoding in ("utf-8", None))


def test_ctrl_c_leaves_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bench.facts.host.gather", interrupted)
    assert told("facts") == (130, "")


def test_a_reader_that_leaves_early_gets_no_traceback() -> None:
    command = [sys.executable, "-m", "bench", "explain", "--list"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=60) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""
