"""What an address says by itself: a name, an address that can be reached, or neither.

In: the text of main_process_ip and the like. Out: what is wrong with it, as severity, words and
kind. Nothing is resolved and nothing is asked of a network.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from bench.records import Severity

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?")
_QUAD = re.compile(r"\d{1,4}(?:\.\d{1,4}){1,5}")
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")
# docker0's own address where nobody chose another: every host with Docker has it. Others of that
# network are somebody's real ones often enough.
_DOCKER = ipaddress.ip_address("172.17.0.1")


def fault(text: str) -> tuple[Severity, str, str] | None:
    """What is wrong with an address by itself."""
    if text == "" or text.lower() == "none":
        return "broken", "is no address", "form"
    if text.lower() in _LOCAL_NAMES:
        return "broken", "is every machine itself: none finds another", "loopback"
    try:
        address = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return _fault_of_name(text)
    if address.is_loopback:
        return (
            "broken",
            "is a loopback address, every machine itself: none finds another",
            "loopback",
        )
    if address.is_unspecified:
        return (
            "broken",
            "is no machine's address; it can be listened on, not connected to",
            "loopback",
        )
    if address.is_multicast:
        return "broken", "is a multicast address, of no single machine", "form"
    if address.is_link_local:
        return (
            "warning",
            "is link-local: it is reached on one cable or switch at best",
            "link-local",
        )
    if address == _DOCKER:
        return "warning", "is docker0's own address on every machine with Docker", "docker"
    return None


def _fault_of_name(text: str) -> tuple[Severity, str, str] | None:
    if "@" in text:
        return (
            "broken",
            f"holds a user's name; {text.rpartition('@')[2]} alone is an address",
            "form",
        )
    if "://" in text or "/" in text:
        return "broken", "is a URL or a network; a plain address is expected", "form"
    if re.fullmatch(r"[\w.-]+:\d+", text):
        return "broken", "holds a port; that belongs into main_process_port", "form"
    if _QUAD.fullmatch(text):
        return "broken", "is no IPv4 address: four numbers of 0 to 255 are expected", "form"
    if not _NAME.fullmatch(text):
        return "broken", "is neither an address nor a host's name", "form"
    return None


def is_numeric(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_loopback(text: str) -> bool:
    wrong = fault(text)
    return wrong is not None and wrong[2] == "loopback"


def are_alike(texts: Sequence[str]) -> bool:
    """Addresses with addresses, names with names: one of each may be the same machine."""
    numeric = [is_numeric(text) for text in texts]
    return all(numeric) or not any(numeric)
