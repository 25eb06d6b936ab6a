"""Every file is read as what it is, whatever its name, and as both where it is two things."""

from __future__ import annotations

import ast
import gzip
import io
from pathlib import Path

import pytest

from bench.formats import file_walk, recognition
from bench.formats.source import Source
from bench.records import Dossier

TICKET = Path(__file__).resolve().parents[1] / "data" / "read" / "ticket"
FORMATS_FOLDER = Path(recognition.__file__).resolve().parent
# Which records each file of the folder gives.
FIELDS_OF = {
    "accelerate_env.txt": {"software"},
    "all_gather.json": {"tables"},
    "all_gather.txt": {"tables"},
    "all_reduce.txt": {"tables"},
    "dmesg.txt": {"kernels"},
    "env.txt": {"variables"},
    "hostA_ibv.txt": {"ports"},
    "lspci.txt": {"bridges"},
    "measurements.csv": {"figures"},
    "nvlink.txt": {"nvlinks"},
    "old_columns.log": {"tables", "logs"},
    "p2p.txt": {"peers"},
    "pcie.csv": {"bridges"},
    "rocm_topo.txt": {"matrices"},
    "start.txt": {"starts"},
    "topo.txt": {"matrices"},
    "topo.xml": {"trees"},
    "worker.log": {"logs"},
}


def gathered(*named: object, stdin: bytes = b"") -> Dossier:
    found = file_walk.files([str(name) for name in named])
    return recognition.gather(found, io.BytesIO(stdin))


def fields(dossier: Dossier) -> set[str]:
    return {field for field in recognition.FIELDS.values() if getattr(dossier, field)}


def test_the_table_has_every_format_there_is() -> None:
    """A module with KIND, likeness and read that is not in the table would never be asked."""
    there = set()
    for path in (*FORMATS_FOLDER.glob("*.py"), *FORMATS_FOLDER.glob("*/__init__.py")):
        tree = ast.parse(path.read_text())
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                names |= {alias.asname or alias.name for alias in node.names}
        if {"likeness", "read"} <= names:
            there.add(path.parent.name if path.name == "__init__.py" else path.stem)
    asked = {each.module for each in recognition.FORMATS}
    assert asked <= there
    # what a hung job leaves, and what starts one, is `diagnose`'s to read
    assert there - asked <= {
        "flight_dump", "fr_trace_text", "rank_stacks", "rank_log", "nccl_ras", "watched_job",
        "accelerate_config", "deepspeed_config", "host_slots", "host_facts", "launch_command",
    }  # fmt: skip
    kinds = [each.load().KIND for each in recognition.FORMATS]
    assert len(set(kinds)) == len(kinds)


def test_the_folder_has_a_file_of_every_format() -> None:
    assert {path.name for path in TICKET.iterdir()} == set(FIELDS_OF)
    kinds = {each.kind for each in gathered(TICKET).files}
    assert kinds == {each.load().KIND for each in recognition.FORMATS}


@pytest.mark.parametrize("name", FIELDS_OF)
def test_a_file_is_known_by_what_it_holds(name: str, tmp_path: Path) -> None:
    dossier = gathered(TICKET / name)
    assert fields(dossier) == FIELDS_OF[name]
    content = (TICKET / name).read_bytes()
    renamed = tmp_path / "hostA_x.dat"  # ibv_devinfo has no other place for its host
    renamed.write_bytes(gzip.compress(content))
    assert fields(gathered(renamed)) == FIELDS_OF[name]


@pytest.mark.parametrize("name", [n for n in FIELDS_OF if not n.endswith((".xml", ".json"))])
def test_a_launchers_prefix_hides_no_format(name: str) -> None:
    lines = (TICKET / name).read_bytes().splitlines()
    prefixed = b"\r\n".join(b"node7: " + line for line in lines)
    assert fields(gathered("-", stdin=prefixed)) == FIELDS_OF[name]


def test_a_file_of_two_kinds_is_read_as_both() -> None:
    log, topology = (TICKET / "worker.log").read_bytes(), (TICKET / "topo.txt").read_bytes()
    dossier = gathered("-", stdin=topology + b"\n" + log)
    assert fields(dossier) == {"matrices", "logs"}
    assert {each.file for each in dossier.files} == {"<stdin>"}


def test_a_table_in_the_middle_of_a_large_log_is_found() -> None:
    log, table = (TICKET / "worker.log").read_bytes(), (TICKET / "old_columns.log").read_bytes()
    much = log * (1 + (1 << 20) // len(log))
    dossier = gathered("-", stdin=much + table + much)
    assert len(dossier.tables) == 1
    assert len(dossier.tables[0].rows) == 34
    assert dossier.logs


def test_a_list_of_figures_is_a_last_resort() -> None:
    figures, table = (TICKET / "measurements.csv").read_bytes(), (TICKET / "all_reduce.txt")
    dossier = gathered("-", stdin=table.read_bytes() + b"\n" + figures)
    assert fields(dossier) == {"tables"}


def test_what_is_of_no_kind_is_told_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    (tmp_path / "b.gz").write_bytes(b"\x1f\x8bnot packed")
    (tmp_path / "c.txt").write_bytes((TICKET / "topo.txt").read_bytes())
    dossier = gathered(tmp_path, tmp_path / "absent")
    assert [(each.kind, each.summary[:20]) for each in dossier.files] == [
        ("unknown", "looks like a PNG pic"),
        ("unreadable", "cannot be unpacked: "),
        ("nvidia-smi topo -m", "8 GPUs, 10 NICs"),
        ("unreadable", "no such file"),
    ]
    assert len(dossier.matrices) == 1


def test_what_was_left_unread_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    log = (TICKET / "worker.log").read_bytes()
    source = Source.of_text(log + b"x" * 100_000 + b"\n")
    _, (described,) = recognition.read(source)
    assert described.notes == ("a line longer than 64 KiB cut",)
    assert described.lines == log.count(b"\n") + 1


def test_a_file_that_only_looks_like_a_kind_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "topo.xml").write_text('<system version="1"><cpu numaid="0"')
    dossier = gathered(tmp_path / "topo.xml")
    assert fields(dossier) == set()
    (described,) = dossier.files
    assert described.kind in ("unknown", "unreadable")
    assert "\n" not in described.summary
