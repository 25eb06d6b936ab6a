"""The list grammar of NCCL_SOCKET_IFNAME and NCCL_IB_HCA: "eth", "=eth0,eth1", "^docker", "^=a".

In: the text a user wrote. Out: its tokens, or whether it admits a name. After parseStringList and
matchIfList in NCCL's src/misc/utils.cc, oddities included: one leading ^ and then one = count for
the whole list, white space is not trimmed, and what follows a colon is a port.
"""

from __future__ import annotations

from typing import NamedTuple

ANY_PORT = -1


class NameList(NamedTuple):
    """A parsed list; one without tokens (such as ",,") admits every name, unless it excludes."""

    exclude: bool
    exact: bool
    tokens: tuple[tuple[str, int], ...]  # (name, port)

    def admits(self, name: str, port: int = ANY_PORT) -> bool:
        """Whether NCCL considers `name`; tokens are prefixes unless the list is exact."""
        hit = not self.tokens or any(
            (name == token if self.exact else name.startswith(token))
            and (port == ANY_PORT or wanted in (ANY_PORT, port))
            for token, wanted in self.tokens
        )
        return hit != self.exclude


def parse(setting: str, limit: int) -> NameList:
    """The list as NCCL reads it; tokens after the `limit`-th are dropped without a word."""
    exclude = setting.startswith("^")
    rest = setting[exclude:]
    exact = rest.startswith("=")
    rest = rest[exact:]
    tokens = []
    for part in rest.split(","):
        name, colon, port = part.partition(":")
        if name:
            tokens.append((name, leading_number(port) if colon else ANY_PORT))
    return NameList(exclude, exact, tuple(tokens[:limit]))


def leading_number(text: str) -> int:
    """What C's atoi makes of the text: its leading decimal digits, else 0."""
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    return int(digits) if digits else 0
