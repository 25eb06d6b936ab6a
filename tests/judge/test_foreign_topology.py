"""Findings from topologies that others printed: matrices, XML, NVLink status, lspci, ports.

Records come from the excerpts under tests/data, read by their formats, or from texts in the tools'
own form; what is healthy must yield nothing at degraded or above.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import msgspec
import pytest

from bench.formats import recognition
from bench.formats.file_walk import Found
from bench.formats.source import Source
from bench.judge.docket import Docket
from bench.judge.foreign import topology
from bench.judge.verdict import serious
from bench.records import Dossier, Finding, Record

DATA = Path(__file__).resolve().parents[1] / "data"


def dossier(*names: str, **texts: str) -> Dossier:
    """Of files under tests/data, and of texts by file name (underscores for dots)."""
    told: dict[str, list[Record]] = {}
    sources = [Source.open(DATA / name) for name in names]
    sources += [Source.of_text(text, name.replace("__", ".")) for name, text in texts.items()]
    for source in sources:
        records, _ = recognition.read(source)
        for record in records:
            told.setdefault(recognition.FIELDS[type(record)], []).append(record)
    return msgspec.convert({}, Dossier) if not told else Dossier(
        **{field: tuple(records) for field, records in told.items()}  # type: ignore[arg-type]
    )  # fmt: skip


def judged(*names: str, **texts: str) -> list[Finding]:
    docket = Docket()
    topology.judge(dossier(*names, **texts), docket)
    return list(docket.findings)


def only(*names: str, **texts: str) -> Finding:
    (finding,) = judged(*names, **texts)
    return finding


def told(finding: Finding) -> str:
    return " ".join([finding.summary, *(each.text for each in finding.evidence)])


HEALTHY = (
    "topo_matrix/dgx_a100.txt",
    "topo_matrix/dgx_a100_wrapped.txt",
    "topo_matrix/h100_nv6_nic_rows.txt",
    "topo_matrix/reduced_rails.txt",
    "topo_matrix/rtx5880_ansi.txt",
    "topo_matrix/rocm_smi_mi100.txt",
    "topo_matrix/pdsh_two_hosts.txt",
    "topo_xml/h200_pair.xml",
    "topo_xml/ndv4_input.xml",
    "topo_xml/broadcom_two_level.xml",
    "nvlink_status/gb200_complete.txt",
    "nvlink_status/a100_pcie_no_bridge.txt",
    "peer_matrix/gtx1080ti_pairs.txt",
    "peer_matrix/rtx4090_two.txt",
    "peer_matrix/simple_p2p_k40.txt",
    "lspci/rtx4090_at_rest.txt",
    "kernel_hints/dmesg_nixos.txt",
    "ibv_devinfo/devinfo_h100.txt",
    "ibv_devinfo/ibstat.txt",
    "variables_file/env.txt",
    "figures_list/measurements.csv",
)


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_healthy_is_not_accused(name: str) -> None:
    assert [finding.summary for finding in judged(name) if serious(finding)] == []


# ------------------------------------------------------------------------------------- NVLinks


def test_inactive_links_are_named_with_what_is_left() -> None:
    finding = only("nvlink_status/v100_two_inactive.txt")
    assert (finding.code, finding.severity, finding.where.gpu) == (
        "nvlink-inactive",
        "degraded",
        3,
    )
    assert "NVLinks 3 and 5 inactive, 4 of 6 active (103.1 of 154.7 GB/s)" in finding.summary


def test_a_gpu_without_links_beside_complete_ones_is_accused() -> None:
    finding = only("nvlink_status/b200_all_inactive.txt")
    assert (finding.where.gpu, finding.severity) == (2, "degraded")
    assert "18 active links" in told(finding)


def test_the_same_gap_on_every_gpu_is_only_a_warning() -> None:
    """As a virtual machine with four of the eight GPUs of a cube mesh shows it."""
    gpu = "GPU {}: Tesla V100-SXM2-16GB (UUID: GPU-{})\n" + "".join(
        f"\t Link {n}: {'<inactive>' if n > 3 else '25.781 GB/s'}\n" for n in range(6)
    )
    findings = judged(nvlink__txt="".join(gpu.format(n, n) for n in range(4)))
    assert {finding.severity for finding in findings} == {"warning"}


def test_a_gpu_with_fewer_links_in_every_cell_of_a_mesh_is_named() -> None:
    text = (DATA / "topo_matrix/dgx_a100.txt").read_text()
    lines = text.splitlines()
    row = [line.replace("NV12", "NV10") if line.startswith("GPU3") else line for line in lines]
    weak = [
        line if line.startswith(("GPU3", " ")) else _with_cell(line, 3, "NV10") for line in row
    ]
    finding = only(topo__txt="\n".join(weak))
    assert (finding.code, finding.where.gpu) == ("nvlink-inactive", 3)
    assert "GPU3 has 10 NVLinks to each peer where 7 other GPUs have 12" in finding.summary


def _with_cell(line: str, column: int, word: str) -> str:
    words = line.split()
    words[column + 1] = word
    return "  ".join(words)


CUBE_MESH = """\
        GPU0  GPU1  GPU2  GPU3  GPU4  GPU5  GPU6  GPU7
