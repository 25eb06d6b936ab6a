"""A line to paste means the same, however narrow the screen."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.report.paste import is_command, pasteable, split_comment


@pytest.mark.parametrize(
    "remedy",
    ["export NCCL_SOCKET_IFNAME='=data0'", "unset NCCL_SOCKET_IFNAME", "sudo ip link set x up",
     "NCCL_DEBUG=INFO torchrun x.py", "ip link set data0 mtu 9000", "ethtool -S data0",
     "for port in 15:01.0; do echo; done", "make MPI=1 MPI_HOME=/usr", "./all_reduce_perf -b 8"],
)  # fmt: skip
def test_commands_are_told_from_sentences(remedy: str) -> None:
    assert is_command(remedy)


@pytest.mark.parametrize(
    "remedy",
    ["Use exact names: export NCCL_SOCKET_IFNAME='=data0'.", "Reseat the cable.",
     "One image on all hosts.", "make sure that it is on",
     "for good: off in the BIOS", "MTU, congestion control, switch configuration"],
)  # fmt: skip
def test_sentences_are_told_from_commands(remedy: str) -> None:
    assert not is_command(remedy)


WORD = st.text(st.sampled_from('abc=,.-/$`"\\ *~#;&|<>()!?'), min_size=1, max_size=120)


@settings(max_examples=60, deadline=None)
@given(st.lists(WORD, min_size=1, max_size=6), st.integers(40, 80))
def test_a_shell_reads_the_broken_line_as_the_whole_one(words: list[str], width: int) -> None:
    line = "printf '%s|' " + " ".join(f"'{word}'" for word in words)
    lines = pasteable(line, first=13, hang=13, width=width)
    assert all(len(part) <= width - (13 if at == 0 else 0) for at, part in enumerate(lines))
    whole, broken = (
        subprocess.run(["sh", "-c", text], capture_output=True, check=True).stdout
        for text in (line, "\n".join(lines))
    )
    assert broken == whole


@pytest.mark.parametrize(
    ("line", "command", "comment"),
    [
        ("export X='1'   # until then", "export X='1'", "until then"),
        ("export X='a # b'  # c # d", "export X='a # b'", "c # d"),
        ('echo "# no" x#y', 'echo "# no" x#y', ""),
        ("# all of it", "# all of it", ""),
    ],
)
def test_words_behind_a_command_are_told_from_it(line: str, command: str, comment: str) -> None:
    assert split_comment(line) == (command, comment)


def test_a_short_line_is_left_alone() -> None:
    line = "export NCCL_SOCKET_IFNAME='=data0'"
    assert pasteable(line, first=13, hang=13, width=80) == [line]


def test_what_cannot_be_broken_is_left_whole_rather_than_changed() -> None:
    line = "export X=" + "a" * 100
    assert "".join(pasteable(line, first=13, hang=13, width=80)).endswith("X=" + "a" * 100)
