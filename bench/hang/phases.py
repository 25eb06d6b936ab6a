"""In which phase a job stopped, what to suspect there, and the check that the files allow.

In: clues of any source: a Crew and its TimeOuts, findings that other evidence made. Out: a phase,
and for each the operators' rule of thumb: at launch address, port and rank; at the first
collective NCCL and its networks; mid-run one rank's fault; at the epoch's end uneven data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.hang import endpoints
from bench.hang.crew import Crew
from bench.hang.scene import rank_words
from bench.hang.time_outs import FIRST_NUMBERS, TimeOuts
from bench.records import (
    PHASES,
    Evidence,
    Finding,
    NcclLog,
    Phase,
    PhaseClue,
    RankStep,
    RankStream,
)

NAMES: dict[Phase, str] = {
    "rendezvous": "launch and rendezvous",
    "init": "creation of the group",
    "first": "the first collective",
    "midrun": "mid-run",
    "end": "the epoch's end",
}
PLACES: dict[Phase, str] = {
    "rendezvous": "at launch and rendezvous",
    "init": "while its group was created",
    "first": "in the first collective",
    "midrun": "mid-run",
    "end": "at the epoch's end",
}
CODES: dict[Phase, str] = {
    "rendezvous": "hang-rendezvous",
    "init": "hang-init",
    "first": "hang-first-collective",
    "midrun": "hang-midrun",
    "end": "hang-end",
}
SUSPECTS: dict[Phase, str] = {
    "rendezvous": "the master's address or port, a firewall, rank numbers, a node that never "
    "started",
    "init": "the interface over which ranks connect, a firewall between high ports",
    "first": "NCCL's data path: interface, HCA, GID, topology",
    "midrun": "one rank's own fault (exception, out of memory, killed), or a branch that only "
    "some ranks take",
    "end": "uneven data: the sampler's length, drop_last, a filter that depends on the rank",
}
REMEDIES: dict[Phase, str] = {
    "rendezvous": "getent hosts MASTER; nc -vz MASTER PORT   # from every node; compare "
    "MASTER_ADDR, MASTER_PORT, nnodes and node rank",
    "init": "export NCCL_DEBUG='INFO'   # which interface each rank takes; ip -br addr",
    "first": "export NCCL_DEBUG='INFO'; export NCCL_DEBUG_SUBSYS='INIT,NET'   # and run again",
    "midrun": "py-spy dump --pid PID   # on the ranks that reported nothing; their hosts' "
    "kernel logs",
    "end": "compare the number of batches per rank; DistributedSampler with drop_last, or the "
    "framework's join context",
}
LEAST_STEPS = 2  # marks of progress that show a loop has run
SHOWN = 4


def clues(crew: Crew, waits: TimeOuts, findings: Sequence[Finding] = ()) -> list[PhaseClue]:
    """What tells the phase, from logs and from what NCCL's own lines were found to say."""
    found = [
        *_launch(crew),
        *_initialisation(findings),
        *_collectives(crew, waits),
        *_progress(crew),
        *_ends(crew),
    ]
    return found or _waits(crew)


def decide(found: Iterable[PhaseClue]) -> Phase | None:
    """The phase: where the job had come furthest. Who ended beside others who still run has the
    last word; a first collective counts only where nothing was ever finished."""
    phases = {clue.phase for clue in found}
    return next((phase for phase in reversed(PHASES) if phase in phases), None)


def of(findings: Iterable[Finding]) -> Phase | None:
    """The phase that the serious findings of a hang name, if they name one."""
    codes = {each.code for each in findings if each.severity == "broken"}
    named = [phase for phase, code in CODES.items() if code in codes]
    return named[0] if len(named) == 1 else None


def check(phase: Phase, crew: Crew, waits: TimeOuts, logs: Sequence[NcclLog]) -> list[Evidence]:
    """The check that belongs to the phase, done on the files at hand."""
    if phase == "rendezvous":
        return endpoints.check(crew)
    if phase in ("init", "first"):
        if logs:
            text = f"checked: NCCL's own lines in {len(logs)} files were read; see the findings"
        else:
            text = "not checked: no line of NCCL's in these logs (NCCL_DEBUG was not INFO)"
        return [Evidence(basis="inferred", text=text)]
    if phase == "end":
        return _last_steps(crew)
    if not (_collectives(crew, waits) or _progress(crew)):
        text = "what came before the wait these logs do not tell: it may be the first collective"
        return [Evidence(basis="inferred", text=text)]
    count = len(crew.speaking)
    absent = f"; those of {rank_words(crew.missing)} are not at hand" if crew.missing else ""
    text = f"checked: the logs of {count} ranks hold no earlier fault of their own{absent}"
    return [Evidence(basis="inferred", text=text)] if count else []


def launch_files(findings: Sequence[Finding], *, were_read: bool) -> list[Evidence]:
    """The launch phase's other check: what the files that started the job say."""
    told = [
        each
        for each in findings
        if each.severity != "info"
        and (each.code.startswith("accelerate-") or each.code == "launcher-world-size")
    ]
    evidence = []
    for each in told[:SHOWN]:
        place = f" ({each.where.file}:{each.where.line})" if each.where.line else ""
        text = f"checked: launch files: {each.code}: {each.summary}{place}"
        evidence.append(Evidence(basis="inferred", text=text))
    if were_read and not told:
        text = "checked: the launch files fit together, as far as they decide it"
        evidence.append(Evidence(basis="inferred", text=text))
    return evidence


