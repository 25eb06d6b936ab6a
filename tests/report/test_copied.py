"""Copies as rows of the page, and that a report without GPUs has no word of them."""

from __future__ import annotations

from typing import Any

import msgspec

from bench.records import Candidate, CopyCheck, CopyFigure
from bench.report import page
from bench.report.copied import rows


def figure(way: str, device: int, rate: float, **more: Any) -> CopyFigure:
    return CopyFigure(
        host="node1", way=way, device=device, size_bytes=2**26, copies=20,  # type: ignore[arg-type]
        bandwidth_gbs=rate, least_gbs=rate, most_gbs=rate, **more,
    )  # fmt: skip


CHECK = CopyCheck(
    host="node1",
    figures=(
        figure("to-device", 0, 53.21, gpu=1, pcie_generation=5, pcie_width=16),
        figure("from-device", 0, 51.0, gpu=1, pcie_generation=5, pcie_width=16),
        figure("to-device", 1, 26.0, gpu=0, pcie_generation=5, pcie_width=8, wrong=7),
        figure("to-peer", 0, 371.0, gpu=1, peer=0, peer_device=1, direct=True),
        figure("to-peer", 1, 22.0, gpu=0, peer=1, peer_device=0, direct=False),
        figure("to-device", 2, 12.0),
    ),
)


def test_a_row_per_gpu_with_both_ways_its_link_and_its_neighbours(made: Any) -> None:
    first, second, third = rows(msgspec.structs.replace(made.healthy, copies=(CHECK,)))
    assert (first.gpu, first.from_host, first.to_host) == ("GPU 1", "53.2 GB/s", "51.0 GB/s")
    assert (first.link, first.peers) == ("5x16", "GPU 0: 371 GB/s")
    assert (second.from_host, second.to_host, second.link) == ("26.0 GB/s, 7 wrong", "–", "5x8")
    assert second.peers == "GPU 1: 22.0 GB/s through the host"
    assert (third.gpu, third.link, third.peers) == ("CUDA device 2", "–", "–")


def test_the_page_has_them_folded_and_only_where_there_are_any(made: Any) -> None:
    without = page.render(made.healthy)
    assert "Copies between host and GPUs" not in without and "NCCL has no setting" not in without
    path = Candidate(name="p2p", kind="gpu-path", interfaces={"node1": "p2p"})
    report = msgspec.structs.replace(
        made.healthy, copies=(CHECK,), candidates=(*made.healthy.candidates, path)
    )
    text = page.render(report)
    assert "Copies between host and GPUs" in text and "53.2\u00a0GB/s" in text
    assert "NCCL has no setting that forces PCIe peer to peer" in text


def test_a_thousand_gpus_do_not_make_a_page_that_no_one_scrolls(made: Any) -> None:
    many = tuple(msgspec.structs.replace(CHECK, host=f"node{n}") for n in range(400))
    text = page.render(msgspec.structs.replace(made.healthy, copies=many))
    assert text.count('<td class="name">node') < 100
    assert "1,136 more GPUs in report.json." in text
