"""One test measured under several states: as filed, after one change, after two.

In: figures of a list or CSV with a column that names the state. Out: what each test reached in
each state, and its share of a wire test (perftest, iperf) of the same list. Nothing is accused: a
list without repetitions shows differences, not their certainty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.judge.words import percent
from bench.records import Dossier, Evidence, PlainFigure

STATE_COLUMNS = ("state", "config", "configuration", "variant", "step", "setting", "settings")
TEST_COLUMNS = ("test", "collective", "benchmark", "op", "operation")
# Programs that measure the wire itself, one flow of large messages.
WIRE_TESTS = ("ib_write_bw", "ib_read_bw", "ib_send_bw", "perftest", "qperf", "iperf", "iperf3")
SHOWN = 6


def measured(dossier: Dossier) -> tuple[Evidence, ...]:
    """The sentences as evidence, for a finding whose cause these states changed."""
    return tuple(Evidence(basis="measured", text=text) for text in sentences(dossier))


def sentences(dossier: Dossier) -> tuple[str, ...]:
    """ "sendrecv on 2 ranks: 13.1 GB/s as_filed (27 % of ib_write_bw's 49.1), …"."""
    files: dict[str, list[PlainFigure]] = {}
    for figure in dossier.figures:
        files.setdefault(figure.file, []).append(figure)
    return tuple(text for figures in files.values() for text in _of_file(figures))


def _of_file(figures: Sequence[PlainFigure]) -> Iterator[str]:
    state = _column(figures, STATE_COLUMNS)
    test = _column(figures, TEST_COLUMNS)
    if state is None:
        return
    wires = [f for f in figures if _is_wire(f)]
    groups: dict[tuple[str, int | None], list[PlainFigure]] = {}
    for figure in figures:
        if not _is_wire(figure):
            name = figure.labels.get(test, "") if test else ""
            groups.setdefault((name, figure.ranks), []).append(figure)
    for (name, ranks), group in groups.items():
        if len({f.labels.get(state) for f in group}) < 2:
            continue
        wire = next((w for w in wires if w.ranks == ranks), None)
        on = f" on {ranks} ranks" if ranks else ""
        told = [_figure(f, state, wire) for f in group[:SHOWN]]
        yield f"{name or 'busbw'}{on}: {', '.join(told)}"


def _figure(figure: PlainFigure, state: str, wire: PlainFigure | None) -> str:
    share = ""
    if wire is not None and wire.busbw_gbs > 0:
        names = [value for value in wire.labels.values() if value.lower() in WIRE_TESTS]
        of = max(names, key=len)  # ib_write_bw rather than perftest
        share = f" ({percent(figure.busbw_gbs / wire.busbw_gbs)} of {of}'s {wire.busbw_gbs:g})"
    return f"{figure.busbw_gbs:g} GB/s {figure.labels.get(state, '')}{share}"


def _is_wire(figure: PlainFigure) -> bool:
    return any(value.lower() in WIRE_TESTS for value in figure.labels.values())


def _column(figures: Sequence[PlainFigure], names: Sequence[str]) -> str | None:
    """The labels' own spelling of one of these columns."""
    for figure in figures:
        for label in figure.labels:
            if label.lower() in names:
                return label
    return None
