"""NCCL's topology XML: dumps, input files, excerpts, cut and hostile ones."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats import topo_xml, xml_nodes
from bench.formats.pci_paths import Place, Switch, link_gbs, path_class
from bench.formats.source import Source
from bench.records import BadInput, TopologyTree

DATA = Path(__file__).resolve().parents[1] / "data/topo_xml"


def of(name: str) -> TopologyTree:
    (tree,) = topo_xml.read(Source.open(DATA / name))
    return tree


def of_text(text: str | bytes) -> TopologyTree:
    (tree,) = topo_xml.read(Source.of_text(text, "topo.xml"))
    return tree


def test_a_gpu_and_its_nic_behind_one_switch_are_read_whole() -> None:
    tree = of("h200_pair.xml")
    (gpu,), (net,) = tree.gpus, tree.nets
    assert (gpu.device, gpu.sm, gpu.gdr, gpu.bus_id) == (0, 90, True, "0000:18:00.0")
    assert [link.count for link in gpu.nvlinks] == [5, 5, 4, 4]
    assert {link.target_kind for link in gpu.nvlinks} == {"switch"}
    assert (gpu.link_gts, gpu.link_width, gpu.numa) == (32.0, 16, 0)
    assert (net.name, net.speed_mbit, net.speed_told, net.gdr) == ("mlx5_0", 400000, True, True)
    assert (net.kind, net.paths) == ("rdma", {0: "PIX"})
    assert (tree.vendor, tree.model, tree.cpus, tree.switches) == ("GenuineIntel", "6/207", 1, 1)
    assert tree.missing == ()


def test_wifi_and_tunnels_claim_no_speed() -> None:
    tree = of("gb10_wifi_vpn.xml")
    wifi, tunnel = tree.nets
    assert (wifi.name, wifi.device, wifi.kind, wifi.virtual) == ("wlP9s9", 0, "wifi", False)
    assert (tunnel.name, tunnel.device, tunnel.virtual) == ("tailscale0", 1, True)
    assert not wifi.speed_told
    assert not tunnel.speed_told
    assert (tree.gpus[0].c2c_count, tree.gpus[0].c2c_mb_per_s) == (8, 43125)
    assert tree.gpus[0].link_gts == 2.5
    assert not tree.numa_known


def test_devices_of_a_file_handed_in_are_told_by_their_class() -> None:
    tree = of("ndv4_input.xml")
    assert [gpu.bus_id for gpu in tree.gpus[:2]] == ["0003:00:00.0", "0004:00:00.0"]
    assert all(gpu.device is None for gpu in tree.gpus)
    assert [net.name for net in tree.nets] == [
        "0103:00:00.0", "0104:00:00.0", "0101:00:00.0", "0102:00:00.0",
    ]  # fmt: skip
    assert tree.nets[0].paths == {0: "PIX", 1: "PIX", 2: "SYS", 3: "SYS"}
    assert tree.gpus[0].uplink_gbs == 24.0


def test_a_two_level_broadcom_switch_counts_as_one() -> None:
    tree = of("broadcom_two_level.xml")
    assert tree.nets[0].paths == {0: "PIX"}
    assert sum(link.count for link in tree.gpus[0].nvlinks) == 12
    text = (DATA / "broadcom_two_level.xml").read_text().replace('0x1000" subsystem', '0x15d9" s')
    assert of_text(text).nets[0].paths == {0: "PXB"}  # another maker's board is not flattened


def switch(key: int) -> Switch:
    return Switch(key, 0, None, None)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((0, (1,)), (0, (1,)), "PIX"),
        ((0, (1, 2)), (0, (1,)), "PXB"),
        ((0, (1, 2)), (0, (1, 3)), "PXB"),
        ((0, (1,)), (0, (2,)), "PHB"),
        ((0, ()), (0, ()), "PHB"),
        ((0, (1,)), (1, (2,)), "SYS"),
    ],
)
def test_paths_are_classed_as_nccl_does(
    one: tuple[int, tuple[int, ...]], other: tuple[int, tuple[int, ...]], expected: str
) -> None:
    places = [Place(cpu, tuple(map(switch, keys))) for cpu, keys in (one, other)]
    assert path_class(*places) == path_class(*reversed(places)) == expected


def test_link_bandwidth_is_nccls_own() -> None:
    assert [link_gbs(gts, 16) for gts in (2.5, 5, 8, 16, 32, 64)] == [3, 6, 12, 24, 48, 96]
    assert link_gbs(None, None) == 12


def test_links_to_one_target_are_added_and_virtual_widths_dropped() -> None:
    tree = of_text(
        '<system version="1"><cpu numaid="0" arch="x86_64"><pci busid="0000:01:00.0" '
        'class="0x030200" link_speed="Unknown" link_width="255"><gpu dev="3" sm="80" rank="1">'
        '<nvlink target="0000:02:00.0" count="2" tclass="0x030200"/>'
        '<nvlink target="0000:02:00.0" count="4" tclass="0x030200"/></gpu></pci></cpu></system>'
    )
    (gpu,) = tree.gpus
    assert [(link.target, link.count, link.target_kind) for link in gpu.nvlinks] == [
        ("0000:02:00.0", 6, "gpu")
    ]
    assert (gpu.link_gts, gpu.link_width, gpu.device) == (None, None, 3)


def test_an_excerpt_with_a_prompt_and_several_tops_is_read() -> None:
    text = (DATA / "h200_pair.xml").read_text()
    body = text[text.index("    <pci busid=") : text.index("  </cpu>")]
    tree = of_text("root@host:~# cat topo.xml\n" + body + body.replace('dev="0"', 'dev="1"', 1))
    assert len(tree.gpus) == 2
    assert tree.gpus[0].line == 4
    assert any("no <cpu>" in text for text in tree.missing)


def test_a_cut_file_gives_what_is_before_the_cut() -> None:
    text = (DATA / "h200_pair.xml").read_text()
    tree = of_text(text[: text.index("<net name")])
    assert len(tree.gpus) == 1
    assert "cut off or damaged at line" in tree.missing[0]


def test_nul_bytes_colours_and_mojibake_do_not_end_the_reading() -> None:
    text = (DATA / "h200_pair.xml").read_bytes()
    damaged = text.replace(b"mlx5_0", b"ml\0x5_0").replace(
        b"GenuineIntel", b"Genuine\xff\x1bIntel"
    )
    tree = of_text(damaged)
    assert tree.nets[0].name == "mlx5_0"
    assert tree.vendor is not None
    assert tree.vendor.startswith("Genuine")


@pytest.mark.parametrize("declaration", ["<!DOCTYPE x [<!ENTITY a 'b'>]>", "<!doctype x>"])
def test_a_doctype_is_refused_in_one_sentence(declaration: str) -> None:
    text = f'<?xml version="1.0"?>\n{declaration}\n<system version="1"><cpu numaid="0"/></system>'
    with pytest.raises(BadInput, match=r"DOCTYPE or entities") as caught:
        of_text(text)
    assert caught.value.line == 2
    assert topo_xml.likeness(text, "topo.xml") > 0


def test_depth_and_number_of_elements_are_limited() -> None:
    start = time.process_time()
    deep = of_text("<system><cpu>" + "<pci busid='a'>" * 200_000)
    assert "deeper or larger" in deep.missing[0]
    many = of_text("<system><cpu>" + "<pci class='0x0302'/>" * 200_000 + "</cpu></system>")
    assert len(many.gpus) == topo_xml.MAX_DEVICES
    assert time.process_time() - start < 30


def test_other_xml_is_not_taken_for_a_topology() -> None:
    text = '<graphs version="1"><graph id="0" pattern="4" nchannels="2"></graph></graphs>'
    assert topo_xml.likeness(text, "graph.xml") == 0
    with pytest.raises(BadInput, match="no CPU, GPU or network"):
        of_text(text)
    with pytest.raises(BadInput):
        of_text("no markup at all")


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 1200), st.integers(0, 60))
def test_damage_anywhere_gives_a_tree_or_a_sentence(noise: bytes, at: int, dropped: int) -> None:
    text = (DATA / "h200_pair.xml").read_bytes()
    try:
        tree = of_text(text[:at] + noise + text[at + dropped :])
    except BadInput as bad:
        told = bad.sentence
    else:
        told = "".join(tree.missing)
        assert len(tree.gpus) <= topo_xml.MAX_DEVICES
    assert "\n" not in told


def test_nodes_keep_attributes_and_lines() -> None:
    (top,), ended = xml_nodes.parse(b"<a x='1'>\n<b y='&amp;'/></a>", file="f")
    assert (top.get("x"), top.children[0].get("y"), top.children[0].line, ended) == (
        "1", "&", 2, None,
    )  # fmt: skip


def test_rccls_links_are_called_what_they_are() -> None:
    tree = of_text(
        '<system version="2"><cpu numaid="0"><pci busid="0000:0c:00.0" class="0x038000">'
        '<gpu dev="0" sm="94" gcn="gfx942" rank="0"><xgmi target="0000:22:00.0" count="1" '
        'tclass="0x038000"/></gpu></pci></cpu></system>'
    )
    (gpu,) = tree.gpus
    assert (gpu.link_kind, gpu.nvlinks[0].target_kind) == ("XGMI", "gpu")


def test_a_diff_between_two_files_shows_a_side_each() -> None:
    source = Source.open(DATA / "epyc_family.diff")
    assert topo_xml.likeness(source.head(), "topo_xml.diff") >= 0.5
    before, after = topo_xml.read(source)
    assert (before.side, before.model) == ("before", "175/17")
    assert (after.side, after.model) == ("after", "25/17")
