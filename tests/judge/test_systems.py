"""Shipped fabrics: sources, physics, and that each public table is recognised and explained."""

from __future__ import annotations

import re

import msgspec
import pytest

from bench.formats import shipped
from bench.judge import limits, systems
from bench.records import Fabric, FabricBusbw, FabricGpus, FabricNetwork

KNOWN = systems.known()
ENTRIES = [(fabric, entry) for fabric in KNOWN for entry in fabric.busbw]
IDS = [f"{f.name}-{e.collective}-{e.hosts}-{e.ranks_per_host}" for f, e in ENTRIES]
MANY = 8  # an entry for "many" has to hold for some number of hosts; eight is what was measured


def hosts_of(entry: FabricBusbw) -> int:
    return MANY if entry.hosts == "many" else entry.hosts


def ranks_of(fabric: Fabric, entry: FabricBusbw) -> int:
    per_host = entry.ranks_per_host or fabric.gpus.per_host
    assert per_host, "either says how many GPUs it is of"
    return hosts_of(entry) * per_host


def test_every_file_but_the_example_and_the_lab_is_a_hint() -> None:
    stems = {path.stem for path in shipped.folder("fabrics").glob("*.toml")}
    assert stems - {fabric.name for fabric in KNOWN} == {"example", "lab"}


def test_names_and_titles_are_given_once() -> None:
    assert len({fabric.name for fabric in KNOWN}) == len(KNOWN)
    assert len({fabric.title for fabric in KNOWN}) == len(KNOWN)


@pytest.mark.parametrize("fabric", KNOWN, ids=lambda f: f.name)
def test_a_hint_names_its_sources_and_its_gpus(fabric: Fabric) -> None:
    assert fabric.title
    assert fabric.source
    assert re.fullmatch(r"20\d\d(-\d\d){0,2}", fabric.date or "")
    assert fabric.gpus.model
    assert fabric.gpus.path
    for entry in fabric.busbw:
        assert len(entry.source or "") > 20, "a URL, or a title that can be searched for"
        assert re.fullmatch(r"20\d\d(-\d\d){0,2}", entry.date or "")


@pytest.mark.parametrize(("fabric", "entry"), ENTRIES, ids=IDS)
def test_no_number_exceeds_what_the_links_can_carry(fabric: Fabric, entry: FabricBusbw) -> None:
    """Above a ring's rate only with NVLink SHARP or over two hosts, and then the file says so."""
    limit = limits.limit(fabric, entry.collective, hosts_of(entry), ranks_of(fabric, entry))
    if limit is None:
        assert entry.collective == "reduce"  # has a root: at most a ring's rate
        limit = limits.limit(fabric, "all_gather", hosts_of(entry), ranks_of(fabric, entry))
        assert limit and entry.busbw_gbs <= limit.ring_gbs
        return
    assert entry.busbw_gbs <= limit.any_gbs
    assert entry.busbw_gbs >= 0.1 * limit.ring_gbs, "a unit mistaken"
    if entry.busbw_gbs > limit.ring_gbs:
        assert entry.algorithm == "NVLS" or "rightly" in (entry.note or "")


