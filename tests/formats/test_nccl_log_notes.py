"""What lines tell of a process: its network, its RDMA devices, the kernels it takes."""

from __future__ import annotations

import pytest

from bench.formats.nccl_log import read
from bench.formats.source import Source
from bench.records import LogProcess, NcclLog


def log_of(*messages: str) -> NcclLog:
    return read(Source.of_text("".join(f"n1:1:2 [0] NCCL INFO {text}\n" for text in messages)))


def process_of(*messages: str) -> LogProcess:
    (process,) = log_of(*messages).processes
    return process


# --- the network ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "network", "line"),
    [
        (("IB", "Socket"), "IB", 1),
        (("Socket", "IB"), "IB", 2),
        (("Socket", "Socket"), "Socket", 1),
        (("AWS Libfabric", "IB"), "AWS Libfabric", 1),
    ],
)
def test_a_network_and_the_line_quoted_for_it_agree(
    said: tuple[str, str], network: str, line: int
) -> None:
    process = process_of(*(f"Using network {name}" for name in said))
    assert process.network == network
    quote = process.quotes["network"]
    assert (quote.text, quote.line) == (f"Using network {network}", line)


def test_a_plugin_of_a_later_communicator_is_used() -> None:
    process = process_of("Using network IB", "Using network AWS Libfabric")
    assert (process.network, process.plugin, process.plugin_outcome) == (
        "IB", "AWS Libfabric", "used",
    )  # fmt: skip


# --- devices -------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", ["", " rail=0 plane=0"])
def test_ports_that_are_fused_later_have_a_name_and_leave_the_list_as_it_is(more: str) -> None:
    process = process_of(
        "NET/IB : Made virtual device [0] name=mlx4_0 speed=40000 ndevs=1" + more,
        "NET/IB : Made virtual device [1] name=mlx4_0 speed=40000 ndevs=1" + more,
        "NET/IB : Using [0]mlx4_0:1/IB [1]mlx4_0:2/IB [RO]; OOB eth0:10.0.0.1<0>",
        "NET/IB : Made virtual device [2] name=mlx4_0+mlx4_0 speed=80000 ndevs=2" + more,
        "NET/IB : Made virtual device [2] name=mlx4_0+mlx4_0 speed=80000 ndevs=2" + more,
    )
    assert [(net.index, net.name, net.port) for net in process.nets] == [
        (0, "mlx4_0", 1), (1, "mlx4_0", 2),
    ]  # fmt: skip
    (net,) = process.fused
    assert (net.network, net.index, net.name, net.parts, net.speed_mbit) == (
        "IB", 2, "mlx4_0+mlx4_0", ("mlx4_0", "mlx4_0"), 80000,
    )  # fmt: skip


# --- choices -------------------------------------------------------------------------------------


def test_symmetric_kernels_are_choices() -> None:
    line = "[Symmetric]: 1048576 Bytes -> Kernel AllReduce_RSxLDMC_AGxSTMC nchannels 16 nthreads"
    log = log_of(f"AllReduce {line} 512 nWorks 1", "AllReduce: 8 Bytes -> Algo RING proto LL")
    symmetric, other = log.tuning
    assert (symmetric.collective, symmetric.size_bytes, symmetric.algorithm) == (
        "AllReduce", 1048576, "Symmetric",
    )  # fmt: skip
    assert (symmetric.protocol, symmetric.channels) == ("AllReduce_RSxLDMC_AGxSTMC", 16)
    assert (other.algorithm, other.protocol) == ("RING", "LL")


def test_digits_that_are_no_numbers_are_names() -> None:
    log = log_of(
        "AllReduce: 1024 Bytes -> Algo ² proto 0",
        "NET/IB : GPU Direct RDMA Enabled for HCA 0 '²'",
    )
    (choice,) = log.tuning
    assert (choice.algorithm, choice.protocol) == ("²", "LL")
    assert log.processes[0].gdr_devices == {"²": True}
