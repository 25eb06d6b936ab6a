"""PCI trees, ACS and path classes from made-up sysfs trees; this machine's own tree as it is."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.facts import pci, pci_config, sysfs
from bench.records import HostFacts


def test_the_way_to_the_root_is_read_with_what_every_bridge_offers(
    gpu_hosts: dict[str, HostFacts],
) -> None:
    host = gpu_hosts["acs"]
    devices = {device.address: device for device in host.pci_devices}
    way = [devices[address] for address in host.gpus[0].pci_path]
    assert [(d.kind, d.port) for d in way] == [
        ("gpu", "endpoint"), ("bridge", "downstream"), ("bridge", "upstream"), ("bridge", "root"),
    ]  # fmt: skip
    assert [d.parent for d in way] == [*host.gpus[0].pci_path[1:], None]
    assert (way[0].link_gts, way[1].link_gts, way[1].max_link_gts) == (2.5, 16.0, 16.0)
    assert (way[0].ids, way[0].driver, way[0].iommu_type) == ("10de:26b9", "nvidia", "DMA-FQ")
    assert way[0].errors == {}


def test_acs_redirection_is_named_flag_by_flag(gpu_hosts: dict[str, HostFacts]) -> None:
    flags = {d.port: d.acs for d in gpu_hosts["acs"].pci_devices if d.kind == "bridge"}
    redirected = ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd")
    assert flags == {"root": redirected, "downstream": redirected, "upstream": ()}
    healthy = [d.acs for d in gpu_hosts["healthy"].pci_devices if d.kind == "bridge"]
    assert set(healthy) == {()}
    assert "acs" not in gpu_hosts["healthy"].unreadable


@pytest.mark.parametrize(
    ("kept", "why"),
    [(64, "to root only"), (256, "hidden (a virtual machine?)")],
)
def test_a_hidden_configuration_space_is_unreadable_and_not_free_of_acs(
    tmp_path: Path, fake_sysfs: ModuleType, kept: int, why: str
) -> None:
    fake_sysfs.pcie_switch(tmp_path, gpus=1)
    for file in tmp_path.rglob("config"):
        file.write_bytes(file.read_bytes()[:kept])
    found, unreadable = pci.read(["0000:50:00.0"], tmp_path / "sys/bus/pci/devices")
    assert [d.acs for d in found if d.kind == "bridge"] == [None] * 3
    assert unreadable["acs"].startswith("3 of 3 bridges: ")
    assert why in unreadable["acs"]
    assert next(d for d in found if d.parent is None).port == "root"


def test_a_device_that_fell_off_the_bus_has_no_acs_to_tell() -> None:
    def read(offset: int, count: int) -> bytes:
        return b"\xff" * count

    assert pci_config.acs(read) == "the device does not answer"
    assert pci_config.port(read) is None


@given(st.binary(max_size=600), st.sampled_from([0, 64, 256, 4096]))
@settings(max_examples=200, deadline=None)
def test_no_configuration_space_makes_the_reader_fail_or_loop(start: bytes, size: int) -> None:
    config = (start + bytes(4096))[:size]

    def read(offset: int, count: int) -> bytes:
        return config[offset : offset + count]

    assert isinstance(pci_config.acs(read), (tuple, str))
    pci_config.port(read)


def test_of_a_bridge_only_registers_that_capabilities_point_to_are_read(
    fake_sysfs: ModuleType,
) -> None:
    config = fake_sysfs.config(fake_sysfs.DOWNSTREAM, fake_sysfs.ACS_REDIRECTED)
    asked: set[int] = set()

    def read(offset: int, count: int) -> bytes:
        asked.update(range(offset, offset + count))
        return config[offset : offset + count]  # type: ignore[no-any-return]

    assert len(pci_config.acs(read)) == 4
    assert asked <= {*range(0x44), *range(0x100, 0x104), *range(0x148, 0x150)}


ROOT, SWITCH = "0000:10:01.0", ("0000:12:00.0", "0000:11:00.0")
BELOW = ("0000:14:00.0", "0000:13:00.0", *SWITCH)  # a second switch below the first


@pytest.mark.parametrize(
    ("first", "second", "numa", "path"),
    [
        (("g", *SWITCH, ROOT), ("n", "0000:12:01.0", "0000:11:00.0", ROOT), (0, 0), "PIX"),
        (("g", *BELOW, ROOT), ("n", "0000:12:01.0", "0000:11:00.0", ROOT), (0, 0), "PXB"),
        (("g", *BELOW, ROOT), ("n", "0000:14:01.0", *BELOW[1:], ROOT), (0, 0), "PIX"),
        (("g", ROOT), ("n", "0000:20:01.0"), (0, 0), "PHB"),
        (("g", ROOT), ("n", "0000:20:01.0"), (0, 1), "SYS"),
        (("g", ROOT), ("n", ROOT), (0, 0), "PHB"),  # two functions below one root port
        (("g",), ("n",), (None, None), "PHB"),  # a virtual machine without bridges
        (("g",), ("n",), (None, 0), "SYS"),
        (("g", ROOT), (), (0, 0), None),
    ],
)
def test_paths_are_classed_as_nccl_does(
    first: tuple[str, ...], second: tuple[str, ...], numa: tuple[int, int], path: str | None
) -> None:
    assert pci.path_class(first, second, numa) == path
    assert pci.path_class(second, first, (numa[1], numa[0])) == path


@pytest.mark.parametrize(
    ("text", "speed"),
    [("32.0 GT/s PCIe", 32.0), ("2.5 GT/s", 2.5), ("Unknown", None), ("Unknown speed", None),
     ("", None), (None, None), ("0 GT/s", None)],
)  # fmt: skip
def test_a_speed_that_is_not_told_is_none(text: str | None, speed: float | None) -> None:
    assert pci.gigatransfers(text) == speed


def test_a_link_that_is_down_has_no_width(tmp_path: Path, fake_sysfs: ModuleType) -> None:
    (address,) = fake_sysfs.pcie_switch(tmp_path, gpus=1)
    fake_sysfs.retrain(tmp_path, address, width=63)
    found, _ = pci.read([address], tmp_path / "sys/bus/pci/devices")
    gpu = next(d for d in found if d.kind == "gpu")
    assert (gpu.link_width, gpu.max_link_width) == (None, 16)


def test_errors_are_totals_above_zero_and_untold_ones_are_none(
    tmp_path: Path, fake_sysfs: ModuleType
) -> None:
    (address,) = fake_sysfs.pcie_switch(tmp_path, gpus=1)
    devices = tmp_path / "sys/bus/pci/devices"
    (devices / address / "aer_dev_correctable").write_text("RxErr 7\nTOTAL_ERR_COR 7\n")
    for name in ("correctable", "nonfatal", "fatal"):
        (devices / "0000:40:01.0" / f"aer_dev_{name}").unlink()
    told = {d.address: d.errors for d in pci.read([address], devices)[0]}
    assert told[address] == {"correctable": 7}
    assert told["0000:40:01.0"] is None
    assert told["0000:41:00.0"] == {}


def test_this_machines_own_tree_is_read_without_a_complaint() -> None:
    names = sysfs.names(pci.DEVICES)
    found, _ = pci.read(names)
    assert {d.address for d in found} == set(names)
    assert all(pci.chain(d.address)[0] == d.address for d in found)


def test_an_address_that_is_nowhere_is_no_device(tmp_path: Path) -> None:
    assert pci.read(["0000:99:00.0", "\0"], tmp_path) == ((), {})
    assert pci.chain("0000:99:00.0", tmp_path) == ()
