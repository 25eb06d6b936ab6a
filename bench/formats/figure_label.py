"""What the labels of a list of figures are: pairs of hosts, versions, sizes, or just names.

In: the labels of all lines. Out: for each the hosts, the version, the size. Two words are hosts
only where a sign joins them (a comma, an arrow) or where names come again in other lines, as in a
list of pairs; "before fix" is no pair.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_HOST = re.compile(r"(?:[A-Za-z][A-Za-z0-9._-]{0,62}|\d{1,3}(?:\.\d{1,3}){3})\Z")
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}\Z")
_NUMBER = re.compile(r"\d{3,6}\Z")  # of a node
_LETTER = re.compile(r"[A-Za-z]\d{1,6}\Z")
_SPACE = re.compile(r"[\s,;]+")
_JOINED = re.compile(r"\s{0,4}(?:<->|<=>|->|=>|↔|→|,|;|&|\+|/|\bvs\.?\s|\band\s|\bto\s)\s{0,4}")
_VERSION = re.compile(
    r"[vV]?\d{1,4}(?:\.\d{1,4}){1,4}(?:[-+]\d{1,4})?(?:[-+.]?[a-z]{1,12}[\d.]{0,12})?\Z"
)
_SIZE = re.compile(r"(?P<number>\d{1,15}(?:\.\d{1,3})?)\s{0,2}(?P<unit>[KMGT]?i?B?)\Z")
_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
# A list of versions has at least this share of them; "driver 535.54: …" among names is a name.
SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Label:
    """One label; `labels` has "version" or "name" for what is no host and no size."""

    hosts: tuple[str, ...] = ()
    size_bytes: int | None = None
    labels: dict[str, str] = field(default_factory=dict)


def read(labels: list[str]) -> list[Label]:
    """Each label's meaning, in order."""
    pairs = [_pair(label) for label in labels]
    words = [label.split() for label in labels]
    if sum(pair is not None for pair in pairs) >= SHARE * len(labels):
        return [
            Label(hosts=pair) if pair else Label(labels={"name": label})
            for pair, label in zip(pairs, labels, strict=True)
        ]
    told = _telling(labels)
    if told and len(told[0]) == 2 and _come_again(told):
        return [Label(hosts=(each[0], each[1])) for each in told]
    joined = [_pair(each[0]) for each in told if len(each) == 1]
    if joined and all(joined):
        return [Label(hosts=pair) for pair in joined if pair]
    if sum(bool(_VERSION.match(each[-1])) for each in words) >= SHARE * len(labels):
        return [_versioned(each) for each in words]
    sizes = [_size(label) for label in labels]
    if all(size is not None for size in sizes):
        return [Label(size_bytes=size) for size in sizes]
    if len(set(labels)) > 1 and all(len(each) == 1 and _HOST.match(each[0]) for each in words):
        numbered = sum(each[0][-1].isdigit() for each in words)
        if numbered == len(words) and _one_stem([each[0] for each in words]):
            return [Label(hosts=(each[0],)) for each in words]
    return [Label(labels={"name": label}) for label in labels]


def _pair(label: str) -> tuple[str, str] | None:
    names = _JOINED.split(label)
    if len(names) == 2 and all(map(_HOST.match, names)) and names[0] != names[1]:
        return names[0], names[1]
    dashed = label.split("-")
    if len(dashed) == 2 and all(map(_HOST.match, dashed)) and _one_stem(dashed):
        return dashed[0], dashed[1]
    return None


def halves(label: str) -> tuple[str, str] | None:
    """Two hosts of a label that is known to be a pair: "n1-n2", "gpu-a-07-gpu-b-09", "n1:n2"."""
    told = _pair(label)
    for joint in (" ", "__", ":", "-", "_") if told is None else ():
        parts = label.split(joint)
        one, other = joint.join(parts[: len(parts) // 2]), joint.join(parts[len(parts) // 2 :])
        if len(parts) % 2 == 0 and one != other and _HOST.match(one) and _HOST.match(other):
            return one, other
    return told


def _telling(labels: list[str]) -> list[list[str]]:
    """The words of each label but for those that all labels have in the same place, such as
    "all_reduce_perf"; empty where labels have different numbers of words."""
    words = [[word for word in _SPACE.split(label) if word] for label in labels]
    if len({len(each) for each in words}) != 1:
        return []
    differ = [at for at, column in enumerate(zip(*words, strict=True)) if len(set(column)) > 1]
    if len(words[0]) <= 2 or not differ:
        return words
    if len(differ) == 1:  # pairs with one host have that in the same place
        others = {each[differ[0]] for each in words}
        alike = (at for at, word in enumerate(words[0]) if _one_stem(sorted({word, *others})))
        differ = sorted({*differ, *(at for at in alike if at not in differ)})
    return [[each[at] for at in differ] for each in words]


def _come_again(words: list[list[str]]) -> bool:
    """Whether two-word labels look like pairs of hosts: names differ and some come again."""
    names = [name for pair in words for name in pair]
    if any(one == other for one, other in words) or len(set(names)) == len(names):
        return False
    if all(map(_ADDRESS.match, names)):
        return True
    if all(map(_NUMBER.match, names)):  # sizes and counts stay in their columns, or are round
        both = {one for one, _ in words} & {other for _, other in words}
        return bool(both) and any(int(name) & (int(name) - 1) for name in names)
    return all(map(_HOST.match, names)) and _one_stem(sorted(set(names)))


def _one_stem(names: list[str]) -> bool:
    """host1 and host2, nodeA and nodeB: alike but for their end."""
    if all(_LETTER.match(name) for name in names):  # n1 and n2
        return len(set(names)) > 1 and len({name[0] for name in names}) == 1
    first, last = min(names), max(names)
    common = next(
        (at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b),
        min(len(first), len(last)),
    )
    return common >= 2 and first != last and first[:2].isalpha()


def _versioned(words: list[str]) -> Label:
    if not _VERSION.match(words[-1]):
        return Label(labels={"name": " ".join(words)})
    name = {"name": " ".join(words[:-1])} if len(words) > 1 else {}
    return Label(labels={**name, "version": words[-1]})


def _size(label: str) -> int | None:
    match = _SIZE.match(label)
    if not match:
        return None
    power = _POWER.get(match["unit"].rstrip("B").rstrip("i"), 0)
    return int(float(match["number"]) * 1024**power)


def size_of(text: str) -> int | None:
    """ "1073741824", "1G", "8 MiB" in bytes (nccl-tests' K, M, G are binary), or None."""
    return _size(text.strip())
