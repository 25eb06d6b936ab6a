"""metrics.prom: a run for Prometheus' textfile collector, in base units and without timestamps.

In: a Report, and what a nightly job adds. Out: the text exposition format. Put it (or a link to
it) into node_exporter's --collector.textfile.directory.
"""

from __future__ import annotations

from collections import Counter

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from bench.judge.history.nights import started_at
from bench.records import SEVERITIES, Nightly, Report
from bench.report.text import printable

VERDICTS = ("healthy", "misconfigured", "degraded", "broken", "inconclusive")


def render(report: Report, nightly: Nightly | None = None) -> str:
    """The whole file."""
    exposed = _Exposed(report.fabric.name if report.fabric else "")
    _run(report, nightly, exposed)
    _lines(report, exposed)
    if nightly is not None:
        _nights(nightly, exposed)
    text: bytes = generate_latest(exposed.registry)
    return text.decode()


class _Exposed:
    """Gauges by name, each labelled with the fabric."""

    def __init__(self, fabric: str) -> None:
        self.registry = CollectorRegistry()
        self.fabric = printable(fabric)
        self._gauges: dict[str, Gauge] = {}

    def put(self, name: str, help_text: str, value: float, **labels: str) -> None:
        gauge = self._gauges.get(name)
        if gauge is None:
            gauge = Gauge(
                f"fabric_bench_{name}", help_text, ["fabric", *labels], registry=self.registry
            )
            self._gauges[name] = gauge
        shown = {key: printable(text) for key, text in labels.items()}
        gauge.labels(fabric=self.fabric, **shown).set(value)


def _run(report: Report, nightly: Nightly | None, exposed: _Exposed) -> None:
    verdict = nightly.verdict if nightly else report.verdict
    exposed.put("run_timestamp_seconds", "When the run began.", started_at(report))
    exposed.put("duration_seconds", "How long the run took.", report.duration_s)
    exposed.put("complete", "1 unless the run was cut short.", float(report.complete))
    for name in VERDICTS:
        exposed.put(
            "verdict", "1 for the verdict that holds.", float(name == verdict), verdict=name
        )
    findings = (*report.findings, *(nightly.findings if nightly else ()))
    counts = Counter(
        (f.code, f.severity, f.where.candidate or "", f.where.host or "") for f in findings
    )
    for (code, severity, candidate, host), count in sorted(counts.items()):
        exposed.put(
            "findings", "Findings by what and where they are.", count,
            code=code, severity=severity, candidate=candidate, host=host,
        )  # fmt: skip
    worst = max((SEVERITIES.index(f.severity) + 1 for f in findings), default=0)
    exposed.put("worst_severity", "0 none, 1 info, 2 warning, 3 degraded, 4 broken.", float(worst))


def _lines(report: Report, exposed: _Exposed) -> None:
    for line in report.lines:
        where = {"candidate": line.candidate, "collective": line.collective}
        if line.busbw_gbs is not None:
            speed = "busbw_bytes_per_second"
            text = "Fitted bus bandwidth, and the ends of its 95 % interval."
            for end in ("value", "low", "high"):
                value = getattr(line.busbw_gbs, end) * 1e9
                exposed.put(speed, text, value, **where, end=end)
        if line.latency_s is not None:
            text = "Fitted latency, and the ends of its 95 % interval."
            for end in ("value", "low", "high"):
                exposed.put(
                    "latency_seconds", text, getattr(line.latency_s, end), **where, end=end
                )
        if line.expected_busbw_gbs is not None:
            exposed.put(
                "expected_busbw_bytes_per_second", "What the line is held against.",
                line.expected_busbw_gbs * 1e9, **where, basis=line.expected_basis or "expected",
            )  # fmt: skip


def _nights(nightly: Nightly, exposed: _Exposed) -> None:
    exposed.put("nights", "Nights of this shape in the history.", nightly.nights)
    exposed.put(
        "missing_hosts", "Hosts that were always there and are not tonight.",
        len(nightly.missing_hosts),
    )  # fmt: skip
    if nightly.baseline_age_s is not None:
        exposed.put(
            "baseline_age_seconds", "How long ago the baseline was set.", nightly.baseline_age_s
        )
    for one in nightly.series:
        where = {"candidate": one.candidate, "collective": one.collective, "sizes": one.part}
        if one.last is not None:
            exposed.put(
                "drift_ratio", "Time tonight against the baseline: 0.05 is 5 % slower.",
                one.last, **where,
            )  # fmt: skip
        exposed.put(
            "regressed", "1 where a series is slower than its baseline, confirmed.",
            float(one.state == "regressed"), **where,
        )  # fmt: skip
    for slow in nightly.slow_hosts:
        exposed.put(
            "host_slowdown_ratio", "Hosts slower than their fleet on their last nights.",
            slow.slowdown, host=slow.host, rail="" if slow.rail is None else str(slow.rail),
        )  # fmt: skip
