"""A shell script as far as files decide it: statements, variables with one plain value, #SBATCH.

In: lines. Out: statements with their lines (continued lines and open quotes joined, bodies of
here-documents apart) and a Scope that fills in variables. A variable that is set twice, in a
branch or a loop, or by a command stays as it is written: nothing is executed or guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from bench.formats import shell_sums

MOST_STATEMENT = 64 << 10
_HEREDOC = re.compile(r"(?<!<)<<-?\s*(?P<quote>[\"'\\]?)(?P<word>[A-Za-z_][\w.-]{0,40})")
_TARGET = re.compile(r"(?:>>?\s*|\btee\s+(?:-a\s+)?)(?P<name>[\w./${}~\"'-]{1,200})")
MOST_DOCUMENT, MOST_DOCUMENTS = 2_000, 32
_OPENING = re.compile(r"(?:if|for|while|until|case|select)\b")
_CLOSING = re.compile(r"(?:fi|done|esac)\b")
_FUNCTION = re.compile(
    r"(?:function\s+)?[A-Za-z_][\w-]{0,60}\s*\(\)\s*\{?|function\s+[\w-]{1,60}\s*\{"
)
_SBATCH = re.compile(r"#SBATCH\s+(?P<rest>.{1,400})")
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>[A-Za-z_]\w{0,127})\}|(?P<bare>[A-Za-z_]\w{0,127}))")
_ARITHMETIC = re.compile(r"\$\(\((?P<sum>[\w\s$*+/%(){}-]{1,200}?)\)\)")
_EXPR = re.compile(r"(?:\$\(|`)\s*expr\s+(?P<sum>[\w\s$*+/%\\{}-]{1,200}?)(?:\)|`)")
_MOST_ROUNDS = 6  # of variables that stand for variables
# A launch line has some thousand characters and a dozen variables; more is no line of a launch.
LONGEST_VALUE = 16 << 10
MOST_FILLED = 200


@dataclass(frozen=True)
class Statement:
    """`place`: "" at the script's own level, "branch", "loop" or "function" inside of one."""

    text: str
    line: int
    place: str = ""


@dataclass
class Document:
    """A here-document: the file that it is written to, its lines, and whether variables in it are
    filled in."""

    name: str
    line: int
    filled: bool
    lines: list[str] = field(default_factory=list)


