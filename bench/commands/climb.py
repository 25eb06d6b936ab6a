"""`sweep --ladder`: groups that grow until one does not work.

In: rank 0's stage, with all hosts' facts to come. Out: the judged Report of the climb. Each rung
is a session of its own, in fresh workers, with the deadlines of any sweep.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Protocol, TextIO

import msgspec

from bench.records import Candidate, Case, HostFacts, Plan, PlanSettings, Report, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.plan.options import Options
    from bench.records import Backend, PreflightPair
    from bench.report.journal import Journal


class Ladder(Protocol):
    """What a stage does for a climb."""

    def facts(self) -> tuple[HostFacts, ...]: ...
    def backend(self, wanted: Backend | None) -> Backend: ...
    def preflight(
        self, candidates: Sequence[Candidate], backend: Backend
    ) -> tuple[tuple[HostFacts, ...], tuple[PreflightPair, ...]]: ...
    def sessions(
        self, report: Report, *, began: float, starting: Callable[[Case], None]
    ) -> Iterator[Session]: ...
    def missing(self) -> tuple[str, ...]: ...
    def dismiss(self) -> None: ...
    @property
    def complete(self) -> bool: ...


def climb(
    options: Options, settings: PlanSettings, stage: Ladder, journal: Journal, stdout: TextIO
) -> Report:
    """Every rung up to the first that fails; writes the run's folder and prints the screen."""
    from bench.judge import rungs as judgement
    from bench.plan import candidates as candidate_search
    from bench.plan import reach, rungs
    from bench.plan.sizes import ladder
    from bench.report import conclusion, rungs_screen
    from bench.report.progress import Progress
    from bench.report.text import show

    began = time.monotonic()
    hosts = stage.facts()
    backend = stage.backend(options.backend)
    found = candidate_search.find(hosts, backend=backend, networks_only=True)
    networks = tuple(c for c in found if c.kind != "default")
    climbed = rungs.rungs(hosts, backend)
    hosts, pairs = stage.preflight((*networks, *climbed), backend)
    networks = tuple(
        msgspec.structs.replace(c, outcome="skipped", reason="a ladder tries none by itself")
        if c.outcome == "planned"
        else c
        for c in reach.settle(networks, pairs)
    )
    ranks = sum(len(host.ranks) for host in hosts)
    plan = Plan(
        settings=settings, backend=backend, ranks=ranks, hosts=len(hosts), seed=options.seed,
        sizes_bytes=ladder(settings, ranks), cases=rungs.cases(climbed),
        estimate_s=settings.budget_s,
    )  # fmt: skip
    report = Report(
        run=journal.out.name, verdict="inconclusive", backend=backend, labels=options.labels,
        hosts=hosts, plan=plan, candidates=(*networks, *climbed), preflight=pairs,
    )  # fmt: skip
    journal.header(
        hosts, plan, report.candidates, None,
        preflight=pairs, copies=(), labels=options.labels, run=report.run,
    )  # fmt: skip
    sessions = []
    with Progress(plan, quiet=options.quiet) as progress:
        for session in stage.sessions(report, began=began, starting=progress.start):
            sessions.append(session)
            journal.append(session)
            progress.end(session)
            if session.outcome != "measured":
                break
    stage.dismiss()
    report = msgspec.structs.replace(
        report, sessions=tuple(sessions), missing=stage.missing(), complete=stage.complete
    )
    report = judgement.judge(conclusion.fitted(report))
    report = msgspec.structs.replace(report, duration_s=round(time.monotonic() - began, 1))
    for sentence in journal.write(report):
        print(f"fabric-bench: {sentence}", file=sys.stderr, flush=True)
    screen = rungs_screen.screen(report, colour=stdout.isatty(), folder=journal.out)
    show(screen, stdout)
    return report
