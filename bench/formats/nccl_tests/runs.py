"""Which drafts are one run, several that printed over each other, or one after the other.

In: the drafts of every stream. Out: the same, cut and joined, with `runs` set. A test that was
built without MPI=1 but started by mpirun runs N times side by side: each process calls itself rank
0 and prints a table of its own (NVIDIA/nccl-tests#71, #107, #213). Two attempts in a row, of which
the first died early, look much alike and are told apart by whose rank 0 owns which process.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from dataclasses import replace

from bench.formats.nccl_tests.drafts import Draft
from bench.records import TableDevice

_MOST_ATTEMPTS = 64  # nobody tries more often without a table; a launcher starts more at once
# Two rows out of place are a paste; programs side by side take turns until one of them ends.
_FEWEST_TURNS, _MOST_WOVEN, _LONGEST_SIZE = 3, 64, 18
_FEWEST_SIZES, _ROUNDED = 4, 1.1  # sizes are rounded down to whole elements a rank
_MOST_AT_ONCE = 1024  # tables compared with each one: more programs are not counted exactly


def resolve(streams: list[list[Draft]]) -> list[Draft]:
    """All drafts in the order of their first lines, each with the number of its runs."""
    resolved: list[list[Draft]] = []
    for drafts in streams:
        joined = _join(drafts)
        resolved.append([piece for draft in joined for piece in _alone(draft)])
    _side_by_side(resolved)
    return sorted((draft for drafts in resolved for draft in drafts), key=lambda each: each.line)


def _join(drafts: list[Draft]) -> list[Draft]:
    """Programs that printed over each other from the first one's first rows on.

    The second one's first lines began a draft of its own. Then both ends are there, while the
    first draft has none: put the pieces together again.
    """
    joined: list[Draft] = []
    for draft in drafts:
        first = joined[-2] if len(joined) > 1 else None
        last = joined[-1] if joined else None
        if last and _open_ended(last) and len(draft.averages) == 2 and len(draft.headers) < 2:
            joined[-1] = _together(last, draft)
        elif (
            first
            and last
            and _open_ended(first)
            and (len(last.averages), len(draft.averages)) == (1, 1)
            and last.starts
            and not (draft.starts or draft.headers or draft.devices)
        ):
            joined[-2:] = [_together(_together(first, last), draft)]
        else:
            joined.append(draft)
    return joined


def _open_ended(draft: Draft) -> bool:
    return bool(draft.rows) and not draft.averages and not draft.failures


def _together(first: Draft, second: Draft) -> Draft:
    return replace(
        first,
        last_line=second.last_line,
        starts=first.starts + second.starts,
        headers=first.headers + second.headers,
        devices=first.devices + second.devices,
        rows=first.rows + second.rows,
        averages=first.averages + second.averages,
        out_of_bounds=first.out_of_bounds + second.out_of_bounds,
        first_ranks=first.first_ranks + second.first_ranks,
    )


def _overlaid(draft: Draft, programs: int) -> Draft:
    return replace(draft, overlaid=programs, runs=programs)


def _alone(draft: Draft) -> list[Draft]:
    """The draft with its number of runs, or its attempts one after the other."""
    if draft.programs == 1:
        woven = _woven(draft)
        return [_overlaid(draft, woven) if woven > 1 else draft]
    overlapping = len(draft.headers) > 1 or len(draft.averages) > 1
    if draft.first_ranks > 1:
        processes = _processes(draft.devices)
        independent = sum(1 for ranks in processes.values() if 0 in ranks)
        whole = independent == len(processes) and independent > 1
        hosts = {device.host for _, device in draft.devices if device.rank == 0}
        if whole and (overlapping or _adjacent(draft) or len(hosts) > 1):
            return [_overlaid(draft, independent)]
        if overlapping:
            return [_overlaid(draft, draft.first_ranks)]
        return _attempts(draft)
    if overlapping:
        return [_overlaid(draft, max(len(draft.headers), len(draft.averages)))]
    if draft.devices and draft.starts[-1] > draft.devices[-1][0]:
        return _attempts(draft)  # the second did not come as far as its devices
    return [draft]


def _woven(draft: Draft) -> int:
    """How many programs' rows take turns, where their first lines are not in the file: each goes
    through the same sizes, upwards. One that goes through them again and again (-N) takes no
    turns."""
    sizes: list[list[int]] = []  # of each program so far
    turns, before = 0, -1
    for _, text in draft.rows:
        word = text.split(None, 1)[0]
        if not word.isdecimal() or len(word) > _LONGEST_SIZE:
            return 1
        size = int(word)
        if not size:  # sizes below one element a rank, which every table may begin with
            continue
        smaller = [at for at, own in enumerate(sizes) if own[-1] < size]
        mine = max(smaller, key=lambda at: sizes[at][-1]) if smaller else len(sizes)
        if mine == len(sizes):
            if mine == _MOST_WOVEN:
                return 1
            sizes.append([])
        elif mine != before:
            turns += 1
        sizes[mine].append(size)
        before = mine
    longest = max(sizes, key=len, default=[])
    alike = all(len(own) > 1 and own == longest[: len(own)] for own in sizes)
    return len(sizes) if alike and _regular(longest) and turns >= _FEWEST_TURNS else 1


def _regular(sizes: list[int]) -> bool:
    """Whether sizes go by a factor or a step, as a test's do."""
    if len(sizes) < _FEWEST_SIZES:
        return False
    pairs = list(itertools.pairwise(sizes))
    steps = {larger - smaller for smaller, larger in pairs}
    factors = {larger / smaller for smaller, larger in pairs}
    return len(steps) == 1 or max(factors) < _ROUNDED * min(factors)


