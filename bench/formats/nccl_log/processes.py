"""What one process's NCCL says of itself: version, interfaces, devices, network, plugin, settings.

In: messages of the process, by topic. Out: a LogProcess. A topic's first line is kept as its
quote. Formats: src/bootstrap.cc, src/transport/net_{socket,ib}.cc, src/plugin/net.cc, param.cc.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from bench.formats.nccl_log import lists, rdma
from bench.records import LogNet, LogProcess, LogQuote

if TYPE_CHECKING:
    from bench.formats.nccl_log.members import Group, Member

LONGEST_QUOTE = 600  # NCCL's longest own line is the list of 32 RDMA devices
MOST_SETTINGS = 256

VERSION = re.compile(
    r"([NR])CCL version ?:? ?(\d{1,2}\.\d{1,3}[\w.+:-]{0,60}(?: HEAD:\w{1,20}\+?)?)"
)
_SETTING = re.compile(
    r"((?:NCCL|RCCL|HSA|UCX|FI|OFI)_\w{1,60}) set (?:by environment )?to (.{0,300}?)\s*$"
)
_NUMBER = re.compile(r"-?\d+\.$")
_LIBRARY = re.compile(r"(lib[\w.-]{1,80}?\.so(?:\.\d{1,3}){0,3})")
_LOADED = re.compile(
    r"Loaded net plugin ([^()]{1,60}?) \(v\d{1,2}\)|P2P plugin (?:v\d{1,2} )?(\S{1,40})"
)
_OFI = re.compile(r"(aws-ofi-[nr]ccl \S{1,20})")
_HCA = re.compile(r" for HCA (?:(\d{1,3}) )?'([^']{1,60})'")
_MNNVL = re.compile(
    r"busId (0x\w{1,16}) fabric UUID ([\w.]{1,64}) cliqueId (\w{1,20}) state (\d{1,4}) "
    r"healthMask (\w{1,12})(?: degradedBw (\S{1,20}))?"
)
_CLIQUE = re.compile(r"MNNVL (\d) cliqueId (\w{1,20}) cliqueSize (\d{1,6})")

# What a plugin or NCCL says when a plugin is of no use.
PLUGIN_FAILURES = (
    "No eligible providers", "Unable to find a protocol that worked", "initialization failed",
    "Initializing plugin failed", "is unsupported", "No devices found", "No device found",
    "no usable", "not supported on this platform", "Failed to initialize NET plugin",
)  # fmt: skip
_INTERNAL = ("IB", "Socket")


class Process:
    """The notes on one process while its log is read; record() makes the LogProcess."""

    def __init__(self, host: str, pid: int, line: int) -> None:
        self.host, self.pid, self.line, self.last_line = host, pid, line, line
        self.version: str | None = None
        self.flavour: str = "nccl"
        self.cuda_driver: str | None = None
        self.bootstrap: tuple[LogNet, ...] = ()
        self.nets: dict[tuple[str, int | None, str], LogNet] = {}
        self.fused: dict[int, LogNet] = {}
        self.speeds: dict[str, int] = {}
        self.oob: LogNet | None = None
        self.network: str | None = None
        self.rdma: bool | None = None
        self.plugin: str | None = None
        self.plugin_wanted = False
        self.plugin_outcome: str | None = None
        self.environment: dict[str, str] = {}
        self.fabric: dict[str, str] = {}
        self.gdr_devices: dict[str, bool] = {}
        self.quotes: dict[str, LogQuote] = {}
        self.failed: LogQuote | None = None
        self.devices: set[int] = set()
        self.launcher_ranks: set[int] = set()
        self.places: list[tuple[Group, Member]] = []  # its ranks in communicators

    def quote(self, topic: str, text: str, line: int) -> None:
        if topic not in self.quotes:
            self.quotes[topic] = LogQuote(line=line, text=text[:LONGEST_QUOTE])

    # --- topics: each takes the message and its line number -----------------------------------

    def bootstrapped(self, text: str, line: int) -> None:
        """ "Bootstrap : Using eth0:10.0.0.1<0>", up to 2.7 a list with [0] before the first."""
        found = lists.sockets(text)
        if found and not self.bootstrap:
            self.bootstrap = found
            self.quote("bootstrap", text, line)

    def interface(self, text: str, line: int) -> None:
        """ "NET : Using interface lo:127.0.0.1<0>" (2.3): one a line; the first is met on."""
        for net in lists.sockets(text):
            known = [n for n in self.nets.values() if n.network == "Socket"]
            if any(n.name == net.name and n.address for n in known):
                continue  # bootstrap and NET/Socket both look for interfaces
            placed = [n for n in known if n.name == net.name]
            index = placed[0].index if placed else len(known)
            self.add(LogNet(name=net.name, index=index, address=net.address))
            self.quote("sockets", text, line)

    def distances(self, text: str, line: int) -> None:
        """ "CUDA Dev 0, IP Interfaces : lo(SOC) eth0(PXB)" (2.3): names in NCCL's order."""
        if "IP Interfaces" in text and not any(n.network == "Socket" for n in self.nets.values()):
            for net in lists.distances(text.partition("IP Interfaces")[2]):
                self.add(net)
            self.quote("sockets", text, line)

    def sockets(self, text: str, line: int) -> None:
        if " Using" in text:
            for net in lists.sockets(text):
                self.add(net)
        elif match := _HCA.search(
            text
        ):  # "NET/Socket : GPU Direct RDMA Disabled for HCA 0 'hsn0'"
            names = [net.name for net in self.nets.values() if net.network == "Socket"]
            if match[2] not in names:
                self.add(LogNet(name=match[2], index=int(match[1]) if match[1] else None))
        else:
            return
        self.quote("sockets", text, line)

    def using(self, text: str, line: int) -> None:
        """ "Using network Socket", 2.3 "Using internal Network Socket"; "Using non-device net
        plugin version 0" says nothing. Each communicator has a network of its own; the first
        counts, and Socket only where no other is used: it proves no fall back beside another."""
        text = text.replace("Using internal Network ", "Using network ", 1)
        if not text.startswith("Using network "):
            return
        name = text[len("Using network ") :].split(" comm 0x")[0].strip()[:60]
        if self.network is None or (self.network == "Socket" and name not in ("", "Socket")):
            self.network = name
            self.quotes.pop("network", None)
            self.quote("network", text, line)
        if name not in _INTERNAL:
            self.plugin, self.plugin_outcome = self.plugin or name, "used"

    def assigned(self, text: str, line: int) -> None:
        """ "Assigned NET plugin Socket to comm" (2.27)."""
        if text.startswith("Assigned NET plugin ") and self.network is None:
            self.using(f"Using network {text[20:].removesuffix(' to comm')}", line)

    def plugins(self, text: str, line: int) -> None:
        """ "NET/Plugin …", "NET/OFI …" and their like; loading is no proof of use."""
        if "Plugin name set by env" in text:
            self.plugin_wanted = True
            self.plugin = self.plugin or text.rpartition(" to ")[2].strip()[:60]
        elif any(words in text for words in PLUGIN_FAILURES):
            self.plugin_failed(text, line)
        elif "symbol" in text:
            return  # "Failed to find ncclCollNetPlugin_v8 symbol": NCCL tries version by version
        elif "No plugin found" in text or "Could not find:" in text or "cannot open" in text:
            if self.plugin_outcome is None:
                library = _LIBRARY.search(text)
                self.plugin = self.plugin or (library[1] if library else None)
                self.plugin_outcome = "not-found"
                self.quote("plugin", text, line)
        elif match := _LOADED.search(text):
            self._loaded(match[1] or match[2], text, line)
        elif match := _OFI.search(text):
            self._loaded(match[1], text, line)
        elif "Selected Provider is" in text or "Selected provider is" in text:
            self.quote("provider", text, line)

    def plugin_failed(self, text: str, line: int) -> None:
        name = text.rpartition("NET plugin ")[2] if "NET plugin " in text else ""
        if name.strip() in _INTERNAL:
            return
        self.quote("plugin-failed", text, line)
        if self.plugin_outcome != "used":
            self.plugin_outcome = "failed"
            self.plugin = self.plugin or name.strip()[:60] or text.split(" ", 1)[0]

    def warned(self, text: str, line: int) -> None:
        """A warning of a net plugin is about that plugin: "NET/OFI Initializing plugin failed"."""
        if text.startswith("NET/") and not text.startswith(("NET/IB", "NET/Socket")):
            self.plugins(text, line)

    def _loaded(self, name: str, text: str, line: int) -> None:
        if self.plugin_outcome in (None, "not-found"):
            self.plugin, self.plugin_outcome = name, "loaded"
        self.quote("plugin", text, line)

    def setting(self, text: str, line: int) -> None:
        match = _SETTING.match(text)
        if match is None or len(self.environment) >= MOST_SETTINGS:
            return
        value = match[2]
        if _NUMBER.match(value):
            value = value[:-1]  # the full stop of the sentence
        if match[1] not in self.environment:
            self.environment[match[1]] = value
            self.quote(match[1], text, line)
        if match[1] == "NCCL_NET_PLUGIN":
            self.plugin_wanted = value not in ("", "none")

    def versioned(self, text: str, line: int) -> None:
        if (match := VERSION.search(text)) and self.version is None:
            self.version = match[2].strip()
            self.flavour = "rccl" if match[1] == "R" else "nccl"
            self.quote("version", text, line)

    def driver(self, text: str, line: int) -> None:
        self.cuda_driver = self.cuda_driver or text.split(" ", 1)[-1].strip()[:20]

    def nvlink_fabric(self, text: str, line: int) -> None:
        if match := _MNNVL.search(text):
            names = ("busId", "uuid", "cliqueId", "state", "healthMask", "degradedBw")
            for name, value in zip(names, match.groups(), strict=True):
                if value is not None:
                    self.fabric.setdefault(name, value)
            self.quote("fabric", text, line)
        elif match := _CLIQUE.search(text):
            self.fabric.setdefault("cliqueId", match[2])
            self.fabric.setdefault("cliqueSize", match[3])
            self.quote("clique", text, line)
        elif "DEGRADED" in text:
            self.fabric.setdefault("degradedBw", "True")
            self.quote("degraded", text, line)

    def add(self, net: LogNet) -> None:
        if len(self.nets) < 4 * lists.MOST_DEVICES:
            self.nets.setdefault(
                (net.network, net.index, "" if net.index is not None else net.name), net
            )

    # --- the record -------------------------------------------------------------------------

    def record(self, ranks: tuple[int, ...]) -> LogProcess:
        sockets = [net for net in self.nets.values() if net.network == "Socket"]
        met = self.bootstrap or (tuple(sockets[:1]) if self._met_on_first(sockets) else ())
        named = {net.index: net.name for net in self.nets.values() if net.network != "Socket"}
        return LogProcess(
            host=self.host,
            pid=self.pid,
            line=self.line,
            last_line=self.last_line,
            ranks=ranks,
            tags=tuple(sorted(self.launcher_ranks)),
            devices=tuple(sorted(self.devices)),
            nccl_version=self.version,
            flavour="rccl" if self.flavour == "rccl" else "nccl",
            cuda_driver=self.cuda_driver,
            bootstrap=met[0] if met else None,
            bootstrap_candidates=met if len(met) > 1 else (),
            nets=tuple(self._with_speed(net) for net in self.nets.values()),
            fused=tuple(self.fused.values()),
            oob=self.oob,
            network=self.network,
            rdma=self.rdma,
            plugin=self.plugin,
            plugin_wanted=self.plugin_wanted,
            plugin_outcome=self.plugin_outcome,  # type: ignore[arg-type]
            environment=self.environment,
            fabric=self.fabric,
            gdr_devices={
                (named.get(int(name), name) if name.isdecimal() else name): on
                for name, on in self.gdr_devices.items()
            },
            quotes=self.quotes,
            failed=self.failed,
        )

    def _met_on_first(self, sockets: list[LogNet]) -> bool:
        """2.3 printed no bootstrap line; it met on the first interface of its list."""
        quote = self.quotes.get("sockets")
        return bool(sockets) and quote is not None and not quote.text.startswith("NET/Socket")

    def _with_speed(self, net: LogNet) -> LogNet:
        speed = self.speeds.get(net.name)
        if speed is None:
            return net
        fields = {name: getattr(net, name) for name in net.__struct_fields__}
        return LogNet(**{**fields, "speed_mbit": speed})


Topic = Callable[[Process, str, int], None]
# First word of a message -> who takes it. "NET/OFI" and other plugins: see reader.
TOPICS: dict[bytes, Topic] = {
    b"Bootstrap": Process.bootstrapped,
    b"Bootstrap:": Process.bootstrapped,
    b"NET": Process.interface,
    b"CUDA": Process.distances,
    b"NET/Socket": Process.sockets,
    b"NET/Socket:": Process.sockets,
    b"NET/IB": rdma.infiniband,
    b"NET/IB:": rdma.infiniband,
    b"GPU": rdma.gpu_direct,
    b"Using": Process.using,
    b"Assigned": Process.assigned,
    b"NET/Plugin": Process.plugins,
    b"NET/Plugin:": Process.plugins,
    b"P2P": Process.plugins,
    b"Failed": Process.plugins,
    b"External": Process.plugins,
    b"NCCL": Process.versioned,
    b"RCCL": Process.versioned,
    b"cudaDriverVersion": Process.driver,
    b"MNNVL": Process.nvlink_fabric,
}
