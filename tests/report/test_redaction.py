"""Secrets are left out, host names replaced everywhere, and nothing else is changed."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.records import Finding, HostFacts, NcclConf, Sample, Where
from bench.report.redaction import HostNames, names_of, redacted, scrubbed

SECRET = "hunter2xyz"  # noqa: S105 - a made-up one, to be looked for


@pytest.mark.parametrize(
    "line",
    [
        f"HF_TOKEN={SECRET}",
        f"export AWS_SECRET_ACCESS_KEY='{SECRET}'",
        f'{{"api_key": "{SECRET}", "x": 1}}',
        f"wandb password: {SECRET}",
        f"node1:7:7 [0] NCCL INFO NCCL_SOCKET_MAGIC set by environment to {SECRET}",
        f"node1:7:7 [0] NCCL INFO MY_OWN_SETTING set to {SECRET}",
        f"git clone https://me:{SECRET}@git.example.org/x",
        f"Authorization: Bearer {SECRET}",
        f"curl -H 'authorization: bearer {SECRET}'",
        f"--db-password={SECRET}",
    ],
)
def test_a_secret_in_a_foreign_line_is_left_out(line: str) -> None:
    clean = scrubbed(line)
    assert SECRET not in clean
    assert "[left out]" in clean


@pytest.mark.parametrize(
    "line",
    [
        "node1:71:71 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to =data0",
        "node1:71:71 [0] NCCL INFO Bootstrap: Using mgmt0:10.1.0.1<0>",
        "NCCL_IB_PKEY=7 time=0.0597 busbw: 392.11",
        "File \"/opt/x/train.py\", line 7: KeyError: 'monkey'",
        "comm 0x55d rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0",
        "",
    ],
)
def test_an_ordinary_line_stays_as_it_is(line: str) -> None:
    assert scrubbed(line) == line


def test_long_lines_without_an_end_cost_no_time() -> None:
    began = time.process_time()
    for piece in ("a", "A_", "x=", "'", '"=', "://a:", "Bearer "):
        scrubbed(piece * (500_000 // len(piece)))
    assert time.process_time() - began < 5.0


@given(st.text(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_text_can_be_scrubbed_twice_with_one_result(text: str) -> None:
    once = scrubbed(text)
    assert scrubbed(once).count("[left out]") >= once.count("[left out]")


NAMES = HostNames([["node01", "node01.rack7.example.org"], ["node02"], ["gpu-a", "gpu-a"]])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("node01 and NODE02.", "host1 and host2."),
        ("node01.rack7.example.org:29500", "host1:29500"),
        ("node02.other.example.org", "host2"),  # a domain nobody told us of names the cluster too
        ("node01-ib0 p2p@node02 (gpu-a)", "host1-ib0 p2p@host2 (host3)"),
        ("rail-node01_0", "rail-host1_0"),
        ("node011 node0 mynode01", "node011 node0 mynode01"),
        ("10.1.0.1 0.0597 mlx5_0:1", "10.1.0.1 0.0597 mlx5_0:1"),
        ("/home/alice/run/node01.log", "/home/user/run/host1"),
    ],
)
def test_a_host_is_replaced_wherever_it_is_named(text: str, shown: str) -> None:
    assert NAMES.replaced(text) == shown


def test_an_address_as_a_name_does_not_take_all_its_numbers_along() -> None:
    names = HostNames([["10.1.0.7"]])
    assert names.replaced("10.1.0.7 has 10 ranks on 10.1.0.8") == "host1 has 10 ranks on 10.1.0.8"


def test_records_keep_their_form_and_keys_that_are_hosts_are_replaced() -> None:
    host = HostFacts(
        host="node01", hostname="node01", identity="boot",
        environment={"NCCL_DEBUG": "INFO", "HF_TOKEN": SECRET, "SLURM_JOB_NODELIST": "node[01-2]"},
        nccl_conf=(NcclConf(path="/etc/nccl.conf", settings={"NCCL_X_TOKEN": SECRET}),),
        unreadable={"x": f"DB_PASSWORD={SECRET}"},
    )  # fmt: skip
    other = HostFacts(host="node02", hostname="node02", identity="b")
    clean = redacted((host, other), HostNames(names_of((host, other))))
    assert [h.host for h in clean] == ["host1", "host2"]
    assert clean[0].environment == {"NCCL_DEBUG": "INFO"}
    assert clean[0].nccl_conf[0].settings == {}
    assert SECRET not in str(clean)
    kept = redacted(host)
    assert kept.host == "node01"
    assert kept.environment == {"NCCL_DEBUG": "INFO", "SLURM_JOB_NODELIST": "node[01-2]"}
    finding = Finding(
        code="host-slow", severity="degraded", summary="node02 is slow.",
        where=Where(hosts=("node02",)),
    )  # fmt: skip
    clean_finding = redacted(finding, NAMES)
    assert (clean_finding.summary, clean_finding.where.hosts) == ("host2 is slow.", ("host2",))


def test_what_needs_no_change_is_the_same_object() -> None:
    sample = Sample(collective="all_reduce", size_bytes=8, times_s=(0.1,) * 10)
    assert redacted(sample) is sample
