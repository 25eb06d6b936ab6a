"""A YAML or JSON text as a tree in which every value knows its line; nothing of it is executed.

In: a text. Out: one tree per document. Built from the parser's events, so that a bomb costs what
is read of it: aliases, tags and merge keys are refused, depth, size and number of values are
limited. Values are what YAML 1.1 makes of them (`no` is False, as Accelerate's reader has it).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from bench.records import BadInput

MOST_BYTES = 1 << 20  # a config has 1 KB, a generated DeepSpeed JSON some ten
MOST_VALUES = 20_000
DEEPEST = 24
# Longer ones are no number and no word that YAML knows; int() of a long text costs its square.
LONGEST_RESOLVED = 40
_OWN_TAGS = "tag:yaml.org,2002:"
_KNOWN_TAGS = ("str", "int", "float", "bool", "null", "map", "seq")

Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Leaf:
    value: Scalar
    line: int


@dataclass
class Items:
    line: int
    items: list[Tree] = field(default_factory=list)


@dataclass
class Branch:
    """A mapping. `twice`: keys that stood there before with another value, with their lines; the
    last one counts."""

    line: int
    children: dict[str, Tree] = field(default_factory=dict)
    twice: list[tuple[str, int]] = field(default_factory=list)


Tree = Leaf | Items | Branch


def documents(text: str, file: str) -> list[Tree]:
    """The trees of all documents; BadInput, with its line, for what is no plain YAML."""
    if len(text) > MOST_BYTES:
        sentence = f"is larger than {MOST_BYTES >> 20} MiB, too large for a configuration"
        raise BadInput(sentence, file=file)
    if text.lstrip()[:1] == "{":
        text = text.replace("\t", "    ")  # JSON allows them between values, YAML does not
    reader = _Reader(file)
    try:
        for event in _events(text):
            reader.take(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", None) or "it holds characters that YAML forbids")
        line = mark.line + 1 if mark is not None else None
        raise BadInput(f"is no YAML: {problem}", file=file, line=line) from None
    return reader.done


def _events(text: str) -> Iterator[yaml.Event]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    yield from yaml.parse(text, Loader=loader)  # type: ignore[no-untyped-call, unused-ignore]


class _Reader:
    """Event after event into trees, without recursion."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.done: list[Tree] = []
        self._open: list[Branch | Items] = []
        self._keys: list[tuple[str, int] | None] = []  # of each open branch, the key without value
        self._values = 0
        self._constructor = yaml.constructor.SafeConstructor()
        self._resolver = yaml.resolver.Resolver()

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            raise self._bad("uses an alias (*name); write the value out", line)
        if isinstance(event, yaml.ScalarEvent):
            self._check_tag(event.tag, line)
            self._scalar(event, line)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._check_tag(event.tag, line)
            if len(self._open) == DEEPEST:
                raise self._bad(f"is nested deeper than {DEEPEST} levels", line)
            is_map = isinstance(event, yaml.MappingStartEvent)
            self._open.append(Branch(line) if is_map else Items(line))
            self._keys.append(None)
        elif isinstance(event, yaml.CollectionEndEvent):
            ended = self._open.pop()
            self._keys.pop()
            self._value(ended, line)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        inside = self._open[-1] if self._open else None
        if isinstance(inside, Branch) and self._keys[-1] is None:
            if event.value == "<<":
                raise self._bad("uses a merge key (<<); write the values out", line)
            self._keys[-1] = (event.value[:256], line)
            return
        self._value(Leaf(self._resolved(event), line), line)

    def _value(self, tree: Tree, line: int) -> None:
        self._values += 1
        if self._values > MOST_VALUES:
            raise self._bad(f"holds more than {MOST_VALUES:,} values", line)
        if not self._open:
            self.done.append(tree)
            return
        inside = self._open[-1]
        if isinstance(inside, Items):
            inside.items.append(tree)
            return
        key = self._keys[-1]
        if key is None:
            raise self._bad("has a list or mapping for a key", line)
        self._keys[-1] = None
        before = inside.children.get(key[0])
        if before is not None and _differ(before, tree):
            inside.twice.append(key)
        inside.children[key[0]] = tree

    def _resolved(self, event: yaml.ScalarEvent) -> Scalar:
        text = event.value
        if not event.implicit[0] or len(text) > LONGEST_RESOLVED:
            return text
        tag: str = self._resolver.resolve(  # type: ignore[no-untyped-call]
            yaml.ScalarNode, text, (True, False)
        )
        kind = tag.removeprefix(_OWN_TAGS)
        if kind not in ("int", "float", "bool", "null"):
            return text
        node = yaml.ScalarNode(tag, text)
        make = getattr(self._constructor, f"construct_yaml_{kind}")
        try:
            value: Scalar = make(node)
        except ValueError:  # such as "0o9"
            return text
        return value

    def _check_tag(self, tag: str | None, line: int) -> None:
        if tag is not None and tag.removeprefix(_OWN_TAGS) not in _KNOWN_TAGS and tag != "!":
            raise self._bad("has a tag that names a type (!…); plain values are expected", line)

    def _bad(self, sentence: str, line: int) -> BadInput:
        return BadInput(sentence, file=self.file, line=line)


def _differ(one: Tree, other: Tree) -> bool:
    """Whether two values of one key are not alike; lists and mappings count as unlike."""
    if isinstance(one, Leaf) and isinstance(other, Leaf):
        return one.value != other.value
    return True
