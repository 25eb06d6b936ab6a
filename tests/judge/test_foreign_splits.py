"""Communicators that were split from one: each hangs or forms on its own, in one file or many."""

from __future__ import annotations

import pytest

from bench.formats.nccl_log import read
from bench.formats.source import Source
from bench.judge.docket import Docket
from bench.judge.foreign import logs
from bench.records import Dossier, Finding

COLORS = (923304772, 1449462471)  # of the pairs of GPUs 0 and 1 of two nodes


def rank_log(node: int, gpu: int, *, hangs: bool = False) -> str:
    head = f"node{node}:{100 + gpu}:{100 + gpu} [{gpu}] NCCL INFO "
    gpu_words = f"cudaDev {gpu} nvmlDev {gpu} busId {gpu + 1}000"
    world = f"ncclCommInitRank comm 0x1{node}{gpu} rank {2 * node + gpu} nranks 4 {gpu_words}"
    split = f"ncclCommSplit comm 0x2{node}{gpu} rank {node} nranks 2 {gpu_words} parent "
    split += f"0x1{node}{gpu} splitCount 1 color {COLORS[gpu]} key {node}"
    lines = [
        f"{world} commId 0xaa - Init START",
        f"{world} commId 0xaa - Init COMPLETE",
        f"{split}- Init START",
        "P2P Chunksize set to 131072",
    ]
    lines += [] if hangs else [f"{split} - Init COMPLETE", "AllReduce: opCount 0 sendbuff 0x7f"]
    return "".join(f"{head}{line}\n" for line in lines)


def found(texts: list[str]) -> list[Finding]:
    docket = Docket()
    files = [read(Source.of_text(text, file=f"rank{at}.log")) for at, text in enumerate(texts)]
    logs.judge(Dossier(logs=tuple(files)), docket)
    return list(docket.findings)


def ranks(hanging: tuple[int, int] | None) -> list[str]:
    places = [(node, gpu) for node in (0, 1) for gpu in (0, 1)]
    return [rank_log(*place, hangs=place == hanging) for place in places]


@pytest.mark.parametrize("files", ["one", "a rank each"])
@pytest.mark.parametrize("hanging", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_a_split_that_hangs_beside_one_that_formed_is_named(
    files: str, hanging: tuple[int, int]
) -> None:
    texts = ranks(hanging)
    (finding,) = found(["".join(texts)] if files == "one" else texts)
    node, gpu = hanging
    assert (finding.code, finding.where.host, finding.where.gpu) == (
        "hang-init",
        f"node{node}",
        gpu,
    )
    assert f"Communicator 0xaa/1.{COLORS[gpu]}: 1 of 2 ranks completed" in finding.summary


@pytest.mark.parametrize("files", ["one", "a rank each"])
def test_splits_that_all_formed_are_no_finding(files: str) -> None:
    texts = ranks(None)
    assert found(["".join(texts)] if files == "one" else texts) == []
