"""report.json back into its record, or one sentence."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bench.formats.report_file import load
from bench.records import BadInput, Candidate, Finding, Report

REPORT = Report(
    run="2026-11-30T10-44-14Z",
    verdict="misconfigured",
    candidates=(Candidate(name="data", kind="network", interfaces={"host1": "data0"}),),
    findings=(
        Finding(code="interface-misselected", severity="degraded", summary="mgmt0, not data0"),
    ),
)


def test_a_report_is_found_by_its_folder_and_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes(msgspec.json.encode(REPORT))
    assert load(tmp_path) == REPORT
    assert load(tmp_path / "report.json") == REPORT


def test_a_newer_field_is_no_error(tmp_path: Path) -> None:
    data = msgspec.to_builtins(REPORT) | {"weather": "fine"}
    (tmp_path / "report.json").write_bytes(msgspec.json.encode(data))
    assert load(tmp_path) == REPORT


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, ": holds no report.json; expected a run's folder"),
        (b"", "/report.json: is not a report.json of this program"),
        (b"\xff\xfe", "/report.json: is not a report.json of this program"),
        (b'{"schema": 2}', "/report.json: has schema 2; this version reads schema 1"),
        (b'{"schema": 1}', "/report.json: is not a whole report: Object missing required"),
        (msgspec.json.encode(REPORT)[:-30], "/report.json: is not a report.json"),
    ],
)
def test_what_is_not_a_report_is_one_sentence(
    tmp_path: Path, content: bytes | None, sentence: str
) -> None:
    if content is not None:
        (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(BadInput) as caught:
        load(tmp_path)
    assert str(caught.value).removeprefix(str(tmp_path)).startswith(sentence)
