"""Services that GPUs rely on: Fabric Manager, IMEX, the persistence daemon.

In: systemd (one question for all), else the processes that are visible; IMEX's own tool and files.
Out: one `Service` each. A container sees neither systemd nor the host's processes: then the state
is not readable, which is not the same as not running.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from bench.facts import sysfs, tool
from bench.records import Service

Name = Literal["fabric-manager", "imex", "persistence"]
UNITS: dict[Name, str] = {
    "fabric-manager": "nvidia-fabricmanager.service",
    "imex": "nvidia-imex.service",
    "persistence": "nvidia-persistenced.service",
}
# As /proc/PID/comm has them, cut at 15 characters.
PROCESSES: dict[Name, str] = {
    "fabric-manager": "nv-fabricmanage",
    "imex": "nvidia-imex",
    "persistence": "nvidia-persiste",
}
MOST_PROCESSES = 65_536
NODES_BYTES = 256 * 1024  # an address a line; an NVL72 domain has 18


def read(root: Path = Path("/"), *, deadline_s: float = tool.DEADLINE_S) -> tuple[Service, ...]:
    """The state of each service. Of use only where there is an NVIDIA driver."""
    states, why = _systemd(root, deadline_s)
    if states is None:
        seen = _processes(root / "proc")
        found = {
            name: Service(name=name, state="running")
            if process in seen
            else Service(name=name, why=f"{why}; no process of that name is visible")
            for name, process in PROCESSES.items()
        }
    else:
        found = {name: Service(name=name, state=states.get(name, "not-found")) for name in UNITS}
    found["imex"] = _imex(found["imex"], root, deadline_s)
    return tuple(found.values())


def _systemd(root: Path, deadline_s: float) -> tuple[dict[Name, str] | None, str]:
    """State by service name, else why systemd could not be asked."""
    if not (root / "run/systemd/system").is_dir():
        return None, "no systemd here"
    try:
        text = tool.output(
            ["systemctl", "show", "--property=Id,LoadState,ActiveState", *UNITS.values()],
            deadline_s=deadline_s,
        )
    except tool.NoText as no:
        return None, str(no)
    names = {unit: name for name, unit in UNITS.items()}
    states: dict[Name, str] = {}
    for block in text.split("\n\n"):
        pairs = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        name = names.get(pairs.get("Id", ""))
        if name is not None:
            loaded = pairs.get("LoadState") != "not-found"
            states[name] = pairs.get("ActiveState", "unknown") if loaded else "not-found"
    return (states, "") if states else (None, "systemctl told nothing")


def _processes(proc: Path) -> set[str]:
    numbers = [name for name in sysfs.names(proc) if name.isdigit()][:MOST_PROCESSES]
    return {name for number in numbers if (name := sysfs.text(proc / number / "comm"))}


def _imex(service: Service, root: Path, deadline_s: float) -> Service:
    """IMEX joins GPUs of several hosts into one NVLink domain; it says itself whether it does."""
    channels = sysfs.names(root / "dev/nvidia-caps-imex-channels")
    nodes = sysfs.text(root / "etc/nvidia-imex/nodes_config.cfg", NODES_BYTES)
    detail = None
    if service.state in ("active", "running"):
        try:
            detail = tool.output(["nvidia-imex-ctl", "-q"], deadline_s=deadline_s).strip()[:200]
        except tool.NoText as no:
            detail = str(no)
    named = [line for line in (nodes or "").splitlines() if line.strip() and line[0] not in "#;"]
    return msgspec.structs.replace(
        service,
        detail=detail,
        nodes=len(named) if nodes is not None else None,
        channels=len(channels) or None,
    )