@pytest.mark.parametrize(("fabric", "entry"), ENTRIES, ids=IDS)
def test_an_entry_is_found_for_its_own_table(fabric: Fabric, entry: FabricBusbw) -> None:
    hosts, ranks = hosts_of(entry), ranks_of(fabric, entry)
    name = "NVIDIA " + fabric.gpus.model[0].rstrip("*")
    found = systems.match([name] * ranks, ranks // hosts, hosts)
    assert fabric in found
    told = systems.expectation(fabric, entry.collective, hosts, ranks)
    assert told is not None
    assert told.exact
    assert told.hint
    assert told.busbw_gbs == entry.busbw_gbs
    assert fabric.title in told.basis_text
    assert f"{entry.busbw_gbs:g} GB/s" in told.basis_text


# What public tables showed at their largest sizes, with the names their headers give.
TABLES = [
    # github.com/microsoft/superbenchmark tests/data/nccl_allreduce.log, nccl_allgather.log
    ("A100-SXM4-40GB", "all_reduce", 1, 8, 235.26, "dgx-a100"),
    ("A100-SXM4-40GB", "all_gather", 1, 8, 230.07, "dgx-a100"),
    ("A100-SXM4-40GB", "reduce", 1, 8, 231.28, "dgx-a100"),
    # github.com/NVIDIA/nccl-tests/issues/309
    ("NVIDIA H100 80GB HBM3", "all_reduce", 2, 16, 469.21, "dgx-h100"),
    ("NVIDIA H100 80GB HBM3", "all_reduce", 2, 16, 466.73, "dgx-h100"),
    ("NVIDIA H100 80GB HBM3", "all_reduce", 8, 64, 321.03, "dgx-h100"),
    ("NVIDIA H100 80GB HBM3", "all_reduce", 4, 32, 365.84, "dgx-h100"),
    # github.com/coreweave/nccl-tests/pull/43
    ("NVIDIA Graphics Device", "all_reduce", 18, 72, 846.82, "gb200-nvl72"),
    # github.com/ROCm/rccl/issues/1490
    ("AMD Instinct MI250X", "all_reduce", 4, 32, 92.89, "mi250x"),
    ("AMD Instinct MI250X", "all_gather", 4, 32, 92.74, "mi250x"),
]


@pytest.mark.parametrize(("gpu", "collective", "hosts", "ranks", "seen", "system"), TABLES)
def test_healthy_public_tables_are_as_expected(
    gpu, collective, hosts, ranks, seen, system
) -> None:
    best = systems.match([gpu] * ranks, ranks // hosts, hosts)[0]
    assert best.name == system
    told = systems.expectation(best, collective, hosts, ranks)
    assert told is not None
    assert seen >= (1 - told.tolerance) * told.busbw_gbs
    assert seen <= 1.05 * told.busbw_gbs


def test_two_h100_hosts_at_a_third_are_far_below() -> None:
    """github.com/NVIDIA/nccl-tests/issues/290: 155 GB/s with eight 400 Gbit/s ports."""
    told = systems.expectation(fabric_named("dgx-h100"), "all_reduce", 2, 16)
    assert told is not None
    assert (1 - told.tolerance) * told.busbw_gbs > 155


def fabric_named(name: str) -> Fabric:
    (found,) = (fabric for fabric in KNOWN if fabric.name == name)
    return found


# ------------------------------------------------------------------------------ recognition


def names(gpu: str, **more: object) -> list[str]:
    return [f.name for f in systems.match([gpu] * 8, 8, 1, **more)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "gpu", ["A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB", "nvidia  a100-sxm4-80gb"]
)
def test_the_vendor_in_front_and_the_memory_do_not_matter(gpu: str) -> None:
    assert names(gpu)[0] == "dgx-a100"


@pytest.mark.parametrize(
    "gpu",
    ["NVIDIA H100 PCIe", "NVIDIA H100 NVL", "Tesla V100-SXM2-16GB", "NVIDIA A100-PCIE-40GB",
     "NVIDIA H200 NVL", "", "NVIDIA"],
)  # fmt: skip
def test_a_gpu_that_no_file_is_of_matches_none(gpu: str) -> None:
    assert names(gpu) == []


def test_no_names_and_mixed_names_match_none() -> None:
    assert systems.match([], 8, 1) == ()
    assert systems.match(["NVIDIA H100 80GB HBM3", "NVIDIA H200"], 1, 1) == ()


def test_clouds_come_after_the_machine_that_anybody_may_own() -> None:
    found = systems.match(["NVIDIA H100 80GB HBM3"], 8, 2)
    assert [f.provider is None for f in found] == sorted(f.provider is None for f in found)[::-1]
    assert {f.provider for f in found} == {None, "AWS", "Azure", "Google Cloud"}


def test_pci_buses_tell_clouds_apart() -> None:
    mega = ["0x04", "05", "[0x0b]", "0000:0c:00", "0x84", "0x85", "0x8b", "0x8c"]
    assert names("NVIDIA H100 80GB HBM3", bus_ids=mega)[0] == "gcp-a3-mega"
    other = ["0x1b", "0x43", "0x52", "0x61", "0x9d", "0xc3", "0xd1", "0xdf"]
    found = names("NVIDIA H100 80GB HBM3", bus_ids=other)
    assert found[0] == "dgx-h100"
    assert "gcp-a3-mega" not in found


@pytest.mark.parametrize("text", ["", "0000", ":", "[", "::::", "zz"])
def test_a_bus_that_is_none_only_fails_to_agree(text: str) -> None:
    assert "gcp-a3-mega" not in names("NVIDIA H100 80GB HBM3", bus_ids=[text])


def test_more_ranks_on_a_host_than_gpus_is_another_system() -> None:
    assert "gb200-nvl72" in [f.name for f in systems.match(["NVIDIA GB200"], 4, 1)]
    assert systems.match(["NVIDIA GB200"], 8, 1) == ()


def test_the_users_own_file_is_believed_unless_it_names_other_gpus() -> None:
    mine = Fabric(name="mine")
    assert systems.match(["NVIDIA H200"], 8, 1, mine)[0] is mine
    assert systems.match([], 8, 1, mine) == (mine,)
    other = Fabric(name="mine", gpus=FabricGpus(model=("H100*",)))
    assert other not in systems.match(["NVIDIA H200"], 8, 1, other)


# ----------------------------------------------------------------------------- expectations


@pytest.mark.parametrize(
    ("collective", "hosts", "ranks"),
    [
        ("all_reduce", 1, 4),  # half the GPUs
        ("all_reduce", 2, 8),
        ("all_reduce", None, 16),
        ("all_reduce", 2, None),
        ("all_reduce", 3, 16),  # unevenly spread
        ("all_reduce", 16, 8),  # more hosts than ranks
        ("all_reduce", 1, 1),
        ("all_reduce", 0, 8),
        ("all_to_all", 1, 8),
        ("all_gather", 2, 16),
        ("", 1, 8),
    ],
)
def test_what_is_not_stated_is_not_guessed(collective, hosts, ranks) -> None:
    assert systems.expectation(fabric_named("dgx-h100"), collective, hosts, ranks) is None


def test_a_full_nvlink_domain_needs_no_number_of_hosts() -> None:
    told = systems.expectation(fabric_named("gb200-nvl72"), "all_reduce", None, 72)
    assert told is not None
    assert told.busbw_gbs == 838


def test_a_sibling_stands_in_and_is_said_to() -> None:
    told = systems.expectation(fabric_named("dgx-a100"), "reduce_scatter", 1, 8)
    assert told is not None
    assert not told.exact
    assert told.busbw_gbs == 227
    assert "no number of reduce_scatter is known; all_gather fills the same links" in told.unknown


def test_nvlink_sharp_stands_in_for_no_ring() -> None:
    """H200's file knows all_reduce only, with SHARP: of a broadcast it says nothing."""
    assert systems.expectation(fabric_named("dgx-h200"), "broadcast", 1, 8) is None


def test_eight_hosts_have_their_own_entry_and_sixteen_have_many() -> None:
    h100 = fabric_named("dgx-h100")
    four = systems.expectation(h100, "all_reduce", 4, 32)
    sixteen = systems.expectation(h100, "all_reduce", 16, 128)
    assert four and sixteen
    assert (four.busbw_gbs, sixteen.busbw_gbs) == (366, 320)
    assert "measured over eight hosts" in sixteen.unknown


def test_entries_learned_for_a_candidate_are_not_for_tables() -> None:
    entry = FabricBusbw(collective="all_reduce", hosts=2, busbw_gbs=10, candidate="data")
    mine = Fabric(name="mine", busbw=(entry,))
    assert systems.expectation(mine, "all_reduce", 2, 16) is None


def test_what_sweeps_learned_of_nccl_as_it_comes_is_for_tables_with_room_for_another_program():
    entry = FabricBusbw(
        collective="all_reduce", hosts=2, ranks_per_host=8, busbw_gbs=465, candidate="(default)",
        backend="nccl", tolerance=0.03, runs=9,
    )  # fmt: skip
    told = systems.expectation(Fabric(name="mine", busbw=(entry,)), "all_reduce", 2, 16)
    assert told is not None
    assert (told.busbw_gbs, told.tolerance, told.hint) == (465, 0.10, False)
    assert "learned with sweeps, not with nccl-tests" in told.unknown
    over_gloo = msgspec.structs.replace(entry, backend="gloo")
    assert systems.expectation(Fabric(name="x", busbw=(over_gloo,)), "all_reduce", 2, 16) is None


def test_names_of_other_tools_mean_the_same_collective() -> None:
    entry = FabricBusbw(collective="all_to_all", hosts=1, busbw_gbs=10)
    mine = Fabric(name="mine", busbw=(entry,))
    told = systems.expectation(mine, "alltoall", 1, 8)
    assert told is not None
    assert not told.hint
    assert "from which size on it holds is not stated" in told.unknown


# ------------------------------------------------------------------------------------ limits


def test_two_hosts_may_show_nearly_twice_the_wire_and_many_may_not() -> None:
    net = FabricNetwork(name="n", rate_gbps=400, ports_per_host=8)
    fabric = Fabric(name="x", network=(net,))
    two = limits.limit(fabric, "all_reduce", 2, 16)
    many = limits.limit(fabric, "all_reduce", 64, 512)
    assert two and many
    assert two.ring_gbs == many.ring_gbs == 400
    assert two.any_gbs == pytest.approx(750)
    assert many.any_gbs == pytest.approx(405.55, abs=0.1)


@pytest.mark.parametrize(
    ("link", "gbs"), [("5x16", 63.0), ("4x8", 15.75), ("1x1", 0.25), ("x", None), (None, None),
                      ("9x16", None), ("5x", None), ("five", None)],
)  # fmt: skip
def test_pcie_in_bytes(link, gbs) -> None:
    found = limits.pcie_gbs(link)
    assert found == (None if gbs is None else pytest.approx(gbs, rel=0.01))


def test_without_rates_there_is_no_limit() -> None:
    bare = Fabric(name="x")
    for hosts, ranks in ((1, 8), (2, 16), (2, 1), (0, 4), (None, 8), (9, 8)):
        assert limits.limit(bare, "all_reduce", hosts, ranks) is None
    assert limits.limit(fabric_named("dgx-h100"), "broadcast", 1, 8) is None
