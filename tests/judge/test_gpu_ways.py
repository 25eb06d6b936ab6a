"""NCCL's constants: what a link counts, by the claims of real parts."""

from __future__ import annotations

import pytest

from bench.judge.gpu import ways
from bench.records import Gpu, HostFacts, Machine, Nvlink


def gpu(links: int, **link: object) -> Gpu:
    return Gpu(
        index=0,
        nvlinks=(Nvlink(links=tuple(range(links)), active=True, **link),),  # type: ignore[arg-type]
        nvlinks_active=links,
    )


@pytest.mark.parametrize(
    ("made", "gbs"),
    [
        (gpu(18, version="4.0", speed_gbs=26.562), 370.8),  # H100
        (gpu(18, version="4.0"), 370.8),
        (gpu(12, version="3.0", speed_gbs=25.0), 240.0),  # A100
        (gpu(6, version="2.2", speed_gbs=25.781), 120.0),  # V100
        (gpu(4, version="1.0", speed_gbs=19.2), 72.0),  # P100
        (gpu(4, version="3.1", speed_gbs=14.062), 48.0),  # RTX A6000
        (gpu(18, version="5.0", speed_gbs=50.0), 721.8),  # B200
        (gpu(18, version="5.0", speed_gbs=53.125), 721.8),
        (gpu(18), None),
        (Gpu(index=0), None),
    ],
)
def test_nvlinks_count_what_nccl_counts(made, gbs):
    assert ways.nvlink_gbs(made) == (None if gbs is None else pytest.approx(gbs))


@pytest.mark.parametrize(
    ("cpu", "gbs"),
    [
        ("Intel(R) Xeon(R) Platinum 8480C", 22.0),
        ("INTEL(R) XEON(R) PLATINUM 8592+", 40.0),
        ("Intel(R) Xeon(R) Platinum 8275CL CPU @ 3.00GHz", 10.0),
        ("AMD EPYC 9654 96-Core Processor", 16.0),
        ("Neoverse-V2", 6.0),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", None),  # a cloud that hides the model
        ("Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz", 6.0),
        (None, None),
    ],
)
def test_the_way_between_sockets_is_counted_by_the_cpu_and_else_not_told(cpu, gbs):
    host = HostFacts(host="a", hostname="a", identity="a", machine=Machine(cpu=cpu))
    assert ways.sockets_gbs(host) == gbs


@pytest.mark.parametrize(
    ("generation", "width", "gbs"), [(3, 16, 12.0), (4, 8, 12.0), (5, 16, 48.0), (None, 16, None)]
)
def test_pcie_counts_what_nccl_counts(generation, width, gbs):
    made = Gpu(index=0, pcie_max_generation=generation, pcie_max_width=width)
    assert ways.pcie_gbs(made) == gbs