@dataclass
class Scope:
    """Variables with one value each, and what the batch script asks for."""

    values: dict[str, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    batch: dict[str, tuple[str, int]] = field(default_factory=dict)
    documents: list[Document] = field(default_factory=list)

    @property
    def is_batch(self) -> bool:
        return bool(self.batch)

    def number(self, *names: str) -> int | None:
        """The number of a #SBATCH option, if it is a plain one."""
        for name in names:
            text = self.batch.get(name, ("", 0))[0]
            if text.isascii() and text.isdecimal() and len(text) < 7:
                return int(text)
        return None

    def filled(self, text: str) -> str:
        """With the variables that are known, and sums of numbers worked out."""
        for _ in range(_MOST_ROUNDS):
            before = text
            text = _VARIABLE.sub(self._value, text, count=MOST_FILLED)
            text = _ARITHMETIC.sub(self._sum, text, count=MOST_FILLED)
            text = _EXPR.sub(self._sum, text, count=MOST_FILLED)
            if text == before or len(text) > LONGEST_VALUE:
                break
        return text[:MOST_STATEMENT]

    def assign(self, name: str, value: str, *, sure: bool) -> None:
        itself = re.search(rf"\$\{{?{name}\b", value) is not None  # "$CMD --more"
        if (
            not sure
            or itself
            or len(value) > LONGEST_VALUE
            or self.values.get(name, value) != value
        ):
            self.unknown.add(name)
        self.values[name] = value

    def _value(self, match: re.Match[str]) -> str:
        name = match["braced"] or match["bare"]
        if name in self.unknown or name not in self.values:
            return match[0]
        return self.values[name]

    def _sum(self, match: re.Match[str]) -> str:
        """In $(( )) a name stands for its variable; in expr only a number counts."""
        text = match["sum"].replace("\\", "")
        text = re.sub(r"[A-Za-z_]\w*", lambda m: self._known(m[0]), text)
        number = shell_sums.arithmetic(text)
        return match[0] if number is None else str(number)

    def _known(self, name: str) -> str:
        return name if name in self.unknown else self.values.get(name, name)


def statements(lines: Iterable[tuple[int, str]], scope: Scope) -> Iterator[Statement]:
    """All statements in order; #SBATCH lines go to the scope, here-documents are left out. What
    lies behind one whose end never comes is told as statements."""
    held: list[str] = []
    begun, size, quote, until = 0, 0, "", ""
    written: Document | None = None
    depth: list[str] = []
    in_function = 0
    skipped: list[tuple[int, str]] = []
    coming, begun_again = iter(lines), 0
    while (found := next(coming, None)) is not None or skipped:
        if found is None:
            coming, skipped, until = iter(skipped), [], ""
            begun_again += 1
            continue
        number, line = found
        if until:
            skipped.append((number, line))
            if line.strip() == until:
                until = ""
                skipped.clear()
            elif written is not None and len(written.lines) < MOST_DOCUMENT:
                written.lines.append(line)
            continue
        if not held and (sbatch := _SBATCH.match(line)):
            _take_batch(sbatch["rest"], number, scope)
            continue
        if not held and (not line.strip() or line.lstrip().startswith("#")):
            continue
        begun = begun if held else number
        held.append(line)
        size += len(line) + 1
        quote, goes_on = _scanned(line, quote)
        if (quote or goes_on) and size < MOST_STATEMENT:
            continue
        text = "\n".join(held).strip()
        held, quote, size = [], "", 0
        if begun_again < MOST_DOCUMENTS and (here := _here_document(text)):
            until = here["word"]
            written = _document(text, here, number, scope)
        if _FUNCTION.match(text):
            in_function += 1
        elif in_function and text in ("}", "};"):
            in_function -= 1
        opened = _follow(text, depth)
        place = "function" if in_function else depth[-1] if depth else opened
        yield Statement(text, begun, place)
    if held:
        yield Statement("\n".join(held).strip(), begun, "function" if in_function else "")


def _here_document(text: str) -> re.Match[str] | None:
    """Where a here-document begins; the << of a sum and of a quoted script begins none."""
    for here in islice(_HEREDOC.finditer(shell_sums.blanked(text)), MOST_DOCUMENTS):
        if not _is_quoted(text, here.start()):
            return here
    return None


def _document(text: str, here: re.Match[str], line: int, scope: Scope) -> Document | None:
    """The file behind "cat > FILE <<EOF", if a file it is."""
    target = _TARGET.search(text)
    if target is None or len(scope.documents) == MOST_DOCUMENTS:
        return None
    name = scope.filled(target["name"].strip("\"'"))
    document = Document(name, line + 1, filled=not here["quote"])
    scope.documents.append(document)
    return document


def _follow(text: str, depth: list[str]) -> str:
    """Keeps count of loops and branches; what the statement itself opens, be it closed again."""
    place = ""
    for part in re.split(r"[;\n]", text):
        word = part.strip()
        if opened := _OPENING.match(word):
            place = "branch" if opened[0] in ("if", "case") else "loop"
            depth.append(place)
        elif _CLOSING.match(word) and depth:
            depth.pop()
    return place


def _is_quoted(text: str, at: int) -> bool:
    """Whether a place lies within quotes, such as in a script that is handed to bash -c."""
    quote = ""
    for line in text[:at].split("\n"):
        quote, _ = _scanned(line, quote)
    return bool(quote)


def _scanned(line: str, quote: str) -> tuple[str, bool]:
    """The quote that is open at the line's end, and whether a backslash there continues it."""
    at = 0
    while at < len(line):
        letter = line[at]
        if letter == "\\" and quote != "'":
            if not line[at + 1 :].strip():
                return quote, True
            at += 2
            continue
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (at == 0 or line[at - 1] in " \t"):
            break
        at += 1
    return quote, False


# What #SBATCH says, under its long name, and which variables Slurm makes of it.
_SHORT = {"N": "nodes", "n": "ntasks", "w": "nodelist", "G": "gpus"}
_MADE_OF = {
    "nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "gpus-per-node": ("SLURM_GPUS_PER_NODE",),
    "ntasks": ("SLURM_NTASKS", "SLURM_NPROCS"),
}
_BATCH_OPTION = re.compile(
    r"(?<!\S)(?:--(?P<long>[a-z-]{2,40})(?:=|\s+(?!-))|-(?P<short>[NnwG])(?:\s+(?!-))?)"
    r"(?P<value>\S+)"
)


def _take_batch(rest: str, line: int, scope: Scope) -> None:
    scope.batch.setdefault("", ("", line))
    for match in _BATCH_OPTION.finditer(rest.partition(" #")[0]):
        name = match["long"] or _SHORT[match["short"]]
        value = match["value"].rpartition(":")[2] if name in ("gpus-per-node",) else match["value"]
        scope.batch[name] = (value, line)
        for variable in _MADE_OF.get(name, ()):
            if value.isdecimal():
                scope.values[variable] = value
