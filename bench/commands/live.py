"""`diagnose --live`: a hung job of somebody else's, asked by every way that its host allows.

In: process ids, HOST:PORT of NCCL's RAS or of a worker or debug server of torch, or nothing for
all ranks of this host. Out: a folder with what they answered, for `diagnose` to read, and
sentences about what did not answer. Every question has a deadline, and none stops a process.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from bench.commands import run_folder
from bench.hang.live import pipe, processes, py_spy, ras_client, worker_server
from bench.hang.live.processes import Found
from bench.hang.watch import proc
from bench.hang.watch.harvest import Harvest, replace
from bench.hang.watch.recorder import DUMPS
from bench.hang.watch.sentry import FOLDER
from bench.records import BadInput, WatchedJob

APART_S = 3.0  # between two answers of RAS: a job that moves launches collectives meanwhile
AT_ONCE = 16  # ranks
SOCKET = "TORCH_WORKER_SERVER_SOCKET"
NOTES_SHOWN = 8
MOVES = "dumps changed between two questions: the job moves, and they show but one moment of it"


@dataclass
class Answers:
    """What was asked and what came of it."""

    folder: Path
    harvest: Harvest
    asked: list[str] = field(default_factory=list)
    workers: dict[int, str] = field(default_factory=dict)  # by rank
    pipes: dict[int, Found] = field(default_factory=dict)
    strangers: int = 0
    notes: list[str] = field(default_factory=list)


def collect(names: Sequence[str], out: str) -> Answers:
    """Ask everybody. BadInput where nobody answers anything."""
    pids, places = _named(names)
    found = processes.find(pids) if pids or not places else []
    folder = run_folder.made(out, "live", (DUMPS,))
    answers = Answers(folder, Harvest(folder))
    ras = _ras(answers, places, found)
    began = time.monotonic()
    for place in places:
        if place not in ras:
            _server(answers, place)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for asked in pool.map(lambda each: _rank(answers, each), found):
            answers.notes += asked
    first = answers.harvest.told()
    if ras or first or answers.pipes:
        time.sleep(max(0.0, APART_S - (time.monotonic() - began)))
    for place in ras:
        _ras_answer(answers, place, 2)
    if _moved(answers, first):
        answers.notes.append(MOVES)
    else:
        answers.harvest.keep(0)
    job = WatchedJob(command=proc.command(found[0].pid) if found else (), started=_now())
    answers.harvest.write(job)
    if not found and not answers.asked:
        reasons = "; ".join(answers.notes) or "no process of this host is a rank of a job"
        raise BadInput(f"nobody answered: {reasons}")
    return answers


def _moved(answers: Answers, first: dict[tuple[int, str], bytes]) -> bool:
    """Whether a rank's dump has changed since: dumps of a job that moves show who was late in one
    moment, which proves nothing."""
    for rank, place in answers.workers.items():
        for recorder in ("gloo", "nccl"):
            if (rank, recorder) in first:
                try:
                    again = worker_server.Server(place).ask(worker_server.HANDLERS[recorder])
                except worker_server.Refused:
                    continue
                if again != first[rank, recorder]:
                    return True
    for rank, one in answers.pipes.items():
        kept = answers.folder / DUMPS / f"pipe_rank_{rank}"
        before = kept.read_bytes()
        if not _pipe(answers, one) and kept.read_bytes() != before:
            return True
    return False


def told(answers: Answers) -> list[str]:
    """Sentences: who was asked, what was not to be had, where it is kept."""
    notes = list(dict.fromkeys(answers.notes))
    more = [f"… {len(notes) - NOTES_SHOWN} more"] if len(notes) > NOTES_SHOWN else []
    return [
        *dict.fromkeys(answers.asked),
        *notes[:NOTES_SHOWN],
        *more,
        f"kept in {answers.folder}",
    ]


def _named(names: Sequence[str]) -> tuple[list[int], list[str]]:
    pids, places = [], []
    for name in names:
        port = name.rpartition(":")[2]
        if name.isdigit():
            pids.append(int(name))
        elif ":" in name and port.isdigit() and int(port) < 65536:
            places.append(name)
        else:
            raise BadInput(f"--live takes process ids and HOST:PORT, got {name!r}")
    return pids, places


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


# --- RAS --------------------------------------------------------------------------------------


def _ras(answers: Answers, places: Sequence[str], found: Sequence[Found]) -> list[str]:
    """The places at which RAS answers; where none is named, the one that the job would use."""
    tried = list(places)
    if not places:
        own = {each.variables.get(ras_client.VARIABLE, "") for each in found} or {""}
        tried = sorted(":".join(map(str, ras_client.address(text))) for text in own)
    return [place for place in tried if _ras_answer(answers, place, 1, quiet=not places)]


def _ras_answer(answers: Answers, place: str, number: int, *, quiet: bool = False) -> bool:
    host, port = ras_client.address(place)
    try:
        data = ras_client.status(host, port)
    except ras_client.Refused as refused:
        if not quiet and port == ras_client.PORT:
            answers.notes.append(str(refused))
        return False
    name = "".join(letter if letter.isalnum() else "-" for letter in place)
    ending = "json" if data.lstrip()[:1] == b"{" else "txt"
    replace(answers.folder / f"ras-{name}-{number}.{ending}", data)
    if number == 1:
        answers.asked.append(f"NCCL's RAS at {place} answered")
    return True


# --- torch's servers --------------------------------------------------------------------------


def _server(answers: Answers, place: str) -> None:
    """A worker server of one rank, or the debug server, which knows all of them."""
    server = worker_server.Server(place)
    try:
        server.ask("ping")
    except worker_server.Refused as refused:
        if refused.is_mute:  # nor would it give a page
            answers.notes.append(str(refused))
            return
    else:
        _stranger(answers, server)
        return
    try:
        workers = worker_server.workers(server.page("/stacks"))
    except worker_server.Refused as refused:
        answers.notes.append(str(refused))
        return
    if not workers:
        answers.notes.append(f"{place}: answers, but is neither NCCL's RAS nor a server of torch")
    for rank, worker in sorted(workers.items()):
        answers.notes += _worker(answers, rank, worker)


def _stranger(answers: Answers, server: worker_server.Server) -> None:
    """One rank's worker server, which does not say whose: the dump keeps no rank, and a file name
    without a number, or somebody would take that for one."""
    letter = chr(ord("a") + answers.strangers % 26) * (1 + answers.strangers // 26)
    answers.strangers += 1
    for recorder in ("gloo", "nccl"):
        try:
            data = server.ask(worker_server.HANDLERS[recorder])
        except worker_server.Refused:
            continue
        if b"collective_seq_id" in data:
            replace(answers.folder / DUMPS / f"{recorder}_worker_{letter}.json", data)
            answers.asked.append(f"worker {letter} is {server.place}: it gave {recorder}")
            return
    answers.notes.append(f"{server.place}: its recorders hold no collective")


def _worker(answers: Answers, rank: int, place: str) -> list[str]:
    """Dumps and stacks of one rank; sentences about what it did not give."""
    server, notes, got = worker_server.Server(place), [], []
    for what, handler in worker_server.HANDLERS.items():
        try:
            data = server.ask(handler)
        except worker_server.Refused as refused:
            if "404" not in str(refused):  # a build without NCCL has no handler for it
                notes.append(f"rank {rank}: {refused}")
            continue
        got.append(what)
        if what == "stacks":
            answers.harvest.stacks(rank, data.decode("utf-8", "replace"), 0)
        else:
            answers.harvest.dump(rank, what, "json", 0, data)
    if got:
        answers.workers[rank] = place
        answers.asked.append(f"rank {rank}: its worker server gave {', '.join(got)}")
    return notes


# --- one process ------------------------------------------------------------------------------


def _rank(answers: Answers, one: Found) -> list[str]:
    """All that one process of this host can be asked; sentences about what it cannot."""
    import platform

    notes: list[str] = []
    answers.harvest.processes[one.rank] = proc.look(one.pid, one.rank, platform.node())
    state = answers.harvest.processes[one.rank].state
    answers.asked.append(f"rank {one.rank}: process {one.pid}, state {state}")
    if one.variables.get(FOLDER):
        run = Path(one.variables[FOLDER]).parent
        notes.append(f"rank {one.rank} is watched: what it told is in {run}")
    if state not in ("T", "t", "Z", None):
        notes += _pipe(answers, one)
        if place := one.variables.get(SOCKET):
            notes += _worker(answers, one.rank, place)
    try:
        answers.harvest.stacks(one.rank, py_spy.stacks(one.pid), 0)
    except py_spy.Refused as refused:
        notes.append(str(refused))
    return notes


def _pipe(answers: Answers, one: Found) -> list[str]:
    if pipe.PIPE not in one.variables:
        return []
    paths = pipe.dumps(one.rank, one.variables)
    before = pipe.stamp(paths)
    uid = proc.user(one.pid)
    if (why := pipe.ask(one.rank, one.variables, uid)) is not None:
        return [f"rank {one.rank}: {why}"]
    path = pipe.written(paths, before)
    if path is None:
        return [f"rank {one.rank}: no dump in {pipe.DEADLINE_S:g} s after its pipe was written to"]
    try:
        replace(answers.folder / DUMPS / f"pipe_rank_{one.rank}", pipe.read(path, uid))
    except (pipe.Refused, OSError) as error:
        return [f"rank {one.rank}: {error}"]
    answers.pipes[one.rank] = one
    answers.asked.append(f"rank {one.rank}: its recorder's pipe brought a dump")
    return []
