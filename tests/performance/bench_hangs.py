"""Prints what `diagnose` says of real jobs that were made to hang or die, and how soon.

    python tests/performance/bench_hangs.py [CASE …] [--runs N] [--keep DIR]

Fifteen ways to die, each a real torchrun job over gloo (tests/hang/campaign.py has them and what
is known of each): an exception like running out of memory, SIGKILL, SIGSTOP, a killed DataLoader
worker, uneven data, calls that differ in shape, type and order, inverted groups, a missing node, a
wrong address, a taken and a firewalled port, a missing interface, a full /dev/shm. Right: the
first serious finding is of the known kind, phase and rank are the known ones, and no other rank is
named.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.hang import campaign  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", default=[each.name for each in campaign.CASES])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--keep", help="a folder for what the jobs left")
    options = parser.parse_args()
    base = Path(options.keep or tempfile.mkdtemp(prefix="bench-hangs-"))
    right = total = 0
    slowest = 0.0
    print(f"{'case':16} {'right':>7}  {'answer':>7}  {'its CPU':>7}  says")
    for name in options.cases:
        case = campaign.case(name)
        if not campaign.possible(case):
            print(f"{name:16}       –        –        –  not possible here")
            continue
        answers = []
        for run in range(options.runs):
            folder = base / f"{name.replace(' ', '-')}-{run + 1}"
            folder.mkdir(parents=True)
            answers.append(campaign.run(case, folder))
        good = sum(each.right for each in answers)
        right, total = right + good, total + len(answers)
        worst = max(each.answer_s for each in answers)
        slowest = max(slowest, worst)
        print(
            f"{name:16} {good:3} / {len(answers)}  {worst:5.1f} s  {told(answers[0])}", flush=True
        )
        for each in answers:
            for trouble in each.trouble:
                print(f"{'':16} WRONG: {trouble}", flush=True)
    print(f"{right} of {total} right; the slowest answer {slowest:.1f} s after the job's death")
    return 0 if right == total else 1


def told(answer: campaign.Answer) -> str:
    """ "first-fault: oom, rank 1, midrun"."""
    if answer.diagnosis is None:
        return "nothing"
    first = next(iter(campaign.serious(answer.diagnosis)), None)
    what = f"{first.code}{f': {first.kind}' if first.kind else ''}" if first else "no finding"
    ranks = ", ".join(map(str, sorted(campaign.accused(answer.diagnosis))))
    return f"{what}, {f'rank {ranks}' if ranks else 'no rank'}, {answer.diagnosis.phase}"


if __name__ == "__main__":
    sys.exit(main())
