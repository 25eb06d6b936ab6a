"""Which GPU a rank takes, by CUDA's rules, from invented hosts."""

from __future__ import annotations

import pytest

from bench.facts.placement import gpu_of, visible_gpus
from bench.records import Gpu

UUIDS = ("GPU-8f3a11", "GPU-8f3b22", "GPU-70cc33", "GPU-01dd44")
FOUR = tuple(Gpu(index=i, name="H200", uuid=uuid) for i, uuid in enumerate(UUIDS))


@pytest.mark.parametrize(
    ("visible", "seen"),
    [
        (None, (0, 1, 2, 3)),
        ("2,0", (2, 0)),
        (" 3 , 1 ", (3, 1)),
        ("GPU-70cc33,GPU-01", (2, 3)),
        ("gpu-70cc33", ()),  # CUDA minds the case of the first letters
        ("GPU-8f3", ()),  # two begin so
        ("1,7,0", (1,)),  # the list ends before what names no GPU
        ("0,-1,2", (0,)),
        ("", ()),
        ("-1", ()),
        ("1,1", None),
        ("MIG-41b3,0", None),
        ("0,MIG-GPU-8f3a11/1/0", None),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(
    visible: str | None, seen: tuple[int, ...] | None
) -> None:
    assert visible_gpus(FOUR, visible) == seen


def test_local_ranks_take_the_visible_gpus_in_turn() -> None:
    assert [gpu_of(rank, FOUR, "3,1") for rank in range(4)] == [3, 1, 3, 1]
    assert [gpu_of(rank, FOUR[:2], None) for rank in range(3)] == [0, 1, 0]
    assert gpu_of(0, FOUR, "") is gpu_of(0, (), None) is None


def test_what_cuda_numbers_in_its_own_order_is_not_guessed() -> None:
    mixed = (*FOUR[:2], Gpu(index=2, name="L4", uuid="GPU-99"))
    assert gpu_of(0, mixed, None) is gpu_of(0, mixed, "1,2") is None
    assert gpu_of(0, mixed, "GPU-99,GPU-8f3a") == 2


def test_mig_instances_and_untold_uuids_are_not_guessed() -> None:
    assert gpu_of(0, (Gpu(index=0, uuid="GPU-1", mig_mode=True),), None) is None
    assert gpu_of(0, (Gpu(index=0),), "GPU-1") is None
    assert gpu_of(0, (Gpu(index=0),), "0") == 0