def _processes(devices: list[tuple[int, TableDevice]]) -> dict[tuple[str, int | None], set[int]]:
    """The ranks of each process; of each host where no pid is printed."""
    processes: dict[tuple[str, int | None], set[int]] = {}
    for _, device in devices:
        processes.setdefault((device.host, device.pid), set()).add(device.rank)
    return processes


def _adjacent(draft: Draft) -> bool:
    """Whether two programs printed their first lines before either listed a device."""
    listed = [line for line, _ in draft.devices]
    return any(
        bisect_left(listed, first) == bisect_left(listed, second)
        for first, second in zip(draft.starts, draft.starts[1:], strict=False)
    )


def _attempts(draft: Draft) -> list[Draft]:
    """One draft per attempt: each begins with its first line, or with its rank 0."""
    begins = sorted(
        {draft.line, *draft.starts}
        if len(draft.starts) > 1
        else {draft.line, *[line for line, each in draft.devices if each.rank == 0][1:]}
    )
    begins = [line for line in begins if line == begins[0] or line > draft.line]
    if len(begins) > _MOST_ATTEMPTS:
        return [_overlaid(draft, draft.programs)]
    pieces: list[Draft] = []
    for at, begin in enumerate(begins):
        end = begins[at + 1] - 1 if at + 1 < len(begins) else draft.last_line
        devices = [each for each in draft.devices if begin <= each[0] <= end]
        starts = [line for line in draft.starts if begin <= line <= end]
        if at + 1 < len(begins) and not devices and len(begins) > 1:
            continue  # died before it told anything
        piece = replace(
            draft,
            line=begin,
            last_line=end,
            starts=starts,
            devices=devices,
            first_ranks=sum(1 for _, each in devices if each.rank == 0),
        )
        if at + 1 < len(begins):
            piece.headers, piece.rows, piece.averages = [], [], []
            piece.out_of_bounds, piece.bitwise, piece.layout = [], None, None
            piece.failures = [each for each in draft.failures if begin <= each[0] <= end]
        pieces.append(piece)
    return pieces


def _side_by_side(streams: list[list[Draft]]) -> None:
    """Ranks of one launch (told apart by the launcher's numbers) that print a table each.

    Not those of pdsh, ssh or pods: a run per host is what was asked for there.
    """
    ranked = sorted(
        (
            draft
            for drafts in streams
            for draft in drafts
            if len(draft.stream) > 1 and draft.stream[1] is not None and draft.runs == 1
        ),
        key=lambda draft: draft.line,
    )
    together: list[set[tuple[object, ...]]] = [{draft.stream} for draft in ranked]
    for at, draft in enumerate(ranked):
        for other in range(at + 1, min(at + _MOST_AT_ONCE, len(ranked))):
            if ranked[other].line > draft.last_line:
                break
            together[at].add(ranked[other].stream)
            together[other].add(draft.stream)
    for draft, others in zip(ranked, together, strict=True):
        draft.runs = len(others)
