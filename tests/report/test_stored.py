"""What is written can be read, and what cannot be read says why in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.records import BadInput, RankOutcome, Report
from bench.report import stored

NAMES = ("healthy", "misselected", "hung", "unreachable", "thousand", "hostile")


@pytest.mark.parametrize("name", NAMES)
def test_a_report_survives_the_disk(made: Any, name: str, tmp_path: Path) -> None:
    report = getattr(made, name)
    file = tmp_path / "report.json"
    file.write_bytes(stored.encode(report))
    assert stored.read_report(file) == stored.read_report(tmp_path) == stored.trimmed(report)


def test_the_contract_holds_for_others_who_read_the_file(made: Any) -> None:
    content = json.loads(stored.encode(made.misselected))
    assert content["schema"] == 1 and content["verdict"] == "misconfigured"
    candidate = content["candidates"][0]
    assert candidate["interfaces"]["host1"] == "data0" and candidate["default_choice"] is False
    line = content["lines"][0]
    assert set(line["busbw_gbs"]) == {"value", "low", "high"} and line["points"][0]["size_bytes"]
    assert content["recommendation"]["environment"] == {"NCCL_SOCKET_IFNAME": "=data0"}
    assert all(session["samples"] == [] for session in content["sessions"])


def test_a_report_of_four_hosts_is_small_whatever_the_logs_say(made: Any) -> None:
    log = tuple(f"host1:71:71 [0] NCCL INFO Channel {n:02d}/0 : 0[0] -> 1[0]" for n in range(500))
    sessions = tuple(
        msgspec.structs.replace(
            session,
            hosts=tuple(msgspec.structs.replace(host, nccl_log=log) for host in session.hosts),
            ranks=tuple(
                RankOutcome(
                    rank=rank, host="host1", outcome="hung", stacks="s" * 9999, log_tail="t" * 9999
                )
                for rank in range(8)
            ),
        )
        for session in made.misselected.sessions * 2
    )
    content = stored.encode(msgspec.structs.replace(made.misselected, sessions=sessions))
    assert len(content) <= 300_000
    assert len(stored.encode(made.misselected)) < 100_000


def test_a_person_can_read_the_file(made: Any) -> None:
    lines = stored.encode(made.misselected).decode().splitlines()
    assert lines[1] == ' "schema": 1,' and lines[3] == ' "verdict": "misconfigured",'
    assert max(map(len, lines)) < 400


def test_the_end_of_a_stack_is_kept_for_that_is_where_it_hangs(made: Any) -> None:
    rank = stored.trimmed(made.hung).sessions[-1].ranks[1]
    assert rank.stacks.startswith("[") and "characters cut" in rank.stacks
    assert rank.stacks.endswith("model.py:77 forward\n")
    assert len(rank.stacks) < 4100 and len(rank.log_tail) < 2100


def test_names_that_are_no_utf8_and_numbers_that_are_none_do_not_stop_a_report(
    tmp_path: Path,
) -> None:
    report = Report(run="a\udc80b", verdict="healthy", labels={"\ud800": "x"})
    (tmp_path / "report.json").write_bytes(stored.encode(report))
    assert stored.read_report(tmp_path).run == "a?b"
    assert (
        stored.plain(Report(run="x", verdict="healthy", duration_s=float("nan")))["duration_s"]
        is None
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b'{"schema": 1, "run": "x"', "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[]", "not a report"),
        (b'{"run": "x"}', "not a report"),
        (b'{"schema": 99}', "schema 99"),
        (b'{"schema": 1, "run": "x", "verdict": "splendid"}', "$.verdict"),
        (b'{"schema": 1, "run": "x", "verdict": "healthy", "hosts": [{}]}', "$.hosts[0]"),
    ],
)
def test_what_is_no_report_gets_one_sentence_with_the_place(
    tmp_path: Path, content: bytes, words: str
) -> None:
    file = tmp_path / "report.json"
    file.write_bytes(content)
    with pytest.raises(BadInput) as error:
        stored.read_report(file)
    assert words in str(error.value) and str(file) in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_not_there_or_too_large_is_said(tmp_path: Path, monkeypatch: Any) -> None:
    with pytest.raises(BadInput, match="No such file"):
        stored.read_report(tmp_path / "nothing.json")
    with pytest.raises(BadInput, match="No such file"):
        stored.read_report(tmp_path)
    monkeypatch.setattr(stored, "REPORT_LIMIT_BYTES", 2**20)
    (tmp_path / "report.json").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(BadInput, match="larger than 1 MiB"):
        stored.read_report(tmp_path)


def _samples(made: Any) -> bytes:
    report = made.misselected
    header = stored.Header(run=report.run, hosts=report.hosts, plan=report.plan)
    lines = [header, *report.sessions]
    return b"".join(json.dumps(stored.plain(line)).encode() + b"\n" for line in lines)


def test_samples_cut_anywhere_read_up_to_the_cut(made: Any, tmp_path: Path) -> None:
    content = _samples(made)
    file = tmp_path / "samples.jsonl"
    ends = [at for at, byte in enumerate(content) if byte == 10]
    for cut in [ends[0] + 1, ends[1] - 1, ends[1], ends[1] + 1, ends[3] + 500, len(content)]:
        file.write_bytes(content[:cut])
        header, sessions = stored.read_samples(tmp_path)
        assert header.run == made.misselected.run
        assert sessions == made.misselected.sessions[: len(sessions)]
        assert len(sessions) == content[:cut].count(b"}\n") - 1 + (cut == ends[1])


def test_samples_broken_in_the_middle_name_the_line(made: Any, tmp_path: Path) -> None:
    lines = _samples(made).split(b"\n")
    lines[2] = b"garbage"
    file = tmp_path / "samples.jsonl"
    file.write_bytes(b"\n".join(lines))
    with pytest.raises(BadInput, match=r"samples.jsonl:3: not a line of samples"):
        stored.read_samples(file)
    file.write_bytes(lines[1] + b"\n")
    with pytest.raises(BadInput, match=r"samples.jsonl:1: not a line of samples"):
        stored.read_samples(file)
    file.write_bytes(b"{}\n" + lines[1] + b"\n")
    with pytest.raises(BadInput, match="no header"):
        stored.read_samples(file)
    file.write_bytes(b"{half a hea")
    with pytest.raises(BadInput, match="no whole line"):
        stored.read_samples(file)
