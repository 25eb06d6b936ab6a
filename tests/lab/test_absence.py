"""Who is named when a sweep never begins: only hosts against which there is proof."""

from __future__ import annotations

from typing import Literal

from bench.lab import absence
from bench.lab.absence import PROVEN_S, UNPROVEN_S, Attendance, Link
from bench.records import Report


def host(
    number: int,
    torchrun: Literal["not started", "running", "ended"] = "running",
    link: Link = "connected",
    status: int | None = None,
) -> Attendance:
    return Attendance(
        host=f"host{number}",
        ranks=(number - 1,),
        torchrun=torchrun,
        exit_status=status,
        link=link,
        meets=number == 1,
    )


def report(seen: tuple[Attendance, ...], named: tuple[Attendance, ...]) -> Report:
    return absence.report(
        seen, named, run="r", meeting="10.1.0.1:29500", waited_s=15.2, fabric=None, labels={}
    )


def test_nobody_is_named_before_its_time() -> None:
    seen = (host(1), host(2, "not started"))
    assert absence.missing(seen, PROVEN_S - 0.1) is None


def test_a_host_without_torchrun_is_named() -> None:
    seen = (host(1), host(2), host(3, "not started", "none"))
    assert absence.missing(seen, PROVEN_S) == (seen[2],)


def test_a_host_whose_torchrun_ended_is_named_with_its_status() -> None:
    seen = (host(1), host(2, "ended", "none", 1))
    named = absence.missing(seen, PROVEN_S)
    assert named == (seen[1],)
    texts = [evidence.text for evidence in report(seen, named).findings[0].evidence]
    assert "host2: torchrun ended with status 1" in texts


def test_a_host_that_knocks_in_vain_is_named() -> None:
    seen = (host(1, link="none"), host(2), host(3, link="knocking"))
    assert absence.missing(seen, PROVEN_S) == (seen[2],)


def test_slow_hosts_get_four_times_as_long() -> None:
    seen = (host(1, link="none"), host(2, link="none"))
    assert absence.missing(seen, UNPROVEN_S - 0.1) is None
    assert absence.missing(seen, UNPROVEN_S) == (seen[1],)


def test_when_nothing_tells_nobody_is_accused() -> None:
    seen = (host(1, link="none"), host(2))
    assert absence.missing(seen, UNPROVEN_S) == ()
    finding = report(seen, ()).findings[0]
    assert finding.where.hosts == ()
    assert finding.confidence == "inferred"


def test_the_report_is_broken_and_names_host_and_rank() -> None:
    seen = (host(1), host(2, "not started", "none"))
    told = report(seen, (seen[1],))
    finding = told.findings[0]
    assert (told.verdict, told.complete, told.lines) == ("broken", False, ())
    assert [facts.host for facts in told.hosts] == ["host1", "host2"]
    assert (finding.code, finding.severity) == ("hang-rendezvous", "broken")
    assert (finding.where.host, finding.where.rank) == ("host2", 1)
    assert finding.summary == (
        "host2 never joined: torchrun was not started there. 1 of 2 hosts waited 15 s for it at "
        "10.1.0.1:29500, and no rank began."
    )
