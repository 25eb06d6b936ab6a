"""Every code has its text, and nothing is raised that has none."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from bench.judge.catalogue import CATALOGUE, entry
from bench.records import BadInput

BENCH = Path(__file__).resolve().parents[2] / "bench"
ROOMS = {
    "interface": "misselected unreachable ambiguous no-match loopback link-local virtual differs",
    "hang": "rendezvous init first-collective midrun end",
    "accelerate": "processes machine-rank address port inconsistent ignored-field refused",
}
OTHERS = """egress-differs setting-overridden setting-not-exported fallback-to-sockets
hca-set-differs gdr-disabled rail-isolated link-degraded latency-degraded host-slow rail-slow
link-negotiated-down link-lossy mtu-mismatch mtu-blackhole bandwidth-collapse below-expectation
gpu-path-unexpected nvlink-inactive pcie-downgraded p2p-blocked topology-unknown duplicate-gpu
collective-mismatch first-fault not-determinable launcher-world-size software-differs
environment-differs regressed improved equivalent inconclusive not-comparable wrong-result
unsettled skewed noisy measurement-failed rendezvous-unreachable rendezvous-address host-name
host-limits clock-offset rank-placement"""


def test_the_catalogue_holds_the_agreed_codes_and_no_others():
    agreed = {f"{room}-{code}" for room, codes in ROOMS.items() for code in codes.split()}
    assert set(CATALOGUE) == agreed | set(OTHERS.split())


@pytest.mark.parametrize("code", CATALOGUE)
def test_every_text_says_something(code):
    found = CATALOGUE[code]
    assert found.code == code and 5 < len(found.title) < 80
    for text in (found.meaning, found.established, found.remedy):
        assert text[0].isupper() or text[0] in "ncm", text  # netlike names may begin in lower case
        assert text.endswith(".") and len(text) > 10 and "\n" not in text and "  " not in text


def test_every_code_that_the_judge_raises_is_in_the_catalogue():
    raised = set()
    for path in (BENCH / "judge").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding":
                value = next(k.value for k in node.keywords if k.arg == "code")
                if isinstance(value, ast.Constant):
                    raised.add(value.value)
        raised |= set(re.findall(r'"(hang-[a-z-]+)"', path.read_text()))
    assert len(raised) >= 15
    assert raised <= set(CATALOGUE)


def test_an_unknown_code_gets_the_nearest_one():
    with pytest.raises(BadInput, match="did you mean interface-misselected"):
        entry("interface-miselected")
    assert entry(" Link-Lossy ").code == "link-lossy"
