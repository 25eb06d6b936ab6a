"""What surrounds a measurement, as topics that can be held against another's.

In: hosts, plan and candidates of a report. Out: one Topic a thing, its values by host; what was
not readable is left out, for two unknowns are not alike. Things that follow from another (what
CUDA a driver can run) are left out too: one change is told once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import Literal

from bench.judge.verdict import serious
from bench.records import Candidate, HostFacts, Plan, Report, Topic

Kind = Literal["factor", "setting", "circumstance"]
Reader = Callable[[HostFacts], str | None]

# Interfaces whose MTU and speed say nothing of a wire.
VIRTUAL = ("loopback", "docker", "veth", "bridge", "virtual")
CLOCKS, THROTTLING = "GPU clocks meanwhile", "throttling"
# Variables that name the job, the host or the launcher's port: another each time.
OF_THE_JOB = ("SLURM_", "TORCHELASTIC_", "NCCL_COMM_ID")


def of_report(report: Report) -> Iterator[Topic]:
    """All that a report tells, in the order in which people look for a cause."""
    hosts = report.hosts
    for name, reader in FACTORS:
        yield from _by_host(name, hosts, reader)
    yield from _packages(hosts)
    yield from _environment(hosts)
    if report.plan is not None:
        yield from of_plan(report.plan, report.candidates)
    yield single("backend", [report.backend], "setting")
    yield from _by_host("boot", hosts, lambda host: host.boot_id, "circumstance")
    yield from _by_host("placement", hosts, _placement)
    yield from _motion(report)
    if hosts:
        yield single("hosts", [", ".join(sorted(host.host for host in hosts))], "circumstance")
    for key, value in report.labels.items():
        yield single(f"label {key}", [value], "circumstance")
    if report.fabric is not None:
        yield single("fabric file", [report.fabric.name], "setting")
    codes = sorted({f.code for f in report.findings if serious(f)})
    yield single("the sweep's findings", [", ".join(codes) or "none"], "circumstance")


def _motion(report: Report) -> Iterator[Topic]:
    """What the GPUs did meanwhile: clocks, and why they were held down."""
    clocks: dict[str, list[int]] = {}
    held: dict[str, set[str]] = {}
    for session in report.sessions:
        for evidence in session.hosts:
            clocks.setdefault(evidence.host, []).extend(
                after
                for name, (_, after) in evidence.gpu_clocks_mhz.items()
                if name.endswith("sm")
            )
            held.setdefault(evidence.host, set()).update(evidence.throttle_reasons)
    known: dict[str, tuple[str, ...]] = {
        host: (f"{median(own):.0f} MHz",) for host, own in clocks.items() if own
    }
    if known:
        yield Topic(name=CLOCKS, kind="circumstance", values=known)
        words: dict[str, tuple[str, ...]] = {
            host: (", ".join(sorted(held[host])) or "none",) for host in known
        }
        yield Topic(name=THROTTLING, kind="circumstance", values=words)


def of_plan(plan: Plan, candidates: Sequence[Candidate]) -> Iterator[Topic]:
    settings = plan.settings
    yield single("sizes", [_sizes(plan.sizes_bytes)], "setting")
    yield single("collectives", [", ".join(settings.collectives)], "setting")
    yield single("element type", [settings.dtype], "setting")
    names = [c.name for c in candidates]
    yield single("candidates", [", ".join(sorted(names))], "setting")
    for candidate in candidates:
        if candidate.interfaces:
            names = sorted(set(candidate.interfaces.values()))
            yield single(f"interfaces of {candidate.name}", [", ".join(names)])


def single(name: str, values: Iterable[str | None], kind: Kind = "factor") -> Topic:
    """A topic of no host."""
    kept = tuple(dict.fromkeys(value for value in values if value))
    return Topic(name=name, kind=kind, values={"": kept} if kept else {})


def _by_host(
    name: str, hosts: Sequence[HostFacts], reader: Reader, kind: Kind = "factor"
) -> Iterator[Topic]:
    values: dict[str, tuple[str, ...]] = {
        host.host: (value,) for host in hosts if (value := reader(host))
    }
    if values:
        yield Topic(name=name, kind=kind, values=values)


def _packages(hosts: Sequence[HostFacts]) -> Iterator[Topic]:
    names = sorted({name for host in hosts for name in host.software.packages})
    for name in names:
        yield from _by_host(name, hosts, lambda host, name=name: host.software.packages.get(name))  # type: ignore[misc]


def _environment(hosts: Sequence[HostFacts]) -> Iterator[Topic]:
    """A variable that only one side sets differs as well: hosts without it have it unset."""
    names = sorted({name for host in hosts for name in host.environment})
    for name in names:
        if not name.startswith(OF_THE_JOB):
            yield from _by_host(
                name,
                hosts,
                lambda host, name=name: host.environment.get(name, "unset"),  # type: ignore[misc]
            )


def _counted(values: Iterable[str | None]) -> str | None:
    """ "8 × NVIDIA H100, 1 × other"; None where nothing is known."""
    counts = Counter(value for value in values if value)
    return ", ".join(f"{n} × {value}" for value, n in sorted(counts.items())) or None


def _sizes(sizes_bytes: Sequence[int]) -> str | None:
    if not sizes_bytes:
        return None
    return f"{len(sizes_bytes)} from {min(sizes_bytes)} to {max(sizes_bytes)} bytes"


def _placement(host: HostFacts) -> str | None:
    """Which CPUs each local rank had."""
    told = [f"{p.local_rank}: {p.cpus}" for p in host.placements if p.cpus]
    return "; ".join(told) or None


def _nccl(host: HostFacts) -> str | None:
    return host.software.nccl_library or host.software.nccl


def _driver_kind(host: HostFacts) -> str | None:
    opened = host.software.driver_open
    return None if opened is None else "open modules" if opened else "proprietary modules"


def _services(host: HostFacts) -> str | None:
    return ", ".join(f"{s.name} {s.state}" for s in host.services if s.state) or None


def _mtus(host: HostFacts) -> str | None:
    wires = [i for i in host.interfaces if i.kind not in VIRTUAL and i.up]
    return ", ".join(f"{i.name} {i.mtu}" for i in wires) or None


def _speeds(host: HostFacts) -> str | None:
    wires = [i for i in host.interfaces if i.kind not in VIRTUAL and i.speed_mbit]
    return ", ".join(f"{i.name} {i.speed_mbit} Mbit/s" for i in wires) or None


def _ports(host: HostFacts, word: Callable[[object], str | None]) -> str | None:
    told = [
        f"{port.device}:{port.port} {value}" for port in host.rdma_ports if (value := word(port))
    ]
    return ", ".join(told) or None


def _port(field: str, unit: str = "") -> Reader:
    def read(host: HostFacts) -> str | None:
        return _ports(host, lambda port: _told(getattr(port, field), unit))

    return read


def _told(value: object, unit: str) -> str | None:
    return None if value is None else f"{value:g}{unit}" if isinstance(value, float) else (
        f"{value}{unit}"
    )  # fmt: skip


def _firmware(host: HostFacts) -> str | None:
    return _counted(port.firmware for port in host.rdma_ports)


def _gpu(field: str) -> Reader:
    def read(host: HostFacts) -> str | None:
        return _counted(
            None if (value := getattr(gpu, field)) is None else str(value) for gpu in host.gpus
        )

    return read


def _pcie(host: HostFacts) -> str | None:
    """Widths, and the generation that GPU and slot can do: what runs now may be saving power."""
    return _counted(
        f"gen {gpu.pcie_max_generation} x{gpu.pcie_width}" if gpu.pcie_width else None
        for gpu in host.gpus
    )


def _acs(host: HostFacts) -> str | None:
    known = [device for device in host.pci_devices if device.acs is not None]
    on = sum(bool(set(device.acs or ()) & {"ReqRedir", "CmpltRedir"}) for device in known)
    return f"redirection on at {on} of {len(known)} bridges" if known else None


def _pairs(host: HostFacts) -> str | None:
    return _counted(
        f"{pair.nvlinks} NVLinks" if pair.nvlinks else pair.ancestor or pair.pci_path
        for pair in host.gpu_pairs
    )


def _iommu(host: HostFacts) -> str | None:
    if host.iommu is None:
        return None
    groups = ", ".join(f"{n} {kind}" for kind, n in sorted(host.iommu.groups.items()))
    return groups or "off"


def _machine(field: str) -> Reader:
    return lambda host: getattr(host.machine, field) if host.machine is not None else None


def _software(field: str) -> Reader:
    return lambda host: getattr(host.software, field)


def _meets(host: HostFacts) -> str | None:
    return next((c.bootstrap for c in host.nccl_choices if c.setting is None), None)


def _conf(host: HostFacts) -> str | None:
    told = [f"{k}={v}" for conf in host.nccl_conf for k, v in sorted(conf.settings.items())]
    return ", ".join(told) or None


def _libraries(host: HostFacts) -> str | None:
    """Files of NCCL and its plugins that were mapped, without the folders of an environment."""
    return ", ".join(sorted({path.rpartition("/")[2] for path in host.mapped_libraries})) or None


FACTORS: tuple[tuple[str, Reader], ...] = (
    ("driver", _software("driver")),
    ("driver's kind", _driver_kind),
    ("NCCL", _nccl),
    ("torch", _software("torch")),
    ("CUDA", _software("cuda")),
    ("kernel", _software("kernel")),
    ("NIC firmware", _firmware),
    ("NIC driver", _port("driver")),
    ("BIOS", _machine("bios")),
    ("python", _software("python")),
    ("machine", _machine("product")),
    ("CPU", _machine("cpu")),
    ("GPUs", _gpu("name")),
    ("VBIOS", _gpu("vbios")),
    ("NVLinks", _gpu("nvlinks_active")),
    ("PCIe links", _pcie),
    ("paths between GPUs", _pairs),
    ("ACS", _acs),
    ("IOMMU", _iommu),
    ("power limits", _gpu("power_limit_w")),
    ("highest clocks", _gpu("max_sm_clock_mhz")),
    ("persistence mode", _gpu("persistence_mode")),
    ("MIG", _gpu("mig_mode")),
    ("ECC", _gpu("ecc_mode")),
    ("RDMA MTU", _port("active_mtu")),
    ("RDMA rate", _port("rate_gbit", " Gbit/s")),
    ("link layer", _port("link_layer")),
    ("MTU", _mtus),
    ("claimed speed", _speeds),
    ("congestion control", lambda host: host.congestion_control),
    ("kernel's command line", lambda host: " ".join(host.kernel_words) or None),
    ("kernel modules", lambda host: ", ".join(sorted(host.kernel_modules)) or None),
    ("services", _services),
    ("nccl.conf", _conf),
    ("mapped libraries", _libraries),
    ("NCCL meets on", _meets),
)
