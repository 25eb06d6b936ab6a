"""What each node would launch, in words: a command for nodes alike, and what files leave open.

In: a Diagnosis. Out: pairs of a label and a sentence, for a screen or a page. Nothing is judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bench.hang.scene import rank_words
from bench.records import Diagnosis, NodeLaunch
from bench.report.text import printable

SHOWN = 6
LABEL = "launches"
_RANK = re.compile(r"--node-rank \d+")


def pairs(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """The first commands, those of nodes that differ in their rank as one, with the files that
    they come from; then what is undecided."""
    commands: dict[str, list[NodeLaunch]] = {}
    for launch in diagnosis.launches:
        alike = _RANK.sub("--node-rank", launch.command)
        commands.setdefault(alike, []).append(launch)
    for alike, launches in list(commands.items())[:SHOWN]:
        told = [launch.node_rank for launch in launches if launch.node_rank is not None]
        ranks = rank_words(sorted(set(told))).partition(" ")[2] if told else ""
        command = alike.replace("--node-rank", f"--node-rank {ranks}", 1) if ranks else alike
        name = printable(launches[0].file.rpartition("/")[2])
        more = f" and {len(launches) - 1:,} more" if len(launches) > 1 else ""
        yield LABEL, f"{printable(command)}   ({name}{more})"
    if len(commands) > SHOWN:
        yield LABEL, f"… {len(commands) - SHOWN:,} more in --json"
    for label, text in diagnosis.undecided:
        yield label, printable(text)
