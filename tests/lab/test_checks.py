"""Lab files: every default, and one sentence with file and line for what cannot be built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.formats import toml_file
from bench.lab import checks
from bench.lab.description import Lab
from bench.records import BadInput, Fabric

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
LABS_README = (CONFIGS / "labs" / "README.md").read_text()
NETWORK = '[[network]]\nname = "data"\n'


def test_hosts_and_one_network_are_enough(lab_of: Callable[[str], Lab]) -> None:
    lab = lab_of("hosts = 2\n[[network]]\n")
    network = lab.network[0]
    assert (lab.ranks_per_host, network.mtu, network.rate_mbit) == (1, 1500, None)
    assert network.interface_of(2) == "net10"
    assert network.address_of(2) == "10.1.0.2/24"


def test_the_example_of_the_manual_is_read_as_written(lab_of: Callable[[str], Lab]) -> None:
    lab = lab_of(
        'hosts = 4\nranks_per_host = 1\nfabric = "../fabrics/lab.toml"\n'
        '[[network]]\nname = "mgmt"\ninterface = "mgmt0"\nsubnet = "10.1.0.0/24"\n'
        "rate_mbit = 100\nmtu = 1500\n"
        '[[network]]\nname = "docker"\ninterface = "docker0"\naddress = "172.17.0.1/16"\n'
        "isolated = true\n"
        '[environment]\nNCCL_SOCKET_IFNAME = "mgmt"\n'
        '[[fault]]\nkind = "rate"\nhost = 3\nnetwork = "mgmt"\nrate_mbit = 50\n'
    )
    assert lab.network[0].address_of(4) == "10.1.0.4/24"
    assert {lab.network[1].address_of(host) for host in (1, 4)} == {"172.17.0.1/16"}
    assert lab.rendezvous_network.name == "mgmt"
    assert lab.fault[0].rate_mbit == 50


@pytest.mark.parametrize("file", sorted((CONFIGS / "labs").glob("*.toml")), ids=lambda f: f.stem)
def test_shipped_labs_are_sound_and_say_what_to_expect(file: Path) -> None:
    lab = checks.load(file)
    assert lab.fabric is not None
    toml_file.load((file.parent / lab.fabric).resolve(), Fabric)
    expected = [line for line in file.read_text().splitlines() if line.startswith("# expect: ")]
    assert len(expected) == 1
    code = expected[0].removeprefix("# expect: ")
    (row,) = [line for line in LABS_README.splitlines() if line.startswith(f"| `{file.name}`")]
    assert row.endswith(f"| {code if code == 'none' else f'`{code}`'} |")


def test_the_labs_readme_has_every_kind_of_fault_and_every_key() -> None:
    section = LABS_README.split("## Faults")[1]
    for kind, (needed, allowed) in checks.FAULT_KEYS.items():
        assert f"`{kind}`" in section
        assert not [key for key in needed | allowed if f"`{key}`" not in section]


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("hosts = 0\n" + NETWORK, 1, "hosts is 0; expected 1 to 64"),
        ("hosts = 2\nhots = 3\n" + NETWORK, 2, 'unknown key "hots"; did you mean "hosts"?'),
        ("hosts = 2\n" + NETWORK + "rate = 5\n", 4, 'did you mean "rate_mbit"?'),
        ("hosts = 2\n", None, 'lacks the key "network"'),
        ("hosts = 2\nnetwork = []\n", 2, "no network joins the hosts"),
        ("hosts = 2\n" + NETWORK + "isolated = true\n", 2, "no network joins the hosts"),
        ("hosts = 2\n" + NETWORK + "rate_mbit = 0\n", 4, "rate_mbit 0; expected 0.1 to 30000"),
        ("hosts = 2\n" + NETWORK + "rate_mbit = -5\n", 4, "rate_mbit -5; expected"),
        ("hosts = 2\n" + NETWORK + "mtu = 100\n", 4, "mtu is 100; expected 576 to 65535"),
        ("hosts = 2\n" + NETWORK + 'interface = "0123456789abcdef"\n', 4, "1 to 15 characters"),
        ("hosts = 2\n" + NETWORK + 'interface = "a/b"\n', 4, '"a/b" is no interface name'),
        ("hosts = 2\n" + NETWORK + 'interface = "lo"\n', 4, '"lo" is no interface name'),
        ("hosts = 2\n" + NETWORK + 'interface = ["a"]\n', 4, "1 interface names for 2 hosts"),
        ("hosts = 2\n" + NETWORK + 'subnet = "10.1.0.0"\n', 4, "has no room for 2 hosts"),
        ("hosts = 2\n" + NETWORK + 'subnet = "10.1.0.9/24"\n', 4, "is no IPv4 subnet"),
        ("hosts = 9\n" + NETWORK + 'subnet = "10.1.0.0/29"\n', 4, "has no room for 9 hosts"),
        ("hosts = 2\n" + NETWORK + 'address = "10.1.0.1/24"\n', 4, "only an isolated network"),
        ("hosts = 2\n" + NETWORK + NETWORK, 5, 'two networks are called "data"'),
        (
            "hosts = 2\n" + NETWORK + '[[network]]\ninterface = "data0"\n',
            5,
            "host 1 has two interfaces called data0",
        ),
        (
            "hosts = 2\n" + NETWORK + '[[network]]\nsubnet = "10.1.0.0/16"\n',
            4,
            "10.1.0.0/16 overlaps 10.1.0.0/24",
        ),
        (
            "hosts = 2\n" + NETWORK + '[[network]]\nname = "d"\nisolated = true\naddress = "x"\n',
            7,
            '"x" is no address; expected one such as "172.17.0.1/16"',
        ),
        ('hosts = 2\nhostnames = ["a"]\n' + NETWORK, 2, "1 names for 2 hosts"),
        ('hosts = 2\nhostnames = ["a", "b c"]\n' + NETWORK, 2, '"b c" is no host name'),
        ("hosts = 2\n" + NETWORK + '[environment]\n"A B" = "1"\n', 4, "no name of an environment"),
    ],
)
def test_what_cannot_be_built_is_refused_in_one_sentence(
    lab_of: Callable[[str], Lab], text: str, line: int | None, sentence: str
) -> None:
    with pytest.raises(BadInput) as caught:
        lab_of(text)
    assert sentence in caught.value.sentence
    assert caught.value.file is not None
    assert caught.value.file.endswith("lab.toml")
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("fault", "line", "sentence"),
    [
        ('kind = "rate"\nhost = 2\nnetwork = "data"\n', 5, 'kind rate lacks the key "rate_mbit"'),
        ('kind = "down"\nhost = 3\nnetwork = "data"\n', 7, "host 3; expected a host from 1 to 2"),
        ('kind = "down"\nhost = 2\nnetwork = "dta"\n', 8, 'no network is called "dta"'),
        ('kind = "down"\nhost = 2\nnetwork = "docker"\n', 8, "is isolated"),
        ('kind = "absent"\nhost = 2\nport = 3\n', 8, '"port" is no key of a fault of kind absent'),
        ('kind = "kill"\nrank = 2\nphase = "init"\n', 7, "rank 2; expected a rank from 0 to 1"),
        ('kind = "kill"\nrank = 1\nphase = "later"\n', 8, '"midrun" or "rendezvous"'),
        ('kind = "kil"\nrank = 1\n', 6, 'did you mean "kill"?'),
        (
            'kind = "loss"\nhost = 1\nnetwork = "data"\npercent = 101\n',
            9,
            "percent 101.0; expected above 0, at most 100",
        ),
        (
            'kind = "firewall"\nhost = 1\nnetwork = "data"\nport = 65536\n',
            9,
            "port is 65536; expected 0 to 65535",
        ),
        (
            'kind = "rate"\nhost = 1\nnetwork = "data"\nrate_mbit = 1\npeer = 1\n',
            10,
            "host 1 cannot be its own peer",
        ),
    ],
)
def test_a_fault_must_name_what_exists(
    lab_of: Callable[[str], Lab], fault: str, line: int, sentence: str
) -> None:
    head = 'hosts = 2\nnetwork = [{name = "data"}, {name = "docker", isolated = true}]\n\n\n'
    with pytest.raises(BadInput) as caught:
        lab_of(head + "[[fault]]\n" + fault)
    assert sentence in caught.value.sentence
    assert caught.value.line == line
