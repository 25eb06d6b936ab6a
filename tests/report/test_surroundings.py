"""Equal hosts make one line; the one that differs is named."""

from __future__ import annotations

from typing import Any

import msgspec

from bench.report import surroundings


def test_a_thousand_equal_hosts_are_one_line(made: Any) -> None:
    versions = dict(surroundings.software(made.thousand.hosts))
    assert versions["torch"] == [surroundings.Alike("2.13.0", "all hosts")]


def test_the_host_that_differs_is_named(made: Any) -> None:
    hosts = list(made.healthy.hosts)
    hosts[2] = msgspec.structs.replace(
        hosts[2],
        environment={"NCCL_SOCKET_IFNAME": "mgmt"},
        software=msgspec.structs.replace(hosts[2].software, packages={"accelerate": "1.2"}),
    )
    settings = dict(surroundings.settings(hosts))
    assert settings["NCCL_SOCKET_IFNAME"] == [surroundings.Alike("mgmt", "host3")]
    assert settings["OMP_NUM_THREADS"] == [surroundings.Alike("1", "host1, host2, host4")]
    assert dict(surroundings.software(hosts))["accelerate"][0].hosts == "host3"


def test_what_nccl_takes_says_how_we_know(made: Any) -> None:
    (choice,) = surroundings.choices(made.healthy.hosts)
    assert choice.value == "mgmt0 (asked); its NET devices: mgmt0, data0"
    assert dict(surroundings.unreadable(made.healthy.hosts))["rdma"][0].hosts == "all hosts"