def ended_alone(crew: Crew) -> tuple[RankStream, ...]:
    """Streams of ranks that came to their end while others had not: who neither waits nor lost a
    peer, and said that it was done."""
    done, others = [], False
    for member in crew.known.values():
        stream = member.own
        if any(
            sign.role in ("wait", "consequence") and not sign.survived for sign in member.signs
        ):
            others = True
        elif any(sign.role == "fault" and not sign.survived for sign in member.signs):
            return ()
        elif stream is not None and stream.ended is not None:
            done.append(stream)
    return tuple(done) if others else ()


# --- clues ------------------------------------------------------------------------------------


def _launch(crew: Crew) -> list[PhaseClue]:
    """Messages that belong to one phase by their words. A store that fails later says the same,
    so progress outweighs them."""
    found = []
    for sign in [*crew.launcher, *(s for m in crew.members.values() for s in m.signs)]:
        if sign.phase is not None and sign.role in ("fault", "wait", "weak"):
            ranks = (sign.rank,) if sign.rank is not None else ()
            found.append(
                PhaseClue(
                    phase=sign.phase, text=sign.text, ranks=ranks, file=sign.file, line=sign.line
                )
            )
    return found


def _initialisation(findings: Sequence[Finding]) -> list[PhaseClue]:
    return [
        PhaseClue(phase="init", text=each.summary, file=each.where.file, line=each.where.line)
        for each in findings
        if each.code == "hang-init" and each.severity != "info"
    ]


def _collectives(crew: Crew, waits: TimeOuts) -> list[PhaseClue]:
    found = []
    progressed = bool(_progress(crew))
    for rank, one in waits.first.items():
        if one.sequence is None and one.enqueued is None:
            continue
        completed = one.completed if one.completed is not None else (one.sequence or 0) - 1
        default = one.group in (None, "0", "fingerprint") or one.group_name == "default_pg"
        first = completed <= 0 and (one.sequence or 0) <= FIRST_NUMBERS and default
        if first and not progressed:
            text = "nothing had been completed before"
        else:
            text = f"{completed:,} collectives of its group were complete"
        found.append(
            PhaseClue(
                phase="first" if first and not progressed else "midrun",
                text=f"rank {rank}: {text}",
                ranks=(rank,),
                file=one.file,
                line=one.line,
            )
        )
    return found


MET = ("barrier", "watchdog", "watchdog-stuck")  # waits that only a group that was made has


def _waits(crew: Crew) -> list[PhaseClue]:
    """Where nothing else tells: ranks wait in a group, so launch and start are behind them."""
    return [
        PhaseClue(phase="midrun", text=sign.text, basis="inferred", file=sign.file, line=sign.line)
        for sign in [*crew.launcher, *(s for m in crew.members.values() for s in m.signs)]
        if sign.kind in MET and sign.role == "wait" and not sign.survived
    ]


def _progress(crew: Crew) -> list[PhaseClue]:
    for rank, member in crew.known.items():
        for stream in member.streams:
            numbers = {step.number for step in stream.steps if step.word != "epoch"}
            if len(numbers) >= LEAST_STEPS:
                last = stream.steps[-1]
                return [
                    PhaseClue(
                        phase="midrun",
                        text=f"rank {rank} was at {_step_words(last)}",
                        ranks=(rank,),
                        file=stream.file,
                        line=last.line,
                    )
                ]
    return []


def _ends(crew: Crew) -> list[PhaseClue]:
    return [
        PhaseClue(
            phase="end",
            text=f"rank {rank_of(crew, stream)} had come to its end: {stream.ended}",
            ranks=(rank_of(crew, stream),),
            file=stream.file,
            line=stream.ended_line,
        )
        for stream in ended_alone(crew)
    ]


def rank_of(crew: Crew, stream: RankStream) -> int:
    """The rank of a stream; -1 where nobody tells it."""
    rank = crew.ranks.get((stream.file, stream.name), stream.rank)
    return -1 if rank is None else rank


# --- checks -----------------------------------------------------------------------------------


def _last_steps(crew: Crew) -> list[Evidence]:
    """The last step of each rank that logs steps."""
    steps: dict[str, list[int]] = {}
    for rank, member in crew.known.items():
        stream = member.own
        marks = [step for step in stream.steps if step.word != "epoch"] if stream else []
        if stream is not None and (marks or stream.steps):
            last = (marks or stream.steps)[-1]
            steps.setdefault(_step_words(last), []).append(rank)
    if not steps:
        return []
    told = "; ".join(
        f"{rank_words(ranks)} at {step}" for step, ranks in list(steps.items())[:SHOWN]
    )
    return [Evidence(basis="asked", text=f"checked: last steps logged: {told}")]


def _step_words(step: RankStep) -> str:
    of = f"/{step.of:,}" if step.of else ""
    word = "step" if step.word == "bar" else step.word.replace("_", " ")
    return (
        f"{word} {step.number:,g}{of}"
        if step.word == "epoch"
        else f"{word} {int(step.number):,}{of}"
    )
