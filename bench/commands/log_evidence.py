"""Rank logs and what else a job left as text, as evidence for `diagnose`.

In: opened files. Out: RankLogs, with all that the formats of `read` find in the same files (NCCL's
own lines, tables, variables of scripts), and what follows: first faults before the dumps are
heard, hangs that nothing explains after them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, cast

from bench.commands import launch_evidence
from bench.formats import description, rank_log, recognition
from bench.formats.prefix import Stripper
from bench.formats.rank_log import passages, stamps
from bench.formats.rank_log.nccl_part import WHOLE_BYTES
from bench.hang import endpoints, logs, phases
from bench.judge.docket import Docket
from bench.judge.foreign import logs as nccl_logs
from bench.records import BadInput, Dossier, RankLog, Record

if TYPE_CHECKING:
    from bench.commands.evidence import Evidence, Opened

LOG, OTHER = "rank log", "other evidence"
DOCKER = passages.DOCKER.decode()
SURE, UNSURE = 1.0, 0.5  # what else a log holds, its reader finds out
_NAME = re.compile(r"rank|std(?:out|err)|console|\.(?:log|out|err)(?:\.\w{1,4})*$", re.IGNORECASE)
_WORDS = re.compile(
    r"Traceback \(most recent|NCCL (?:INFO|WARN)|ProcessGroupNCCL|torch/distributed"
    r"|\[rank\d{1,7}\]|NVRM: Xid|\bstep\W{1,3}\d|^\w[\w.]{0,100}Error: ",
    re.MULTILINE,
)
# A script's or a table's own formats; figures_list takes any numbers.
_NOT_OTHER = ("nccl_log", "figures_list")
LEAST_STAMPED = 2  # lines with a time, of the beginning


def log_likeness(head: str, name: str) -> float:
    """A text whose name or beginning is a log's."""
    if "\ufffd\ufffd" in head[:64]:
        return 0.0
    start = head.lstrip()[:1]
    if head.startswith(DOCKER):
        return SURE
    if start == "{":
        return 1.0 if '"extraInfo"' in head and '"message"' in head else 0.0
    if _WORDS.search(head) or _NAME.search(name):
        return SURE
    lines = head.split("\n")[:40]
    return UNSURE if sum(stamps.of(line) is not None for line in lines) >= LEAST_STAMPED else 0.0


def other_likeness(head: str, name: str) -> float:
    """What `read` knows besides logs, such as a launch script."""
    stripped = Stripper.of_lines(head.split("\n"))
    heads = [head, "\n".join(stripped.strip(line)[1] for line in head.split("\n"))]
    sure = [
        max(each.load().likeness(one, name) for one in heads)
        for each in recognition.FORMATS
        if each.module not in _NOT_OTHER
    ]
    return min(max(sure, default=0.0), 0.55)  # a log that holds a table is a log first


def read_logs(files: Sequence[Opened]) -> list[Sequence[Record] | BadInput]:
    """All logs side by side; of a small one also what `read` finds in it."""
    return rank_log.side_by_side(_log, files)


def read_others(files: Sequence[Opened]) -> list[Sequence[Record] | BadInput]:
    return [_other(opened) for opened in files]


def describe_log(records: Sequence[Record]) -> str:
    log = cast(RankLog, records[0])
    ranks = sorted({s.rank for s in log.streams if s.rank is not None})
    who = f"rank {ranks[0]}, " if len(ranks) == 1 else f"{len(ranks)} ranks, " if ranks else ""
    return f"{who}{log.lines:,} lines"


def describe_other(records: Sequence[Record]) -> str:
    return description.of(records)


def faults(evidence: Evidence, docket: Docket, _selection: object) -> dict[str, Any]:
    """NCCL's own words first, then whose fault was before all others."""
    view = _view(evidence)
    if view is None:
        return {}
    nccl_logs.judge(view.dossier, docket)
    logs.faults(view, docket)
    return {"ranks": named} if (named := logs.named(docket)) else {}


def hangs(evidence: Evidence, docket: Docket, _selection: object) -> dict[str, Any]:
    """What nothing explains, once all evidence was heard; and what was read."""
    view = _view(evidence)
    if view is None:
        return {}
    checked = phases.launch_files(docket.findings, were_read=launch_evidence.were_read(evidence))
    checked += endpoints.compared(view.crew, launch_evidence.launched(evidence))
    logs.hangs(view, docket, checked)
    parts: dict[str, Any] = {"facts": logs.facts(view, docket)}
    if named := logs.named(docket):
        parts["ranks"] = named
    if (phase := view.phase(docket)) is not None:
        parts["phase"] = phase
    return parts


def _view(evidence: Evidence) -> logs.View | None:
    records = [*evidence.of(LOG), *evidence.of(OTHER), *launch_evidence.variables(evidence)]
    if not records:
        return None
    lists: dict[str, list[Record]] = {}
    for record in records:
        if (field := recognition.FIELDS.get(type(record))) is not None:
            lists.setdefault(field, []).append(record)
    dossier = Dossier(**{field: tuple(told) for field, told in lists.items()})  # type: ignore[arg-type]
    return logs.View([each for each in records if isinstance(each, RankLog)], dossier)


def _log(opened: Opened) -> Sequence[Record] | BadInput:
    try:
        log, nccl = rank_log.both(opened.source)
        records: list[Record] = [log, nccl] if nccl is not None else [log]
        if opened.source.size_bytes <= WHOLE_BYTES:
            more = [each for each in _recognised(opened) if type(each) is not type(nccl)]
            records += more
    except BadInput as bad:
        return bad
    if len(records) == 1 and log.lines and not rank_log.is_told(log):
        return BadInput("holds no line of a job's log", file=opened.found.file)
    return records


def _recognised(opened: Opened) -> list[Record]:
    """Tables, variables and bare NCCL lines of a small file."""
    if PurePath(opened.found.file).suffix == ".json":
        return []
    modules = [m for m in recognition.kinds(opened.source) if m.KIND != "figures-list"]
    found: list[Record] = []
    for module in modules:
        try:
            told = module.read(opened.source)
        except BadInput:
            continue
        found += [told] if isinstance(told, Record) else list(told)
    return found


def _other(opened: Opened) -> Sequence[Record] | BadInput:
    try:
        told, _ = recognition.read(opened.source)
    except BadInput as bad:
        return bad
    return told or BadInput("tells nothing of a job", file=opened.found.file)
