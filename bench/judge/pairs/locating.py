"""The order of the rounds: screen, confirm, map. A generator that asks for figures and answers.

    process = locating(hosts, ...); order = next(process); order = process.send(figures) …

It decides what to measure next from what was measured; who measures (a sweep, a simulator) only
carries out. Method and values: two rounds in which the slowest meet the fastest, then three rounds
in which each suspect meets good hosts that it has not met: five rounds at any number of hosts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterable, Sequence

import msgspec
import numpy as np

from bench.judge.pairs import suspects
from bench.judge.pairs.effects import DECIDING
from bench.judge.pairs.search import Search
from bench.judge.pairs.values import Values
from bench.judge.pairs.view import View, view
from bench.plan import rounds
from bench.plan.rounds import CONFIRMING_ROUNDS, FEW_HOSTS, MOST_ROUNDS, Pair, ordered
from bench.records import Location, PairFigure, PairRound, PairStage

__all__ = ["CONFIRMING_ROUNDS", "FEW_HOSTS", "MOST_ROUNDS", "Process", "Search", "locating"]

SUSPECT_SHARE = 0.6  # of the threshold: a screen lets a slow host through only by much luck
CLEAR = 5.0  # slowdown over scatter, from which on a suspect among few hosts is clear
NOISE_SHARE = 0.2  # of the slowdown looked for; noisier pairs are repeated until it is less
MOST_REPEATS = 9
SILENT = 2  # different partners that a host did not answer: it is not asked again
LEAF_ROUNDS = 2  # across leaves: each of a leaf's hosts meets two others
CROSSING_ROUNDS = 2  # of two hosts' NICs on a rail one is slow by chance

Process = Generator[PairRound, Sequence[PairFigure], Location]
Asking = Generator[PairRound, Sequence[PairFigure], None]


class _Book:
    """Rounds and figures so far."""

    def __init__(self, hosts: Sequence[str], search: Search) -> None:
        self.hosts, self.search = tuple(hosts), search
        self.repeats = search.repeats
        self.rounds: list[PairRound] = []
        self.figures: list[PairFigure] = []
        self.values = Values({host: at for at, host in enumerate(hosts)})
        self.before = 0  # rounds that were thrown away
        self.notes: tuple[str, ...] = ()
        self.home = search.homes(hosts) if search.leaves else None
        self._unanswered: dict[int, set[int]] = {}
        self._answered: set[int] = set()

    def ask(self, stage: PairStage, pairs: Iterable[Pair], *, shift: int = 0) -> Asking:
        """One round, without hosts that answer nobody."""
        silent = self.silent()
        wanted = [pair for pair in pairs if not silent & set(pair)]
        if not wanted:
            return
        names = tuple((self.hosts[a], self.hosts[b]) for a, b in wanted)
        paired = {name for pair in names for name in pair}
        order = PairRound(
            number=self.before + len(self.rounds),
            stage=stage,
            pairs=names,
            idle=tuple(h for h in self.hosts if h not in paired),
            repeats=self.repeats,
            rails=self.search.rails,
            shift=shift,
        )
        figures = yield order
        self.rounds.append(order)
        self.figures += figures
        self.values.extend(figures)
        answered = {figure.hosts for figure in figures if figure.outcome == "ok"}
        for pair, (a, b) in zip(names, wanted, strict=True):
            if pair in answered:
                self._answered |= {a, b}
            else:
                self._unanswered.setdefault(a, set()).add(b)
                self._unanswered.setdefault(b, set()).add(a)

    def silent(self) -> set[int]:
        """Hosts that answered nobody, though two or more were tried with them."""
        return {
            host
            for host, partners in self._unanswered.items()
            if len(partners) >= SILENT and host not in self._answered
        }

    def restart(self, repeats: int, noise: float) -> None:
        """Forget the rounds so far: few repetitions beside many would count as much as they."""
        told = (
            f"pairs scattered by {100 * noise:.1f} %: the first {len(self.rounds)} rounds do not "
            f"count, all pairs were measured again, {repeats} times instead of {self.repeats}"
        )
        self.notes = (told,)
        self.before += len(self.rounds)
        self.repeats = repeats
        self.rounds, self.figures = [], []
        self.values = Values(self.values.index)

    def met(self) -> set[Pair]:
        columns = self.values.columns()
        pairs = zip(columns.first.tolist(), columns.second.tolist(), strict=True)
        return {ordered(a, b) for a, b in pairs}

    def present(self) -> list[int]:
        silent = self.silent()
        return [at for at in range(len(self.hosts)) if at not in silent]

    def view(self) -> View | None:
        return view(self.values.columns(), self.hosts, self.search)


def locating(hosts: Sequence[str], search: Search) -> Process:
    """Rounds out, figures in; returns what was found. At least two hosts."""
    book = _Book(hosts, search)
    yield from _screen(book)
    repeats, noise = _repeats_wanted(book)
    if repeats > book.repeats:
        book.restart(repeats, noise)
        yield from _screen(book)
    yield from _confirm(book)
    index = book.values.index
    leaves = [[index[h] for h in leaf if h in index] for leaf in search.leaves]
    if leaves:
        yield from book.ask("leaves", rounds.inside_leaves(leaves, book.met()))
    for turn in range(LEAF_ROUNDS if leaves else 0):
        yield from book.ask("leaves", rounds.across_leaves(leaves, search.seed + turn))
    if search.cross_rails and len(search.rails) > 1:
        for turn in range(CROSSING_ROUNDS):
            pairs = rounds.shuffled(len(hosts), search.seed + 1 + turn)
            yield from book.ask("rails", pairs, shift=1)
    if search.map_links:
        met = book.met()
        for pairs in rounds.factorisation(len(hosts)):
            yield from book.ask("map", [pair for pair in pairs if pair not in met])
        for batch in _retests(book):
            yield from book.ask("confirm", batch)
    answer = suspects.conclude(
        book.values, tuple(book.figures), tuple(book.rounds), hosts=book.hosts, search=search
    )
    return msgspec.structs.replace(answer, notes=(*answer.notes, *book.notes))


def _screen(book: _Book) -> Asking:
    """Two rounds. Of few hosts more pairs at once: where half of them are slow, two rounds may
    hold no good pair, and all alike looks healthy."""
    count = len(book.hosts)
    if count <= FEW_HOSTS:
        for pairs in itertools.islice(rounds.factorisation(count), MOST_ROUNDS):
            yield from book.ask("screen", pairs)
        return
    yield from book.ask("screen", rounds.shuffled(count, book.search.seed, book.home))
    scores = dict.fromkeys(range(count), math.inf)
    columns = book.values.columns()
    logs = columns.slower.tolist()
    for a, b, value in zip(columns.first.tolist(), columns.second.tolist(), logs, strict=True):
        scores[a] = scores[b] = value if scores[a] == math.inf else max(scores[a], value)
    yield from book.ask("screen", rounds.repaired(scores, book.met(), book.home))


def _repeats_wanted(book: _Book) -> tuple[int, float]:
    """More repetitions where pairs scatter too much for the slowdown that is looked for; and by
    how much they do."""
    seen = book.view()
    if seen is None:
        return book.repeats, 0.0
    alike = np.median([on.found.alike for on in seen.planes])
    allowed = book.search.interest * NOISE_SHARE
    if alike < len(book.hosts) / 2 or seen.noise <= allowed:
        return book.repeats, seen.noise
    wanted = math.ceil(book.repeats * (seen.noise / allowed) ** 2)
    return min(MOST_REPEATS, wanted), seen.noise


def _confirm(book: _Book) -> Asking:
    """Up to three rounds; the suspects are chosen anew for each, for a good host that met two slow
    ones is cleared by the first, and is a yardstick in the next. Of few hosts the screen has
    measured enough, unless it is a close call."""
    suspected, links = _suspected(book)
    asked = book.search.confirm
    if asked and len(book.hosts) <= FEW_HOSTS and not suspected and not links:
        # something is slow, and no pair so far: it may be a link that has not been tried
        met = book.met()
        for pairs in rounds.factorisation(len(book.hosts)):
            yield from book.ask("confirm", [pair for pair in pairs if pair not in met])
        suspected, links = _suspected(book)
        asked = False
    for turn in range(CONFIRMING_ROUNDS):
        room = len(book.rounds) < MOST_ROUNDS
        if turn:
            suspected = _suspected(book)[0]
        if not links and not (room and (suspected or asked)) and not _close(book, suspected):
            return
        last, late = turn == CONFIRMING_ROUNDS - 1, turn > 0
        again = [] if last else links or (_norm(book) if turn == 0 else [])
        ends = [host for pair in links for host in pair] if last else []
        tried = [*suspected, *(host for host in ends if host not in suspected)]
        present = book.present()
        good = [host for host in present if host not in tried]
        among = _tried_enough(book, suspected) if late else []
        pairs = rounds.confirming(
            [host for host in tried if host in present], good, again, book.met(), among,
            book.home,
        )  # fmt: skip
        yield from book.ask("confirm", pairs)


def _close(book: _Book, suspected: Sequence[int]) -> bool:
    """Whether a few more measurements could turn the answer on some suspect among few hosts."""
    seen = book.view()
    if seen is None or not suspected or len(book.hosts) > FEW_HOSTS:
        return False
    chosen = list(suspected)
    return any(
        on.found.alike < DECIDING
        or bool((on.middles[chosen] < CLEAR * on.scatter).any())
        or bool(on.doubtful[chosen].any())
        for on in seen.planes
    )


def _suspected(book: _Book) -> tuple[list[int], list[Pair]]:
    """Hosts slow in all they did, worst first, and slow pairs of otherwise good hosts; on any
    rail."""
    seen = book.view()
    if seen is None:
        return [], []
    worst: dict[int, float] = {}
    for on in seen.planes:
        scores = np.where(np.isnan(on.found.scores), np.inf, on.found.scores)
        doubtful = on.met & (scores > on.found.threshold * SUSPECT_SHARE)
        for host in np.flatnonzero(doubtful).tolist():
            worst[host] = max(worst.get(host, 0.0), float(scores[host]))
    slow = sorted((h for h in book.present() if h in worst), key=lambda host: -worst[host])
    links: list[Pair] = []
    for on in seen.planes:
        rows = np.flatnonzero(on.above > on.found.threshold)
        ends = zip(on.columns.first[rows].tolist(), on.columns.second[rows].tolist(), strict=True)
        links += (ordered(a, b) for a, b in ends if a not in worst and b not in worst)
    return slow, _disjoint(links)


def _norm(book: _Book) -> list[Pair]:
    """The good pairs, where so few of them say what good is that they are measured again."""
    seen = book.view()
    if seen is None or min(on.found.alike for on in seen.planes) >= DECIDING:
        return []
    pairs: list[Pair] = []
    for on in seen.planes:
        first, second = on.columns.first[on.both_good], on.columns.second[on.both_good]
        pairs += map(ordered, first.tolist(), second.tolist())
    return _disjoint(pairs)


def _tried_enough(book: _Book, suspected: Sequence[int]) -> list[int]:
    """Suspects that have met good hosts enough to be accused: let them meet each other."""
    seen = book.view()
    if seen is None:
        return []
    counts = np.max([on.found.counts for on in seen.planes], axis=0)
    return [host for host in suspected if counts[host] >= DECIDING]


def _retests(book: _Book) -> list[list[Pair]]:
    """Links that a map shows slow, three times again, as few rounds as disjointness allows."""
    doubtful = suspects.doubtful_links(book.values, book.hosts, book.search)
    batches: list[list[Pair]] = []
    while doubtful:
        now = _disjoint(doubtful)
        batches += [now] * CONFIRMING_ROUNDS
        doubtful = [pair for pair in doubtful if pair not in set(now)]
    return batches


def _disjoint(pairs: Sequence[Pair]) -> list[Pair]:
    """As many as share no host, in order."""
    taken: set[int] = set()
    chosen = []
    for a, b in dict.fromkeys(pairs):
        if a not in taken and b not in taken:
            taken |= {a, b}
            chosen.append((a, b))
    return chosen
