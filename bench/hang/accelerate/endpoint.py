"""Where the machines meet: main_process_ip and main_process_port (torchrun: master, endpoint).

In: a Job. Out: accelerate-address and accelerate-port. Asked of jobs of several machines only; one
machine alone meets itself. An address is held against lists of hosts where such are at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from bench.hang.accelerate import address_form as form
from bench.hang.accelerate import one_machine, values
from bench.hang.accelerate.accusation import finding
from bench.hang.accelerate.jobs import Job
from bench.hang.accelerate.nodes import AGENTS, Node
from bench.judge.docket import Docket
from bench.records import Evidence, HostLine, Setting, Severity

HIGHEST_PORT = 65535
PRIVILEGED = 1024  # below, only root may listen (Linux, net.ipv4.ip_unprivileged_port_start)
SHOWN = 8
REMEDY = "accelerate launch --main_process_ip ADDRESS_OF_MACHINE_0 …   # the same on all machines"


def judge(job: Job, docket: Docket) -> None:
    """Form and reach of the address, the port's number, and whether all say the same."""
    nodes = [node for node in job.several if _meets(node)]
    for node in job.nodes:
        if node.machines == 1 and (values.number(node.endpoint[1]) or 0) > HIGHEST_PORT:
            _port(node, node.endpoint[1], docket)
    if not nodes:
        return
    asked: set[tuple[str | None, str | None]] = set()
    for node in nodes:
        address, port = node.endpoint
        key = (values.text(address), values.text(port))
        if key in asked:
            continue
        asked.add(key)
        _address(job, node, address, docket)
        _port(node, port, docket)
    if len(nodes) > 1:
        _same(nodes, 0, "address", "look for machine 0 at different addresses", docket)
        _same(nodes, 1, "port", "look for machine 0 at different ports", docket)


def _meets(node: Node) -> bool:
    if not node.is_accelerate:
        return node.is_torchrun
    return node.kind is None or node.kind in AGENTS


def _address(job: Job, node: Node, setting: Setting | None, docket: Docket) -> None:
    if setting is None or setting.value is None:
        _absent(node, docket)
        return
    text = values.text(setting)
    if text is None:
        return
    wrong = form.fault(text)
    if wrong:
        severity, why, kind = wrong
        if kind == "loopback" and one_machine.is_shared(job):
            return
        if kind == "loopback" and node.rank == 0 and _others_reach(job, node):
            severity = "warning"  # machine 0 itself finds its own store there
        docket.add(
            finding(
                "address",
                severity,
                f"{_called(node)} {text} {why}.",
                node=node,
                at=setting,
                evidence=(
                    values.evidence(f"{_called(node)} {text}", setting),
                    values.evidence(f"{node.machines} machines", node.get("num_machines")),
                ),
                remedy=REMEDY,
                kind=kind,
            )
        )
        return
    _listed(job, node, text, setting, docket)


def _absent(node: Node, docket: Docket) -> None:
    """With several machines and no address Accelerate hands torchrun the word None."""
    if not node.is_accelerate or node.command is None or not node.complete or node.config is None:
        return
    if node.kind not in AGENTS or node.starts_others:
        return
    docket.add(
        finding(
            "address",
            "broken",
            f"No main_process_ip for {node.machines} machines: torchrun would get the endpoint "
            f'"None:{values.text(node.endpoint[1]) or 29500}".',
            node=node,
            at=node.get("num_machines"),
            evidence=(
                Evidence(basis="asked", text=f"command: {node.command.text[:160]}"),
                Evidence(basis="asked", text=f"{node.config.file} has none either"),
            ),
            remedy=REMEDY,
            kind="absent",
        )
    )


def _port(node: Node, setting: Setting | None, docket: Docket) -> None:
    text = values.text(setting)
    if setting is None or text is None:
        return
    number = values.number(setting)
    severity: Severity = "broken"
    if number is None or not 0 <= number <= HIGHEST_PORT:
        why, kind = "is no port: a number from 1 to 65535 is expected", "form"
    elif number == 0:
        why, kind = "lets each machine pick a free port of its own; only one machine can", "zero"
    elif number < PRIVILEGED:
        why, kind = "is below 1024: only root may listen there", "privileged"
        severity = "warning"
    else:
        return
    docket.add(
        finding(
            "port",
            severity,
            f"{_port_called(node)} {text} {why}.",
            node=node,
            at=setting,
            evidence=(values.evidence(f"{_port_called(node)} {text}", setting),),
            remedy="accelerate launch --main_process_port 29500 …   # the same on all machines",
            kind=kind,
        )
    )


