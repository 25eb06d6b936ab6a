"""Whether this user may build a lab on this machine: found out by building a small one.

Reading versions and settings would guess; a probe of two hosts takes a third of a second.
"""

from __future__ import annotations

from bench.lab import checks, running
from bench.lab.description import Lab, Network
from bench.records import BadInput

_PROBE = Lab(hosts=2, network=(Network(rate_mbit=100.0), Network(name="docker", isolated=True)))


def not_permitted() -> str | None:
    """None when a lab can be built here, else one sentence that says why not and what to do."""
    try:
        running.open_lab(checks.checked(_PROBE)).close()
    except BadInput as bad:
        return bad.sentence
    return None
