"""What is known of the run that a table came from: its GPUs, hosts, settings.

In: a CollectiveTable and the dossier it lies in. Out: a Run. Settings are those of its command
line, of its environment where the file holds it, and of NCCL's own lines in the same file.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.records import CollectiveTable, Dossier, TableDevice

# With one of these a run is not "NCCL as it comes": what others reached does not apply to it.
FORCED = (
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_NET",
    "NCCL_IB_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_SHM_DISABLE",
    "NCCL_NVLS_ENABLE",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_CTAS",
    "NCCL_COLLNET_ENABLE",
)
NO_BUS = ("", "0", "00")  # printed by old builds that could not read the bus


@dataclass(frozen=True)
class Run:
    """`hosts` and `per_host` None where the table does not tell; `bus_ids` of one host, in device
    order. `shared` is a GPU that several ranks use. `network` is what NCCL said in the same file:
    Socket, IB, a plugin's name."""

    names: tuple[str, ...]
    ranks: int | None
    hosts: int | None
    per_host: int | None
    bus_ids: tuple[str, ...]
    shared: str | None
    settings: dict[str, str]
    network: str | None

    @property
    def ring_forced(self) -> bool:
        return self.settings.get("NCCL_ALGO", "").lower() == "ring"

    @property
    def forced(self) -> dict[str, str]:
        """What keeps NCCL from its own choice. A ring between hosts is what maintainers ask for:
        it shows the ports alone, and what they carry is known."""
        asked = self.ring_forced and (self.hosts or 1) > 1
        return {
            name: value
            for name, value in self.settings.items()
            if name in FORCED and not (asked and name == "NCCL_ALGO")
        }

    @property
    def over_sockets(self) -> str | None:
        """The proof that RDMA was not used, where there is one."""
        for name, value in self.settings.items():
            if (name == "NCCL_NET" and value.lower() == "socket") or (
                name == "NCCL_IB_DISABLE" and value == "1"
            ):
                return f"{name}={value} is set"
        return "NCCL said: Using network Socket" if self.network == "Socket" else None

    @property
    def words(self) -> str:
        """ "16 ranks on 2 hosts"."""
        ranks = "one rank" if self.ranks == 1 else f"{self.ranks or 'an unknown number of'} ranks"
        if self.hosts is None:
            return ranks
        return f"{ranks} on {'one host' if self.hosts == 1 else f'{self.hosts} hosts'}"


def run_of(table: CollectiveTable, dossier: Dossier) -> Run:
    hosts = len(table.hosts) or None
    ranks = table.ranks
    even = hosts is not None and ranks is not None and ranks % hosts == 0
    listed = table.ranks_basis != "inferred" or len(table.devices) == ranks
    return Run(
        names=tuple(dict.fromkeys(d.name for d in table.devices if d.name)),
        ranks=ranks,
        # A paste may hold the last of 72 device lines only: its host is not the only one.
        hosts=hosts if listed else None,
        per_host=ranks // hosts if even and listed and ranks and hosts else None,
        bus_ids=_buses(table) if listed else (),
        shared=_shared(table),
        settings=_settings(table, dossier),
        network=_network(table, dossier),
    )


def _bus(device: TableDevice) -> str:
    return (device.bus_id or "").lower().removeprefix("0x")


def _buses(table: CollectiveTable) -> tuple[str, ...]:
    first = table.devices[0].host if table.devices else ""
    own = sorted(
        (d for d in table.devices if d.host == first), key=lambda d: (d.device or 0, d.rank)
    )
    buses = [device.bus_id or "" for device in own]
    return () if any(_bus(device) in NO_BUS for device in own) else tuple(buses)


def _shared(table: CollectiveTable) -> str | None:
    """A GPU that two ranks use: the same bus of one host, or the same index where no bus is known
    (a scheduler may give every rank its own device 0)."""
    if table.runs > 1:
        return None
    seen: set[tuple[str, str]] = set()
    for device in table.devices:
        bus = _bus(device)
        key = (device.host, f"device {device.device}" if bus in NO_BUS else f"[{device.bus_id}]")
        if device.device is None and bus in NO_BUS:
            return None
        if key in seen:
            return f"{key[1]} of {device.host}" if device.host else key[1]
        seen.add(key)
    return None


def _settings(table: CollectiveTable, dossier: Dossier) -> dict[str, str]:
    found: dict[str, str] = {}
    for log in dossier.logs:
        if log.file == table.file:
            for process in log.processes:
                found.update(process.environment)
    for variables in dossier.variables:
        if variables.file == table.file:
            found.update(variables.variables)
    found.update(table.environment)
    for word in (table.command or "").split():
        name, sign, value = word.partition("=")
        if sign and name.startswith(("NCCL_", "RCCL_")) and name.replace("_", "").isalnum():
            found[name] = value.strip("'\"")
    return found


def _network(table: CollectiveTable, dossier: Dossier) -> str | None:
    """Of a file that holds one table and NCCL's lines of one network."""
    told = {
        process.network
        for log in dossier.logs
        if log.file == table.file
        for process in log.processes
        if process.network
    }
    return told.pop() if len(told) == 1 else None
