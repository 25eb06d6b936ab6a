"""Negotiated and maximum speed of an interface, from the driver itself (ETHTOOL_GLINKSETTINGS).

In: an interface name of this network namespace. Out: two numbers in Mbit/s or None. The ioctl
follows the network namespace, unlike /sys. A link that negotiated less than its driver supports
may be a bad cable, or simply a slower switch: the judge decides.
"""

from __future__ import annotations

import re

_MODE = re.compile(r"(\d+)base")


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