def _same(nodes: Sequence[Node], which: int, rule: str, words: str, docket: Docket) -> None:
    """Machines of one job that name different places; what is open or absent says nothing."""
    told: dict[str, list[tuple[Node, Setting]]] = {}
    for node in nodes:
        setting = node.endpoint[which]
        text = values.text(setting)
        if (
            setting is not None
            and text is not None
            and not (which == 0 and form.is_loopback(text))
        ):
            told.setdefault(text.lower(), []).append((node, setting))
    if len(told) < 2 or (rule == "address" and not form.are_alike(list(told))):
        return
    sides = sorted(told.items(), key=lambda side: -len(side[1]))
    odd, setting = sides[-1][1][0]
    called = _called(odd) if which == 0 else _port_called(odd)
    docket.add(
        finding(
            rule,
            "broken",
            f"The machines of one job {words}: "
            + values.joined([f"{text} ({len(who)})" for text, who in sides], 4)
            + ".",
            node=odd,
            at=setting,
            evidence=[
                values.evidence(f"{called} {text}", who[0][1]) for text, who in sides[:SHOWN]
            ],
            remedy=REMEDY if which == 0 else "main_process_port: 29500   # on all machines",
            kind="differs",
        )
    )


# --- lists of hosts -----------------------------------------------------------------------------


def _listed(job: Job, node: Node, text: str, setting: Setting, docket: Docket) -> None:
    """The address against lists of hosts: whose it is, and whether that is machine 0's."""
    known = [line for line in job.hosts if line.addresses or form.is_numeric(line.host)]
    if not known:
        return
    owning = [line for line in known if text in (line.host, *line.addresses)]
    owners = list(dict.fromkeys(line.host for line in owning))
    machines = {(line.file, line.line) for line in owning}  # a line names one by several names
    loops = [
        line
        for line in known
        if line.host == text and any(a.startswith("127.") for a in line.addresses)
    ]
    first = _machine_zero(job)
    told: tuple[Severity, str, str, HostLine]
    if loops:
        told = ("warning", "is a loopback address in the list of hosts", "loopback", loops[0])
    elif len(machines) > 1 and len(owners) > 1 and form.is_numeric(text):
        why = f"is an address of {values.joined(owners, 3)} alike: none finds another there"
        told = ("broken", why, "shared", owning[0])
    elif first and owners and first not in owners:
        line = next(line for line in known if text in (line.host, *line.addresses))
        why = f"belongs to {owners[0]}, but machine 0 is {first}"
        told = ("broken", why, "not-machine-0", line)
    elif not owners and _covers(job, known) and (form.is_numeric(text) or not _is_dotted(text)):
        told = ("warning", "is none of the hosts in the list", "not-listed", known[0])
    else:
        return
    severity, why, kind, line = told
    docket.add(
        finding(
            "address",
            severity,
            f"{_called(node)} {text} {why}.",
            node=node,
            at=setting,
            evidence=(values.evidence(f"{_called(node)} {text}", setting), _line_evidence(line)),
            remedy=REMEDY,
            kind=kind,
            sure=False,
        )
    )


def _covers(job: Job, known: Sequence[HostLine]) -> bool:
    """A list with as many hosts as the job has machines, each with its address."""
    return len({line.host for line in known}) == job.machines


def _is_dotted(text: str) -> bool:
    return "." in text


def _machine_zero(job: Job) -> str | None:
    """The host on which rank 0 is started, where a command says so, or its file's name."""
    names = {line.host.lower(): line.host for line in job.hosts}
    for node in job.nodes:
        if node.rank != 0 or (node.machines or 1) < 2:
            continue
        if node.command and len(node.command.starter.hosts) == 1:
            return node.command.starter.hosts[0]
        path = PurePath(node.file)
        for word in (path.stem, path.parent.name):
            if word.lower() in names:
                return names[word.lower()]
    return None


def _line_evidence(line: HostLine) -> Evidence:
    told = " ".join([*line.addresses, line.host])
    return Evidence(basis="claimed", text=f"{told} ({line.file}:{line.line})")


def _others_reach(job: Job, node: Node) -> bool:
    """Whether the other machines name another, reachable address."""
    others = [values.text(each.endpoint[0]) for each in job.nodes if each is not node]
    return bool(others) and all(text and not form.is_loopback(text) for text in others)


def _called(node: Node) -> str:
    if node.is_accelerate:
        return "main_process_ip"
    return "rdzv_endpoint" if node.option("rdzv_endpoint") else "master_addr"


def _port_called(node: Node) -> str:
    if node.is_accelerate:
        return "main_process_port"
    return "rdzv_endpoint's port" if node.option("rdzv_endpoint") else "master_port"
