"""lspci -vvv and nvidia-smi's PCIe query: ACS flags, links, buses, lines that grep left."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats import gpu_query, lspci
from bench.formats.source import Source
from bench.records import BadInput, PciBridge

DATA = Path(__file__).resolve().parents[1] / "data/lspci"


def of(name: str) -> tuple[PciBridge, ...]:
    source = Source.open(DATA / name)
    assert lspci.likeness(source.head(), name) == 1
    return lspci.read(source)


def of_text(text: str) -> tuple[PciBridge, ...]:
    return lspci.read(Source.of_text(text))


def on(device: PciBridge) -> list[str]:
    return [flag for flag, is_on in device.control.items() if is_on]


def test_flags_of_the_control_register_are_read_not_those_of_the_capability() -> None:
    first, second = of("pex890xx.txt")
    assert (first.address, second.address) == ("0000:15:01.0", "0000:15:02.0")
    assert on(first) == ["SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"]
    assert first.register == "0x001d"
    assert (first.kind, first.line, second.line) == ("bridge", 1, 5)


@pytest.mark.parametrize(
    ("told", "port"),
    [
        ("Express (v2) Root Port (Slot+), MSI 00", "root"),
        ("Express (v2) Root Port (Slot-), IntMsgNum 0", "root"),
        ("Express (v2) Upstream Port, MSI 00", "upstream"),
        ("Express (v2) Downstream Port (Slot+), MSI 00", "downstream"),
        ("Express (v2) Endpoint, MSI 00", None),
        ("Express (v1) PCI-Express to PCI/PCI-X Bridge, MSI 00", None),
    ],
)
def test_a_bridge_says_what_port_it_is(told: str, port: str | None) -> None:
    (device,) = of_text(f"40:01.1 PCI bridge: Some Bridge\n\tCapabilities: [58] {told}\n")
    assert device.port == port


def test_addresses_without_a_domain_get_domain_zero() -> None:
    assert [device.address for device in of("starship.txt")] == ["0000:40:01.1", "0000:60:03.1"]


def test_a_gpu_at_rest_shows_capability_and_state() -> None:
    (gpu,) = of("rtx4090_at_rest.txt")
    assert (gpu.kind, gpu.driver) == ("gpu", "nvidia")
    assert (gpu.link_gts, gpu.link_width) == (2.5, 16)
    assert (gpu.max_link_gts, gpu.max_link_width) == (16.0, 16)


def test_only_what_bears_on_gpus_is_kept() -> None:
    devices = of("switch_tree.txt")
    kinds = {device.address[5:]: device.kind for device in devices}
    assert kinds["41:00.0"] == "gpu"
    assert kinds["c1:00.0"] == "nic"
    assert kinds["61:00.0"] == "other"  # a disk, kept for its link
    assert "c3:00.0" not in kinds  # the management controller's display
    bridge = devices[0]
    assert (bridge.secondary, bridge.subordinate) == (0x41, 0x41)
    assert devices[1].link_width == 8


def test_lines_left_by_grep_are_devices_without_an_address() -> None:
    devices = of("acsctl_grep.txt")
    assert len(devices) == 4
    assert all(device.address == "" for device in devices)
    assert [bool(device.control["ReqRedir"]) for device in devices] == [True, False, False, True]


@pytest.mark.parametrize("told", ["ACSCtl: 0x001d", "ACS_CTRL = 0x001d", "ACSCtl:\t0x1d"])
def test_a_register_in_hexadecimal_is_taken_apart(told: str) -> None:
    (device,) = of_text(f"15:01.0 PCI bridge: Broadcom / LSI PEX890xx\n\t{told}\n")
    assert on(device) == ["SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"]


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(BadInput, match="no bridge, GPU or NIC"):
        of_text("# nThread 1 nGpus 1\n")
    assert lspci.likeness("# nThread 1 nGpus 1\n", "x.txt") == 0


def test_nvidia_smi_csv_gives_speeds_per_lane() -> None:
    text = (
        "nvidia-smi --query-gpu=index,pcie.link.gen.current,pcie.link.gen.max,"
        "pcie.link.width.current,pcie.link.width.max --format=csv\n"
        "index, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, "
        "pcie.link.width.max\n0, 1, 4, 16, 16\n1, 4, 4, 8, 16\n"
    )
    assert gpu_query.likeness(text, "q.csv") == 1
    first, second = gpu_query.read(Source.of_text(text))
    assert (first.index, first.link_gts, first.max_link_gts, first.line) == (0, 2.5, 16.0, 3)
    assert (second.link_width, second.max_link_width) == (8, 16)


def test_nvidia_smi_q_gives_the_same() -> None:
    text = (
        "GPU 00000000:18:00.0\n    Product Name                          : NVIDIA H100\n"
        "    PCI\n        Bus                               : 0x18\n        GPU Link Info\n"
        "            PCIe Generation\n                Max                       : 5\n"
        "                Current                   : 5\n                Device Current : 5\n"
        "            Link Width\n                Max                       : 16x\n"
        "                Current                   : 8x\n"
    )
    assert gpu_query.likeness(text, "q.txt") > 0.5
    (gpu,) = gpu_query.read(Source.of_text(text))
    assert (gpu.address, gpu.link_gts, gpu.link_width, gpu.max_link_width) == (
        "00000000:18:00.0", 32.0, 8, 16,
    )  # fmt: skip


FLAGS = list(lspci.ACS_BITS)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=7, max_size=7), min_size=1, max_size=12))
def test_any_flags_come_back_with_their_register(ports: list[list[bool]]) -> None:
    text = ""
    for number, flags in enumerate(ports):
        text += f"{number:02x}:00.0 PCI bridge: X\n\t\tACSCtl:\t"
        text += " ".join(f"{f}{'+' if v else '-'}" for f, v in zip(FLAGS, flags, strict=True))
        text += "\n"
    devices = of_text(text)
    assert [list(device.control.values()) for device in devices] == ports
    assert [int(device.register or "0", 16) for device in devices] == [
        sum(1 << bit for bit, v in enumerate(flags) if v) for flags in ports
    ]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    assert of_text(f"01:00.0 PCI bridge: X\n\tACSCtl: SrcValid+\n{text}")[0].kind == "bridge"


def test_what_setpci_wrote_last_is_what_the_register_holds() -> None:
    devices = of("setpci.txt")
    assert [d.address for d in devices][-1] == "0000:40:08.1"
    assert [d.address for d in devices if on(d)] == ["0000:40:07.1"]
    assert {d.kind for d in devices} == {"other"}
    again = of_text("0000:40:07.1 (ecap 000d @2a0) @2a6 = 001d\n40:07.1 (cap 0d @2a0) @2a6 0000\n")
    assert [(d.address, d.register, d.line) for d in again] == [("0000:40:07.1", "0x0000", 2)]


def test_digits_that_are_no_numbers_tell_no_link() -> None:
    text = (
        "index, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current\n"
        "0, ², 4, ²\n1, 4, 4, 16\n"
    )
    first, second = gpu_query.read(Source.of_text(text))
    assert (first.link_gts, first.max_link_gts, first.link_width) == (None, 16.0, None)
    assert (second.link_gts, second.link_width) == (16.0, 16)
