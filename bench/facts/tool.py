"""Runs a tool of the host for its text: an argument list, a deadline, a limit, no shell.

In: the command. Out: what it printed, or `NoText` with the reason: absent, too slow, failed.
A tool that stays in the kernel past its kill is left to the kernel.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Sequence

DEADLINE_S = 5.0
LIMIT_BYTES = 64 * 1024  # `nvidia-smi topo -m` of 16 GPUs and 18 NICs is about 8 KB
_KILLED_WITHIN_S = 0.5
_CHUNK_BYTES = 8192

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,32}[A-Za-z]")  # nvidia-smi underlines headings, piped or not


class NoText(Exception):
    """The tool gave no text; the message is the reason."""


def output(command: Sequence[str], *, deadline_s: float = DEADLINE_S) -> str:
    """What it printed, errors included, cut at the limit, colours and control characters gone."""
    found = shutil.which(command[0])
    if found is None:
        raise NoText(f"{command[0]} is not installed")
    end = time.monotonic() + deadline_s
    try:
        process = subprocess.Popen(
            [found, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"},  # English words, points in numbers
        )
    except OSError as error:
        raise NoText(f"{command[0]}: {error.strerror or error}") from None
    assert process.stdout is not None
    with process.stdout as pipe:
        content = _until(end, pipe.fileno())
    # A tool that prints more than the limit is told so by its closed pipe.
    try:
        status = process.wait(max(end - time.monotonic(), 0.0))
    except subprocess.TimeoutExpired:
        process.kill()
        try:
            process.wait(_KILLED_WITHIN_S)
        except subprocess.TimeoutExpired:
            pass  # it hangs in a driver; nobody can end it
        raise NoText(f"{command[0]} gave no answer within {deadline_s:g} s") from None
    text = printable(content)
    if status and len(content) < LIMIT_BYTES:
        first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason")
        raise NoText(f"{command[0]} ended with {status}: {first[:200]}")
    return text


def _until(end: float, descriptor: int) -> bytes:
    """What comes out of the pipe before `end`, up to the limit."""
    content = b""
    while len(content) < LIMIT_BYTES:
        ready, _, _ = select.select([descriptor], [], [], max(end - time.monotonic(), 0.0))
        piece = os.read(descriptor, _CHUNK_BYTES) if ready else b""
        if not piece:
            break
        content += piece
    return content[:LIMIT_BYTES]


def printable(content: bytes) -> str:
    """Text as it may stand in a report: tabs and line ends stay, other control characters go."""
    text = _COLOUR.sub("", content.decode(errors="replace").replace("\r\n", "\n"))
    return "".join(letter for letter in text if letter in "\t\n" or letter.isprintable())
