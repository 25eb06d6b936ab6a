"""Three nights in a row by ./run.sh from a fresh checkout, the second with a degraded link."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from junitparser import JUnitXml
from prometheus_client.parser import text_string_to_metric_families

from bench.records import Nightly

if TYPE_CHECKING:
    from tests.conftest import Checkout

SHORT = "-- --quiet --collective all_reduce --minbytes 16K --maxbytes 1M"


def night(checkout: Checkout, lab: str) -> subprocess.CompletedProcess[str]:
    return checkout.shell(f"./run.sh nightly configs/labs/{lab}.toml {SHORT}", 200)


def kept(run: Path) -> tuple[Nightly, JUnitXml, dict[str, list[tuple[dict[str, str], float]]]]:
    """What other programs read of a night: each file by a parser that is not ours."""
    metrics = {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families((run / "metrics.prom").read_text())
    }
    nightly = msgspec.json.decode((run / "nightly.json").read_bytes(), type=Nightly)
    return nightly, JUnitXml.fromfile(str(run / "junit.xml")), metrics


def holds(metrics: dict[str, list[tuple[dict[str, str], float]]]) -> list[str]:
    return [labels["verdict"] for labels, value in metrics["fabric_bench_verdict"] if value]


@pytest.mark.lab
@pytest.mark.measures
@pytest.mark.timeout(900)
def test_three_nights_the_second_with_a_degraded_link(checkout: Checkout) -> None:
    checkout.shell("./run.sh --pln", 350)  # installed before the nights
    history = checkout.folder / "reports" / "history"
    latest = history / "latest"

    first = night(checkout, "healthy")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "this is the first good night of its shape" in " ".join(first.stdout.split())
    nightly, junit, metrics = kept(latest)
    assert (nightly.verdict, nightly.nights, nightly.findings) == ("healthy", 1, ())
    assert junit.failures == junit.errors == 0 and junit.tests > 4
    assert holds(metrics) == ["healthy"]

    second = night(checkout, "degraded-link")
    assert second.returncode == 1, second.stdout + second.stderr
    assert "sweep     link-degraded (host2-host4) · new tonight" in second.stdout
    assert second.stdout.splitlines()[-2].endswith(" · exit 1")
    nightly, junit, metrics = kept(latest)
    assert junit.failures >= 1 and holds(metrics) == ["degraded"]
    assert any(
        labels["code"] == "link-degraded" and labels["severity"] == "degraded"
        for labels, _ in metrics["fabric_bench_findings"]
    )
    assert (latest / "suspects.txt").read_text() == "", "of two hosts nobody knows which"

    third = night(checkout, "healthy")
    assert third.returncode == 0, third.stdout + third.stderr
    said = "recovered link-degraded (host2-host4) is gone, after 1 night"
    assert said in third.stdout
    nightly, junit, metrics = kept(latest)
    assert nightly.recovered[0] == said.removeprefix("recovered ")
    assert junit.failures == 0 and holds(metrics) == ["healthy"]

    assert len([run for run in history.iterdir() if run.is_dir() and not run.is_symlink()]) == 3
    shown = checkout.shell("python -m bench history", 60)
    assert "3 nights" in shown.stdout and "data, all_reduce" in shown.stdout, shown.stderr
