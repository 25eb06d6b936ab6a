"""Progress: plain lines in a log, a live line on a real terminal."""

from __future__ import annotations

import io
import os
import pty
from typing import Any

import msgspec

from bench.records import Case, Session
from bench.report.progress import Progress


def _ended(case: Case, outcome: str = "measured", **more: Any) -> Session:
    return Session(case=case, outcome=outcome, duration_s=3.1, **more)


def test_a_log_gets_one_plain_line_per_case(made: Any) -> None:
    log, now = io.StringIO(), [0.0]
    plan = made.misselected.plan
    with Progress(plan, stream=log, clock=lambda: now[0]) as progress:
        for case in plan.cases:
            progress.start(case)
            now[0] += 3
            progress.end(_ended(case))
    lines = log.getvalue().splitlines()
    assert len(lines) == len(plan.cases) == 12
    assert lines[0] == "case 1/12  data, session 1 of 3: measured in 3 s · about 35 s left"
    assert lines[-1] == "case 12/12  (default), session 3 of 3: measured in 3 s · nearly done"
    assert "\r" not in log.getvalue() and "\x1b" not in log.getvalue()


def test_what_went_wrong_is_said_at_once_and_harmlessly(made: Any) -> None:
    log = io.StringIO()
    with Progress(made.hung.plan, stream=log) as progress:
        progress.end(_ended(made.hung.plan.cases[1], "hung", reason="rank 2\x1b[2J\nstopped"))
    assert "hung in 3 s: rank 2\\x1b[2J stopped" in log.getvalue()


def test_quiet_is_quiet(made: Any) -> None:
    log = io.StringIO()
    with Progress(made.hung.plan, stream=log, quiet=True) as progress:
        progress.start(made.hung.plan.cases[0])
        progress.end(_ended(made.hung.plan.cases[0]))
    assert log.getvalue() == ""


def test_a_terminal_shows_the_case_and_the_time_left(made: Any, monkeypatch: Any) -> None:
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    reader, writer = pty.openpty()
    plan = made.misselected.plan
    with open(writer, "w", encoding="utf-8") as stream:  # noqa: PTH123 (a descriptor)
        with Progress(plan, stream=stream, clock=lambda: 0.0) as progress:
            progress.start(plan.cases[0])
            progress.end(_ended(plan.cases[0], "unreachable", reason="no answer"))
        stream.flush()
        shown = os.read(reader, 100_000).decode()
    os.close(reader)
    assert "case 1/12  data, session 1 of 3: about 38 s left" in shown
    assert "unreachable in 3 s: no answer" in shown


def test_an_ascii_log_is_no_obstacle(made: Any) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    with Progress(made.hung.plan, stream=stream) as progress:
        progress.end(_ended(made.hung.plan.cases[0]))
    assert b"measured in 3 s | about" in raw.getvalue()


def test_the_time_left_follows_the_pace(made: Any) -> None:
    now = [0.0]
    plan = msgspec.structs.replace(made.misselected.plan, estimate_s=12.0)
    progress = Progress(plan, stream=io.StringIO(), clock=lambda: now[0])
    assert progress.left_s() == 12.0
    for case in plan.cases[:6]:
        now[0] += 10
        progress.end(_ended(case))
    assert 30 < progress.left_s() < 60  # planned 6 s, at this pace 60 s
    for case in plan.cases[6:]:
        now[0] += 10
        progress.end(_ended(case))
    assert progress.left_s() == 0
