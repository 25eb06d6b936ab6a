"""`preflight`: whether a job can start here, before it is started."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from bench.commands.answer import DONE, WIDTH, print_json, severity, status
from bench.records import BadInput, Preflight

if TYPE_CHECKING:
    from bench.measure.launcher import Launch
    from bench.measure.stage import Stage
    from bench.records import Meeting

DEFAULT_PORT = 29500  # torchrun's --master-port
LOOK_AGAIN_S = 1.0
CERTAIN = ("stranger", "unresolved", "taken")  # what waiting does not change


def preflight(
    endpoint: Annotated[
        str,
        typer.Option(
            "--rdzv-endpoint",
            metavar="HOST:PORT",
            help="Where ranks are to meet, as torchrun is told (port 29500 unless given).",
        ),
    ] = "",
    nnodes: Annotated[
        int, typer.Option("--nnodes", metavar="N", help="Hosts of the job; run it on each.")
    ] = 1,
    node_rank: Annotated[
        int | None,
        typer.Option("--node-rank", metavar="I", show_default=False, help="This host's number."),
    ] = None,
    wait_s: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="How long rank 0 may take to come.")
    ] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON on stdout.")] = False,
    fail_on: Annotated[
        str, typer.Option(metavar="SEVERITY", help="Exit 1 on a finding at least this severe.")
    ] = "degraded",
) -> int:
    """Say whether a job can start, before it starts.

    Alone on a host it checks names, limits, shared memory and the place where ranks are to meet.
    On all hosts together it also checks who reaches whom on which network, full-sized packets,
    clocks, versions and settings: as a job of its own (torchrun … -m bench preflight, or srun,
    mpirun), or by hand on each host with --nnodes, --node-rank and --rdzv-endpoint.
    """
    worst_allowed = severity(fail_on)
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # every wait here has its own words
    if wait_s <= 0:
        raise BadInput(f"--wait is {wait_s:g}; expected seconds above 0")
    launch = _launch(endpoint, nnodes, node_rank)
    began = time.monotonic()
    if launch is None:
        seen: Preflight | None = _alone(endpoint, began)
    else:
        seen = _together(launch, wait_s, began)
    if seen is None:
        return DONE  # rank 0 has said it
    if as_json:
        print_json(seen)
    else:
        from bench.report import preflight_screen
        from bench.report.text import encodable

        text = preflight_screen.screen(seen, width=WIDTH, colour=sys.stdout.isatty())
        typer.echo(encodable(text, sys.stdout.encoding))
    return status(seen.findings, worst_allowed)


def _launch(endpoint: str, nnodes: int, node_rank: int | None) -> Launch | None:
    """Who takes part, None where this host is alone."""
    from bench.measure import launcher, scheduler
    from bench.measure.launcher import Launch, Seat

    if nnodes == 1 and node_rank is None:
        started = any(name in os.environ for name in launcher.TELLTALES)
        started = started or scheduler.slurm(os.environ) is not None
        launch = launcher.read(os.environ) if started else None
        if launch is not None and endpoint:
            raise BadInput(
                f"{launch.launcher} says where ranks meet; --rdzv-endpoint is for a host alone"
            )
        return launch if launch is not None and launch.ranks > 1 else None
    if not endpoint or node_rank is None:
        raise BadInput("several hosts need --nnodes, --node-rank and --rdzv-endpoint HOST:PORT")
    if nnodes < 2 or not 0 <= node_rank < nnodes:
        raise BadInput(
            f"--node-rank is {node_rank} of --nnodes {nnodes}; expected 0 to {max(nnodes, 2) - 1}"
        )
    host, port = _place(endpoint)
    seat = Seat(
        rank=node_rank, ranks=nnodes, local_rank=0, local_ranks=1, node=node_rank, nodes=nnodes
    )
    return Launch(
        launcher="preflight", rank=node_rank, ranks=nnodes, seat=seat, host=host, port=port,
        named_by="--rdzv-endpoint", own_store=True, run="preflight",
    )  # fmt: skip


def _place(endpoint: str) -> tuple[str, int]:
    """ "host", "host:29500", "[fd00::1]:29500"."""
    host, colon, port = endpoint.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        host, port = endpoint, str(DEFAULT_PORT)
    host = host.strip("[]")
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise BadInput(f"--rdzv-endpoint is {endpoint}; expected HOST:PORT with port 1 to 65535")
    return host, int(port)


def _alone(endpoint: str, began: float) -> Preflight:
    from bench.facts import host
    from bench.judge.launch import verdict
    from bench.measure import meeting_place

    meetings = [meeting_place.look(*_place(endpoint))] if endpoint else []
    seen = Preflight(meetings=tuple(meetings), hosts=(host.gather(),), duration_s=_since(began))
    elsewhere = any(not meeting.own for meeting in meetings)
    return verdict.judge(seen, several=elsewhere, waiting=False)


def _together(launch: Launch, wait_s: float, began: float) -> Preflight | None:
    """All hosts' preflight on rank 0, None on the others; or what keeps this one from joining."""
    from bench.judge.launch import verdict

    meeting = _await(launch, wait_s)
    came = meeting.outcome in (("free", "store") if launch.rank == 0 else ("store",))
    if not came:
        from bench.facts import host

        seen = Preflight(meetings=(meeting,), hosts=(host.gather(),), duration_s=_since(began))
        rank = launch.rank if launch.own_store else None
        return verdict.judge(seen, several=True, waiting=True, rank=rank)
    from bench.measure.control import StoreGone
    from bench.measure.stage import Stage

    try:
        with Stage.open(launch) as stage:
            if stage.seat.rank != 0:
                stage.attend()
                return None
            seen = _led(stage, meeting)
    except StoreGone:
        raise BadInput(f"{launch.store_name} has gone: nothing more could be agreed") from None
    seen = _timed(seen, began)
    return verdict.judge(seen, several=len(seen.hosts) > 1 or bool(seen.missing), waiting=True)


def _await(launch: Launch, wait_s: float) -> Meeting:
    """The meeting place as soon as a store answers there (or rank 0 could open it), or as it was
    when the patience ended."""
    from bench.measure import meeting_place

    end = time.monotonic() + wait_s
    while True:
        meeting = meeting_place.look(launch.host, launch.port)
        opens = launch.rank == 0 and launch.own_store and meeting.outcome == "free"
        if meeting.outcome == "store" or opens or meeting.outcome in CERTAIN:
            return meeting
        if time.monotonic() + LOOK_AGAIN_S > end:
            return meeting
        time.sleep(LOOK_AGAIN_S)


def _led(stage: Stage, meeting: Meeting) -> Preflight:
    from bench.plan import candidates, reach

    hosts = stage.facts()
    backend = stage.backend(None, guess=True)
    found = candidates.find(hosts, backend=backend)
    hosts, pairs = stage.preflight(found, backend)
    missing = stage.missing()
    stage.dismiss()
    return Preflight(
        together=True, meetings=(meeting,), hosts=hosts,
        candidates=reach.settle(found, pairs), pairs=pairs, missing=missing,
    )  # fmt: skip


def _since(began: float) -> float:
    return round(time.monotonic() - began, 1)


def _timed(seen: Preflight, began: float) -> Preflight:
    import msgspec

    return msgspec.structs.replace(seen, duration_s=_since(began))
