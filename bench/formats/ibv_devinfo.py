"""RDMA ports as ibv_devinfo, ibstat, ibstatus and ibdev2netdev print them.

In: the command's output, of one host or of several behind a launcher's prefix. Out: one PortsOf a
host. A host that the lines do not name is taken from the file's name, else the file itself stands
for it. MTU 4096 (5) is RDMA's, not the interface's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from bench.formats.host_name import of_file
from bench.formats.source import Source
from bench.formats.streams import by_process
from bench.records import BadInput, PortsOf, RdmaPort

KIND = "ibv_devinfo"

MAX_PORTS = 4096

_DEVICE = re.compile(
    r"\s{0,8}(?:hca_id:\s{0,16}(?P<hca>[\w.-]{1,64})|CA '(?P<ca>[\w.-]{1,64})'\s{0,8}\Z"
    r"|Infiniband device '(?P<status>[\w.-]{1,64})' port (?P<port>\d{1,3}) status:)"
)
_PORT = re.compile(
    r"\s{0,32}(?:port:\s{1,16}(?P<number>\d{1,3})\s{0,8}\Z|Port (?P<ca>\d{1,3}):\s{0,8}\Z)"
)
_NETDEV = re.compile(
    r"\s{0,8}(?P<device>[\w.-]{1,64})\s{1,16}port\s{1,8}(?P<port>\d{1,3})\s{1,8}==>\s{1,8}"
    r"(?P<interface>[\w.:@-]{1,64})\s{1,16}\((?P<state>Up|Down)\)"
)
_FIELD = re.compile(
    r"\s{0,40}(?P<name>[A-Za-z_][A-Za-z_ ]{1,30}?)\s{0,8}:\s{1,40}(?P<value>\S.{0,200})"
)
# "4096 (5)", "4: ACTIVE", "PORT_ACTIVE (4)", "100 Gb/sec (4X EDR)", "4X (2)", "25.0 Gbps (32)"
_NUMBER = re.compile(r"(\d{1,6}(?:\.\d{1,4})?)")
_LANES = re.compile(r"(\d{1,2})X")

# What a link layer's width and speed words make together; active_speed is one lane's.
_BYTES_OF_MTU = (256, 512, 1024, 2048, 4096)


def likeness(head: str, name: str) -> float:
    """1 where a device's own line and one of its port's stand together."""
    lines = head.split("\n")
    if any(_NETDEV.search(line) for line in lines if "==>" in line):
        return 1.0
    devices = sum(1 for line in lines if _opening(line))
    fields = any(word in head for word in ("active_mtu", "link_layer:", "Link layer:", "Rate:"))
    if devices and fields:
        return 1.0
    return 0.6 if devices or ("active_mtu:" in head and "max_mtu:" in head) else 0.0


def _opening(line: str) -> bool:
    """A device's line, with a launcher's "host: " in front or not."""
    at = max(line.find("hca_id:"), line.find("CA '"), line.find("Infiniband device '"), -1)
    return at >= 0 and bool(_DEVICE.match(line[at:]))


def read(source: Source) -> tuple[PortsOf, ...]:
    """Ports by host; BadInput where no port is shown."""
    readers = by_process(source, _Reader)
    by_file = of_file(source.file) or source.file
    found = [
        PortsOf(file=source.file, line=reader.line, host=reader.host or by_file, ports=ports)
        for reader in readers
        if (ports := reader.ports())
    ]
    if not found:
        raise BadInput("holds no RDMA port of ibv_devinfo or ibstat", file=source.file)
    return tuple(found)


class _Reader:
    """The lines of one host: a device, its fields, then each port and its fields."""

    def __init__(self, host: str | None) -> None:
        self.host = host
        self.line = 1
        self._device: dict[str, Any] = {}
        self._ports: dict[tuple[str, int], dict[str, Any]] = {}
        self._port: dict[str, Any] | None = None

    def feed(self, number: int, text: str) -> None:
        netdev = _NETDEV.search(text) if "==>" in text else None
        if netdev:
            port = self._at(netdev["device"], int(netdev["port"]), number)
            port["interface"] = netdev["interface"]
            return
        device = _DEVICE.match(text)
        if device:
            self._device = {"device": device["hca"] or device["ca"] or device["status"]}
            self._port = None
            if device["port"]:
                self._port = self._at(self._device["device"], int(device["port"]), number)
            return
        port_line = _PORT.match(text)
        if port_line:
            name = self._device.get("device", "an RDMA device")
            self._port = self._at(name, int(port_line["number"] or port_line["ca"]), number)
            return
        field = _FIELD.match(text) if ":" in text else None
        if field:
            self._field(field["name"].lower().replace(" ", "_"), field["value"].strip(), number)

    def _at(self, device: str, port: int, number: int) -> dict[str, Any]:
        if not self._ports:
            self.line = number
        if len(self._ports) >= MAX_PORTS:
            return {}
        return self._ports.setdefault(
            (device, port), {**self._device, "device": device, "port": port}
        )

    def _field(self, name: str, value: str, number: int) -> None:
        read_field = _FIELDS.get(name)
        if read_field is None:
            return
        if self._port is None and name in _OF_PORT and (self._device or name.endswith("_mtu")):
            # an excerpt without the port's line: the device's only one
            self._port = self._at(self._device.get("device", "an RDMA device"), 1, number)
        told = read_field(value)
        target = self._device if self._port is None else self._port
        target.update({key: each for key, each in told.items() if each is not None})

    def ports(self) -> tuple[RdmaPort, ...]:
        return tuple(_record(fields) for fields in self._ports.values())


def _record(fields: dict[str, Any]) -> RdmaPort:
    lanes, lane = fields.pop("lanes", None), fields.pop("lane_gbit", None)
    if lanes and lane and "rate_gbit" not in fields:
        fields["rate_gbit"] = lanes * lane
    return RdmaPort(**fields)


def _state(value: str) -> dict[str, Any]:
    """ "PORT_ACTIVE (4)", "Active", "4: ACTIVE" as sysfs has it: ACTIVE."""
    word = value.partition(":")[2].strip() if value[:1].isdigit() else value
    return {"state": word.partition(" (")[0].removeprefix("PORT_").upper()}


def _physical(value: str) -> dict[str, Any]:
    word = value.partition(":")[2].strip() if value[:1].isdigit() else value
    return {"physical_state": word.partition(" (")[0]}


def _mtu(key: str) -> Callable[[str], dict[str, Any]]:
    def told(value: str) -> dict[str, Any]:
        match = _NUMBER.match(value)
        number = int(float(match[1])) if match else 0
        if 1 <= number <= len(_BYTES_OF_MTU):  # the code alone
            number = _BYTES_OF_MTU[number - 1]
        return {key: number or None}

    return told


def _number(key: str) -> Callable[[str], dict[str, Any]]:
    def told(value: str) -> dict[str, Any]:
        match = _NUMBER.match(value)
        return {key: float(match[1]) if match else None}

    return told


def _text(key: str) -> Callable[[str], dict[str, Any]]:
    return lambda value: {key: value.partition(" (")[0][:120]}


def _lanes(value: str) -> dict[str, Any]:
    match = _LANES.match(value)
    return {"lanes": int(match[1]) if match else None}


_FIELDS: dict[str, Callable[[str], dict[str, Any]]] = {
    "state": _state,
    "phys_state": _physical,
    "physical_state": _physical,
    "max_mtu": _mtu("max_mtu"),
    "active_mtu": _mtu("active_mtu"),
    "link_layer": _text("link_layer"),
    "rate": _number("rate_gbit"),
    "active_width": _lanes,
    "active_speed": _number("lane_gbit"),
    "fw_ver": _text("firmware"),
    "firmware_version": _text("firmware"),
    "board_id": _text("board_id"),
    "ca_type": _text("board_id"),
    "node_guid": _text("node_guid"),
    "port_guid": _text("port_guid"),
}
_OF_PORT = frozenset({"state", "max_mtu", "active_mtu", "link_layer", "rate"})
