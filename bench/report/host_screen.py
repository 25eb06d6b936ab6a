"""The terminal view of one host: what `facts` found, in the order people ask for it.

In: HostFacts. Out: text of at most `width` columns. What could not be read stands last with its
reason, never as a zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

from bench.facts import gpu_groups
from bench.records import Gpu, HostFacts, Interface, NcclChoice, RdmaPort
from bench.report import hardware_words, rank_map, units
from bench.report.text import abbreviated, cell, printable, wrapped

LABEL = 10
ADDRESSES_SHOWN = 2
SETTINGS_SHOWN = 12  # environment variables; report.json has all of them


def screen(host: HostFacts, *, width: int = 80) -> str:
    """The whole view, one block per subject that the host has something of."""
    blocks = [
        _head(host, width),
        _table(
            [_interface_row(interface) for interface in host.interfaces], INTERFACE_HEAD, width
        ),
        _table([_port_row(port) for port in host.rdma_ports], PORT_HEAD, width),
        _table([_gpu_row(gpu) for gpu in host.gpus], GPU_HEAD, width),
        _map(host, width),
        _hardware(host, width),
        _nccl(host, width),
        _environment(host, width),
        _unreadable(host, width),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _head(host: HostFacts, width: int) -> list[str]:
    software = host.software
    versions = [
        f"{name} {version}"
        for name, version in (
            ("Linux", software.kernel),
            ("Python", software.python),
            ("torch", software.torch),
            ("NCCL", software.nccl),
            ("CUDA", software.cuda),
            ("driver", software.driver),
        )
        if version
    ]
    versions += [f"{name} {version}" for name, version in sorted(software.packages.items())]
    cores = units.count(host.cores, "core")
    gpus = units.count(len(host.gpus), "GPU") if host.gpus else "no GPU"
    return [
        *_labelled("host", f"{host.hostname} · {cores} · {gpus}", width),
        *_labelled("software", " · ".join(versions), width),
    ]


INTERFACE_HEAD = ("interface", "kind", "state", "MTU", "claims", "addresses")


def _interface_row(interface: Interface) -> tuple[str, ...]:
    state = "running" if interface.running else "no carrier" if interface.up else "down"
    addresses = [f"{a.address}/{a.prefix_length}" for a in interface.addresses]
    # A virtual interface's speed file says 10000 whatever is underneath; it is no claim.
    speed = interface.speed_mbit if interface.kind in ("physical", "bond", "wifi") else None
    return (
        cell(interface.name, 15),
        interface.kind,
        state,
        str(interface.mtu),
        f"{units.significant(speed / 1000)} Gbit/s" if speed else units.UNKNOWN,
        abbreviated(addresses, ADDRESSES_SHOWN) or units.UNKNOWN,
    )


PORT_HEAD = ("RDMA port", "state", "rate", "link", "interface", "firmware")


def _port_row(port: RdmaPort) -> tuple[str, ...]:
    return (
        cell(f"{port.device}:{port.port}", 18),
        cell(port.state or units.UNKNOWN, 10),
        f"{units.significant(port.rate_gbit)} Gbit/s" if port.rate_gbit else units.UNKNOWN,
        cell(port.link_layer or units.UNKNOWN, 12),
        cell(port.interface or units.UNKNOWN, 15),
        cell(port.firmware or units.UNKNOWN, 14),
    )


GPU_HEAD = ("GPU", "name", "PCIe", "NVLinks", "NUMA node")


def _gpu_row(gpu: Gpu) -> tuple[str, ...]:
    def known(value: object) -> str:
        return units.UNKNOWN if value is None else str(value)

    pcie = f"gen {known(gpu.pcie_generation)} x{known(gpu.pcie_width)}"
    if (gpu.pcie_generation, gpu.pcie_width) != (gpu.pcie_max_generation, gpu.pcie_max_width):
        pcie += f" of gen {known(gpu.pcie_max_generation)} x{known(gpu.pcie_max_width)}"
        pcie += " (at rest)" if gpu.pcie_idle else ""
    links = known(gpu.nvlinks_active)
    if gpu.nvlinks_inactive:
        links += f" ({gpu.nvlinks_inactive} inactive)"
    return (str(gpu.index), cell(gpu.name or units.UNKNOWN, 24), pcie, links, known(gpu.numa_node))


def _map(host: HostFacts, width: int) -> list[str]:
    """Who sits where: ranks where they are known, else the GPUs as local ranks would take them."""
    rows = rank_map.seats(host)
    if host.placements:
        whole = [(s.rank, s.gpu, s.numa, s.cpus, s.cpu_nodes, s.nics) for s in rows]
        return _table(whole, rank_map.HEAD, width)
    return _table(
        [(s.rank, s.gpu, s.numa, s.cpus, s.nics) for s in rows], rank_map.ALONE_HEAD, width
    )


def _hardware(host: HostFacts, width: int) -> list[str]:
    if not host.gpus and not host.rdma_ports:
        return []
    lines: list[str] = []
    for name, sentence in hardware_words.ROWS:
        text = sentence(host)
        if text and name != "GPUs":  # their table stands above
            lines += _labelled(name, text, width)
    lines += [
        line
        for name in host.tool_outputs
        for line in _labelled("tools", f"{name}: its text is in --json", width)
    ]
    return lines


def _nccl(host: HostFacts, width: int) -> list[str]:
    lines: list[str] = []
    for choice in host.nccl_choices:
        lines += _labelled("" if lines else "NCCL", _choice(choice), width)
        if choice.line:
            lines += wrapped(f'"{choice.line}"', hang=LABEL, width=width)
    if host.data_path:
        names = "+".join(host.data_path.interfaces) or "no interface"
        words = f"data      predicted {host.data_path.transport} over {names}"
        why = f": {host.data_path.why}" if host.data_path.why else ""
        lines += _labelled("" if lines else "NCCL", words + why, width)
    for conf in host.nccl_conf:
        pairs = ", ".join(f"{name}={value}" for name, value in conf.settings.items())
        lines += _labelled("" if lines else "NCCL", f"{conf.path} sets {pairs}", width)
    return lines


def _choice(choice: NcclChoice) -> str:
    with_setting = (
        "nothing set" if choice.setting is None else f"NCCL_SOCKET_IFNAME={choice.setting}"
    )
    taken = choice.bootstrap or "no interface"
    address = f" ({choice.address})" if choice.address else ""
    return f"bootstrap {choice.basis} with {with_setting}: {taken}{address}"


def _environment(host: HostFacts, width: int) -> list[str]:
    pairs = [f"{name}={value}" for name, value in sorted(host.environment.items())]
    lines: list[str] = []
    for pair in pairs[:SETTINGS_SHOWN]:
        lines += _labelled("" if lines else "set", pair, width)
    if len(pairs) > SETTINGS_SHOWN:
        lines += _labelled("", f"… {len(pairs) - SETTINGS_SHOWN} more with --json", width)
    return lines


def _unreadable(host: HostFacts, width: int) -> list[str]:
    lines: list[str] = []
    reasons = {**host.unreadable, **gpu_groups.refusals(host.gpus)}
    for what, why in sorted(reasons.items()):
        lines += _labelled("" if lines else "unread", f"{what}: {why}", width)
    return lines


def _labelled(label: str, text: str, width: int) -> list[str]:
    return wrapped(printable(text), label=label, hang=LABEL, width=width)


def _table(rows: Sequence[tuple[str, ...]], head: tuple[str, ...], width: int) -> list[str]:
    """The last column gets what the others leave of the width."""
    if not rows:
        return []
    # tabulate keeps two columns free beside each heading, and puts two between columns.
    widths = [
        max(len(title) + 2, *(len(row[at]) for row in rows)) for at, title in enumerate(head)
    ]
    room = max(width - sum(widths[:-1]) - 2 * len(widths[:-1]), len(head[-1]))
    fitted = [(*row[:-1], cell(row[-1], room)) for row in rows]
    return tabulate(fitted, headers=head, tablefmt="plain", disable_numparse=True).splitlines()
