"""The sweep's command line, as records. Knows no torch and starts nothing.

Long names only, and none that is a prefix of one of torchrun's own options: options standing after
the script pass through torchrun's parser, which rejects ambiguous abbreviations. nccl-tests' names
are taken where the meaning is the same (--minbytes, --maxbytes, --stepfactor).
"""

from __future__ import annotations

import argparse
import difflib
import random
from collections.abc import Sequence
from typing import NoReturn, get_args

import msgspec

from bench.plan import cases
from bench.plan.cases import Locate
from bench.records import SEVERITIES, Backend, BadInput, PlanSettings


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked of one sweep; None where the plan file or the machine decides."""

    plan: str = "quick"
    fabric: str | None = None
    out: str | None = None
    fail_on: str = "none"
    seed: int = 0
    budget_s: float | None = None
    sessions: int | None = None
    collectives: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    minbytes: str | None = None
    maxbytes: str | None = None
    stepfactor: float | None = None
    dtype: str | None = None
    backend: Backend | None = None
    labels: dict[str, str] = {}
    locate: Locate = "auto"
    ladder: bool = False
    quiet: bool = False
    help: str | None = None  # the text to print instead of a sweep

    def settings(self, plan: PlanSettings) -> PlanSettings:
        """The plan file's settings, this command line's on top; BadInput where out of range."""
        changes = {
            "budget_s": self.budget_s,
            "sessions": self.sessions,
            "collectives": self.collectives or None,
            "min_bytes": self.minbytes,
            "max_bytes": self.maxbytes,
            "step_factor": self.stepfactor,
            "dtype": self.dtype,
        }
        given = {name: value for name, value in changes.items() if value is not None}
        settings = msgspec.structs.replace(plan, **given)
        cases.validate(settings)
        return settings


class _Parser(argparse.ArgumentParser):
    """Raises instead of printing a usage page and leaving: one sentence is what the user reads."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message} (see --help)")


def _parser() -> _Parser:
    p = _Parser(
        prog="torchrun … bench/sweep.py",
        description="Sweep all-reduce and all-gather over every candidate network and GPU path, "
        "and say whether NCCL would use the right one.",
        allow_abbrev=False,
        add_help=False,
    )
    p.add_argument("-h", "--help", action="store_true", help="show this and end")
    p.add_argument(
        "--plan",
        metavar="NAME|FILE",
        help="quick, nightly, full, locate, ladder, or a TOML file (default: quick)",
    )
    p.add_argument("--fabric", metavar="FILE", help="expected topology (TOML)")
    p.add_argument("--out", metavar="DIR", help="folder of this run (default: reports/<UTC time>)")
    p.add_argument(
        "--fail-on",
        default="none",
        metavar="SEVERITY",
        help="exit 1 if a finding is at least this severe: none, info, warning, "
        "degraded, broken (default: none)",
    )
    p.add_argument("--seed", type=int, help="order of candidates (default: random, printed)")
    p.add_argument(
        "--budget",
        type=float,
        dest="budget_s",
        metavar="S",
        help="seconds the sweep may take (default: the plan's)",
    )
    p.add_argument(
        "--sessions",
        type=int,
        metavar="K",
        help="fresh process groups per candidate (default: the plan's)",
    )
    p.add_argument(
        "--collective",
        action="append",
        default=[],
        dest="collectives",
        metavar="NAME",
        help="only this collective; may be repeated",
    )
    p.add_argument(
        "--interface",
        action="append",
        default=[],
        dest="interfaces",
        metavar="NAME",
        help="only this interface or candidate; may be repeated",
    )
    p.add_argument("--minbytes", metavar="SIZE", help="smallest size, such as 4K")
    p.add_argument("--maxbytes", metavar="SIZE", help="largest size, such as 64M")
    p.add_argument("--stepfactor", type=float, metavar="F", help="factor between sizes")
    p.add_argument("--dtype", metavar="NAME", help="float32, bfloat16, … (default: float32)")
    p.add_argument(
        "--backend",
        metavar="NAME",
        help="nccl or gloo (default: nccl where every rank's host has a GPU)",
    )
    p.add_argument(
        "--label",
        action="append",
        default=[],
        dest="labels",
        metavar="KEY=VALUE",
        help="a note for the report; may be repeated",
    )
    p.add_argument(
        "--locate",
        default="auto",
        metavar="WHEN",
        help="measure pairs of hosts to find the slow one: auto (three hosts or more: a short "
        "screen, more where one stands out), always (every pair), never (default: auto)",
    )
    p.add_argument(
        "--ladder",
        action="store_true",
        help="only find out what works: groups of 1 rank, 2, one host, two, all (plan: ladder)",
    )
    p.add_argument("--quiet", action="store_true", help="print the verdict only")
    return p  # fmt: skip


def parse(argv: Sequence[str]) -> Options:
    """Options of one command line. BadInput in one sentence, with the nearest name suggested."""
    parser = _parser()
    if "-h" in argv or "--help" in argv:
        return Options(help=parser.format_help())
    known = [name for action in parser._actions for name in action.option_strings]
    found, rest = parser.parse_known_args(list(argv))
    if rest:
        name = rest[0].split("=")[0]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else " (see --help)"
        raise BadInput(f"unknown option {rest[0]!r}{hint}")
    _one_of("--fail-on", found.fail_on, ("none", *SEVERITIES))
    _one_of("--locate", found.locate, get_args(Locate))
    if found.backend is not None:
        _one_of("--backend", found.backend, ("nccl", "gloo"))
    labels: dict[str, str] = {}
    for text in found.labels:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise BadInput(f"--label takes KEY=VALUE, got {text!r}")
        labels[key] = value
    values = {name: value for name, value in vars(found).items() if name != "help"} | {
        "labels": labels,
        "plan": found.plan or ("ladder" if found.ladder else "quick"),
        "seed": random.SystemRandom().randrange(10_000) if found.seed is None else found.seed,
    }
    return msgspec.convert(values, Options, strict=False)


def _one_of(option: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        near = difflib.get_close_matches(value, allowed, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BadInput(f"{option} takes {', '.join(allowed)}, got {value!r}{hint}")
