"""nvidia-smi nvlink --status: speeds, inactive links, drivers that tell no number."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats import nvlink_status
from bench.formats.source import Source
from bench.records import BadInput, NvlinkStatus

DATA = Path(__file__).resolve().parents[1] / "data/nvlink_status"


def of(name: str) -> tuple[NvlinkStatus, ...]:
    source = Source.open(DATA / name)
    assert nvlink_status.likeness(source.head(), name) == 1
    return nvlink_status.read(source)


def of_text(text: str) -> tuple[NvlinkStatus, ...]:
    return nvlink_status.read(Source.of_text(text))


def test_inactive_links_are_no_html_tags() -> None:
    (gpu,) = of("v100_two_inactive.txt")
    assert (gpu.gpu, gpu.name) == (3, "Tesla V100-SXM2-32GB")
    assert [link.link for link in gpu.links if not link.active] == [3, 5]
    assert [link.rate_gbs for link in gpu.links if link.active] == [25.781] * 4


def test_every_gpu_of_a_host_is_read() -> None:
    gpus = of("gb200_complete.txt")
    assert [gpu.gpu for gpu in gpus] == [0, 1]
    assert all(len(gpu.links) == 18 for gpu in gpus)
    assert gpus[1].uuid == "GPU-00000001-0000-0000-0000-000000000000"


def test_a_gpu_without_any_active_link_is_kept_without_a_number() -> None:
    *complete, dark = of("b200_all_inactive.txt")
    assert len(complete) == 2
    assert (dark.gpu, dark.all_inactive, dark.links) == (2, True, ())


def test_a_card_without_its_bridge_lists_all_links() -> None:
    gpus = of("a100_pcie_no_bridge.txt")
    assert all(len(gpu.links) == 12 for gpu in gpus)
    assert not any(link.active for gpu in gpus for link in gpu.links)
    assert not any(gpu.all_inactive for gpu in gpus)


@pytest.mark.parametrize("word", ["<inactive>", "inactive", "Inactive", "Down", "<Inactive>"])
def test_any_word_for_inactive_is_understood(word: str) -> None:
    (gpu,) = of_text(f"GPU 0: A (UUID: GPU-1)\n\t Link 0: {word}\n\t Link 1: 25 GB/s\n")
    assert [link.active for link in gpu.links] == [False, True]


def test_hosts_behind_pdsh_are_kept_apart() -> None:
    text = "".join(
        f"node{n}: {line}\n"
        for n in (1, 2)
        for line in ("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a)", "\t Link 0: 26.562 GB/s",
                     "\t Link 1: 26.562 GB/s")
    )  # fmt: skip
    gpus = of_text(text)
    assert [(gpu.host, len(gpu.links)) for gpu in gpus] == [("node1", 2), ("node2", 2)]


def test_a_link_whose_other_end_is_named_is_up() -> None:
    remote = "GPU 6: NVIDIA H100 80GB HBM3 (UUID: GPU-a)\n"
    remote += "         Link 0: Remote Device 00000000:06:00.0: Link 57\n"
    remote += "         Link 1: <inactive>\n"
    assert nvlink_status.likeness(remote, "nvlink.txt") == 1
    (gpu,) = of_text(remote)
    assert [(link.active, link.rate_gbs) for link in gpu.links] == [(True, None), (False, None)]


def test_other_questions_about_links_are_not_this_status() -> None:
    able = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a)\n"
    able += "         Link 0, P2P is supported: true\n"
    assert nvlink_status.likeness(able, "nvlink.txt") == 0
    with pytest.raises(BadInput, match="no GPU with NVLinks"):
        of_text(able)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.floats(1, 200)), min_size=1, max_size=18), max_size=8
    )
)
def test_any_status_comes_back_as_printed(hosts: list[list[float | None]]) -> None:
    lines = []
    for gpu, links in enumerate(hosts):
        lines.append(f"GPU {gpu}: NVIDIA X (UUID: GPU-{gpu})")
        for number, rate in enumerate(links):
            state = "<inactive>" if rate is None else f"{rate:.3f} GB/s"
            lines.append(f"\t Link {number}: {state}")
    text = "\n".join(lines)
    if not hosts:
        with pytest.raises(BadInput):
            of_text(text)
        return
    read = of_text(text)
    assert [[link.active for link in gpu.links] for gpu in read] == [
        [rate is not None for rate in links] for links in hosts
    ]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    for gpu in of_text(f"GPU 0: X (UUID: a)\n Link 0: 25 GB/s\n{text}"):
        assert gpu.links or gpu.all_inactive
