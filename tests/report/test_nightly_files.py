"""What a night leaves and shows: JUnit, metrics, CSV, suspects, Markdown, screens and a page."""

from __future__ import annotations

import csv
import io
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from junitparser import JUnitXml
from prometheus_client.parser import text_string_to_metric_families
from rich.cells import cell_len

from bench.commands import night
from bench.judge.history.words import ends, signed
from bench.records import Nightly, NightlySeries, Report, SlowHost
from bench.report import junit, metrics, points_csv
from bench.report.history import archive as history
from bench.report.history import nightly_markdown, nightly_screen, sparks
from bench.report.history import page as history_page
from bench.report.history import screen as history_screen
from bench.report.pairs import suspects_file
from tests import made_nights as made
from tests.report.test_page import Browser, browser

__all__ = ["browser"]  # the fixture: one Chromium for this module

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J\ud800\ufffe]]>"
SLOW = {(c, k, "large"): 0.09 for c in ("data", "(default)") for k in made.COLLECTIVES}


def _history(folder: Path, count: int = 40) -> Path:
    """Six weeks with two holes: a slow week in between, and slow again since a new driver."""
    rng = np.random.default_rng(3)
    for at in range(count):
        if at in (10, 33):
            continue
        late = at >= count - 4
        slow = SLOW if 20 <= at < 27 or late else {}
        driver = "570.86.10" if late else "550.54.15"
        made.keep(folder, made.report(at, made.noisy(rng, slow), driver=driver))
    return folder


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Nightly]:
    """Tonight's report, and what the job says of it."""
    known = history.read(_history(tmp_path_factory.mktemp("nights")))
    run = known.nights[-1].run
    return known.report(run), night.retold(known, run, shown="reports/history")


@pytest.fixture(scope="module")
def hostile(told: tuple[Report, Nightly]) -> tuple[Report, Nightly]:
    """The same with names that a page, an XML file, a metric or a spreadsheet might act upon."""
    text = msgspec.json.encode(told).decode()
    evil = msgspec.json.encode(EVIL.replace("\ud800", "")).decode()[1:-1]
    for name, other in (
        ('"data"', f'"=cmd|{evil}"'), ("all_gather", f"@sum {evil}"), ("570.86.10", evil),
        ("reports/history", evil), ('"host3"', f'"{evil}"'),
    ):  # fmt: skip
        text = text.replace(name, other)
    return msgspec.json.decode(text, type=tuple[Report, Nightly])


def test_the_night_it_is_made_of_is_worth_showing(told: tuple[Report, Nightly]) -> None:
    _, nightly = told
    assert nightly.verdict == "degraded"
    assert [f.code for f in nightly.findings] == ["regressed"]
    proof = [e.text for e in nightly.findings[0].evidence]
    assert any("changed: driver 550.54.15 → 570.86.10" in text for text in proof)


# --------------------------------------------------------------------------------- exports


def cases(text: str) -> dict[str, Any]:
    found = {}
    for suite in JUnitXml.fromstring(text.encode()):
        for case in suite:
            found[f"{case.classname}/{case.name}"] = case
    return found


def test_junit_has_a_case_per_line_series_and_finding(told: tuple[Report, Nightly]) -> None:
    report, nightly = told
    text = junit.render(report, nightly)
    parsed = JUnitXml.fromstring(text.encode())
    assert [suite.name for suite in parsed] == [
        "fabric-bench.lines", "fabric-bench.nights", "fabric-bench.findings",
    ]  # fmt: skip
    found = cases(text)
    assert len(found) == 2 * 2 + 2 * 2 * 2 + 1 == parsed.tests
    assert found["lines.data/all_reduce"].result, "the finding is of this candidate"
    bad = found["nights.data/all_gather, 64 KiB and more"]
    assert bad.result[0].type == "regressed" and " since 2026-" in bad.result[0].message
    assert not found["nights.data/all_gather, below 64 KiB"].result
    finding = next(case for name, case in found.items() if name.startswith("findings.regressed"))
    assert "fix: python -m bench compare " in finding.result[0].text
    assert "570.86.10" in finding.result[0].text
    assert parsed.failures == 2 + 4 + 1 and parsed.errors == parsed.skipped == 0


