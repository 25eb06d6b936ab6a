"""The judge of a comparison: two sides in, what became of the figures out.

First what differs between the sides, then whether they can be compared at all, then line by line
what regressed, improved, is equal within 3 %, or cannot be told. Pure: opens no file, has no
clock. Method: model/comparison; words and severities: judge/sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from bench.judge.docket import Docket
from bench.judge.foreign import version_steps
from bench.judge.sides import accusations, averages, faults, lines, outcomes
from bench.judge.sides.abstentions import is_single
from bench.judge.sides.accusations import Circumstances
from bench.judge.sides.differences import Contrasted, contrast
from bench.judge.sides.pairing import Pair, Pairing, pair
from bench.judge.sides.sampling import Sampling, interleaved, sampling
from bench.model import comparison
from bench.records import (
    SEVERITIES,
    BadInput,
    ComparedLine,
    Comparison,
    ComparisonVerdict,
    Dossier,
    Evidence,
    Finding,
    Side,
    SideSummary,
    Where,
)

CODES = ("wrong-result", "regressed", "not-comparable", "inconclusive", "improved", "equivalent")
ONE_RUN = (
    "one run a side: what all sizes do alike may be luck, so only a change that is large, or "
    "confined to some sizes, is named"
)
ONLY_SHOWN = 6  # lines of one side alone that are named


def judge(
    before: Side,
    after: Side,
    *,
    control: Side | None = None,
    cohort: bool = False,
    in_turns: bool | None = None,
) -> Comparison:
    """`control`: measured after a reboot alone; `cohort`: other hosts on each side are meant;
    `in_turns`: whether the sides took turns, where that is known from elsewhere."""
    contrasted = contrast(before, after, cohort=cohort)
    chosen = sampling(before.sessions, after.sessions, cohort=cohort)
    pairing = pair(before, after, chosen)
    compared = _lines(pairing.pairs)
    turns = interleaved(before.sessions, after.sessions) if in_turns is None else in_turns
    weaker = chosen.weaker
    if compared and all(is_single(line) for line in compared):
        weaker = ONE_RUN
    around = Circumstances(
        unit="host" if chosen.paired else chosen.unit,
        weaker=weaker if weaker != ONE_RUN else None,
        factors=contrasted.factors,
        doubts=(*contrasted.confounders, *chosen.notes, *_doubts(before, after)),
        mixed_timing=_mixed_timing(before, after),
        reboot_alone=_reboot(before, control) if control is not None else None,
    )
    fault = faults.compare(before, after)
    found = [
        *fault.findings,
        *outcomes.findings(before, after, contrasted),
        *(one for line in compared for one in accusations.findings(line, around)),
        *(_unlike(pairing) if pairing.unlike or not fault.findings else ()),
    ]
    if not compared:
        changed = tuple(f"{f.name} {f.before} to {f.after}" for f in contrasted.factors)
        average = averages.finding(before, after, around.doubts, changed)
        found += [average] if average is not None else []
        if not found:
            found.append(_nothing(contrasted))
    found.sort(key=lambda f: (-SEVERITIES.index(f.severity), _place(f)))
    return Comparison(
        verdict="regressed" if fault.worse else _verdict(found),
        before=_summary(before),
        after=_summary(after),
        sample=chosen.unit,
        interleaved=turns,
        weaker=weaker,
        differences=contrasted.differences,
        equal=contrasted.equal,
        confounders=(*contrasted.confounders, *chosen.notes),
        lines=tuple(compared),
        findings=tuple(found),
        notes=(*_only(pairing), *before.skipped, *after.skipped, *_doubts(before, after)),
    )


def versions(dossier: Dossier, path: str) -> Comparison:
    """Figures over versions: between which two lies the step. BadInput where there is none such
    list in the file."""
    docket = Docket()
    version_steps.judge(dossier, docket)
    told = version_steps.sentences(dossier)
    if not told:
        raise BadInput("is one side; compare takes BEFORE and AFTER", file=path)
    side = SideSummary(path=path, sessions=len(dossier.figures), runs=len(dossier.figures))
    found = docket.findings or (
        Finding(code="inconclusive", severity="info", summary=f"No step shows: {told[0]}."),
    )
    return Comparison(
        verdict=_verdict(found), before=side, after=side, equal="", findings=found, notes=told
    )


def _lines(pairs: Sequence[Pair]) -> list[ComparedLine]:
    """In the order of the pairs; those that can be tested are corrected for one another."""
    able = [one for one in pairs if one.curves.tested]
    judged = dict(
        zip(map(id, able), comparison.compare([one.curves for one in able]), strict=True)
    )
    return [
        lines.tested(one, judged[id(one)]) if id(one) in judged else lines.untested(one)
        for one in pairs
    ]


def _reboot(before: Side, control: Side) -> dict[tuple[str, str], str]:
    """Lines that a reboot alone made slower, each with a sentence."""
    chosen: Sampling = sampling(before.sessions, control.sessions)
    told = {}
    for line in _lines(pair(before, control, chosen).pairs):
        if line.verdict == "regressed":
            worst = max(line.gates, key=lambda gate: gate.whole.time_s.change.value)
            change = worst.whole.time_s.change.value
            told[line.candidate, line.collective] = (
                f"a reboot alone (--control) makes it {100 * change:.1f} % slower as well, so "
                "what was changed is not proven to be the cause"
            )
    return told


def _unlike(pairing: Pairing) -> list[Finding]:
    """One finding for each reason, whatever the number of lines."""
    reasons: dict[str, list[tuple[str, str]]] = {}
    for one in pairing.unlike:
        reasons.setdefault(one.why, []).append((one.candidate, one.collective))
    found = []
    for why, names in reasons.items():
        told = ", ".join(dict.fromkeys(_called(name) for name in names[:ONLY_SHOWN]))
        found.append(
            Finding(
                code="not-comparable",
                severity="warning",
                summary=f"{told}: the two sides measure different things: {why}.",
                where=Where(
                    candidate=names[0][0] or None if len(names) == 1 else None,
                    collective=names[0][1] if len({n[1] for n in names}) == 1 else None,
                ),
                evidence=(Evidence(basis="measured", text=why),),
                remedy="repeat one side as the other was run",
            )
        )
    if not pairing.pairs and not found and (pairing.only_before or pairing.only_after):
        first, second = (
            ", ".join(_called(name) for name in names[:ONLY_SHOWN]) or "nothing"
            for names in (pairing.only_before, pairing.only_after)
        )
        found.append(
            Finding(
                code="not-comparable",
                severity="warning",
                summary=f"nothing was measured on both sides: {first} before, {second} after.",
                remedy="repeat one side as the other was run",
            )
        )
    return found


def _called(name: tuple[str, str]) -> str:
    return " ".join(part for part in name if part)


def _nothing(contrasted: Contrasted) -> Finding:
    """No figures on either side: what differs is all that can be said."""
    told = "; ".join(f"{d.name} {d.before} to {d.after}" for d in contrasted.differences)
    return Finding(
        code="inconclusive",
        severity="info",
        summary="There are no figures to compare; "
        + (f"what differs: {told}." if told else "and nothing differs in what the files tell."),
        remedy="python -m bench read BEFORE AFTER   # what all their files say together",
        confidence="inferred",
    )


def _only(pairing: Pairing) -> list[str]:
    told = []
    for which, names in (("before", pairing.only_before), ("after", pairing.only_after)):
        if names:
            listed = [_called(name) for name in names[:ONLY_SHOWN]]
            more = f" and {len(names) - ONLY_SHOWN} more" if len(names) > ONLY_SHOWN else ""
            told.append(f"only {which}: {', '.join(listed)}{more}")
    return told


def _mixed_timing(before: Side, after: Side) -> bool:
    first, second = ({s.timing for s in side.sessions if s.curves} for side in (before, after))
    return bool(first and second) and first != second


def _doubts(before: Side, after: Side) -> tuple[str, ...]:
    if not _mixed_timing(before, after):
        return ()
    told = (
        "one side's times are means over calls and ranks (nccl-tests), the other's medians over "
        "calls of the slowest rank: small sizes differ by that alone"
    )
    return (told,)


def _summary(side: Side) -> SideSummary:
    boots = {s.boot for s in side.sessions if s.boot is not None}
    measured = [s for s in side.sessions if s.curves or s.average_busbw_gbs]
    return SideSummary(
        path=side.path,
        sessions=len(measured),
        runs=len({s.run for s in measured}),
        boots=len(boots) or None,
        hosts=tuple(dict.fromkeys(host for s in side.sessions for host in s.hosts)),
        skipped=side.skipped,
    )


def _place(finding: Finding) -> int:
    """Faults of the files themselves first: they may explain the rest."""
    return CODES.index(finding.code) if finding.code in CODES else -1


VERDICTS: tuple[ComparisonVerdict, ...] = ("regressed", "improved", "inconclusive", "equivalent")


def _verdict(found: Sequence[Finding]) -> ComparisonVerdict | Literal["not-comparable"]:
    """The first that applies: one line that could not be told leaves the whole open."""
    codes = {"regressed" if f.code == "wrong-result" else f.code for f in found}
    return next((each for each in VERDICTS if each in codes), "not-comparable")