GPU0     X    NV1   NV1   NV2   NV2   SYS   SYS   SYS
GPU1    NV1    X    NV2   NV1   SYS   NV2   SYS   SYS
GPU2    NV1   NV2    X    NV2   SYS   SYS   NV1   SYS
GPU3    NV2   NV1   NV2    X    SYS   SYS   SYS   NV1
GPU4    NV2   SYS   SYS   SYS    X    NV1   NV1   NV2
GPU5    SYS   NV2   SYS   SYS   NV1    X    NV2   NV1
GPU6    SYS   SYS   NV1   SYS   NV1   NV2    X    NV2
GPU7    SYS   SYS   SYS   NV1   NV2   NV1   NV2    X
"""


def test_a_cube_mesh_is_right_as_it_is_and_wrong_with_a_link_less() -> None:
    assert judged(topo__txt=CUBE_MESH) == []
    weaker = CUBE_MESH.replace(
        "GPU0     X    NV1   NV1   NV2   NV2", "GPU0     X    NV1   NV1   NV2   NV1"
    )
    weaker = weaker.replace("GPU4    NV2   SYS", "GPU4    NV1   SYS")
    assert [finding.where.gpu for finding in judged(topo__txt=weaker)] == [0, 4]


def _part(matrix: str, gpus: tuple[int, ...]) -> str:
    """What a container with some of the GPUs sees, numbered anew."""
    rows = [line.split() for line in matrix.splitlines()[1:]]
    names = [f"GPU{at}" for at in range(len(gpus))]
    lines = [
        "\t".join([name, *(rows[gpu][other + 1] for other in gpus)])
        for name, gpu in zip(names, gpus, strict=True)
    ]
    return "\n".join(["\t" + "\t".join(names), *lines]) + "\n"


@pytest.mark.parametrize("number", range(2, 8))
def test_any_part_of_a_cube_mesh_is_right_as_it_is(number: int) -> None:
    accused = [
        gpus
        for gpus in combinations(range(8), number)
        if judged(topo__txt=_part(CUBE_MESH, gpus)) != []
    ]
    assert accused == []


def test_one_bridge_between_three_cards_is_no_fault() -> None:
    text = "\tGPU0\tGPU1\tGPU2\nGPU0\tX\tNV4\tSYS\nGPU1\tNV4\tX\tSYS\nGPU2\tSYS\tSYS\tX\n"
    assert judged(topo__txt=text) == []


@pytest.mark.parametrize(("number", "accused"), [(8, [7]), (5, [])])
def test_a_gpu_outside_a_mesh_is_accused_where_no_bridge_makes_such_a_mesh(
    number: int, accused: list[int]
) -> None:
    names = [f"GPU{at}" for at in range(number)]
    rows = [
        [name, *("X" if a == b else "SYS" if number - 1 in (a, b) else "NV18"
                 for b in range(number))]
        for a, name in enumerate(names)
    ]  # fmt: skip
    text = "\t" + "\t".join(names) + "\n" + "\n".join("\t".join(row) for row in rows) + "\n"
    findings = judged(topo__txt=text)
    assert [finding.where.gpu for finding in findings] == accused
    assert {finding.severity for finding in findings} <= {"warning"}


def _status(names: list[str], active: tuple[int, ...], links: int) -> str:
    return "".join(
        f"GPU {at}: {name} (UUID: GPU-{at})\n"
        + "".join(
            f"\t Link {link}: {'14.062 GB/s' if at in active else '<inactive>'}\n"
            for link in range(links)
        )
        for at, name in enumerate(names)
    )


@pytest.mark.parametrize(
    ("names", "links"),
    [
        (["NVIDIA GeForce RTX 3090"] * 3, 4),
        (["NVIDIA A100-PCIE-40GB"] * 4, 12),
        (["NVIDIA A40"] * 4, 4),
        (["NVIDIA A30"] * 4, 4),
    ],
)
def test_cards_beside_a_bridged_pair_may_have_no_bridge(names: list[str], links: int) -> None:
    findings = judged(nvlink__txt=_status(names, (0, 1), links))
    assert [finding.where.gpu for finding in findings] == list(range(2, len(names)))
    assert {finding.severity for finding in findings} == {"info"}
    assert "whether this card has no bridge" in told(findings[0])
    assert findings[0].remedy is None


def test_a_board_without_links_beside_others_is_accused() -> None:
    findings = judged(nvlink__txt=_status(["NVIDIA A100-SXM4-40GB"] * 4, (0, 1, 2), 12))
    assert [(f.where.gpu, f.severity) for f in findings] == [(3, "degraded")]


def test_bridges_on_some_cards_only_are_no_fault() -> None:
    """Two of four cards bridged: as likely how the box was bought."""
    text = "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\tX\tNV4\tSYS\tSYS\nGPU1\tNV4\tX\tSYS\tSYS\n"
    text += "GPU2\tSYS\tSYS\tX\tPHB\nGPU3\tSYS\tSYS\tPHB\tX\n"
    assert judged(topo__txt=text) == []


def test_xml_counts_active_links_and_a_lower_count_is_seen() -> None:
    text = (DATA / "topo_xml/h200_pair.xml").read_text().replace('count="5"', 'count="4"', 1)
    finding = only(topo__xml=text)
    assert (finding.code, finding.where.gpu) == ("nvlink-inactive", 0)
    assert "17 of 18 NVLinks active" in finding.summary


def test_models_made_with_fewer_links_are_not_accused() -> None:
    text = (DATA / "topo_xml/h200_pair.xml").read_text()
    for count in ("5", "4"):
        text = text.replace(f'count="{count}"', 'count="2"')
    assert judged(topo__xml=text) == []  # 8 links: H800, A800


# ------------------------------------------------------------------------- ACS, IOMMU, peers


def test_ports_that_redirect_are_named_with_flags_register_and_iommu() -> None:
    finding = only(
        "lspci/pex890xx.txt", "kernel_hints/dmesg_iommu.txt", "variables_file/env_as_filed.txt",
        "figures_list/measurements.csv",
    )  # fmt: skip
    assert (finding.code, finding.severity) == ("p2p-blocked", "degraded")
    assert "2 PCI ports (15:01.0, 15:02.0)" in finding.summary
    assert "ReqRedir+ CmpltRedir+ UpstreamFwd+, ACSCtl 0x001d" in finding.summary
    assert "the IOMMU translates" in finding.summary
    assert "Default domain type: Translated" in told(finding)
    assert "NCCL_IB_SPLIT_DATA_ON_QPS=1" in told(finding)
    assert "27 % of ib_write_bw's 49.1" in told(finding)
    assert "99 % of ib_write_bw's 49.1" in told(finding)
    remedy = finding.remedy or ""
    assert "setpci" in remedy
    assert "unset NCCL_IB_SPLIT_DATA_ON_QPS" in remedy
    assert "iommu=pt, which alone does not clear ACS" in remedy


def test_gpus_without_nvlink_are_whom_acs_hurts() -> None:
    finding = only("lspci/starship.txt", "topo_matrix/rtx5880_ansi.txt")
    assert "What GPUs write to each other (PHB, no NVLink)" in finding.summary
    assert finding.where.device == "0000:40:01.1, 0000:60:03.1"


def test_a_port_above_a_disk_is_left_out() -> None:
    acs = next(f for f in judged("lspci/switch_tree.txt") if f.code == "p2p-blocked")
    assert acs.where.device == "0000:40:01.1"
    assert "1 of 2 listed PCI port" in acs.summary


ROOT = """\
{bus}:01.1 PCI bridge: Advanced Micro Devices, Inc. [AMD] Starship/Matisse GPP Bridge
	Bus: primary={bus}, secondary={below}, subordinate={last}, sec-latency=0
	Capabilities: [58] Express (v2) Root Port (Slot+), MSI 00
		ACSCtl:	SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
