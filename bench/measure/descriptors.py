"""How many files and sockets this process may have open at once.

In: the kernel's limits. Out: the soft limit, raised as far as a preflight of hundreds of peers
needs. Many systems start a process with 1024, which its own calls and its callers could pass.
"""

from __future__ import annotations

import resource

ENOUGH = 8192  # 256 calls of three attempts and 1024 callers, several times over


def limit() -> int:
    """The soft limit, after raising it to 8192 or to the hard limit, whichever is less."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return ENOUGH
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft  # forbidden by a sandbox; callers keep within what there is
    return wanted
