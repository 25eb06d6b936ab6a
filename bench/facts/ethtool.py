"""What an interface's driver tells of it: negotiated and maximum speed, pause frames.

In: an interface name of this network namespace. Out: numbers, or nothing where the driver tells
none. The ioctls (ETHTOOL_GLINKSETTINGS, ETHTOOL_GSTATS) follow the network namespace, unlike /sys.
A link that negotiated less than its driver supports may be a bad cable, or simply a slower switch:
the judge decides.
"""

from __future__ import annotations

import functools
import re
import socket
from typing import Any

_MODE = re.compile(r"(\d+)base")
# mlx5: rx_prio3_pause, tx_pause_ctrl_phy; bnxt: rx_pfc_ena_frames_pri3; ice: rx_priority_3_xoff
_PAUSE_WORDS = ("pause", "pfc", "xoff")
_NO_COUNT = ("duration", "transition", "storm")  # times and events beside the frames


def speeds(name: str) -> tuple[int | None, int | None]:
    """(negotiated, highest supported) speed in Mbit/s; None where the driver tells none."""
    from pyroute2.ethtool.ethtool import EthtoolLinkMode  # with the 0.13 s of pyroute2
    from pyroute2.ethtool.ioctl import EthtoolError, IoctlEthtool

    try:
        asked = IoctlEthtool(name)
    except (OSError, ValueError, IndexError):  # a name that is longer than 15 bytes once replaced
        return None, None
    try:
        mode = EthtoolLinkMode.from_ioctl(asked.get_link_settings())
    except (EthtoolError, OSError):
        return None, None
    finally:
        asked.close()
    supported = [int(match[1]) for match in map(_MODE.match, mode.supported_modes) if match]
    return mode.speed, max(supported, default=None)


def pauses(name: str) -> dict[str, int]:
    """Pause frames (PFC and global) that the driver counts, by its own names; and their sums
    `rx_pauses`, `tx_pauses`. Empty where it counts none."""
    from pyroute2.ethtool.ioctl import EthtoolError

    try:
        counts = _asker(name, socket.if_nametoindex(name)).get_statistics()
    except (EthtoolError, OSError, ValueError, IndexError, AssertionError):
        return {}  # no such interface or no such statistics; or they have become others meanwhile
    return pauses_of(dict(counts))


def pauses_of(counts: dict[str, int]) -> dict[str, int]:
    """Those of a driver's counters that count pause frames, and the sums of either direction."""
    found = {key: n for key, n in counts.items() if any(word in key for word in _PAUSE_WORDS)}
    frames = {key: n for key, n in found.items() if not any(word in key for word in _NO_COUNT)}
    for way in ("rx", "tx"):
        of_this_way = [n for key, n in frames.items() if key.startswith(way)]
        if of_this_way:
            found[f"{way}_pauses"] = sum(of_this_way)
    return found


@functools.lru_cache(maxsize=64)
def _asker(name: str, index: int) -> Any:
    """Kept with the names of its some thousand counters, which take longest to read. `index`
    tells an interface from its later namesake."""
    from pyroute2.ethtool.ioctl import IoctlEthtool

    return IoctlEthtool(name)
