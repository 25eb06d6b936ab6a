"""What probes settle before anything is measured."""

from __future__ import annotations

from bench.plan.reach import settle
from bench.records import Candidate, PreflightPair


def pair(source: str, destination: str, outcome: str, address: str = "10.0.0.9") -> PreflightPair:
    return PreflightPair(
        candidate="data", source=source, destination=destination, outcome=outcome,  # type: ignore[arg-type]
        address=address,
    )  # fmt: skip


def test_a_candidate_whose_probes_all_pass_is_left_as_it_is() -> None:
    data = Candidate(name="data", kind="network", reason="10.0.0.2 is the address of h2 and h3")
    assert settle([data], [pair("h1", "h2", "ok")]) == (data,)


def test_one_failing_pair_settles_a_network_and_is_named() -> None:
    data, default = (
        Candidate(name="data", kind="network"),
        Candidate(name="(default)", kind="default"),
    )
    probes = [pair("h1", "h2", "ok"), pair("h1", "h3", "mtu-blackhole")]
    settled, untouched = settle([data, default], probes)
    assert (settled.outcome, settled.reason) == (
        "unreachable", "large segments vanish between h1 and h3",
    )  # fmt: skip
    assert untouched is default


def test_the_host_that_all_failing_pairs_share_is_named_alone() -> None:
    probes = [
        pair("h1", "h3", "timeout"),
        pair("h2", "h3", "timeout"),
        pair("h3", "h1", "timeout"),
    ]
    (settled,) = settle([Candidate(name="data", kind="network")], probes)
    assert settled.reason == "no answer between h3 and the others"


def test_a_shared_address_is_told_as_the_search_noted_it() -> None:
    noted = Candidate(name="data", kind="network", reason="172.17.0.1 is every host's own address")
    (settled,) = settle([noted], [pair("h1", "h2", "wrong-host", "172.17.0.1")])
    assert (settled.outcome, settled.reason) == ("unreachable", noted.reason)


def test_what_was_skipped_stays_skipped() -> None:
    down = Candidate(name="data", kind="network", outcome="skipped", reason="data0 is down on h1")
    assert settle([down], [pair("h1", "h2", "timeout")]) == (down,)
