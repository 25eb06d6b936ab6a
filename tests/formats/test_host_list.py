"""Slurm's lists of hosts: what Slurm itself makes of them, and what is none."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats.host_list import MOST_HOSTS, expand
from bench.records import BadInput


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node1", "node1"),
        ("node[1-3,7]", "node1 node2 node3 node7"),
        ("node[08-11]", "node08 node09 node10 node11"),
        ("node[01-3,7]", "node01 node02 node03 node7"),
        ("rack[1-2]node[01-02],login", "rack1node01 rack1node02 rack2node01 rack2node02 login"),
        ("b2,a1", "b2 a1"),
        ("gpu[1-2]-ib", "gpu1-ib gpu2-ib"),
        ("ip-10-0-0-[7,9]", "ip-10-0-0-7 ip-10-0-0-9"),
    ],
)
def test_a_short_form_is_every_name_in_order(text: str, names: str) -> None:
    assert " ".join(expand(text)) == names


@pytest.mark.parametrize(
    "text", ["", ",", "a,,b", "n[", "n]", "n[]", "n[1-", "n[3-1]", "n[a-b]", "n[1-2-3]", "n[[1]]",
             "n[1;2]", "a b", "(null)", "$(reboot)", "n[١-٣]", "n\n", "n[1-2"],
)  # fmt: skip
def test_what_is_no_list_is_one_sentence(text: str) -> None:
    with pytest.raises(BadInput, match="no list of hosts: "):
        expand(text)


@pytest.mark.parametrize(
    "text",
    [
        f"n[1-{MOST_HOSTS + 1}]",
        "n[0-999999999999999999]",
        "n[1-300]" * 2,
        "a[1-40000],b[1-40000]",
        "n[1-2]" * 40,
        "n[1-60000]" * 90_000,
        ",".join(["n[1-60000]"] * 90_000),
        "n[" + "1-60000," * 9 + "1]",
        "a," * (1 << 20),
        "[" * 500_000,
    ],
)
def test_a_list_made_to_be_large_is_refused_at_once(text: str) -> None:
    begun = time.monotonic()
    with pytest.raises(BadInput):
        expand(text)
    assert time.monotonic() - begun < 20


def test_as_many_hosts_as_slurm_itself_allows() -> None:
    names = expand("n[00001-65536]")
    assert len(names) == len(set(names)) == MOST_HOSTS and names[-1] == "n65536"


numbers = st.integers(0, 40).map(str) | st.integers(0, 40).map(lambda n: f"{n:03d}")
ranges = st.tuples(st.integers(0, 30), st.integers(0, 8), st.sampled_from((1, 2, 4))).map(
    lambda t: f"{t[0]:0{t[2]}d}-{t[0] + t[1]:0{t[2]}d}"
)
brackets = st.lists(numbers | ranges, min_size=1, max_size=3).map(lambda p: f"[{','.join(p)}]")
stems = st.sampled_from(("n", "gpu-", "rack1-n", "x_y"))
entries = st.tuples(
    stems, st.lists(st.tuples(brackets, stems), max_size=1), brackets | st.just("")
)


def joined(entry: tuple[str, list[tuple[str, str]], str]) -> str:
    stem, middle, end = entry
    return stem + "".join(a + b for a, b in middle if end) + end


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.lists(entries.map(joined), min_size=1, max_size=3).map(",".join),
                      min_size=1, max_size=6))  # fmt: skip
def test_slurm_reads_it_the_same(texts: list[str], slurm_conf: Path) -> None:
    """`scontrol show hostnames` of the real Slurm, which needs no controller for it."""
    for text in texts:
        slurm = subprocess.run(
            ["scontrol", "show", "hostnames", text],
            env={"SLURM_CONF": str(slurm_conf), "PATH": "/usr/bin:/bin"},
            capture_output=True, text=True, timeout=20, check=True,
        )  # fmt: skip
        assert list(expand(text)) == slurm.stdout.split(), text


@pytest.fixture(scope="module")
def slurm_conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("slurm") / "slurm.conf"
    file.write_text("ClusterName=none\nSlurmctldHost=localhost\nNodeName=n1\n")
    return file
