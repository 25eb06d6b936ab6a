"""Sets of RDMA devices that differ between the hosts of a job.

In: a Job (one run's logs) and its dossier. Out: hca-set-differs. A channel has two ends, each with
a device of its own host: where one host's ends use fewer devices than the other's on the same
channels, channels have no partner. NCCL itself refuses such sets since 2.27 unless
NCCL_IGNORE_NET_MISMATCH is set.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from bench.judge.docket import Docket
from bench.judge.foreign.log_jobs import Job, Told
from bench.judge.foreign.log_words import event_line, line_of
from bench.judge.remedy import quoted
from bench.judge.words import listed
from bench.records import Dossier, Evidence, Finding, LogEdge, LogEvent, LogNet, NcclLog, Where

_NOT_OPENED = re.compile(r"(?:[Uu]nable to|could not) open (?:device )?([\w.-]{1,64})")
_MIXED = re.compile(
    r"Detected mixed local Net device counts across ranks \(min (\d+), max (\d+)\)"
)
_RANK_ON = re.compile(r"Rank (\d{1,7}) on ([\w.-]{1,255})")
_COUNTED = re.compile(r"([\w.-]{0,63}?[A-Za-z_])(\d{1,2})\Z")
MASK = "NCCL_IGNORE_NET_MISMATCH"
FEWEST_CHANNELS = 2  # one channel says nothing of a set
NOT_RDMA = ("Socket",)


def judge(job: Job, dossier: Dossier, docket: Docket) -> None:
    """One finding: what cannot be opened, lists that differ, or channels without partner."""
    opened = [(e, m[1]) for e in job.faults if (m := _NOT_OPENED.search(e.text))]
    opened.sort(key=lambda pair: (pair[0].host is None, "NET/IB" not in pair[0].text))
    own_guard = [e for e in job.events if _MIXED.search(e.text)]
    channels = _lonely_channels(job)
    lists = _list_lengths(job)
    if not (opened or own_guard or channels or lists):
        return
    if not (opened or channels or lists) and any(
        finding.code == "hca-set-differs" and finding.where.host for finding in docket.findings
    ):
        return  # the guard alone, in another run of the job that is named already
    if not (own_guard or channels or lists) and _alone(job, docket):
        return
    events = own_guard or [event for log in dossier.logs for event in log.events]
    guard = [(e, m) for e in events if (m := _MIXED.search(e.text))]
    host, rank, device, first = _named(job, opened, channels, lists)
    masked = _masked(job, dossier)
    parts = []
    if device and opened:
        parts.append(f"RDMA device {device} cannot be opened on {host or 'a host'}")
    elif lists:
        told = [f"{name} {len(nets)}" for name, nets in lists.items()]
        parts.append(f"RDMA devices differ between hosts: {listed(told)}")
    elif guard:
        low, high = guard[0][1].groups()
        parts.append(f"Ranks have between {low} and {high} RDMA devices")
    if channels:
        here, there, lonely = channels
        numbers = listed(f"{edge.channel:02d}" for edge, _ in lonely)
        used = sorted({edge.device for edge, _ in lonely if edge.device is not None})
        net = listed(f"NET/{lonely[0][0].network}/{number}" for number in used)
        word = "channels" if parts else "Channels"
        parts.append(f"{word} {numbers}, which {there} places on {net}, have no partner on {here}")
    evidence = [
        *(event_line(event) for event, _ in opened[:2]),
        *(event_line(event) for event, _ in guard[:1]),
        *(line for t in listing(job)[:4] if lists for line in line_of(t, "rdma")),
        *(_ends(log, edge, other) for log, edge, other in _shown(job, channels)),
        *masked,
    ]
    everywhere = _common(lists) or _siblings(device, channels)
    choice = quoted("=" + ",".join(everywhere)) if everywhere else "'=DEVICE'"
    docket.add(
        Finding(
            code="hca-set-differs",
            severity="degraded",
            summary=f"{'; '.join(parts)}.",
            where=Where(
                host=host,
                rank=rank,
                device=device,
                file=first[0] if first else None,
                line=first[1] if first else None,
            ),
            evidence=tuple(evidence),
            remedy=f"export NCCL_IB_HCA={choice}   # the devices that all hosts have; or give the "
            f"container access to {device or 'the missing device'} (/dev/infiniband/uverbs*)",
            confidence="asked" if opened or guard or lists else "inferred",
        )
    )


def _alone(job: Job, docket: Docket) -> bool:
    """Whether the only host that speaks went on by sockets without the device: told as that."""
    files = {log.file for log in job.logs}
    return len(job.hosts) < 2 and any(
        finding.code == "fallback-to-sockets" and finding.where.file in files
        for finding in docket.findings
    )


Lonely = tuple[str, str, list[tuple[LogEdge, LogEdge]]]


def _lonely_channels(job: Job) -> Lonely | None:
    """(host with fewer devices, the other, its channels on a device that the first does not use),
    over channels of which both ends are told."""
    ends: dict[tuple[int, int, int], dict[str, LogEdge]] = defaultdict(dict)
    for _, edge in job.edges:
        if edge.transport == "NET" and edge.network not in NOT_RDMA and edge.direction:
            ends[edge.channel, edge.source, edge.destination].setdefault(edge.direction, edge)
    pairs: dict[tuple[str, str], list[tuple[LogEdge, LogEdge]]] = defaultdict(list)
    for both in ends.values():
        send, receive = both.get("send"), both.get("receive")
        if send and receive and send.host and receive.host and send.host != receive.host:
            pairs[send.host, receive.host].append((send, receive))
            pairs[receive.host, send.host].append((receive, send))
    for (there, here), edges in pairs.items():
        used = {edge.device for edge, _ in edges}
        answered = {other.device for _, other in edges}
        lonely = [(edge, other) for edge, other in edges if edge.device not in answered]
        if len(edges) >= FEWEST_CHANNELS and answered < used and lonely:
            return here, there, lonely
    return None


def _shown(job: Job, channels: Lonely | None) -> list[tuple[NcclLog, LogEdge, LogEdge]]:
    if channels is None:
        return []
    owners = {id(edge): log for log, edge in job.edges}
    return [(owners[id(edge)], edge, other) for edge, other in channels[2][:2]]


def _ends(log: NcclLog, edge: LogEdge, other: LogEdge) -> Evidence:
    told = f"channel {edge.channel:02d} {edge.source} -> {edge.destination}"
    return Evidence(
        basis="asked",
        text=f"{log.file}:{edge.line}: {told} via NET/{edge.network}/{edge.device} on "
        f"{edge.host}, via NET/{other.network}/{other.device} on {other.host}",
    )


def listing(job: Job) -> list[Told]:
    """Processes that list RDMA devices."""
    return [told for told in job.told if told.process.rdma and told.quote("rdma")]


def _list_lengths(job: Job) -> dict[str, tuple[LogNet, ...]]:
    """Host -> its RDMA devices, where hosts have different numbers of them; else empty. A process
    that sees fewer than its own host's others is restricted on purpose and is left out."""
    found: dict[str, tuple[LogNet, ...]] = {}
    for told in listing(job):
        nets = tuple(net for net in told.process.nets if net.network == "IB")
        if len(nets) > len(found.get(told.process.host, ())):
            found[told.process.host] = nets
    return found if len({len(nets) for nets in found.values()}) > 1 else {}


