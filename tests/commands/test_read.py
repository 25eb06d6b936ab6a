"""`read` as people and scripts use it: through main(), on real files."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench.cli import main
from bench.formats import recognition
from bench.records import Reading, Report

ROOT = Path(__file__).resolve().parents[2]
TICKET = ROOT / "tests" / "data" / "read" / "ticket"


def told(*arguments: object) -> tuple[int, str]:
    out = io.StringIO()
    return main(["read", *map(str, arguments)], out), out.getvalue()


def reading(*arguments: object) -> Reading:
    status, out = told("--json", *arguments)
    assert status == 0
    return msgspec.json.decode(out, type=Reading)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["read", *map(str, arguments)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("fabric-bench: ")
    assert printed.err.count("\n") == 1
    return printed.err


def test_a_folder_of_all_formats_becomes_one_reading() -> None:
    found = reading(TICKET)
    kinds = {each.kind for each in found.dossier.files}
    assert kinds == {each.load().KIND for each in recognition.FORMATS}
    for field in recognition.FIELDS.values():
        assert getattr(found.dossier, field), f"nothing in {field}"
    assert len(found.answers) == len(found.dossier.tables) == 4
    assert found.lines
    assert found.facts


def test_json_is_the_reading_and_nothing_else() -> None:
    status, out = told("--json", TICKET / "topo.txt")
    assert status == 0
    read = json.loads(out)
    assert set(read) == set(Reading.__struct_fields__)
    assert read["schema"] == 1
    assert read["verdict"] == "healthy"


def test_a_healthy_table_is_called_healthy() -> None:
    status, out = told(TICKET / "all_reduce.txt")
    assert status == 0
    assert out.splitlines()[-1] == "verdict: healthy · nothing wrong in what it shows"
    assert "469.21" in out
    assert "16 on 2" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_hole_in_a_curve_is_found_and_fails_on_demand() -> None:
    status, out = told(TICKET / "all_gather.txt")
    assert status == 0
    assert "! bandwidth-collapse" in out
    assert "2097152" in out
    assert out.splitlines()[-1].startswith("verdict: degraded · ")
    assert told(TICKET / "all_gather.txt", "--fail-on", "degraded")[0] == 1
    assert told(TICKET / "all_gather.txt", "--fail-on", "broken")[0] == 0
    assert told(TICKET / "all_reduce.txt", "--fail-on", "degraded")[0] == 0
    assert told(TICKET / "all_gather.txt", "--fail-on", "degraded", "--json")[0] == 1


def test_a_file_that_decides_nothing_says_so() -> None:
    status, out = told(TICKET / "accelerate_env.txt")
    assert status == 0
    assert out.splitlines()[-1] == "verdict: inconclusive · nothing in it decides"


@pytest.mark.parametrize("name", sorted(path.name for path in TICKET.iterdir()))
def test_every_screen_fits_80_columns_and_ends_in_a_verdict(name: str) -> None:
    status, out = told(TICKET / name)
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    assert out.splitlines()[-1].startswith("verdict: ")


def test_stdin_is_read_as_a_file() -> None:
    command = [sys.executable, "-m", "bench", "read", "-"]
    content = (TICKET / "topo.txt").read_bytes()
    result = subprocess.run(command, cwd=ROOT, input=content, capture_output=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert b"<stdin>" in result.stdout
    assert b"all 28 pairs NV12" in result.stdout


def test_one_unreadable_file_among_others_is_told_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # long names are cut to fit the screen
    Path("a.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    status, out = told("a.png", "absent", TICKET / "topo.txt")
    assert status == 0
    words = " ".join(out.split())
    assert "a.png · not read: looks like a PNG picture" in words
    assert "absent · not read: no such file" in words
    assert "verdict: healthy" in out


def test_nothing_readable_is_one_sentence_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    (tmp_path / "empty").write_bytes(b"")
    assert "no such file" in refused(capsys, tmp_path / "absent")
    assert "looks like a PNG picture" in refused(capsys, tmp_path / "a.png")
    assert "an empty file" in refused(capsys, tmp_path / "empty", "--json")
    assert "and 2 more files" in refused(capsys, *[tmp_path / name for name in ("x", "y", "z")])
    (tmp_path / "folder").mkdir()
    assert "holds no file to read" in refused(capsys, tmp_path / "folder")
    refused(capsys)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("huge.log", b"x" * (10 << 20)),
        ("nul.log", b"\0" * (1 << 20)),
        (
            "laughs.xml",
            b'<?xml version="1.0"?><!DOCTYPE system [<!ENTITY a "haha">'
            + b"".join(b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 10) for n in range(1, 10))
            + b']><system version="1"><cpu numaid="&a9;"/></system>',
        ),
        ("deep.json", b"[" * 100_000),
    ],
)
def test_hostile_files_are_one_sentence_and_status_2(
    name: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    assert name in refused(capsys, tmp_path / name)


def test_bad_options_are_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean degraded?" in refused(capsys, TICKET, "--fail-on", "degrade")
    assert "did you mean" in refused(capsys, TICKET, "--fabric", "dgx-h10")
    assert "absent.toml: no such file" in refused(capsys, TICKET, "--fabric", "absent.toml")


def test_our_own_files_point_to_their_command(tmp_path: Path) -> None:
    report = Report(run="2026-11-30T10-44-14Z", verdict="healthy")
    (tmp_path / "report.json").write_bytes(msgspec.json.encode(report))
    (tmp_path / "samples.jsonl").write_text("")
    status, out = told(tmp_path)
    assert status == 0
    assert "report of a run of ours" in out
    assert "fabric-bench gate" in out
    status, out = told(ROOT / "configs" / "labs" / "healthy.toml")
    assert status == 0
    assert "fabric-bench lab run" in out


def test_the_operators_expectation_is_held_against_a_table(tmp_path: Path) -> None:
    fabric = tmp_path / "ours.toml"
    fabric.write_text(
        'name = "ours"\n[gpus]\nper_host = 8\n[[busbw]]\ncollective = "all_reduce"\nhosts = 2\n'
        "busbw_gbs = 900\n"
    )
    status, out = told(TICKET / "all_reduce.txt", "--fabric", fabric, "--fail-on", "degraded")
    assert status == 1
    assert "! below-expectation" in out


def test_it_needs_neither_torch_nor_the_lab(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom bench.cli import main\n"
        f"status = main(['read', {str(TICKET)!r}])\n"
        "heavy = {'torch', 'pyroute2', 'plotly'} & set(sys.modules)\n"
        "sys.exit(f'{status} {heavy}' if status or heavy else 0)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr


def test_a_name_that_is_no_utf8_can_be_read_and_written_as_json(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (tmp_path / name).write_bytes((TICKET / "topo.txt").read_bytes())
    assert told(tmp_path)[0] == 0
    assert told(tmp_path, "--json")[0] == 0
