"""Variables that one line sets: of a shell, of `env`, of YAML or of a Dockerfile.

In: the line. Out: Assignments in order. `A=1 B=2 program` sets A and B and ends at the program;
behind && only what surely runs counts, behind || nothing. A sentence that begins with an
assignment sets nothing. Nothing is executed or expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.formats import shell_words
from bench.formats.shell_words import Word

NAME = r"[A-Za-z_][A-Za-z0-9_]{0,127}"
_NAME = re.compile(NAME)
_ASSIGNED = re.compile(rf"(?P<name>{NAME})=(?P<value>.*)", re.DOTALL)
# "NCCL_DEBUG: INFO" and "NCCL_DEBUG = INFO": the whole line is one variable.
_PAIR = re.compile(
    rf"\s{{0,64}}(?:[-+]\s{{1,32}})?(?P<name>{NAME})(?:\s{{0,32}}:|\s{{1,32}}=)\s{{1,32}}"
    r"(?P<value>'[^']*'|\"[^\"]*\"|[^\s'\"]\S*)?(?:\s{1,32}#.*|\s{0,32})\Z"
)
# Before a command: prompts, list marks, and what runs the rest as it stands.
_BEFORE = frozenset(
    ("$", "%", ">", "-", "+", "sudo", "exec", "time", "nohup", "env", "command", "builtin")
)
_DECLARING = frozenset(("export", "declare", "typeset", "readonly", "local"))
_NAMED = frozenset(("setenv", "ENV"))  # "setenv NAME VALUE"
# What runs before && without deciding anything.
_PLAIN = frozenset((
    "cd", "pushd", "source", ".", "module", "ml", "unset", "ulimit", "umask", "mkdir", "conda",
    "mamba", "pip", "make", "cmake", "ninja", "sleep",
))  # fmt: skip
# "NCCL_P2P_DISABLE=1 makes no difference" is no command.
_SENTENCE = frozenset((
    "is", "isn't", "was", "wasn't", "are", "aren't", "has", "had", "have", "does", "doesn't",
    "did", "didn't", "do", "don't", "makes", "made", "works", "worked", "fixes", "fixed", "helps",
    "helped", "solves", "solved", "resolves", "resolved", "disables", "enables", "and", "or",
    "but", "to", "on", "in", "with", "for", "as", "if", "also", "should", "would", "could", "can",
    "cannot", "can't", "will", "then", "when", "because", "only", "just", "still", "seems",
    "instead", "changes", "changed", "gives", "gave", "not", "no", "the", "it", "i", "we",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Assignment:
    """`value` is None for "export A" of a variable that is set elsewhere."""

    name: str
    value: str | None
    exported: bool = False


def of_line(text: str) -> Iterator[Assignment]:
    """Everything that surely is set, each with its value without quotes and comment."""
    if text.lstrip()[:1] in ("'", '"'):
        return
    if pair := _PAIR.match(text):
        value = pair["value"] or ""
        yield Assignment(pair["name"], value[1:-1] if value[:1] in ("'", '"') else value)
        return
    sure = True
    for joint, words in shell_words.joined_commands(text, 1):
        if not joint.startswith(("&&", "||")):
            sure = True
        elif joint.startswith("||"):
            sure = False
        assigned, rest = _leading(words)
        program = rest[0].text if rest else ""
        if sure and program.lower().strip(",.:") not in _SENTENCE:
            yield from assigned
        sure = sure and (not rest or program in _PLAIN)


def _leading(words: Sequence[Word]) -> tuple[list[Assignment], Sequence[Word]]:
    """The assignments before the program, and the words from the program on."""
    at = _behind_prefixes(words)
    lead = words[at].text if at < len(words) else ""
    exported = lead in ("export", *_NAMED)
    if lead in (*_DECLARING, *_NAMED, "set"):
        at += 1
    if lead in _NAMED and len(words) - at == 2 and "=" not in words[at].text:
        return [Assignment(words[at].text, shell_words.shown(words[at + 1].text), True)], ()
    while lead in _DECLARING and lead != "export" and at < len(words) and _is_option(words[at]):
        exported = exported or "x" in words[at].text
        at += 1
    found = []
    for place, word in enumerate(words[at:], at):
        text = shell_words.shown(word.text)
        if match := _ASSIGNED.fullmatch(text):
            found.append(Assignment(match["name"], match["value"], exported))
        elif exported and _NAME.fullmatch(text) and text not in _SENTENCE:
            found.append(Assignment(text, None, exported))
        else:
            return found, words[place:]
    return found, ()


def _behind_prefixes(words: Sequence[Word]) -> int:
    """Where prompts, list marks and env with its options end."""
    at = 0
    env = False
    while at < len(words):
        text = words[at].text
        if env and _is_option(words[at]):
            at += text in ("-u", "--unset")  # and the name behind it
        elif text not in _BEFORE and ("@" not in text or "=" in text):
            break
        env = env or text == "env"
        at += 1
    return min(at, len(words))


def _is_option(word: Word) -> bool:
    return word.text.startswith("-")
