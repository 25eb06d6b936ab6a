"""Settings that ranks do not share: what a launcher does not forward, what hosts say differently.

In: a Job (one run's logs), and Variables of the same dossier (scripts, launch lines, lists). Out:
setting-not-exported, setting-overridden. NCCL prints a variable only where it reads it, so that a
missing line proves nothing by itself; two different values do, and so does a host that prints no
line at all although it was launched on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bench.judge.docket import Docket
from bench.judge.foreign.log_jobs import Job, Told
from bench.judge.foreign.log_words import event_line, line_of
from bench.judge.words import listed
from bench.records import Dossier, Evidence, Finding, LogEvent, Variables, Where

# May differ between hosts or ranks, and often must.
OWN = (
    "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_HOSTID", "NCCL_DEBUG", "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS", "NCCL_TOPO_FILE", "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE",
    "NCCL_CONF_FILE", "NCCL_COMM_ID", "NCCL_OOB_NET_IFNAME", "NCCL_IGNORE_CPU_AFFINITY",
)  # fmt: skip
# Read by every process at its start, whatever the hardware: where one host prints it and another
# prints its network lines without it, the other does not have it.
READ_BY_ALL = ("NCCL_IB_DISABLE", "NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_SOCKET_FAMILY")
# Ranks that speak another transport's or version's protocol on a connection of theirs.
_WRONG_TYPE = re.compile(r"wrong type \d+ != \d+|wrong magic")
SHOWN = 6


def judge(job: Job, dossier: Dossier, docket: Docket) -> None:
    """One finding on settings that ranks do not share, one on a value that is not in force."""
    if not _differ(job, docket):
        _spoken(job, docket)
    _overridden(job, dossier, docket)


def launched(jobs: Sequence[Job], dossier: Dossier, docket: Docket) -> Job | None:
    """Exports of a script that its mpirun line does not hand on to the other hosts; the job that
    shows it best, of which nothing more need be said about settings."""
    by_proof = sorted(jobs, key=lambda job: not any(_is_wrong_type(e) for e in job.events))
    for job in by_proof:
        if _launched(job, dossier, docket):
            return job
    return None


def _is_wrong_type(event: LogEvent) -> bool:
    return _WRONG_TYPE.search(event.text) is not None


def _launched(job: Job, dossier: Dossier, docket: Docket) -> bool:
    for variables in dossier.variables:
        kept = _not_forwarded(variables)
        if not kept or len(variables.launched_on) < 2:
            continue
        silent = [h for h in variables.launched_on if not _speaks(job, h)]
        spoken = [h for h in variables.launched_on if _speaks(job, h)]
        if not spoken or not job.events:
            continue  # another job's script, or one that fared well
        wrong = [e for e in job.events if _is_wrong_type(e)]
        absence = (
            f"no line of {listed(silent)} is in the log, as NCCL_DEBUG was not handed on either"
            if silent
            else ""
        )
        evidence = [Evidence(basis="claimed", text=f"{variables.file}: {variables.launcher}")]
        if absence:
            evidence.append(Evidence(basis="inferred", text=absence))
        evidence += [event_line(event) for event in (wrong or list(job.faults))[:2]]
        other = listed(silent or variables.launched_on[1:])
        docket.add(
            Finding(
                code="setting-not-exported",
                severity="broken" if job.faults else "degraded",
                summary=f"mpirun forwards none of {listed(kept)} (exported in the shell, no -x), "
                f"so {other} runs with other settings than {spoken[0]}"
                + (f": {absence}." if absence else "."),
                where=Where(
                    host=silent[0] if len(silent) == 1 else None,
                    hosts=tuple(silent) if len(silent) > 1 else (),
                    file=variables.file,
                    line=variables.line,
                ),
                evidence=tuple(evidence),
                remedy="mpirun " + " ".join(f"-x {name}" for name in kept) + " …",
                confidence="asked" if wrong else "inferred",
            )
        )
        return True
    return False


def _not_forwarded(variables: Variables) -> list[str]:
    """NCCL_ variables that the file exports and its mpirun does not hand on. srun hands on all,
    torchrun starts its ranks itself."""
    if "mpirun" not in (variables.launcher or "") or "ALL" in variables.forwarded:
        return []
    return [
        name
        for name in variables.exported
        if name.startswith(("NCCL_", "RCCL_")) and name not in variables.forwarded
    ]


def _speaks(job: Job, host: str) -> bool:
    return any(told == host or told.startswith(host + ".") for told in job.hosts)


def _differ(job: Job, docket: Docket) -> bool:
    """Two values of one variable, or a host that lacks one which every process reads."""
    values: dict[str, dict[str, list[Told]]] = {}
    for told in job.told:
        for name, value in told.process.environment.items():
            if name.startswith(("NCCL_", "RCCL_")) and name not in OWN:
                values.setdefault(name, {}).setdefault(value, []).append(told)
    for name, by_value in values.items():
        hosts = {told.process.host for group in by_value.values() for told in group}
        lacking = _lacking(job, name, hosts) if name in READ_BY_ALL else []
        if len(by_value) < 2 and not lacking:
            continue
        first = next(iter(by_value.values()))[0]
        said = [f"{name}={v} on {listed(t.process.host for t in g)}" for v, g in by_value.items()]
        if lacking:
            said.append(f"not set on {listed(t.process.host for t in lacking)}")
        odd = min(by_value.values(), key=len)[0] if len(by_value) > 1 else lacking[0]
        docket.add(
            Finding(
                code="setting-not-exported",
                severity="degraded" if job.faults or not job.formed else "warning",
                summary=f"Ranks do not share a setting: {'; '.join(said)}.",
                where=Where(
                    host=odd.process.host,
                    file=odd.log.file,
                    line=odd.place(name if odd.quote(name) else "network")[1],
                ),
                evidence=(
                    *(e for g in list(by_value.values())[:SHOWN] for e in line_of(g[0], name)),
                    *(e for t in lacking[:1] for e in line_of(t, "network", "sockets")),
                    *(event_line(event) for event in job.faults[:1]),
                ),
                remedy=f"mpirun -x {name} …   # srun --export=ALL; or in /etc/nccl.conf on every "
                "host",
                confidence="asked" if first and len(by_value) > 1 else "inferred",
            )
        )
        return True
    return False


def _lacking(job: Job, name: str, hosts: set[str]) -> list[Told]:
    """Processes of other hosts that print settings and networks, but not this one."""
    return [
        told
        for told in job.told
        if told.process.host not in hosts
        and told.process.environment
        and (told.quote("network") or told.quote("no-rdma") or told.quote("rdma"))
    ]


def _spoken(job: Job, docket: Docket) -> None:
    """A connection answered in another protocol: maintainers ask for the variables first."""
    for event in job.faults:
        if not _is_wrong_type(event):
            continue
        absent = _absent_hosts(job)
        docket.add(
            Finding(
                code="setting-not-exported",
                severity="degraded",
                summary="Ranks speak different protocols on one connection "
                f"({event.text}), as when some have NCCL_ variables that others lack"
                + (f"; of {absent} other hosts the log has no line." if absent else "."),
                where=Where(host=event.host, rank=event.rank, file=event.file, line=event.line),
                evidence=(event_line(event), *_settings(job)),
                remedy="mpirun -x NAME … for every NCCL_ variable   # srun --export=ALL; "
                "torchrun: export on every host",
                confidence="inferred",
            )
        )
        return


def _absent_hosts(job: Job) -> int:
    """How many more nodes NCCL counts than hosts speak."""
    nodes = max((group.nodes or 0 for _, group in job.communicators), default=0)
    return max(nodes - len(job.hosts), 0)


def _settings(job: Job) -> Iterator[Evidence]:
    for told in job.told:
        if told.process.environment:
            names = listed(f"{k}={v}" for k, v in told.process.environment.items())
            yield Evidence(basis="asked", text=f"{told.process.host} has {names}")
            return


def _overridden(job: Job, dossier: Dossier, docket: Docket) -> None:
    """A value that a file of the dossier sets, and another that NCCL says it read."""
    for variables in dossier.variables:
        for name, wanted in variables.variables.items():
            if "$" in wanted:
                continue  # not expanded
            for told in job.told:
                value = told.process.environment.get(name)
                other = variables.host is not None and variables.host != told.process.host
                if value is None or value == wanted or other:
                    continue
                docket.add(
                    Finding(
                        code="setting-overridden",
                        severity="warning",
                        summary=f"{variables.file} sets {name}={wanted}, but NCCL on "
                        f"{told.process.host} read {name}={value}: another place decides.",
                        where=Where(
                            host=told.process.host, file=told.log.file, line=told.place(name)[1]
                        ),
                        evidence=(
                            Evidence(basis="claimed", text=f"{variables.file}: {name}={wanted}"),
                            *line_of(told, name),
                        ),
                        remedy=f"env | grep {name}; cat ~/.nccl.conf /etc/nccl.conf   # keep "
                        "it in one place",
                        confidence="asked",
                    )
                )
                return
