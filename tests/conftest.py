"""What holds for all tests: only what needs a GPU may be skipped. And a checkout to play in.

A skipped test looks green and proves nothing, so a skip without the `gpu` mark fails the run and
is named. A machine that lacks something that tests need (a package, the right to make namespaces)
has to say so by failing.

Property tests draw the same examples each time, so that a run fails for what was changed; other
examples are tried on purpose: ./run.sh test -m hypothesis --hypothesis-profile=default
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:  # tests of this file copy it to where there is no bench
    from bench.records import HostFacts

ROOT = Path(__file__).resolve().parents[1]
LONGEST = ("test_readme.py", "test_bad_days.py")
settings.register_profile("same-each-time", derandomize=True)
settings.load_profile("same-each-time")
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
    # First what builds clusters or runs whole sweeps: it waits for most of its time, while others
    # compute. Of that the longest: a file is one process's, and should not be the last one.
    slow = {item.path for item in items if item.get_closest_marker("lab")}
    whole = Path(__file__).parent

    def turn(item: pytest.Item) -> int:
        if item.path.name in LONGEST:
            return 0
        return 1 if item.path in slow or item.path.parent == whole else 2

    items.sort(key=turn)
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
    skipped = session.config.stash[UNEXPECTED_SKIPS]
    if hasattr(session.config, "workeroutput"):  # one of several: the first one judges them all
        session.config.workeroutput["skipped"] = skipped
    elif skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """A process of pytest-xdist has ended; what it skipped counts here."""
    told = getattr(node, "workeroutput", {}).get("skipped", [])
    known = node.config.stash[UNEXPECTED_SKIPS]  # type: ignore[attr-defined]
    known += [nodeid for nodeid in told if nodeid not in known]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    skipped = config.stash[UNEXPECTED_SKIPS]
    if skipped:
        terminalreporter.section("skipped without needing a GPU", red=True)
        terminalreporter.line("Only tests marked gpu may skip; these did, so the run has failed:")
        for nodeid in skipped:
            terminalreporter.line(f"  {nodeid}")


@dataclass(frozen=True)
class Checkout:
    """The repository as a user has it: no .venv yet, no reports."""

    folder: Path

    def environment(self) -> dict[str, str]:
        """Of a user whose Python has torch, and who has activated .venv once it is there."""
        unwanted = ("PYTHON", "VIRTUAL_ENV", "NCCL_", "GLOO_", "TORCH", "RANK", "WORLD_SIZE")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
        venv, ours = str(self.folder / ".venv" / "bin"), str(Path(sys.executable).parent)
        return kept | {
            "PATH": os.pathsep.join([venv, ours, os.environ["PATH"]]),
            "BASE_PYTHON": sys.executable,
            "OMP_NUM_THREADS": "1",
            "XDG_RUNTIME_DIR": str(self.folder.parent),  # where a standing lab is noted
        }

    def shell(self, script: str, timeout_s: float = 200) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """One for all tests of README and run.sh, because installing takes a while."""
    folder = tmp_path_factory.mktemp("checkout") / "nccl-fabric-bench"
    folder.mkdir()
    for name in ("run.sh", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, folder)
    for name in ("bench", "configs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    data = Path("tests") / "data"  # README reads some of it
    shutil.copytree(ROOT / data, folder / data)
    (folder / "reports").mkdir()
    return Checkout(folder)


def _module(file: Path) -> ModuleType:
    """A module that tests share; `tests` is no package."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def fake_sysfs() -> ModuleType:
    """tests/facts/fake_sysfs.py: trees that stand in for /sys."""
    return sys.modules.get("fake_sysfs") or _module(ROOT / "tests/facts/fake_sysfs.py")


@pytest.fixture(scope="session")
def fake_nvml(fake_sysfs: ModuleType) -> ModuleType:
    """tests/facts/fake_nvml.py: a fake NVML and the four hosts that it plays."""
    return sys.modules.get("fake_nvml") or _module(ROOT / "tests/facts/fake_nvml.py")


@pytest.fixture(scope="session")
def gpu_hosts(
    fake_nvml: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, HostFacts]:
    """Facts of the four fake hosts: "healthy", "links-down", "narrow-slot", "acs"."""
    hosts: dict[str, HostFacts] = fake_nvml.four_hosts(tmp_path_factory.mktemp("gpu_hosts"))
    return hosts