def test_metrics_are_gauges_in_base_units(told: tuple[Report, Nightly]) -> None:
    report, nightly = told
    families = {f.name: f for f in text_string_to_metric_families(metrics.render(report, nightly))}
    assert all(name.startswith("fabric_bench_") for name in families)
    assert all(f.type == "gauge" and f.documentation for f in families.values())
    assert all(s.timestamp is None for f in families.values() for s in f.samples)

    def value(name: str, **labels: str) -> float:
        (only,) = [
            s.value for s in families[f"fabric_bench_{name}"].samples
            if labels.items() <= s.labels.items()
        ]  # fmt: skip
        return only

    assert value("verdict", verdict="degraded") == 1 and value("verdict", verdict="healthy") == 0
    assert value("run_timestamp_seconds") == pytest.approx(made.FIRST_NIGHT + 39 * made.DAY_S)
    where = {"candidate": "data", "collective": "all_reduce"}
    speed = value("busbw_bytes_per_second", **where, end="value")
    assert speed == pytest.approx(1.5 * made.BANDWIDTH * np.exp(-0.09), rel=0.03)
    assert value("regressed", **where, sizes="large") == 1
    assert value("regressed", **where, sizes="small") == 0
    assert value("drift_ratio", **where, sizes="large") == pytest.approx(0.094, abs=0.04)
    assert value("findings", code="regressed") == 1 and value("worst_severity") == 3
    assert value("nights") == 38 and value("missing_hosts") == 0
    assert value("baseline_age_seconds") == pytest.approx(39 * made.DAY_S)


def test_a_sweep_alone_has_these_files_too(told: tuple[Report, Nightly]) -> None:
    report, _ = told
    names = {f.name for f in text_string_to_metric_families(metrics.render(report))}
    assert "fabric_bench_verdict" in names and "fabric_bench_nights" not in names
    assert [s.name for s in JUnitXml.fromstring(junit.render(report).encode())] == [
        "fabric-bench.lines", "fabric-bench.findings",
    ]  # fmt: skip


def test_what_was_not_measured_is_skipped_and_not_passed(told: tuple[Report, Nightly]) -> None:
    report, nightly = told
    lost = msgspec.structs.replace(
        report.candidates[0], outcome="unreachable", reason="no route to host2"
    )
    lines = tuple(line for line in report.lines if line.candidate != "data")
    report = msgspec.structs.replace(report, candidates=(lost, report.candidates[1]), lines=lines)
    series = tuple(
        msgspec.structs.replace(one, state="hole", last=None, note="not measured tonight")
        if one.candidate == "data" else one
        for one in nightly.series
    )  # fmt: skip
    nightly = msgspec.structs.replace(nightly, series=series, findings=())
    found = cases(junit.render(report, nightly))
    assert found["lines.data/all_reduce"].result[0].message == "no route to host2"
    assert found["nights.data/all_reduce, below 64 KiB"].result[0].message == (
        "not measured tonight"
    )
    text = metrics.render(report, nightly)
    told_of = [
        s.labels["candidate"]
        for f in text_string_to_metric_families(text) if f.name == "fabric_bench_drift_ratio"
        for s in f.samples
    ]  # fmt: skip
    assert "data" not in told_of, "an absent figure is absent, never a zero"


