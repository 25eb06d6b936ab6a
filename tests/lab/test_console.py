"""Rank 0's words reach the user as they are; torchrun's page after a failure does not."""

from __future__ import annotations

from bench.lab.console import Complaints

OWN = (
    "E1130 12:51:39.376000 20946 site-packages/torch/distributed/elastic/multiprocessing/api.py:"
    "1002] failed (exitcode: 2) local_rank: 0\nTraceback (most recent call last):\n  File x\n"
)


def test_what_the_script_says_passes_at_once() -> None:
    complaints = Complaints(lambda: False)
    assert complaints.passed("fabric-bench: bad\n") == "fabric-bench: bad\n"
    assert complaints.passed("case 1/9 \r") == "case 1/9 \r"


def test_torchruns_page_is_dropped_to_its_end() -> None:
    complaints = Complaints(lambda: False)
    assert complaints.passed("fabric-bench: bad\n" + OWN) == "fabric-bench: bad\n"
    assert complaints.passed("more\n") == ""
    assert complaints.flushed() == ""


def test_a_page_that_arrives_in_pieces_is_dropped_too() -> None:
    complaints = Complaints(lambda: False)
    shown = [complaints.passed(letter) for letter in "last words\n" + OWN]
    assert "".join(shown) == "last words\n"


def test_a_warning_of_torchruns_is_dropped_alone() -> None:
    complaints = Complaints(lambda: False)
    warning = "W1130 12:51:39.376000 20946 torch/distributed/run.py:774] Setting OMP_NUM_THREADS\n"
    assert complaints.passed(warning + "next\n") == "next\n"


def test_the_scripts_own_traceback_is_shown_unless_its_status_is_written() -> None:
    text = "Traceback (most recent call last):\n  File y\n"
    assert Complaints(lambda: False).passed(text) == text
    assert Complaints(lambda: True).passed(text) == ""


def test_words_that_begin_like_torchruns_are_not_lost() -> None:
    complaints = Complaints(lambda: False)
    assert complaints.passed("Testing") == ""
    assert complaints.passed(" done\nEnd") == "Testing done\n"
    assert complaints.flushed() == "End"
