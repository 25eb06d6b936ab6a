"""What `watch` says in its own words: a page of `diagnose`, a full disk, how the job ended.

In: a folder, who shows a text, who diagnoses. Out: sentences. Nothing that fails here goes
further: a job runs meanwhile.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.hang.scene import rank_words


class Telling:
    """`say` shows a line or a page of ours."""

    def __init__(
        self, folder: Path, say: Callable[[str], None], diagnose: Callable[[Path], str]
    ) -> None:
        self.say = say
        self._folder, self._diagnose = folder, diagnose
        self._told_lost = False

    def page(self, sentence: str, after: str = "") -> None:
        """A sentence, and what the folder tells."""
        self.say(f"{sentence}\n\n{self._page()}{after}")

    def _page(self) -> str:
        try:
            return self._diagnose(self._folder)
        except Exception as error:  # noqa: BLE001 - a judge's fault may not end somebody's job
            return f"not diagnosed: {type(error).__name__}: {error}"

    def lost(self, error: OSError) -> None:
        """The folder takes nothing more; said once."""
        if not self._told_lost:
            self._told_lost = True
            self.say(
                f"{shown(self._folder)}: {error.strerror}. What comes from now on may not be "
                "kept; the job goes on"
            )

    def ended(
        self,
        status: int,
        after_s: float,
        *,
        by: Sequence[int],
        orphans: Sequence[int],
        suspect: bool,
    ) -> None:
        """`by`: signals of the user; `suspect`: it stood still before them."""
        took, folder = f"after {after_s:,.0f} s", shown(self._folder)
        if orphans:
            self.say(f"the launcher left {rank_words(orphans)} behind; ended now")
        if status == 0:
            self.say(f"done {took}; kept in {folder}")
        elif by and not suspect:
            self.say(f"ended by {signal.Signals(by[0]).name} {took}; kept in {folder}")
        else:
            again = f"\n\nagain   python -m bench diagnose {folder}"
            self.page(f"exit {status} {took}. What its ranks left:", again)


def shown(folder: Path) -> str:
    """As one would type it here."""
    try:
        return str(folder.relative_to(Path.cwd()))
    except ValueError:
        return str(folder)
