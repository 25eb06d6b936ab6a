"""Peer-to-peer tests between GPUs: access, bandwidth and latency tables, refusals, wrong data."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats import peer_matrix
from bench.formats.source import Source
from bench.records import BadInput, PeerMatrix

DATA = Path(__file__).resolve().parents[1] / "data/peer_matrix"


def of(name: str) -> PeerMatrix:
    source = Source.open(DATA / name)
    assert peer_matrix.likeness(source.head(), name) == 1
    (peers,) = peer_matrix.read(source)
    return peers


def of_text(text: str) -> tuple[PeerMatrix, ...]:
    return peer_matrix.read(Source.of_text(text))


def allowed(peers: PeerMatrix) -> list[str]:
    return sorted(pair for pair, word in peers.status.items() if word == "OK")


def test_access_lines_and_the_connectivity_matrix_agree() -> None:
    peers = of("gtx1080ti_pairs.txt")
    assert peers.gpus == 4
    assert allowed(peers) == ["0-1", "1-0", "2-3", "3-2"]
    assert peers.bus_ids[2] == "0000:82:00.0"  # printed in hexadecimal
    assert set(peers.names) == {"GeForce GTX 1080 Ti"}


def test_the_connectivity_matrix_alone_is_enough() -> None:
    text = (DATA / "gtx1080ti_pairs.txt").read_text()
    (peers,) = of_text(text[text.index("P2P Connectivity") :])
    assert allowed(peers) == ["0-1", "1-0", "2-3", "3-2"]


def test_every_table_goes_to_its_own_figures() -> None:
    peers = of("rtx4090_two.txt")
    assert peers.tool == "p2pBandwidthLatencyTest"
    assert peers.status == {"0-1": "NO", "1-0": "NO"}
    assert peers.staged_gbs == {"0-1": 22.02, "1-0": 22.05}
    assert peers.bandwidth_gbs == {"0-1": 22.18, "1-0": 22.45}
    assert peers.both_ways_gbs == {"0-1": 31.06, "1-0": 30.84}
    assert peers.latency_us == {"0-1": 10.49, "1-0": 10.55}  # the GPU's, not the CPU's


def test_writes_are_preferred_to_reads() -> None:
    peers = of("rtx4090_p2p_slower.txt")
    assert peers.gpus == 6
    assert peers.bandwidth_gbs["0-2"] == 9.90
    assert peers.staged_gbs["3-4"] == 20.46
    assert len(peers.bandwidth_gbs) == 30


def test_refusals_keep_the_drivers_word() -> None:
    peers = of("topo_p2p_gns.txt")
    assert (peers.tool, peers.gpus) == ("nvidia-smi topo -p2p", 2)
    assert peers.status == {"0-1": "GNS", "1-0": "GNS"}


def test_simple_p2p_tells_pairs_copies_and_wrong_values() -> None:
    peers = of("simple_p2p_k40.txt")
    assert (peers.tool, allowed(peers)) == ("simpleP2P", ["0-1", "1-0", "2-3", "3-2"])
    text = (DATA / "simple_p2p_k40.txt").read_text()
    text += "cudaMemcpyPeer / cudaMemcpy between GPU0 and GPU1: 21.48GB/s\n"
    text += "Verification error @ element 0: val = nan, ref = 0.000000\nTest failed!\n"
    (peers,) = of_text(text)
    assert peers.bandwidth_gbs == {"0-1": 21.48}
    assert (peers.wrong, peers.failed) == (1, True)


def test_nvbandwidth_gives_pairs_and_copies_from_the_host() -> None:
    peers = of("nvbandwidth_h100.txt")
    assert peers.host_gbs == {0: 55.63, 1: 55.64, 2: 27.9, 3: 55.61}
    assert peers.bandwidth_gbs["3-0"] == 276.19
    assert len(peers.bandwidth_gbs) == 12


def test_two_runs_in_one_file_are_two_records() -> None:
    text = (DATA / "gtx1080ti_pairs.txt").read_text()
    assert [peers.line for peers in of_text(text + text)] == [1, 1 + text.count("\n")]


def test_a_topology_matrix_is_not_taken_for_a_test() -> None:
    source = Source.open(DATA.parent / "topo_matrix/dgx_a100.txt")
    assert peer_matrix.likeness(source.head(), "topo.txt") == 0
    with pytest.raises(BadInput, match="no result"):
        peer_matrix.read(source)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 8), st.data())
def test_any_bandwidth_table_comes_back_as_printed(gpus: int, data: st.DataObject) -> None:
    table = [[data.draw(st.floats(0.5, 3000)) for _ in range(gpus)] for _ in range(gpus)]
    lines = ["Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)"]
    lines.append("   D\\D" + "".join(f"{i:6d} " for i in range(gpus)))
    lines += [f"{i:6d} " + " ".join(f"{v:6.02f}" for v in row) for i, row in enumerate(table)]
    (peers,) = of_text("\n".join(lines))
    assert peers.bandwidth_gbs == {
        f"{a}-{b}": float(f"{table[a][b]:.2f}") for a in range(gpus) for b in range(gpus) if a != b
    }


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="GPU012² \tXOKNS.-\n=DevicCANt", max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    start = "Device=0 CAN Access Peer Device=1\nP2P=Enabled Latency Matrix (us)\n"
    assert of_text(start + text)[0].status["0-1"] == "OK"


def test_digits_that_are_no_numbers_are_no_gpus() -> None:
    title = (
        "Device=0 CAN Access Peer Device=1\nUnidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n"
    )
    (peers,) = of_text(
        f"{title}   D\\D     0      1\n     0 600.00  50.00\n     ²  50.00 600.00\n"
    )
    assert peers.bandwidth_gbs == {"0-1": 50.0}
    (peers,) = of_text(f"{title}   D\\D     0      ²\n     0 600.00  50.00\n")
    assert peers.bandwidth_gbs == {}
