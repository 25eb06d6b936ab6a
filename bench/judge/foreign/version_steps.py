"""Where a list of figures over versions takes a step: between which two, and how large.

In: figures with a version each. Out: regressed or improved, for the largest step that stands out
of the scatter on both of its sides. One figure a version has no interval, so the scatter of the
neighbours is all that there is to hold it against; a list that wanders has no step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.judge.docket import Docket
from bench.records import Dossier, Evidence, Finding, PlainFigure, Where

# The smallest change worth a name, and how far beyond the largest wobble on either side it must
# be: single runs of one job scatter by 10 % (see facts on statistics).
LEAST_CHANGE = 0.10
BEYOND_SCATTER = 3.0
FEWEST = 3
SHOWN = 12


def judge(dossier: Dossier, docket: Docket) -> None:
    """At most one finding a list."""
    for figures in _lists(dossier):
        finding = _step(figures)
        if finding is not None:
            docket.add(finding)


def sentences(dossier: Dossier) -> tuple[str, ...]:
    """Level on both sides of the step, or that there is none."""
    return tuple(_told(figures) for figures in _lists(dossier))


def _lists(dossier: Dossier) -> list[list[PlainFigure]]:
    """Figures by file and by all labels but the version, in the order of versions."""
    groups: dict[tuple[str, tuple[tuple[str, str], ...], int | None], list[PlainFigure]] = {}
    for figure in dossier.figures:
        if _version(figure):
            rest = tuple(sorted((k, v) for k, v in figure.labels.items() if not _is_version(k)))
            groups.setdefault((figure.file, rest, figure.size_bytes), []).append(figure)
    return [
        sorted(group, key=lambda f: _order(_version(f) or ""))
        for group in groups.values()
        if len({_version(f) for f in group}) >= FEWEST
    ]


def _is_version(column: str) -> bool:
    return column.lower() in ("version", "nccl", "nccl_version", "driver", "driver_version", "tag")


def _version(figure: PlainFigure) -> str | None:
    """ "2.11.4" of "v2.11.4-1": without the package's own number."""
    value = next((v for k, v in figure.labels.items() if _is_version(k)), None)
    if value is None or not re.match(r"[vV]?\d", value):
        return None
    return re.sub(r"-\d+\Z", "", value.lstrip("vV"))


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", version))


def _split(figures: Sequence[PlainFigure]) -> int | None:
    """The place of the first figure behind the step, or None."""
    values = [figure.busbw_gbs for figure in figures]
    if min(values) <= 0:
        return None
    at = max(range(1, len(values)), key=lambda i: abs(_change(values, i)))
    change = abs(_change(values, at))
    scatter = max(_scatter(values[:at]), _scatter(values[at:]))
    return at if change >= max(LEAST_CHANGE, BEYOND_SCATTER * scatter) else None


def _change(values: Sequence[float], at: int) -> float:
    """Relative to the larger one, so that up and down weigh alike."""
    before, after = values[at - 1], values[at]
    return (after - before) / max(before, after)


def _scatter(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / max(values)


def _step(figures: Sequence[PlainFigure]) -> Finding | None:
    at = _split(figures)
    if at is None:
        return None
    last, first = figures[at - 1], figures[at]
    change = first.busbw_gbs / last.busbw_gbs - 1
    worse = change < 0
    good, bad = _version(last), _version(first)
    steps = "one step" if len(figures) > FEWEST else "a step"
    return Finding(
        code="regressed" if worse else "improved",
        severity="degraded" if worse else "info",
        summary=f"{steps} between {good} and {bad}: {last.busbw_gbs:g} to {first.busbw_gbs:g} "
        f"GB/s ({100 * change:+.1f} %), stable on both sides.",
        where=Where(file=first.file, line=first.line),
        evidence=(
            Evidence(basis="measured", text=_listed(figures)),
            Evidence(
                basis="inferred",
                text=f"the last {'good' if worse else 'slow'} version is {good}, the first "
                f"{'bad' if worse else 'fast'} one {bad}; one run each has no interval, so repeat "
                "these two, in turns",
            ),
        ),
        remedy=f"stay with {good} until the cause is known" if worse else None,
        confidence="measured",
    )


def _listed(figures: Sequence[PlainFigure]) -> str:
    told = [f"{_version(f)} {f.busbw_gbs:g}" for f in figures[:SHOWN]]
    more = f" and {len(figures) - SHOWN} more" if len(figures) > SHOWN else ""
    return ", ".join(told) + more


def _told(figures: Sequence[PlainFigure]) -> str:
    at = _split(figures)
    values = [figure.busbw_gbs for figure in figures]
    if at is None:
        return f"{len(figures)} versions between {min(values):g} and {max(values):g} GB/s, no step"
    before, after = values[:at], values[at:]
    return (
        f"{len(figures)} versions: {min(before):g} to {max(before):g} GB/s up to "
        f"{_version(figures[at - 1])}, {min(after):g} to {max(after):g} GB/s from "
        f"{_version(figures[at])} on; on two hosts busbw above the wire's rate is no error, as "
        "Tree keeps a part on NVLink"
    )
