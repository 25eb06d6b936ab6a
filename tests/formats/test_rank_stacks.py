"""Stacks of ranks as the debug server, faulthandler and py-spy print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.formats import rank_stacks
from bench.formats.source import Source
from bench.records import BadInput, RankStack

DATA = Path(__file__).resolve().parents[1] / "data" / "flight"

SERVER = """=== Rank 0: http://host1:25999/handler/dump_traceback? ===
Thread 0x00007f1 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/threading.py", line 982 in run

Current thread 0x00007f2 (most recent call first):
  File "/home/me/model.py", line 77 in forward
  File "/home/me/train.py", line 141 in main

=== Rank 1: http://host1:26000/handler/dump_traceback? ===
Error: 503
"""
SPY = """Process 4711: python train.py
Thread 4711 (active): "MainThread"
    load (data.py:12)
    main (train.py:140)
Thread 4720 (idle): "Thread-1"
    run (helper.py:9)
"""
TRACEBACK = """=== Rank 2 ===
Stack (most recent call last):
  File "train.py", line 140, in main
  File "data.py", line 12, in load
"""


def stacks(text: str, file: str = "stacks.txt") -> dict[int, RankStack]:
    return {stack.rank: stack for stack in rank_stacks.read(Source.of_text(text, file))}


def frames(stack: RankStack) -> list[tuple[str, int, str]]:
    return [(frame.file.rpartition("/")[2], frame.line, frame.name) for frame in stack.frames]


def test_the_tutorials_stacks_are_read() -> None:
    (path,) = (DATA / "tutorial").glob("stacks*")
    assert rank_stacks.likeness(path.read_text(), path.name) > 0.5
    found = stacks(path.read_text())
    assert frames(found[0]) == [("verify_flight_recorder.py", 148, "main")]
    assert frames(found[1]) == [("verify_flight_recorder.py", 140, "main")]


def test_the_thread_of_the_users_program_is_chosen() -> None:
    assert rank_stacks.likeness(SERVER, "stacks.txt") > 0.5
    found = stacks(SERVER)
    assert list(found) == [0]
    assert frames(found[0]) == [("model.py", 77, "forward"), ("train.py", 141, "main")]


def test_py_spy_tells_the_rank_by_its_files_name() -> None:
    assert rank_stacks.likeness(SPY, "pyspy_rank_3.txt") >= 0.5
    assert rank_stacks.likeness(SPY, "pyspy.txt") == 0
    found = stacks(SPY, "pyspy_rank_3.txt")
    assert frames(found[3]) == [("data.py", 12, "load"), ("train.py", 140, "main")]


def test_a_stack_of_the_other_direction_is_turned() -> None:
    assert frames(stacks(TRACEBACK)[2]) == [("data.py", 12, "load"), ("train.py", 140, "main")]


@pytest.mark.parametrize("text", ["", "rank 3 is fine\n", "=== Rank 1 ===\nnothing\n"])
def test_other_texts_are_none(text: str) -> None:
    assert rank_stacks.likeness(text, "x.txt") == 0
    with pytest.raises(BadInput):
        stacks(text)
