"""Launch files into findings, and what each node would launch.

In: all launch files at hand. Out: findings on the docket, NodeLaunches and sentences for people.
What the files do not decide is said as such: machines whose files are not at hand, values that
only the running job knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

import msgspec

from bench.hang.accelerate import (
    agreement,
    endpoint,
    fields,
    jobs,
    node_launch,
    processes,
    ranks,
    sections,
    values,
)
from bench.hang.accelerate.jobs import Job, LaunchFiles
from bench.judge.docket import Docket
from bench.records import Evidence, Finding, NodeLaunch

MOST_LAUNCHES = 1024
RULES = (
    processes.judge, ranks.judge, endpoint.judge, agreement.judge, sections.judge, fields.judge,
)  # fmt: skip


def judge(files: LaunchFiles, docket: Docket) -> tuple[NodeLaunch, ...]:
    """Every rule on every job; the launches in order of jobs and ranks."""
    launches: list[NodeLaunch] = []
    own = Docket()
    for job in jobs.together(files):
        for rule in RULES:
            rule(job, own)
        launches += [node_launch.launch(node) for node in job.nodes]
    short = _short(files)
    for each in _merged(own.findings):
        docket.add(_named_shortly(each, short))
    return tuple(launches[:MOST_LAUNCHES])


def _merged(findings: Sequence[Finding]) -> list[Finding]:
    """One finding for what is said of several commands in the same words."""
    alike: dict[tuple[str, str | None, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.code, finding.kind, finding.summary), []).append(finding)
    merged = []
    for first, *others in alike.values():
        if others:
            places = [f"{each.where.file}:{each.where.line}" for each in others]
            text = f"the same at {values.joined(places, 4)}"
            evidence = (*first.evidence, Evidence(basis="asked", text=text))
            merged.append(msgspec.structs.replace(first, evidence=evidence))
        else:
            merged.append(first)
    return merged


def _short(files: LaunchFiles) -> dict[str, str]:
    """Each file's name for sentences: with its folder where another has the same name."""
    listed = {config.file for config in files.configs} | {line.file for line in files.hosts}
    listed |= {command.file for command in files.commands}
    listed |= {each.file for each in files.deepspeed}
    names = Counter(PurePath(file).name for file in listed)
    return {
        file: PurePath(file).name
        if names[PurePath(file).name] == 1
        else "/".join(PurePath(file).parts[-2:])
        for file in sorted(listed, key=len, reverse=True)
    }


def _named_shortly(finding: Finding, short: dict[str, str]) -> Finding:
    def said(text: str) -> str:
        for file, name in short.items():
            if file in text:
                text = text.replace(file, name)
        return text

    return msgspec.structs.replace(
        finding,
        summary=said(finding.summary),
        evidence=tuple(Evidence(basis=e.basis, text=said(e.text)) for e in finding.evidence),
    )


def facts(files: LaunchFiles) -> tuple[tuple[str, str], ...]:
    """What is not at hand, one sentence for each job that lacks something."""
    told: list[tuple[str, str]] = []
    for job in jobs.together(files):
        if sentence := _unranked(job) or _absent(job) or _open(job):
            told.append(("open", sentence))
    return tuple(told[:4])


def _absent(job: Job) -> str:
    """Machines of which neither file nor command is at hand."""
    machines = job.machines or 1
    known = {node.rank for node in job.nodes if node.rank is not None and node.ranks_count}
    several = [node for node in job.nodes if node.command and node.command.starter.name]
    if machines < 2 or not known or several or len(job.nodes) >= machines or machines > 4096:
        return ""
    missing = [rank for rank in range(machines) if rank not in known]
    if not missing:
        return ""
    noun = "machine" if len(missing) == 1 else "machines"
    beside = PurePath(job.nodes[0].file).name
    return (
        f"what starts {noun} {values.joined(missing)} of {machines} is not here, beside {beside}"
    )


def _unranked(job: Job) -> str:
    """No rank on the command line and no file at hand: the host's default one decides, if any."""
    for node in job.nodes:
        option = node.option("config_file")
        if node.command is None or not node.is_accelerate or option is not None or node.config:
            continue
        if (node.machines or 1) > 1 and node.rank_setting is None and not node.starts_others:
            return (
                "no --machine_rank: it comes from each host's default configuration; where there "
                "is none, Accelerate ends with a TypeError"
            )
    return ""


def _open(job: Job) -> str:
    """Values that are variables, or stand in a file that is not at hand."""
    found = []
    for node in job.nodes:
        for name in ("num_machines", "num_processes", "machine_rank", "main_process_ip"):
            setting = node.get(name) if node.is_accelerate else None
            if setting is not None and values.is_open(setting):
                found.append(f"{name} {setting.value}")
    if not found:
        return ""
    unique = list(dict.fromkeys(found))
    return f"not decided by the files: {values.joined(unique, 4)}"
