"""Programs that were started as one job and ran as several: nccl-tests built without MPI.

In: a dossier's tables. Out: launcher-world-size. Each such program lists itself as rank 0; one of
them alone is no accusation, for somebody may have wanted one rank.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from bench.judge.docket import Docket
from bench.judge.words import listed
from bench.model.table_series import times_of
from bench.records import CollectiveTable, Dossier, Evidence, Finding, Where

SHOWN = 4
FIX = "make MPI=1 MPI_HOME=/path/to/mpi"
# By launcher, what says how many processes it starts.
COUNTS = {
    "mpirun": ("-np", "-n", "--np", "-c"),
    "mpiexec": ("-np", "-n", "--np"),
    "orterun": ("-np", "-n", "--np", "-c"),
    "prun": ("-np", "-n", "--np"),
    "srun": ("-n", "--ntasks"),
}


def judge(dossier: Dossier, docket: Docket) -> None:
    """Programs that ran side by side, each believing to be the whole job."""
    for group in _strangers(dossier.tables):
        first = group[0]
        devices = [device for table in group for device in table.devices]
        hosts = list(dict.fromkeys(host for table in group for host in _hosts(table)))
        busy = any(time.busbw_gbs > 0 for table in group for _, _, time in times_of(table))
        ranks = first.ranks or (None if busy else 1)
        number = max(len(group), first.runs)
        whole = f", not one job of {number * ranks}" if ranks else ", not one job"
        each = f" of {_counted(ranks)}" if ranks else ", each with ranks of its own"
        on = f" on {listed(hosts)}" if hosts else ""
        zeros = [device for device in devices if device.rank == 0]
        docket.add(
            Finding(
                code="launcher-world-size",
                # Single ranks measure nothing; whole hosts, each by itself, may have been meant.
                severity="degraded" if ranks == 1 else "warning",
                summary=f"{number} independent runs{each}{on}{whole}: nccl-tests was "
                "built without MPI, so the same program ran that many times and no byte went "
                "between the runs.",
                where=Where(
                    file=first.file,
                    line=first.line,
                    hosts=tuple(hosts),
                    collective=first.collective,
                    ranks=tuple(device.rank for device in zeros) if ranks == 1 else (),
                ),
                evidence=(
                    *(
                        Evidence(
                            basis="measured",
                            text=f"rank 0 of {_place(device.host)}, pid {device.pid}",
                        )
                        for device in zeros[:SHOWN]
                    ),
                    *_busbw_evidence(group),
                ),
                remedy=FIX,
                confidence="inferred" if not zeros else "measured",
            )
        )
    for table in dossier.tables:
        _miscounted(table, docket)


def _counted(ranks: int) -> str:
    return "a single rank" if ranks == 1 else f"{ranks} ranks"


def _strangers(tables: Sequence[CollectiveTable]) -> list[list[CollectiveTable]]:
    """Tables that are copies of one job: `runs` says so, or single ranks of one file, alike."""
    groups: dict[tuple[object, ...], list[CollectiveTable]] = {}
    for table in tables:
        key = (table.file, table.collective, tuple(sorted(table.settings.items())))
        if table.runs > 1 or (table.ranks == 1 and table.ranks_basis == "listed"):
            groups.setdefault(key, []).append(table)
    found = []
    for group in groups.values():
        told = any(table.runs > 1 for table in group)
        places = [(device.host, device.pid) for table in group for device in table.devices[:1]]
        # The same single-rank test run again and again is no launch gone wrong; several hosts are.
        several = len({host for host, _ in places if host}) > 1
        if told or (len(group) > 1 and several and len(set(places)) == len(group)):
            found.append(group)
    return found


def _miscounted(table: CollectiveTable, docket: Docket) -> None:
    """A launcher asked for more processes than the table has ranks."""
    asked = _asked(table.command)
    if asked is None or table.ranks is None or table.runs > 1 or table.ranks_basis != "listed":
        return
    # NCCL_TESTS_SPLIT makes several communicators of one job: all its devices are listed.
    if max(table.ranks, len(table.devices)) >= asked:
        return
    docket.add(
        Finding(
            code="launcher-world-size",
            severity="degraded",
            summary=f"{asked} processes were started and the table has {table.ranks} "
            f"rank{'s' if table.ranks != 1 else ''}: each ran by itself, nccl-tests was built "
            "without MPI.",
            where=Where(file=table.file, line=table.line, collective=table.collective),
            evidence=(Evidence(basis="measured", text=f"command: {(table.command or '')[:160]}"),),
            remedy=FIX,
        )
    )


def _asked(command: str | None) -> int | None:
    """ "mpirun -np 16 …", "srun --ntasks=16 …": how many processes were started, if it says so."""
    words = (command or "").split()
    options = COUNTS.get(words[0].rpartition("/")[2], ()) if words else ()
    for word, following in itertools.pairwise(words):
        if word.rpartition("/")[2].endswith(("_perf", "_perf_mpi")):
            return None  # what follows are the test's own options, where -n counts iterations
        name, sign, value = word.partition("=")
        if name in options:
            number = value if sign else following
            return int(number) if number.isdecimal() and len(number) < 8 else None
    return None


def _hosts(table: CollectiveTable) -> list[str]:
    return list(dict.fromkeys([*table.hosts, *(d.host for d in table.devices if d.host)]))


def _place(host: str) -> str:
    return host or "an unnamed host"


def _busbw_evidence(group: Sequence[CollectiveTable]) -> tuple[Evidence, ...]:
    values = [time.busbw_gbs for table in group for _, _, time in times_of(table)]
    if not values or max(values) > 0:
        return ()
    return (Evidence(basis="measured", text="busbw is 0 in every row, as for one rank"),)
