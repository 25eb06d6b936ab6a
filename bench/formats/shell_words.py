"""Words of a shell command, with what each quote means for the variables in it.

In: the text of one statement. Out: simple commands, each a list of words with their lines; quotes
are taken off. A dollar that this shell would not fill in (escaped, or in single quotes) becomes
LATE, so that who reads the word knows which shell does. Nothing is executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Of Unicode's private use. LATE: a dollar that another shell fills in; EARLY: one that this shell
# fills in, in a text that another one reads; LINE_MARK … : the line that what follows stands on.
LATE, EARLY = "\ue000", "\ue001"
_LINE_MARK = re.compile("\ue002(\\d{1,9})\ue003")
MOST_WORDS = 4096
_SEPARATORS = ";|&\n"


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    line: int
    quoted: bool = False


def commands(text: str, line: int) -> list[list[Word]]:
    """The simple commands of a statement: what ; | & and line ends part. An open quote ends at
    the text's end. Line marks in the text are followed."""
    return [words for _, words in _Scanner(text, line).run()]


def joined_commands(text: str, line: int) -> list[tuple[str, list[Word]]]:
    """The same, each behind what parts it from the one before: ";", "&&", "||", "|"."""
    return _Scanner(text, line).run()


def for_next_shell(text: str) -> str:
    """A word as the shell reads it that it is handed to."""
    return text.replace("$", EARLY).replace(LATE, "$")


def shown(text: str) -> str:
    """A word for people: dollars as they were written, no marks."""
    return _LINE_MARK.sub(" ", text).replace(LATE, "$").replace(EARLY, "$")


def marked(line: int) -> str:
    """A mark that what follows stands on `line`."""
    return f"\ue002{line}\ue003"


def split(text: str, line: int) -> Iterator[Word]:
    """The words of a variable's value that stands without quotes."""
    at = 0
    for match in [*_LINE_MARK.finditer(text), None]:
        piece = text[at : match.start() if match else len(text)]
        for number, part in enumerate(piece.split("\n")):
            yield from (Word(each, line + number) for each in part.split())
        line += piece.count("\n")
        if match:
            at, line = match.end(), int(match[1])


class _Scanner:
    def __init__(self, text: str, line: int) -> None:
        self.text, self.line = text, line
        self.at = 0
        self.done: list[tuple[str, list[Word]]] = []
        self.joint = ""
        self.words: list[Word] = []
        self.word: list[str] = []
        self.started: int | None = None  # line of the word that is being read
        self.quoted = False
        self.count = 0

    def run(self) -> list[tuple[str, list[Word]]]:
        text = self.text
        while self.at < len(text) and self.count < MOST_WORDS:
            letter = text[self.at]
            if letter == "\\":
                self._escape(in_quotes=False)
            elif letter == "'":
                self._single()
            elif letter == '"':
                self._double()
            elif letter in "$`":
                self._dollar()
            elif letter in _SEPARATORS:
                self._end_command()
                self.joint += letter
                self._step()
            elif letter in " \t":
                self._end_word()
                self.at += 1
            elif letter == "\ue002" and (mark := _LINE_MARK.match(text, self.at)):
                self._end_word()
                self.line, self.at = int(mark[1]), mark.end()
            elif letter == "#" and self.started is None:
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            elif letter in "()" and self.started is None:
                self._end_command()  # a group of its own
                self.at += 1
            else:
                self._add(letter)
                self.at += 1
        self._end_command()
        return self.done

    def _step(self) -> None:
        if self.text[self.at] == "\n":
            self.line += 1
        self.at += 1

    def _add(self, text: str) -> None:
        if self.started is None:
            self.started = self.line
        self.word.append(text)

    def _end_word(self) -> None:
        if self.started is not None:
            self.words.append(Word("".join(self.word), self.started, self.quoted))
            self.count += 1
        self.word, self.started, self.quoted = [], None, False

    def _end_command(self) -> None:
        self._end_word()
        if self.words:
            self.done.append((self.joint, self.words))
            self.joint = ""
        self.words = []

    def _escape(self, *, in_quotes: bool) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if following == "\n":
            self.line += 1
            if in_quotes:
                self._add(marked(self.line))
        elif following == "$":
            self._add(LATE)
        elif in_quotes and following not in '"\\`':
            self._add("\\" + following)
        else:
            self._add(following)
        self.at += 2

    def _single(self) -> None:
        end = self.text.find("'", self.at + 1)
        end = len(self.text) if end < 0 else end
        inside = self.text[self.at + 1 : end]
        for number, part in enumerate(inside.replace("$", LATE).split("\n")):
            self._add(f"\n{marked(self.line + number)}{part}" if number else part)
        self.quoted = True
        self.line += inside.count("\n")
        self.at = end + 1

    def _double(self) -> None:
        self._add("")
        self.quoted = True
        self.at += 1
        while self.at < len(self.text):
            letter = self.text[self.at]
            if letter == '"':
                self.at += 1
                return
            if letter == "\\":
                self._escape(in_quotes=True)
            elif letter in "$`":
                self._dollar()
            elif letter == "\n":
                self._step()
                self._add("\n" + marked(self.line))
            else:
                self._add(letter)
                self.at += 1

    def _dollar(self) -> None:
        """ "$NAME", "${NAME:-x}", "$(…)", "$((…))", "`…`" as they stand, blanks and quotes too."""
        text, start = self.text, self.at
        if text[start] == "`":
            end = text.find("`", start + 1)
            end = len(text) if end < 0 else end + 1
        elif text[start + 1 : start + 2] in ("(", "{"):
            end = _closed(text, start + 1)
        else:
            end = start + 1
            while end < len(text) and (text[end].isalnum() or text[end] == "_"):
                end += 1
            if end == start + 1 and text[end : end + 1] in ("@", "*", "#", "?", "!", "$"):
                end += 1
        piece = text[start:end]
        self._add(piece)
        self.line += piece.count("\n")
        self.at = end


def _closed(text: str, start: int) -> int:
    """Behind the bracket that closes the one at `start`; the text's end where none does."""
    opened, closing = text[start], {"(": ")", "{": "}"}[text[start]]
    depth = 0
    for at in range(start, len(text)):
        if text[at] == opened:
            depth += 1
        elif text[at] == closing:
            depth -= 1
            if depth == 0:
                return at + 1
    return len(text)