def test_hostile_names_are_text_everywhere(hostile: tuple[Report, Nightly]) -> None:
    report, nightly = hostile
    found = cases(junit.render(report, nightly))
    assert any("<script>" in name for name in found), "shown as it is, by the parser"
    families = list(text_string_to_metric_families(metrics.render(report, nightly)))
    assert any("=cmd" in s.labels.get("candidate", "") for f in families for s in f.samples)
    rows = list(csv.reader(io.StringIO(points_csv.lines(report))))
    assert len({len(row) for row in rows}) == 1
    assert all(not cell.startswith(("=", "@", "+")) for row in rows for cell in row)
    text = nightly_markdown.render(nightly)
    outside = "".join(text.split("```")[::2])  # a fence shows what is in it as it is
    assert text.count("```") == 2 and "<script" not in outside and "<img" not in outside
    for shown in (
        nightly_screen.screen(nightly, status=1), history_screen.screen(nightly), text,
        junit.render(report, nightly), metrics.render(report, nightly),
    ):  # fmt: skip
        assert "\x1b" not in shown


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=30), st.text(max_size=30))
def test_any_names_make_files_that_parse(candidate: str, collective: str) -> None:
    one = NightlySeries(
        candidate=candidate, collective=collective, part="large", state="regressed",
        runs=("a", "b"), values=(None, 0.1), last=0.1,
    )  # fmt: skip
    slow = SlowHost(host=candidate, slowdown=0.1, nights=("a",))
    nightly = Nightly(
        run=collective, verdict="degraded", series=(one,), baseline=candidate, slow_hosts=(slow,)
    )
    report = Report(run=collective, verdict="degraded")
    assert len(cases(junit.render(report, nightly))) == 1
    names = [f.name for f in text_string_to_metric_families(metrics.render(report, nightly))]
    assert "fabric_bench_host_slowdown_ratio" in names
    rows = list(csv.reader(io.StringIO(points_csv.nights(nightly.series))))
    assert [len(row) for row in rows] == [6, 6]
    for text in (
        nightly_screen.screen(nightly, status=1), history_screen.screen(nightly),
    ):  # fmt: skip
        assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert "<script" not in nightly_markdown.render(nightly)
    for line in suspects_file.render(report, nightly).splitlines():
        assert line


def test_csv_of_lines_and_of_nights(told: tuple[Report, Nightly]) -> None:
    report, nightly = told
    rows = list(csv.DictReader(io.StringIO(points_csv.lines(report))))
    assert len(rows) == sum(len(line.points) for line in report.lines)
    first = report.lines[0].points[0]
    assert (rows[0]["run"], rows[0]["size_bytes"]) == (report.run, str(first.size_bytes))
    assert float(rows[0]["time_s"]) == pytest.approx(first.time_s)
    nights = list(csv.DictReader(io.StringIO(points_csv.nights(nightly.series))))
    assert len(nights) == 8 * 38
    changes = [row for row in nights if row["level_change"]]
    assert len(changes) == sum(len(one.changes) for one in nightly.series) >= 12
    assert {float(row["level_change"]) > 0 for row in changes} == {True, False}


# -------------------------------------------------------------------------------- suspects


def test_suspects_are_hosts_that_a_finding_accuses_one_a_line() -> None:
    from bench.records import Finding, Where

    def finding(code: str, severity: str = "degraded", **where: Any) -> Finding:
        return Finding(code=code, severity=severity, summary=f"{code} is\n so.",  # type: ignore[arg-type]
                       where=Where(**where))  # fmt: skip

    facts = [
        msgspec.structs.replace(host, hostname=f"node-{host.host[-1]}.cluster")
        for host in made.report(0).hosts
    ]
    report = msgspec.structs.replace(
        made.report(0), hosts=tuple(facts),
        findings=(
            finding("host-slow", host="host2"),
            finding("host-slow", "warning", host="host1"),  # no reason to drain
            finding("interface-misselected", "broken", host="host3"),  # of its settings
            finding("link-degraded", link=("host1", "host4")),  # which of the two, nobody knows
            finding("host-slow", host="host2; rm -rf /"),  # no name of a node
        ),
    )  # fmt: skip
    tonight = Nightly(run="x", verdict="degraded", findings=(finding("rail-slow", host="host2"),))
    assert suspects_file.render(report, tonight) == (
        "node-2.cluster  host-slow: host-slow is so.; rail-slow: rail-slow is so.\n"
    )
    assert suspects_file.render(made.report(0)) == ""


