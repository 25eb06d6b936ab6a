"""What torchrun, srun and mpirun start: `torchrun --nproc-per-node 2 bench/sweep.py`. Rank 0
conducts, all take part.

    facts -> plan -> measure -> model -> judge -> report

Exit status: 0 the job was done; 1 findings at or above --fail-on, or it was cut short; 2 it could
not be done. torchrun turns any failure into its own exit 1; the true status also stands in the
run's folder (`status`).
Without torchrun rank 0 leaves last, because its process holds the store (measure/control).
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if __name__ == "__main__":  # torchrun put bench/ first on the path: modules are bench.X, never X
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

# Before numpy and torch are imported: the agent must stay single-threaded to fork workers, and
# c10d's warnings about waits that our own deadlines end are not for the user.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

import msgspec

from bench.measure import launcher, scheduler
from bench.plan import options as command_line
from bench.plan.options import Options
from bench.records import SEVERITIES, BadInput, Fabric, PlanSettings, Report

if TYPE_CHECKING:
    from bench.measure.stage import Stage
    from bench.report.journal import Journal

# A launcher ends all ranks when one has failed: rank 0 has to have said why by then.
HEARD_S = 3.0
_FAILS: dict[str, int] = {name: i for i, name in enumerate((*SEVERITIES, "none"))}


def main(argv: Sequence[str] | None = None, stdout: TextIO | None = None) -> int:
    """One rank's whole sweep; returns its exit status."""
    # What the command line alone decides is wrong on all ranks alike; files may differ by host.
    speaks = scheduler.rank_of(os.environ) == 0
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        options = command_line.parse(words)
        if options.help is not None:
            print(options.help if speaks else "", file=stdout or sys.stdout, end="")
            return 0
        speaks = scheduler.local_rank_of(os.environ) == 0
        return _take_part(options, stdout or sys.stdout)
    except BadInput as error:
        if speaks:
            from bench.report.text import printable

            print(f"fabric-bench: {printable(str(error))}", file=sys.stderr, flush=True)
            _leave_status(words)
        else:
            time.sleep(HEARD_S)
        return 2


def _leave_status(words: Sequence[str]) -> None:
    """Status 2 in the folder that a launcher has made for this run, if it has made one."""
    named = [after for word, after in itertools.pairwise(words) if word == "--out"]
    folder = Path(named[-1]) if named else None
    if folder is not None and folder.is_dir() and not (folder / "report.json").exists():
        try:
            (folder / "status").write_text("2\n")
        except OSError:
            pass  # the sentence has been said; a full disk is not worth a second one


def _take_part(options: Options, stdout: TextIO) -> int:
    settings, fabric = _inputs(options)
    launch = launcher.read(os.environ)
    from bench.measure.control import StoreGone
    from bench.measure.stage import Stage  # torch: a bad option is told without waiting for it

    try:
        with Stage.open(launch) as stage:
            if stage.seat.rank != 0:
                return stage.attend()
            return _lead(options, settings, fabric, stage, stdout)
    except StoreGone:
        raise BadInput(f"{launch.store_name} has gone: nothing more could be agreed") from None


def _inputs(options: Options) -> tuple[PlanSettings, Fabric | None]:
    """The plan and the fabric that the command line names, checked on every rank alike."""
    from bench.formats import shipped, toml_file

    plan = toml_file.load(shipped.find("plans", options.plan), PlanSettings)
    fabric = None
    if options.fabric is not None:
        fabric = toml_file.load(shipped.find("fabrics", options.fabric), Fabric)
    return options.settings(plan), fabric


def _lead(
    options: Options, settings: PlanSettings, fabric: Fabric | None, stage: Stage, stdout: TextIO
) -> int:
    """Rank 0: the whole pipeline, one report, one status."""
    from bench.report.journal import Journal

    out = Path(options.out) if options.out else Path("reports") / _run_name()
    with Journal(out) as journal:
        code = 2
        try:
            report = _conduct(options, settings, fabric, stage, journal, stdout)
            worst = max((_FAILS[f.severity] for f in report.findings), default=-1)
            measured = any(line.points for line in report.lines)
            code = (
                1 if worst >= _FAILS[options.fail_on] else 0 if measured or report.findings else 2
            )
            # Half of a job is no job done. Also, with a member gone, torchrun on the other hosts
            # would wait 300 s at its exit barrier for it; after a failure it does not.
            code = max(code, 0 if stage.complete else 1)
        finally:
            journal.status(code)
    return code


def _conduct(
    options: Options, settings: PlanSettings, fabric: Fabric | None, stage: Stage,
    journal: Journal, stdout: TextIO,
) -> Report:  # fmt: skip
    from bench.commands import climb, location
    from bench.judge import expected, verdict
    from bench.plan import candidates as candidate_search
    from bench.plan import cases, reach
    from bench.report import conclusion, tables
    from bench.report.progress import Progress
    from bench.report.text import show

    if options.ladder:
        return climb.climb(options, settings, stage, journal, stdout)
    began = time.monotonic()
    hosts = stage.facts()
    if fabric is not None:
        expected.check_fabric(fabric, hosts, file=options.fabric)
    backend = stage.backend(options.backend)
    found = candidate_search.find(
        hosts, backend=backend, only=options.interfaces, fabric=fabric,
        networks_only=settings.networks_only,
    )  # fmt: skip
    hosts, pairs = stage.preflight(found, backend)
    candidates = cases.afford(
        settings, reach.settle(found, pairs), hosts,
        backend=backend, ranks=stage.seat.ranks, fabric=fabric,
    )  # fmt: skip
    plan = cases.schedule(
        settings,
        candidates,
        hosts,
        backend=backend,
        ranks=stage.seat.ranks,
        seed=options.seed,
        fabric=fabric,
        locate=options.locate,
    )
    report = Report(
        run=journal.out.name, verdict="inconclusive", backend=backend, labels=options.labels,
        fabric=fabric, hosts=hosts, plan=plan, candidates=candidates, preflight=pairs,
    )  # fmt: skip
    if not options.quiet:
        show(tables.before(plan, hosts, candidates, fabric=fabric), stdout)
    report = msgspec.structs.replace(report, copies=stage.copies(plan))
    journal.header(
        hosts, plan, candidates, fabric,
        preflight=pairs, copies=report.copies, labels=options.labels, run=report.run,
    )  # fmt: skip
    sessions = []
    with Progress(plan, quiet=options.quiet) as progress:
        for session in stage.sessions(report, began=began, starting=progress.start):
            sessions.append(session)
            journal.append(session)
            progress.end(session)
    report = msgspec.structs.replace(report, hosts=stage.seen(hosts), sessions=tuple(sessions))
    report = conclusion.fitted(report)
    report, lacking = location.located(
        report, options.locate, stage,
        began=began, keep=journal.append_round, stdout=None if options.quiet else stdout,
    )  # fmt: skip
    stage.dismiss()
    report = verdict.judge(
        msgspec.structs.replace(
            report, missing=(*stage.missing(), *lacking), complete=stage.complete
        )
    )
    report = msgspec.structs.replace(report, duration_s=round(time.monotonic() - began, 1))
    for sentence in journal.write(report):
        print(f"fabric-bench: {sentence}", file=sys.stderr, flush=True)
    screen = tables.screen(
        report, folder=journal.out, colour=stdout.isatty(), header=options.quiet
    )
    show(screen, stdout)
    return report


def _run_name() -> str:
    return time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())


if __name__ == "__main__":
    sys.exit(main())
