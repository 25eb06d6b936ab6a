"""Values of launch files as the launchers take them: numbers, words, and what no file decides.

In: Settings. Out: plain values, or None where a variable, a placeholder or nothing stands. YAML's
`no` is False; the distributed type and the precision mean "no" by it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.records import Evidence, Setting

# A variable, a template's or a person's placeholder: "$IP", "{{ ip }}", "<IP>", "xxx.xxx", "%n".
_OPEN = re.compile(
    r"[$`<>{}…*]|%\w|\.\.\.|\bx{2,}\b|(?:ip|port|addr|address|host)_?\d?\Z"
    r"|\b(?:your|todo|tbd|change_?me|fill|replace|redacted|placeholder|main_process_ip|example)\b",
    re.IGNORECASE,
)
_WHOLE = re.compile(r"[+-]?\d{1,9}")


def is_open(setting: Setting | None) -> bool:
    """Whether a value stands there that only the running job knows."""
    return setting is not None and isinstance(setting.value, str) and _placeholder(setting.value)


def _placeholder(text: str) -> bool:
    match = _OPEN.search(text)
    if match is None:
        return False
    # "ip" alone stands for an address; at the end of a host's name it does not
    return match.end() != len(text) or match.start() == 0 or not match[0].isalnum()


def number(setting: Setting | None) -> int | None:
    """The whole number; None for none, for text and for what is open."""
    if setting is None or isinstance(setting.value, bool):
        return None
    if isinstance(setting.value, int):
        return setting.value
    if isinstance(setting.value, str) and _WHOLE.fullmatch(setting.value.strip()):
        return int(setting.value)
    return None


def text(setting: Setting | None) -> str | None:
    """The word or number as text; None for none and for what is open."""
    if setting is None or setting.value is None or is_open(setting):
        return None
    return str(setting.value).strip()


def word(setting: Setting | None) -> str | None:
    """A word in small letters where `no` and `off` may stand for False."""
    if setting is not None and setting.value is False:
        return "no"
    told = text(setting)
    return told.lower() if told is not None else None


def is_true(setting: Setting | None) -> bool:
    return setting is not None and str(setting.value).strip().lower() in ("true", "1", "yes")


def is_false(setting: Setting | None) -> bool:
    return setting is not None and str(setting.value).strip().lower() in ("false", "0", "no")


def place(setting: Setting | None) -> str:
    """ "node0.yaml:7", or what the launcher takes by itself."""
    if setting is None or not setting.file:
        return "by default"
    return f"{setting.file}:{setting.line}" if setting.line else setting.file


def evidence(said: str, setting: Setting | None) -> Evidence:
    """A line of proof: the value and where it stands."""
    return Evidence(basis="asked", text=f"{said} ({place(setting)})")


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}{_plural(noun)}"


def _plural(noun: str) -> str:
    return "es" if noun.endswith(("s", "x")) else "s"


def joined(parts: Sequence[object], most: int = 8) -> str:
    """ "0, 1 and 3", the rest counted."""
    told = [str(part) for part in parts[:most]]
    if len(parts) > most:
        return ", ".join(told) + f" and {len(parts) - most:,} more"
    return " and ".join([", ".join(told[:-1]), told[-1]] if len(told) > 1 else told)