def test_a_shell_drains_what_is_listed_and_nothing_else(tmp_path: Path) -> None:
    from bench.records import Finding, Where

    bad = [
        Finding(code="host-slow", severity="degraded", summary=f"{name} `touch x` $(touch y).",
                where=Where(host=name))
        for name in ("node1", "node2")
    ]  # fmt: skip
    file = tmp_path / "suspects.txt"
    file.write_text(suspects_file.lines(bad, {}))
    loop = (
        'while read -r host reason; do printf "%s=%.9s\\n" "$host" "$reason"; done < suspects.txt'
    )
    done = subprocess.run(
        ["sh", "-c", loop], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout == "node1=host-slow\nnode2=host-slow\n"
    assert [found.name for found in tmp_path.iterdir()] == ["suspects.txt"]


# --------------------------------------------------------------------------------- screens


def test_the_screen_of_a_night_fits_and_ends_with_the_verdict(
    told: tuple[Report, Nightly],
) -> None:
    text = nightly_screen.screen(told[1], status=1, folder=Path("reports/history/x"))
    lines = text.splitlines()
    assert max(cell_len(line) for line in lines) <= 80
    assert lines[-2:] == [
        "verdict: degraded · 1 finding · exit 1", "report   reports/history/x/report.html",
    ]  # fmt: skip
    for words in ("39 days old", "changed", "! since 11-", "! regressed", "small: below 64 KiB"):
        if words != "changed":  # the driver changed on an earlier night
            assert words in text, words
    plain = nightly_screen.screen(told[1], status=1, plain=True)
    assert not set(sparks.SPARKS) & set(plain)


def test_the_screen_of_a_history_shows_all_nights_in_its_width(
    told: tuple[Report, Nightly],
) -> None:
    text = history_screen.screen(told[1])
    lines = text.splitlines()
    assert max(cell_len(line) for line in lines) <= 80
    assert "nights, 2 a mark; higher is slower" in text
    assert text.count("! since 11-0") == 4
    row = next(line for line in lines if "data, all_reduce" in line and "large" in line)
    marks = [letter for letter in row if letter in sparks.SPARKS]
    assert len(marks) == 19 and max(marks) == marks[-1]
    joined = " ".join(text.split())
    assert joined.count("; sure on 2026-") == 3, "12 changes, on three nights"
    assert "in data (all_reduce, all_gather), (default) (all_reduce, all_gather), 64 KiB" in joined
    wide = history_screen.screen(told[1], width=140)
    assert "nights; higher is slower" in wide and max(map(cell_len, wide.splitlines())) <= 140


def test_the_readme_shows_what_it_prints(told: tuple[Report, Nightly]) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    shown = readme.partition("```text history\n")[2].partition("```")[0]
    assert shown.count("\n") == 10
    assert history_screen.screen(told[1]).startswith(shown)


def test_values_that_nothing_is_judged_by_stand_in_brackets_with_the_reason() -> None:
    one = NightlySeries(candidate="data", collective="all_reduce", part="small",
                        state="unjudged", runs=("a",), values=(0.5,), last=0.5,
                        note="4 ranks share 2 cores")  # fmt: skip
    nightly = Nightly(run="a", verdict="healthy", series=(one,), baseline="b")
    for text in (nightly_screen.screen(nightly, status=0), history_screen.screen(nightly)):
        assert "(+50 %)" in text
        joined = " ".join(text.split())
        assert "in brackets: not judged (4 ranks share 2 cores)" in joined


def test_a_thousand_series_and_nights_stay_readable() -> None:
    runs = tuple(made.name_of(at) for at in range(365))
    series = tuple(
        NightlySeries(candidate=f"a network with a long name {number:03d}",
                      collective="all_reduce", part="large", state="steady", runs=runs,
                      values=(0.0,) * 365, last=0.0)
        for number in range(200)
    )  # fmt: skip
    bad = msgspec.structs.replace(series[150], state="regressed", since=runs[-3])
    series = (*series[:150], bad, *series[151:])
    nightly = Nightly(run=runs[-1], verdict="degraded", series=series, baseline=runs[0],
                      skipped=tuple(f"{n} is damaged" for n in range(50)),
                      missing_hosts={f"node{n}": 5 for n in range(300)})  # fmt: skip
    for text in (nightly_screen.screen(nightly, status=1), history_screen.screen(nightly)):
        lines = text.splitlines()
        assert len(lines) < 70 and max(map(cell_len, lines)) <= 80
        assert "! since" in text, "the one that moved is among those shown"
    assert "node0, node1 … 298 more" in nightly_screen.screen(nightly, status=1)


@pytest.mark.parametrize(
    ("values", "width", "shown"),
    [
        ((), 5, ""),
        ((None, None), 5, "··"),
        ((0.0,), 5, "▅"),
        ((0.0, 0.001, -0.001, 0.0), 9, "▅▅▄▅"),  # a tenth of a per cent is no mountain
        ((0.0, None, 0.5), 9, "▁·█"),
        ((0.0, 0.0, 0.5, 0.0, 0.0), 2, "▅▅"),  # the last ones
    ],
)
def test_spark_lines(values: tuple[float | None, ...], width: int, shown: str) -> None:
    assert sparks.sparks(values, width) == shown


def test_a_spark_line_of_all_nights_groups_them_and_keeps_holes_and_the_newest() -> None:
    values = [0.0] * 10 + [None] * 10 + [0.5] * 3
    assert sparks.whole(values, 30) == sparks.sparks(values, 30)
    grouped = sparks.whole(values, 6)  # four nights a mark, the last one whole
    assert len(grouped) == 6 and grouped[3] == "·" and grouped[-1] == "█"
    assert sparks.together(365, 24) == 16 and sparks.together(3, 24) == 1


def test_ages_and_days_as_people_say_them() -> None:
    assert [sparks.age(days * sparks.DAY_S) for days in (0.2, 1, 29, 425)] == [
        "of today", "1 day old", "29 days old", "14 months old",
    ]  # fmt: skip
    assert sparks.day("2026-11-28T02-00-04Z") == "2026-11-28"
    assert sparks.day("my run") == "my run"
    assert [signed(x) for x in (0.094, -0.003, 0.0001, None)] == ["+9.4 %", "-0.3 %", "0.0 %", "–"]
    assert (ends(0.081, 0.107), ends(0.7, 4.988)) == ("+8.1 to +10.7 %", "+70 to +499 %")


# ------------------------------------------------------------------------------------ page

# What is asked of the page once its curves are drawn.
LOOK = """(async () => {
  const root = document.documentElement;
  const wanted = document.querySelectorAll(".plot").length;
  for (let round = 0; round < 300 && Number(root.dataset.drawn || 0) < wanted; round++)
    await new Promise((done) => setTimeout(done, 100));
  const state = document.querySelector("td.regressed");
  return JSON.stringify({
    width: root.clientWidth, scroll: root.scrollWidth, drawn: Number(root.dataset.drawn), wanted,
    curves: document.querySelectorAll(".plot .scatterlayer .trace").length,
    gaps: document.querySelectorAll("#nights-0 .scatterlayer .point").length,
    state: state ? state.textContent : "", right: state ? state.getBoundingClientRect().right : 0,
    loaded: performance.getEntriesByType("resource").map((entry) => entry.name),
    foreign: document.querySelectorAll("img, marquee, u, iframe, i:not([class])").length,
    scripts: document.querySelectorAll("script").length, alerted: globalThis.alerted || 0,
  });
})()"""


@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_draws_the_page_and_runs_nobodys_code(
    told: tuple[Report, Nightly], hostile: tuple[Report, Nightly],
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(browser, "look_with", LOOK)
    for _, nightly in (told, hostile):
        file = tmp_path / "history.html"
        file.write_text(history_page.render(nightly), encoding="utf-8")
        seen = browser.look(file, width, dark=width < 600)
        assert seen["width"] == seen["scroll"] == width
        assert seen["drawn"] == seen["wanted"] == 4 and seen["curves"] == 8
        assert seen["gaps"] == 2 * 38, "a hole is no point"
        assert seen["state"].startswith("! since 11-") and seen["right"] <= width
        assert seen["loaded"] == [] and (seen["foreign"], seen["alerted"]) == (0, 0)
        assert seen["scripts"] == 4 + 1


def test_a_history_without_a_baseline_or_values_has_a_short_page() -> None:
    nightly = Nightly(run=made.name_of(0), verdict="inconclusive", history="h")
    text = history_page.render(nightly)
    assert len(text) < 20_000 and "plotly" not in text
    assert "there is no good night of this shape" in text
