"""Files of no kind we read, and our own: what they are is said in a phrase, never guessed."""

from __future__ import annotations

import bz2
import io
import lzma
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.formats import own_file, stranger
from bench.formats.source import Source

TAR, ZIP = io.BytesIO(), io.BytesIO()
with tarfile.open(fileobj=TAR, mode="w") as archive:
    archive.addfile(tarfile.TarInfo("rank0.log"), io.BytesIO(b""))
with zipfile.ZipFile(ZIP, "w") as zipped:
    zipped.writestr("archive/data.pkl", b"x")


def phrase(content: bytes | str) -> str:
    return stranger.looks_like(Source.of_text(content).head())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"\n\n \n", "blank lines"),
        (b"\x7fELF\x02\x01\x01\0\0", "program"),
        (ZIP.getvalue(), "ZIP"),
        (TAR.getvalue(), "tar"),
        (lzma.compress(b"x"), "xz"),
        (bz2.compress(b"x"), "bzip2"),
        (b"\x28\xb5\x2f\xfd\x04\x00", "zstd"),
        (b"\x89PNG\r\n\x1a\n\0\0", "PNG"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "picture"),
        (b"%PDF-1.7", "PDF"),
        (b"\x80\x04\x95\x10\0\0", "Flight Recorder"),
        (b"\x80\x02}q\0", "Flight Recorder"),
        ('{"version": "2.4", "pg_config": {}, "entries": []}', "Flight Recorder"),
        ('{"a": 1}', "JSON of another program"),
        ("compute_environment: LOCAL_MACHINE\nnum_machines: 2\n", "Accelerate config"),
        ("step 1\nTraceback (most recent call last):\n  File\n", "Python traceback"),
        ("Connecting to host 10.0.0.1, port 5201\n[  5] local", "iperf3"),
        (" #bytes     #iterations    BW peak[Gb/sec]\n 65536 1000 392.1\n", "perftest"),
        ("<!DOCTYPE html><html>", "web page"),
        ("<?xml version='1.0'?><note/>", "XML that is no topology"),
        ("#!/bin/bash\n#SBATCH --nodes 2\necho hello\n", "Slurm"),
        ("#!/bin/bash\necho hello\n", "script"),
        (bytes(range(1, 256)) * 8, "binary data"),
        ("Dear diary,\nall is well.\n", "text without a line of NCCL"),
        ("今日は良い天気です。\n" * 9, "text without a line of NCCL"),
    ],
    ids=lambda value: repr(value)[:24] if isinstance(value, bytes) else "",
)
def test_a_phrase_names_what_it_looks_like(content: bytes | str, words: str) -> None:
    assert words in phrase(content)


@given(st.one_of(st.binary(max_size=400).filter(lambda b: b[:1] != b"\x1f"), st.text()))
def test_every_file_looks_like_something(content: bytes | str) -> None:
    assert phrase(content)


LAB = 'hosts = 4\n[[network]]\nname = "data"\ninterface = "data0"\nrate_mbit = 500\n'
FABRIC = 'name = "a"\n[[network]]\nname = "data"\nrole = "data"\nrate_gbps = 100\n'
PLAN = 'name = "quick"\nmax_bytes = "4M"\nstep_factor = 2.0\n'
TIMES = '{"schema":1,"run":"r","started_at":1796034254.5,"labels":{},"hosts":[]}'
REPORT = """{"schema": 1, "run": "2026-11-30T10-44-14Z", "verdict": "degraded",
 "hosts": [], "candidates": [], "findings": [{"code": "link-degraded"}]}"""


@pytest.mark.parametrize(
    ("name", "content", "kind", "command"),
    [
        ("lab.toml", LAB, "lab", "fabric-bench lab run lab.toml"),
        ("f.toml", FABRIC, "fabric", "--fabric f.toml"),
        ("p.toml", PLAN, "plan", "--plan p.toml"),
        ("report.json", REPORT, "report", "fabric-bench gate report.json"),
        ("samples.jsonl", TIMES, "raw times", "fabric-bench report FOLDER"),
    ],
)
def test_our_own_files_are_known_and_point_to_their_command(
    name: str, content: str, kind: str, command: str
) -> None:
    described = own_file.describe(Source.of_text(content, file=name))
    assert described is not None
    assert described.kind == kind
    assert command in described.notes[0]


def test_a_report_of_ours_tells_its_verdict() -> None:
    described = own_file.describe(Source.of_text(REPORT))
    assert described is not None
    assert (
        described.summary == "report of a run of ours, 2026-11-30T10-44-14Z: degraded, 1 finding"
    )
    cut = own_file.describe(Source.of_text(REPORT[:-30]))
    assert cut is not None
    assert "cut short or damaged" in cut.summary


def test_what_read_has_printed_before_is_known() -> None:
    described = own_file.describe(
        Source.of_text('{"schema": 1, "verdict": "healthy", "dossier": {}}')
    )
    assert described is not None
    assert described.kind == "reading"


@pytest.mark.parametrize(
    "content", ["", "{}", '{"verdict": 1}', "name = 1", "[tool.ruff]\nselect = []", PLAN]
)
def test_everybody_elses_files_are_not_ours(content: str) -> None:
    assert own_file.describe(Source.of_text(content, file="pyproject.txt")) is None