def _siblings(device: str | None, channels: Lonely | None) -> list[str]:
    """ "erdma_0" for a missing erdma_1, where the channels of both hosts use NET/IB/0 only."""
    match = _COUNTED.match(device or "")
    if match is None or channels is None:
        return []
    used = {other.device for _, other in channels[2]}
    return [f"{match[1]}{n}" for n in range(int(match[2])) if n in used]


def _common(lists: dict[str, tuple[LogNet, ...]]) -> list[str]:
    """Names that all hosts list."""
    sets = [{net.name for net in nets} for nets in lists.values()]
    if not sets:
        return []
    shared = set.intersection(*sets)
    order = [net.name for nets in lists.values() for net in nets]
    return [name for name in dict.fromkeys(order) if name in shared]


def _named(
    job: Job, opened: list[tuple[LogEvent, str]], channels: Lonely | None,
    lists: dict[str, tuple[LogNet, ...]],
) -> tuple[str | None, int | None, str | None, tuple[str, int | None] | None]:  # fmt: skip
    """Host, rank, device and place of the host that has less."""
    if opened:
        event, device = opened[0]
        host, rank = event.host, event.rank
        if match := _RANK_ON.search(event.text):
            host, rank = match[2], int(match[1])
        return host, rank, device, (event.file, event.line)
    if lists:
        usual = Counter(len(nets) for nets in lists.values()).most_common()
        most = max(len(nets) for nets in lists.values())
        number = usual[0][0] if len(usual) > 1 and usual[0][1] > usual[1][1] else most
        host = next(name for name, nets in lists.items() if len(nets) != number)
        full = next((nets for nets in lists.values() if len(nets) == number), ())
        missing = [n.name for n in full if n.name not in {own.name for own in lists[host]}]
        told = next(t for t in listing(job) if t.process.host == host)
        return host, None, missing[0] if len(missing) == 1 else None, told.place("rdma")
    if channels:
        other = channels[2][0][1]
        log = next(log for log, one in job.edges if one is other)
        return channels[0], other.told_by, None, (log.file, other.line)
    return None, None, None, None


def _masked(job: Job, dossier: Dossier) -> list[Evidence]:
    """NCCL's own guard, and who has silenced it."""
    found = []
    for variables in dossier.variables:
        value = variables.variables.get(MASK)
        if value not in (None, "0"):
            text = f"{variables.file}: {MASK}={value} silences NCCL's guard against this"
            found.append(Evidence(basis="claimed", text=text))
    setting = job.setting(MASK)
    if setting and setting[0] != "0":
        text = f"{MASK}={setting[0]} on {setting[1]} silences NCCL's guard against this"
        found.append(Evidence(basis="asked", text=text))
    return found
