"""Matrices of nvidia-smi topo -m and rocm-smi --showtopo: whole, cut, wrapped, of many hosts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats import amd_topology, topo_matrix
from bench.formats.source import Source
from bench.records import BadInput, TopologyMatrix

DATA = Path(__file__).resolve().parents[1] / "data/topo_matrix"
EIGHT = tuple(f"GPU{i}" for i in range(8))


def of(name: str) -> tuple[TopologyMatrix, ...]:
    return topo_matrix.read(Source.open(DATA / name))


def cells(matrix: TopologyMatrix) -> dict[tuple[str, str], str]:
    return {
        (link.source, link.destination): f"NV{link.nvlinks}" if link.nvlinks else link.kind
        for link in matrix.links
    }


def test_a_hand_reduced_matrix_keeps_its_annotations() -> None:
    (matrix,) = of("reduced_rails.txt")
    assert (matrix.gpus, matrix.nics) == (("GPU0", "GPU1", "GPU2", "GPU3"), ("NIC0", "NIC1"))
    assert cells(matrix)["GPU0", "GPU1"] == "NV18"
    assert cells(matrix)["GPU0", "GPU2"] == "SYS"
    assert cells(matrix)["GPU3", "NIC1"] == "PIX"
    assert matrix.nic_names == {"NIC0": "rocep80s0", "NIC1": "rocep203s0"}
    assert matrix.notes[0] == "NIC0: rocep80s0 -> ens2005np0 10.32.16.0/24 (rail 0)"
    assert matrix.notes[2].startswith("OOB : rocep167s0f0 ->")
    assert matrix.cpus == {}
    assert any("no rows of NICs" in text for text in matrix.missing)


def test_all_cells_of_a_dgx_are_read_with_its_affinity_columns() -> None:
    (matrix,) = of("dgx_a100.txt")
    assert matrix.gpus == EIGHT
    assert matrix.nics == tuple(f"NIC{i}" for i in range(10))
    assert len(matrix.links) == 8 * 7 + 8 * 10
    assert all(link.nvlinks == 12 for link in matrix.links if link.kind == "NV")
    assert matrix.cpus["GPU4"] == "112-127,240-255"
    assert [matrix.numa[gpu] for gpu in EIGHT] == ["3", "3", "1", "1", "7", "7", "5", "5"]


def test_a_matrix_wrapped_by_a_terminal_is_the_same_matrix() -> None:
    (whole,), (wrapped,) = of("dgx_a100.txt"), of("dgx_a100_wrapped.txt")
    assert wrapped.nics == whole.nics
    assert cells(wrapped) == cells(whole)
    assert wrapped.numa == whole.numa


def test_underlined_headers_and_empty_columns_are_no_obstacle() -> None:
    (matrix,) = of("rtx5880_ansi.txt")
    assert cells(matrix) == {("GPU0", "GPU1"): "PHB", ("GPU1", "GPU0"): "PHB"}
    assert matrix.cpus == {"GPU0": "0-63", "GPU1": "0-63"}
    assert matrix.numa == {"GPU0": "0", "GPU1": "0"}


def test_nic_rows_and_the_nic_legend_are_read() -> None:
    (matrix,) = of("h100_nv6_nic_rows.txt")
    assert cells(matrix)["NIC2", "GPU2"] == "PIX"
    assert matrix.nic_names["NIC3"] == "mlx5_3"
    assert matrix.missing == ()
    assert matrix.notes == ()


def test_old_drivers_name_devices_in_columns_and_call_sockets_soc() -> None:
    (matrix,) = of("old_driver_mlx5_columns.txt")
    assert matrix.line == 2
    assert matrix.nics == ("mlx5_0", "mlx5_1")
    assert cells(matrix)["GPU2", "mlx5_0"] == "SYS"
    assert cells(matrix)["mlx5_1", "mlx5_0"] == "NODE"
    assert matrix.cpus["GPU3"] == "24-47,72-95"
    assert matrix.numa == {}


def test_hosts_behind_a_launcher_are_kept_apart() -> None:
    matrices = of("pdsh_two_hosts.txt")
    assert [matrix.host for matrix in matrices] == ["node1", "node2"]
    assert all(cells(matrix)["GPU0", "GPU1"] == "NV4" for matrix in matrices)


def test_two_runs_in_one_file_are_two_matrices() -> None:
    text = (DATA / "reduced_rails.txt").read_text()
    both = topo_matrix.read(Source.of_text(text + "\n" + text.replace("NV18", "NV17")))
    assert [cells(matrix)["GPU0", "GPU1"] for matrix in both] == ["NV18", "NV17"]


def test_a_header_behind_a_label_and_a_single_gpu_are_read() -> None:
    text = "GPU topology: GPU0      CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
    text += "GPU0     X      0-31,64-95      0               N/A\n"
    (matrix,) = topo_matrix.read(Source.of_text(text))
    assert (matrix.gpus, matrix.cpus) == (("GPU0",), {"GPU0": "0-31,64-95"})


def test_a_cut_matrix_says_what_it_lacks() -> None:
    text = (DATA / "dgx_a100.txt").read_text()
    (matrix,) = topo_matrix.read(Source.of_text(text[: text.index("GPU6    NV12    NV12")]))
    assert "no row of GPU6, GPU7" in matrix.missing


@pytest.mark.parametrize("name", ["topo_p2p_gns.txt", "gtx1080ti_pairs.txt", "rtx4090_two.txt"])
def test_other_matrices_of_gpus_are_not_taken_for_one(name: str) -> None:
    source = Source.open(DATA.parent / "peer_matrix" / name)
    assert topo_matrix.likeness(source.head(), name) == 0
    with pytest.raises(BadInput):
        topo_matrix.read(source)


KINDS = ["NV1", "NV4", "NV12", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS"]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 9),
    st.integers(0, 5),
    st.sampled_from(["\t", "  ", "      "]),
    st.booleans(),
    st.data(),
)
def test_any_matrix_comes_back_as_it_was_printed(
    gpus: int, nics: int, gap: str, affinity: bool, data: st.DataObject
) -> None:
    columns = [*(f"GPU{i}" for i in range(gpus)), *(f"NIC{i}" for i in range(nics))]
    wanted = {
        (a, b): data.draw(st.sampled_from(KINDS))
        for a in columns[:gpus]
        for b in columns
        if a != b
    }
    lines = [gap + gap.join([*columns, *(["CPU Affinity", "NUMA Affinity"] * affinity)])]
    for a in columns[:gpus]:
        row = [a, *(" X " if a == b else wanted[a, b] for b in columns)]
        lines.append(gap.join([*row, *(["0-31,64-95", "1"] * affinity)]))
    (matrix,) = topo_matrix.read(Source.of_text("\n".join(lines)))
    assert cells(matrix) == wanted
    assert matrix.numa == (dict.fromkeys(columns[:gpus], "1") if affinity else {})


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="GPUNIC0123 \tXNVSY:\n-,.", max_size=400))
def test_no_text_breaks_the_reader(text: str) -> None:
    source = Source.of_text("GPU0\tGPU1\n" + text)
    topo_matrix.likeness(source.head(), "x")
    try:
        for matrix in topo_matrix.read(source):
            assert matrix.gpus
    except BadInput:
        pass


def test_rocm_tables_give_types_hops_and_weights() -> None:
    source = Source.open(DATA / "rocm_smi_mi100.txt")
    assert amd_topology.likeness(source.head(), "rocm.txt") == 1
    (matrix,) = amd_topology.read(source)
    assert (matrix.vendor, matrix.gpus) == ("amd", ("GPU0", "GPU1", "GPU2", "GPU3"))
    assert {(link.kind, link.hops, link.weight) for link in matrix.links} == {("PCIE", 3, 52)}
    assert len(matrix.links) == 12
    assert matrix.numa == {"GPU0": "0", "GPU1": "1"}


def test_amd_smi_names_gpus_by_bus_address() -> None:
    text = "LINK TYPE TABLE:\n             0000:0c:00.0 0000:22:00.0\n"
    text += "0000:0c:00.0 SELF         XGMI\n0000:22:00.0 XGMI         SELF\n"
    (matrix,) = amd_topology.read(Source.of_text(text))
    assert matrix.gpus == ("0000:0c:00.0", "0000:22:00.0")
    assert [link.kind for link in matrix.links] == ["XGMI", "XGMI"]


def test_tables_of_amd_smi_that_are_not_kept_change_no_link() -> None:
    """All tables of `amd-smi topology`, in its order; those of newer releases behind."""
    names = "0000:0c:00.0", "0000:22:00.0"

    def table(title: str, own: str, other: str) -> str:
        lines = [f"{title} TABLE:", " " * 13 + " ".join(names)]
        lines += [f"{names[0]} {own} {other}", f"{names[1]} {other} {own}", ""]
        return "\n".join(lines) + "\n"

    text = table("ACCESS", "ENABLED", "ENABLED") + table("WEIGHT", "0", "15")
    text += table("HOPS", "0", "1") + table("LINK TYPE", "SELF", "XGMI")
    text += table("NUMA BW", "N/A", "50000-50000") + table("CACHE COHERANCY", "SELF", "C")
    text += table("ATOMICS", "SELF", "64,32") + table("DMA", "SELF", "T")
    text += table("BI-DIRECTIONAL", "SELF", "T")
    (matrix,) = amd_topology.read(Source.of_text(text))
    assert {(link.kind, link.hops, link.weight) for link in matrix.links} == {("XGMI", 1, 15)}
    assert (len(matrix.links), matrix.missing) == (2, ())
