"""Which interfaces a network of the fabric file describes."""

from __future__ import annotations

import pytest

from bench.plan.naming import fits
from bench.records import FabricNetwork

RAILS = FabricNetwork(name="ib", interfaces=("mlx5_[0-3]",))


@pytest.mark.parametrize(
    ("name", "fitting"),
    [
        ("mlx5_0", True),
        ("mlx5_0:1", True),  # a device with two ports
        ("mlx5_0+mlx5_3", True),
        ("mlx5_0:1+mlx5_1:1", True),
        ("mlx5_0+mlx5_9", False),  # one of them is of another network
        ("mlx5_9", False),
        ("", False),
    ],
)
def test_devices_that_act_together_have_all_to_be_of_the_network(name, fitting) -> None:
    assert fits(RAILS, name, None) is fitting


def test_interfaces_that_take_turns_are_no_single_network_of_a_glob() -> None:
    network = FabricNetwork(name="mgmt", interfaces=("mgmt*",))
    assert fits(network, "mgmt0", None)
    assert not fits(network, "mgmt0+data0", None)


def test_an_interface_may_have_a_plus_in_its_name() -> None:
    assert fits(FabricNetwork(name="odd", interfaces=("a+b",)), "a+b", None)


def test_an_address_in_the_subnet_decides_where_the_name_does_not() -> None:
    network = FabricNetwork(name="data", subnet="10.2.0.0/24")
    assert fits(network, "anything", "10.2.0.7")
    assert not fits(network, "anything", "10.3.0.7")
    assert not fits(network, "anything", None)
