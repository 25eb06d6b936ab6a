"""What all commands share: exit statuses, width of a screen, JSON, severities by name."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable

import typer

from bench.records import SEVERITIES, BadInput, Finding, Severity

DONE, FOUND, COULD_NOT, INTERRUPTED, READER_LEFT = 0, 1, 2, 130, 141
WIDTH = 80
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": WIDTH}  # of click


def severity(name: str) -> int:
    """The rank of a severity; "none" is above all of them."""
    ranks: dict[Severity | str, int] = {s: rank for rank, s in enumerate(SEVERITIES)}
    ranks["none"] = len(SEVERITIES)
    if name not in ranks:
        expected = f"--fail-on is {name}; expected one of {', '.join(ranks)}"
        raise BadInput(expected + suggestion(name, ranks))
    return ranks[name]


def status(findings: Iterable[Finding], worst_allowed: int) -> int:
    """FOUND where one is at least as severe as `--fail-on` allows, else DONE."""
    worst = max((SEVERITIES.index(f.severity) for f in findings), default=-1)
    return FOUND if worst >= worst_allowed else DONE


def print_json(record: object) -> None:
    """JSON on stdout, as UTF-8 where that can be, else with escapes: the same to a reader."""
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(record), indent=2).decode()
    typer.echo(json_for(text, sys.stdout.encoding))


def json_for(text: str, encoding: str | None) -> str:
    """JSON as a stream of `encoding` can take it. Letters beyond ASCII stand in strings only."""
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        units = text.encode("utf-16-be", "surrogatepass")
        codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
        return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)
    return text


def suggestion(wanted: str, known: Iterable[str], otherwise: str = "") -> str:
    near = difflib.get_close_matches(wanted, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else otherwise
