"""Launch files as evidence for `diagnose`: configurations, scripts, lists of hosts.

In: opened files. Out: their records, the findings of bench/hang/accelerate, and for the Diagnosis
what each node would launch. The phase is launch where nothing shows that the job came further.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bench.formats import (
    accelerate_config,
    accelerate_env,
    deepspeed_config,
    host_facts,
    host_slots,
    launch_command,
    variables_file,
)
from bench.formats.source import Source
from bench.hang.accelerate import judgement
from bench.hang.accelerate.jobs import LaunchFiles
from bench.judge.docket import Docket
from bench.judge.foreign import launches
from bench.records import (
    AccelerateConfig,
    BadInput,
    CollectiveTable,
    DeepspeedConfig,
    Dossier,
    HostLine,
    LaunchCommand,
    NodeLaunch,
    Record,
    Variables,
)

if TYPE_CHECKING:
    from bench.commands.evidence import Evidence

CONFIG, DEEPSPEED = accelerate_config.KIND, deepspeed_config.KIND
SCRIPT, HOSTS, FACTS = launch_command.KIND, host_slots.KIND, host_facts.KIND
# Those that say a job cannot start as its files have it.
STARTS = ("processes", "machine-rank", "address", "port", "refused")


def read_config(source: Source) -> Sequence[Record]:
    """A configuration; of a bug report also the versions that it tells."""
    configs: list[Record] = [*accelerate_config.read(source)]
    if isinstance(configs[0], AccelerateConfig) and configs[0].form == "report":
        with contextlib.suppress(BadInput):  # a report of nothing but the configuration
            configs += accelerate_env.read(source)
    return configs


def read_script(source: Source) -> Sequence[Record]:
    """Commands, and the variables that the script sets."""
    told: list[Record] = [*launch_command.read(source)]
    try:
        told += variables_file.read(source)
    except BadInput:
        if not told:
            raise
    return told


def describe(records: Sequence[Record]) -> str:
    """Of a file of any of these kinds."""
    commands = [each for each in records if isinstance(each, LaunchCommand)]
    configs = [each for each in records if isinstance(each, AccelerateConfig)]
    if configs and not commands:
        kind = configs[0].values.get("distributed_type")
        number = f"{len(configs)} configurations, " if len(configs) > 1 else ""
        return f"{number}{kind.value if kind else 'no distributed_type'}"
    if commands:
        return commands[0].launcher if len(commands) == 1 else f"{len(commands)} launches"
    hosts = sum(isinstance(each, HostLine) for each in records)
    return f"{hosts} host{'s' if hosts != 1 else ''}" if hosts else "settings"


def variables(evidence: Evidence) -> list[Record]:
    """What launch scripts set, for the judges of settings."""
    return [each for each in evidence.of(SCRIPT) if isinstance(each, Variables)]


def were_read(evidence: Evidence) -> bool:
    """Whether anything says how the job was started."""
    return bool(_files(evidence))


def launched(evidence: Evidence) -> tuple[NodeLaunch, ...]:
    """What each node would launch, without a word about it."""
    return judgement.judge(_files(evidence), Docket())


def judge(evidence: Evidence, docket: Docket, _selection: object) -> dict[str, Any]:
    """The rules on all launch files together."""
    records = [each for told in evidence.records.values() for each in told]
    tables = tuple(each for each in records if isinstance(each, CollectiveTable))
    if tables:
        launches.judge(Dossier(tables=tables), docket)
    files = _files(evidence)
    if not files:
        return {}
    return {"launches": judgement.judge(files, docket), "undecided": judgement.facts(files)}


def phase(evidence: Evidence, docket: Docket, _selection: object) -> dict[str, Any]:
    """Launch, where a finding of its files is serious and no other evidence tells the phase."""
    codes = {f"accelerate-{name}" for name in STARTS}
    broken = any(
        each.severity == "broken"
        and (each.code in codes or (each.code == "launcher-world-size" and each.kind in STARTS))
        for each in docket.findings
    )
    return {"phase": "rendezvous"} if broken and _files(evidence) else {}


def _files(evidence: Evidence) -> LaunchFiles:
    configs = [*evidence.of(CONFIG), *evidence.of(SCRIPT)]  # a script may write them
    return LaunchFiles(
        configs=[each for each in configs if isinstance(each, AccelerateConfig)],
        commands=[each for each in evidence.of(SCRIPT) if isinstance(each, LaunchCommand)],
        deepspeed=[each for each in evidence.of(DEEPSPEED) if isinstance(each, DeepspeedConfig)],
        hosts=[
            each
            for each in (*evidence.of(HOSTS), *evidence.of(FACTS))
            if isinstance(each, HostLine)
        ],
    )