"""
GPU = "{bus}:00.0 3D controller: NVIDIA Corporation GA102GL [A40] (rev a1)\n"
ROOTS = "".join(
    ROOT.format(bus=bus, below=below, last=below) + GPU.format(bus=below)
    for bus, below in (("40", "41"), ("60", "61"))
)
SWITCH = (
    ROOT.format(bus="80", below="81", last="84")
    + """\
81:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch
	Bus: primary=81, secondary=82, subordinate=84, sec-latency=0
	Capabilities: [68] Express (v2) Upstream Port, MSI 00
82:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch
	Bus: primary=82, secondary=83, subordinate=83, sec-latency=0
	Capabilities: [68] Express (v2) Downstream Port (Slot+), MSI 00
		ACSCtl:	SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
82:01.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch
	Bus: primary=82, secondary=84, subordinate=84, sec-latency=0
	Capabilities: [68] Express (v2) Downstream Port (Slot+), MSI 00
		ACSCtl:	SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
83:00.0 3D controller: NVIDIA Corporation GA102GL [A40] (rev a1)
84:00.0 3D controller: NVIDIA Corporation GA102GL [A40] (rev a1)
"""
)


def test_root_ports_alone_bar_no_shorter_way() -> None:
    finding = only(lspci__txt=ROOTS)
    assert (finding.code, finding.severity) == ("p2p-blocked", "warning")
    assert "2 PCI root ports (40:01.1, 60:01.1)" in finding.summary
    assert "as it has to anyway" in finding.summary
    assert "setpci" not in (finding.remedy or "")


@pytest.mark.parametrize("name", ["kernel_hints/dmesg_iommu.txt",
                                  "peer_matrix/rtx4090_p2p_slower.txt"])  # fmt: skip
def test_root_ports_are_accused_where_translation_or_a_test_says_so(name: str) -> None:
    found = [finding for finding in judged(name, lspci__txt=ROOTS) if "ACS" in finding.summary]
    assert [finding.severity for finding in found] == ["degraded"]
    assert "setpci" not in (found[0].remedy or "")


def test_ports_of_a_switch_are_those_to_clear() -> None:
    finding = only(lspci__txt=ROOTS + SWITCH)
    assert finding.severity == "degraded"
    assert "82:00.0, 82:01.0" in finding.summary
    assert (finding.remedy or "").startswith("for port in 82:00.0 82:01.0; do")


def test_a_port_that_does_not_say_what_it_is_counts_as_one_that_bars() -> None:
    untold = ROOTS.replace("Express (v2) Root Port (Slot+), MSI 00", "x")
    assert only(lspci__txt=untold).severity == "degraded"


def test_source_validation_alone_redirects_nothing() -> None:
    text = "40:01.1 PCI bridge: AMD GPP Bridge\n\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir-\n"
    assert judged(lspci__txt=text) == []


def test_lines_without_their_devices_are_only_a_warning() -> None:
    finding = only("lspci/acsctl_grep.txt")
    assert finding.severity == "warning"
    assert "2 of 4 listed PCI ports" in finding.summary


def test_a_register_that_setpci_shows_is_only_a_warning_as_its_port_is_unnamed() -> None:
    finding = only("lspci/setpci.txt")
    assert (finding.severity, finding.where.device) == ("warning", "0000:40:07.1")
    assert "1 of 5 listed PCI ports (40:07.1)" in finding.summary


def test_an_iommu_that_was_switched_off_explains_broken_peer_access() -> None:
    finding = only(
        "peer_matrix/gtx1080ti_pairs.txt", "kernel_hints/cmdline_before.txt",
        "kernel_hints/cmdline_after.txt",
    )  # fmt: skip
    assert (finding.code, finding.severity) == ("p2p-blocked", "degraded")
    assert "GPUs 0-1 and 2-3 (peer access exists only inside these pairs)" in finding.summary
    assert "intel_iommu=off" in (finding.remedy or "")


def test_an_iommu_alone_is_a_warning_and_a_passthrough_one_nothing() -> None:
    assert only("kernel_hints/dmesg_iommu.txt").severity == "warning"
    assert judged("kernel_hints/dmesg_nixos.txt") == []


def test_peer_access_that_was_measured_to_work_clears_the_iommu() -> None:
    tables = (
        "P2P Connectivity Matrix\n     D\\D     0     1\n     0\t     1     1\n"
        "     1\t     1     1\nUnidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n"
        "   D\\D     0      1\n     0 900.00  11.00\n     1  11.00 900.00\n"
        "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n"
        "   D\\D     0      1\n     0 900.00  26.00\n     1  26.00 900.00\n"
    )
    assert judged("kernel_hints/dmesg_iommu.txt", p2p__txt=tables) == []


def test_peer_to_peer_slower_than_host_memory_is_a_detour() -> None:
    finding = only("peer_matrix/rtx4090_p2p_slower.txt")
    assert finding.severity == "degraded"
    assert "9.9" in finding.summary
    assert "22.2" in finding.summary


def test_a_card_that_never_had_peer_access_is_a_remark() -> None:
    finding = only("peer_matrix/topo_p2p_gns.txt")
    assert (finding.code, finding.severity) == ("p2p-blocked", "info")
    assert "the GPU does not support it (GNS)" in finding.summary


def test_a_refusal_between_gpus_that_nvlink_joins_is_accused() -> None:
    matrix = "\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\tNV4\tX\n"
    peers = (DATA / "peer_matrix/topo_p2p_gns.txt").read_text().replace("GNS", "NS")
    finding = only(topo__txt=matrix, p2p__txt=peers)
    assert (finding.severity, finding.where.link) == ("degraded", ("GPU0", "GPU1"))


def test_wrong_data_after_a_copy_is_broken() -> None:
    text = (DATA / "peer_matrix/simple_p2p_k40.txt").read_text()
    text += "Verification error @ element 0: val = nan, ref = 0.000000\n" * 3
    finding = only(simple__txt=text)
    assert (finding.code, finding.severity) == ("p2p-blocked", "broken")
    assert "3 values wrong" in finding.summary


# -------------------------------------------------------------------------------- PCIe links


def test_a_resting_gpu_is_noted_and_not_accused() -> None:
    finding = only("lspci/rtx4090_at_rest.txt")
    assert (finding.code, finding.severity) == ("pcie-downgraded", "info")
    assert "saves power" in finding.summary


def test_missing_lanes_are_accused() -> None:
    finding = next(f for f in judged("lspci/switch_tree.txt") if f.code == "pcie-downgraded")
    assert (finding.severity, finding.where.device) == ("degraded", "0000:41:00.0")
    assert "16 GT/s x8 where 16 GT/s x16 is possible" in finding.summary


def test_a_slot_that_can_do_no_more_is_no_fault() -> None:
    text = (DATA / "lspci/switch_tree.txt").read_text()
    text = text.replace("LnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1, Exit",
                        "LnkCap:\tPort #0, Speed 16GT/s, Width x8, ASPM L1, Exit")  # fmt: skip
    assert not [f for f in judged(lspci__txt=text) if f.code == "pcie-downgraded"]


def test_nvidia_smis_query_is_judged_alike() -> None:
    text = "index, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, "
    text += "pcie.link.width.max\n0, 1, 4, 16, 16\n1, 1, 4, 8, 16\n2, 4, 4, 16, 16\n"
    findings = judged(query__csv=text)
    assert [(f.where.gpu, f.severity) for f in findings] == [(0, "info"), (1, "degraded")]


def test_c2c_carries_the_data_where_there_is_c2c() -> None:
    findings = judged("topo_xml/gb10_wifi_vpn.xml")
    pcie = next(f for f in findings if f.code == "pcie-downgraded")
    assert pcie.severity == "info"
    assert "2.5 GT/s x16" in pcie.summary
    assert "C2C carries the GPU's data" in pcie.summary


def test_a_gpu_slow_from_the_host_has_a_narrow_link() -> None:
    finding = only("peer_matrix/nvbandwidth_h100.txt")
    assert (finding.code, finding.where.gpu) == ("pcie-downgraded", 2)
    assert "27.9" in finding.summary


def test_a_topology_file_with_an_artificial_bottleneck_is_seen() -> None:
    """NVIDIA/nccl issue 749: a file for virtual machines made the switch 2.5 GT/s x1."""
    text = (DATA / "topo_xml/ndv4_input.xml").read_text()
    text = text.replace('class="0x060400" link_speed="16 GT/s" link_width="16"',
                        'class="0x060400" link_speed="2.5 GT/s" link_width="1"')  # fmt: skip
    finding = only(topo__xml=text)
    assert (finding.code, finding.confidence) == ("pcie-downgraded", "predicted")
    assert "0.188 GB/s" in finding.summary


# -------------------------------------------------------------------------------- networks


def test_wifi_and_a_tunnel_are_misselections_for_several_hosts() -> None:
    finding = next(
        f for f in judged("topo_xml/gb10_wifi_vpn.xml") if f.code == "interface-virtual"
    )
    assert finding.severity == "degraded"
    assert "wlP9s9 (Wi-Fi card) and tailscale0 (VPN tunnel)" in finding.summary
    assert "no wired or RDMA NIC" in finding.summary
    assert "not a measured 10 Gbit/s" in told(finding)


def test_a_wired_nic_beside_them_is_enough() -> None:
    text = (DATA / "topo_xml/gb10_wifi_vpn.xml").read_text()
    wired = (
        '<pci busid="0002:01:00.0" class="0x020000" vendor="0x15b3" device="0x1021"><nic>'
        '<net name="rocep1s0f0" dev="2" speed="200000" port="1" guid="0x2" gdr="0"/></nic></pci>'
    )
    findings = judged(topo__xml=text.replace("  </cpu>", wired + "  </cpu>"))
    assert [finding.code for finding in findings] == ["pcie-downgraded"]


def test_a_virtual_machine_that_hides_its_switches_is_told() -> None:
    gpus = "".join(
        f'<pci busid="0000:0{n}:00.0" class="0x030200"><gpu dev="{n}" sm="90" rank="{n}"/></pci>'
        for n in range(4)
    )
    nic = (
        '<pci busid="0000:09:00.0" class="0x020700" vendor="0x15b3" device="0x101e" '
        'link_speed="" link_width="0"><nic><net name="mlx5_0" dev="0" speed="400000" port="1" '
        'guid="0x1" gdr="1"/></nic></pci>'
    )
    text = f'<system version="1"><cpu numaid="-1" arch="x86_64">{gpus}{nic}</cpu></system>'
    finding = only(topo__xml=text)
    assert (finding.code, finding.severity) == ("topology-unknown", "warning")
    assert "PCIe speed" in finding.summary
    assert "virtual functions" in finding.summary
    assert "NCCL_TOPO_FILE" in (finding.remedy or "")


def test_different_active_mtus_are_named_with_the_host_to_mend() -> None:
    finding = only("ibv_devinfo/hostA_ibv.txt", "ibv_devinfo/hostB_ibv.txt")
    assert (finding.code, finding.severity) == ("mtu-mismatch", "degraded")
    assert (finding.where.host, finding.where.device) == ("hostB", "mlx5_0")
    assert "hostA 4096 and hostB 1024" in finding.summary
    assert "on hostB" in (finding.remedy or "")


def test_an_error_of_the_queue_pair_makes_the_mtu_broken() -> None:
    log = (
        "hostB:812:901 [0] transport/net_ib.cc:95 NCCL WARN NET/IB : Got async event : local "
        "access violation work queue error\n"
    )
    findings = judged("ibv_devinfo/hostA_ibv.txt", "ibv_devinfo/hostB_ibv.txt", rank__log=log)
    assert [(f.code, f.severity) for f in findings] == [("mtu-mismatch", "broken")]
    assert "local access violation" in told(findings[0])


def test_equal_ports_and_unused_ones_are_no_finding() -> None:
    text = (DATA / "ibv_devinfo/devinfo_h100.txt").read_text()
    assert judged(node1_ibv__txt=text, node2_ibv__txt=text) == []


def test_a_port_below_its_like_is_named() -> None:
    text = (DATA / "ibv_devinfo/ibstat.txt").read_text()
    slow = text.replace("Rate: 200", "Rate: 100")
    finding = only(node1_ib__txt=text, node2_ib__txt=text, node3_ib__txt=slow)
    assert (finding.code, finding.where.host) == ("link-negotiated-down", "node3")
    assert "100 Gbit/s where 2 other hosts have 200" in finding.summary


# ------------------------------------------------------------------------------------ rails


RING = (
    "hostA:15:15 [0] NCCL INFO comm 0x55da rank 0 nRanks 8 nNodes 4 localRanks 2 localRank 0 "
    "MNNVL 0\n"
    "hostA:15:15 [0] NCCL INFO Channel 03/0 : 7[3] -> 0[0] [receive] via NET/IB/0/GDRDMA\n"
)


def test_an_edge_between_rails_is_named_with_both_gpus_and_nics() -> None:
    finding = only("topo_matrix/reduced_rails.txt", "variables_file/env.txt", rank0__log=RING)
    assert (finding.code, finding.where.ranks) == ("rail-isolated", (7, 0))
    assert "7[3] -> 0[0] joins GPU3 (near NIC1, rail 1) to GPU0 (near NIC0, rail 0)" in (
        finding.summary
    )
    assert "2 hosts of 4 GPUs" in told(finding)
    assert "NCCL_NET_DISABLE_INTRA='1'" in (finding.remedy or "")


def test_rails_are_not_accused_where_hosts_stay_whole() -> None:
    whole = RING.replace("nNodes 4 localRanks 2", "nNodes 2 localRanks 4")
    assert judged("topo_matrix/reduced_rails.txt", rank0__log=whole) == []


def test_facts_tell_sockets_rails_and_numa_nodes() -> None:
    facts = topology.facts(dossier("topo_matrix/reduced_rails.txt"))
    assert "2 sockets with SYS between them: GPU0, GPU1 and NIC0; GPU2, GPU3 and NIC1" in facts
    assert "NIC1, rail 1 (10.32.15.0/24) is near GPU2 and GPU3" in facts
    assert topology.facts(dossier("topo_matrix/dgx_a100.txt")) == (
        "GPUs on 4 NUMA nodes (3, 1, 7 and 5)",
    )


def test_found_files_are_read_as_the_command_reads_them() -> None:
    path = DATA / "nvlink_status/v100_two_inactive.txt"
    gathered = recognition.gather([Found(path, str(path), named=True)])
    assert len(gathered.nvlinks) == 1


def test_links_that_grep_left_without_their_device_are_judged_with_care() -> None:
    cap = "LnkCap: Port #0, Speed 16GT/s, Width x16, ASPM L1, Exit Latency L1 <16us\n"
    finding = only(link__txt=cap + "LnkSta: Speed 2.5GT/s (downgraded), Width x16 (ok)\n")
    assert (finding.code, finding.severity) == ("pcie-downgraded", "info")
    finding = only(link__txt=cap + "LnkSta: Speed 16GT/s, Width x8 (downgraded)\n")
    assert (finding.severity, finding.where.device) == ("warning", None)


def test_a_nic_at_a_lower_speed_is_accused_only_where_its_slot_could_do_more() -> None:
    nic = (
        "c1:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]\n"
        "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n"
        "\t\tLnkSta:\tSpeed 16GT/s (downgraded), Width x16\n"
    )
    assert only(lspci__txt=nic).severity == "warning"
    slot = (
        "c0:01.0 PCI bridge: Intel Corporation Device 352a\n"
        "\tBus: primary=c0, secondary=c1, subordinate=c1, sec-latency=0\n"
        "\t\tLnkCap:\tPort #1, Speed {}GT/s, Width x16\n"
    )
    assert only(lspci__txt=slot.format(32) + nic).severity == "degraded"
    assert judged(lspci__txt=slot.format(16) + nic) == []


def test_what_changed_between_two_topologies_of_a_host_is_told() -> None:
    facts = topology.facts(dossier("topo_xml/epyc_family.diff"))
    assert any("CPU family and model 175/17 became 25/17" in fact for fact in facts)
    text = (DATA / "topo_xml/h200_pair.xml").read_text()
    facts = topology.facts(dossier(a__xml=text, b__xml=text.replace('"400000"', '"200000"')))
    assert facts == ("a.xml and b.xml: mlx5_0 400000 Mbit/s, GDR on became 200000 Mbit/s, GDR on",)
    assert topology.facts(dossier(a__xml=text, b__xml=text)) == ("a.xml and b.xml show the same",)


@pytest.mark.parametrize("setting", ["NCCL_P2P_DISABLE=1", "NCCL_P2P_LEVEL=LOC"])
def test_p2p_switched_off_between_nvlinked_gpus_is_unexpected(setting: str) -> None:
    finding = only("topo_matrix/dgx_a100.txt", env__txt=setting)
    assert (finding.code, finding.confidence) == ("gpu-path-unexpected", "predicted")
    assert "28 pairs NV12" in finding.summary
    assert (finding.remedy or "").startswith("unset NCCL_P2P_")


def test_p2p_switched_off_over_pcie_is_a_workaround() -> None:
    assert judged("topo_matrix/rtx5880_ansi.txt", env__txt="NCCL_P2P_DISABLE=1") == []
    assert judged("topo_matrix/dgx_a100.txt", env__txt="NCCL_P2P_DISABLE=0") == []


def test_a_gdr_level_nearer_than_every_nic_is_told() -> None:
    finding = only("topo_matrix/dgx_a100.txt", env__txt="NCCL_NET_GDR_LEVEL=PIX")
    assert (finding.code, finding.severity) == ("gdr-disabled", "warning")
    assert "is PXB" in finding.summary
    assert judged("topo_matrix/dgx_a100.txt", env__txt="NCCL_NET_GDR_LEVEL=2") == []  # PXB
    assert judged("topo_matrix/reduced_rails.txt", env__txt="NCCL_NET_GDR_LEVEL=PIX") == []


def test_levels_that_nccl_ignores_are_told() -> None:
    facts = topology.facts(dossier(env__txt="NCCL_P2P_LEVEL=NVLINK\n"))
    assert any("NCCL_P2P_LEVEL=NVLINK is none of NCCL's levels" in fact for fact in facts)
