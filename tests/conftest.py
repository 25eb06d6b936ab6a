"""What holds for all tests: only a test that needs a GPU may be skipped.

A skipped test looks green and proves nothing, so a skip without the `gpu` mark fails the run and
is named. A machine that lacks something that tests need (a package, the right to make namespaces)
has to say so by failing.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest

UNEXPECTED_SKIPS = pytest.StashKey[list[str]]()


def _gpu_present() -> bool:
    if not shutil.which("nvidia-smi"):
        return False
    listing = subprocess.run(
        ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False
    )
    return listing.returncode == 0 and "GPU 0" in listing.stdout


def pytest_configure(config: pytest.Config) -> None:
    config.stash[UNEXPECTED_SKIPS] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not any(item.get_closest_marker("gpu") for item in items) or _gpu_present():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU here"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    expected_failure = hasattr(report, "wasxfail")
    if report.skipped and not expected_failure and not item.get_closest_marker("gpu"):
        item.config.stash[UNEXPECTED_SKIPS].append(item.nodeid)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.skipped:  # a module-level importorskip
        collector.config.stash[UNEXPECTED_SKIPS].append(collector.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.stash[UNEXPECTED_SKIPS] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    skipped = config.stash[UNEXPECTED_SKIPS]
    if skipped:
        terminalreporter.section("skipped without needing a GPU", red=True)
        terminalreporter.line("Only tests marked gpu may skip; these did, so the run has failed:")
        for nodeid in skipped:
            terminalreporter.line(f"  {nodeid}")
