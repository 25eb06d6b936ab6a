"""Stacks of a process by py-spy, where it is installed and allowed: it only reads memory.

In: a process id. Out: its stacks as text, or a sentence why not.
Source: py-spy dump --help (--nonblocking).
"""

from __future__ import annotations

import shutil
import subprocess

DEADLINE_S = 10.0


class Refused(Exception):
    """One sentence."""


def stacks(pid: int) -> str:
    program = shutil.which("py-spy")
    if program is None:
        raise Refused("py-spy is not installed")
    try:
        done = subprocess.run(
            [program, "dump", "--nonblocking", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Refused(f"py-spy has not answered in {DEADLINE_S:g} s") from None
    except OSError as error:
        raise Refused(f"py-spy cannot be started: {error.strerror}") from None
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode or "Thread" not in text:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise Refused(f"py-spy: {said[-1][:200] if said else f'exit {done.returncode}'}")
    return text
