"""Tools are run with a deadline and a limit; calls that never return cost their deadline."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench.facts import tool
from bench.facts.patience import OutOfTime, within


def script(folder: Path, name: str, body: str) -> str:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return str(file)


def test_text_is_kept_as_printed_without_colours_and_controls(tmp_path: Path) -> None:
    say = script(tmp_path, "say", r"printf '\033[4mGPU0\tGPU1\033[0m\r\nNV18 \001\377\n'; pwd >&2")
    lines = tool.output([say]).splitlines()
    assert lines[:2] == ["GPU0\tGPU1", "NV18 \ufffd"]
    assert len(lines) == 3  # errors included


def test_words_come_in_english_and_arguments_are_no_shell(tmp_path: Path) -> None:
    show = script(tmp_path, "show", 'echo "$LC_ALL $1"')
    assert tool.output([show, "$(id); rm -rf /"]) == "C $(id); rm -rf /\n"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo 'No devices were found'; exit 6", "ended with 6: No devices were found"),
        ("sleep 60", "gave no answer within 0.2 s"),
        ("exec >&- 2>&-; sleep 60", "gave no answer within 0.2 s"),
    ],
)
def test_a_tool_that_fails_or_hangs_gives_its_reason_in_time(
    tmp_path: Path, body: str, reason: str
) -> None:
    began = time.monotonic()
    with pytest.raises(tool.NoText, match=reason):
        tool.output([script(tmp_path, "ill", body)], deadline_s=0.2 if "sleep" in body else 5.0)
    assert time.monotonic() - began < 5.0


def test_endless_output_is_cut_and_ends_the_tool(tmp_path: Path) -> None:
    text = tool.output([script(tmp_path, "endless", "exec yes 0123456789")])
    assert len(text) == tool.LIMIT_BYTES


def test_an_absent_tool_is_said_to_be_absent() -> None:
    with pytest.raises(tool.NoText, match="no-such-tool is not installed"):
        tool.output(["no-such-tool"])


def test_a_call_in_time_hands_on_its_result_or_its_error() -> None:
    def fail() -> None:
        raise ValueError("mine")

    assert within(5.0, lambda: 7) == 7
    with pytest.raises(ValueError, match="mine"):
        within(5.0, fail)
    with pytest.raises(OutOfTime, match="no answer within"):
        within(0.05, lambda: time.sleep(2))
