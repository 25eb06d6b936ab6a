"""A run that was cut short, finished from its raw samples.

In: the folder of a run with samples.jsonl and no report.json. Out: the report that the sweep would
have written of these sessions, saying how many are missing, and all files of a finished run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.judge.pairs.scope import concluded
from bench.plan.cases import fits
from bench.records import Case, MeasuredRound, Plan, Report, Session
from bench.report import conclusion
from bench.report.journal import Header, Journal, read_samples
from bench.report.stored import read_rounds

# The sweep's own. Whether findings make a 1 depends on --fail-on, which samples do not tell.
DONE, CUT_SHORT, COULD_NOT = 0, 1, 2


def finish(run: Path) -> tuple[Report, tuple[str, ...]]:
    """Judge the run and write its files, `status` included; the report, and a sentence per file
    that failed.

    BadInput where the folder holds no samples, a finished report, or a sweep that is still going.
    """
    header, sessions = read_samples(run)
    with Journal(run, keep_samples=True) as journal:
        report = conclusion.conclude(as_far_as_it_went(header, sessions, read_rounds(run)))
        trouble = journal.write(report)
        told = report.findings or any(line.points for line in report.lines)
        whole = DONE if report.complete else CUT_SHORT
        journal.status(whole if told else COULD_NOT)
        return report, trouble


def as_far_as_it_went(
    header: Header, sessions: Sequence[Session], rounds: Sequence[MeasuredRound] = ()
) -> Report:
    """The report of these sessions and rounds of pairs before anything is fitted or judged."""
    cut, dropped = _not_run(header, sessions)
    missing = []
    lost = sorted({r.rank for s in sessions for r in s.ranks if r.outcome == "lost"})
    if lost:
        ranks = ", ".join(str(rank) for rank in lost)
        missing.append(f"rank {ranks} stopped answering: the sweep ended there")
    elif cut:
        of = len(sessions) + len(cut)
        missing.append(f"The run was cut short after {len(sessions)} of {of} sessions.")
    elif rounds:
        missing.append(f"The run was cut short in or after its {len(rounds)} rounds of pairs.")
    elif header.plan is not None and header.plan.locate_s:
        missing.append("The run was cut short before any pairs of hosts were measured.")
    if dropped:
        whose = ", ".join(dict.fromkeys(case.candidate for case in dropped))
        many = "s" if len(dropped) > 1 else ""
        missing.append(f"the budget had no room for {len(dropped)} session{many} of {whose}")
    missing += [check.trouble for check in header.copies if check.trouble]
    ends = [session.started_at + session.duration_s for session in sessions]
    return Report(
        run=header.run or "cut",
        verdict="inconclusive",
        backend=header.plan.backend if header.plan else "gloo",
        duration_s=round(max(0.0, max(ends, default=0.0) - header.started_at), 1),
        complete=not (cut or lost),
        missing=tuple(missing),
        labels=header.labels,
        fabric=header.fabric,
        hosts=header.hosts,
        plan=header.plan,
        candidates=header.candidates,
        preflight=header.preflight,
        copies=header.copies,
        sessions=tuple(sessions),
        location=concluded([host.host for host in header.hosts], rounds),
    )


def _not_run(header: Header, sessions: Sequence[Session]) -> tuple[list[Case], list[Case]]:
    """Planned cases without a session: those that were still to come, and those that the budget
    had no room for.

    The sweep repeats no candidate that hung or failed. It runs cases in order, so one without a
    session before one that has a session was left out for the budget; so were later ones that did
    not fit any more when the last session ended.
    """
    plan = header.plan
    if plan is None:
        return [], []
    ran = {(s.case.candidate, s.case.session): s for s in sessions}
    given_up = {
        s.case.candidate
        for s in sessions
        if s.outcome in ("hung", "failed") and all(r.outcome != "died" for r in s.ranks)
    }
    planned = {c.name for c in header.candidates if c.outcome == "planned"} - given_up
    last = max(
        (i for i, case in enumerate(plan.cases) if (case.candidate, case.session) in ran),
        default=-1,
    )
    cut: list[Case] = []
    dropped: list[Case] = []
    for i, case in enumerate(plan.cases):
        if case.candidate not in planned or (case.candidate, case.session) in ran:
            continue
        fitted = i > last and _fitted(plan, case, header.started_at, sessions)
        (cut if fitted else dropped).append(case)
    return cut, dropped


def _fitted(plan: Plan, case: Case, started_at: float, sessions: Sequence[Session]) -> bool:
    """Whether the sweep would have run this case next. The clock starts with the header, some
    seconds after the sweep itself: a case that just fitted then counts as one cut off."""
    own = [s.duration_s for s in sessions if s.case.candidate == case.candidate]
    ended = max((s.started_at + s.duration_s for s in sessions), default=started_at)
    elapsed_s = max(0.0, ended - started_at)
    return fits(plan, case, elapsed_s=elapsed_s, mean_case_s=own[-1] if own else 0.0)
