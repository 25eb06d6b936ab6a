"""The sweep runs from the repository, from another folder, and installed without either."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.report.stored import read_report

ROOT = Path(__file__).resolve().parents[1]
# One session of a short ladder: enough to see the whole pipeline, from facts to report.
SHORT = ("--sessions", "1", "--collective", "all_reduce", "--maxbytes", "16K", "--seed", "1")


def clean_environment() -> dict[str, str]:
    unwanted = ("PYTHON", "VIRTUAL_ENV", "NCCL_", "GLOO_", "TORCH", "RANK", "WORLD_SIZE")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
    return kept | {"OMP_NUM_THREADS": "1"}


def torchrun(python: Path, script: str, out: Path, cwd: Path) -> None:
    """Sweep this host with two ranks, and check that a whole report came of it."""
    command = [str(python), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    result = subprocess.run(
        [*command, script, *SHORT, "--out", str(out)],
        cwd=cwd,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "verdict: " in result.stdout
    assert (out / "status").read_text() == "0\n"
    assert read_report(out).lines


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment into which the package was installed, as `pip install .` does.

    The requirements are the ones of this environment, put on its path: only the package is new.
    """
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("bench", "configs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    venv = folder / "venv"
    python = venv / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    # No network: the build uses the setuptools that torch brought.
    visible = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (site,) = (venv / "lib").glob("python*/site-packages")
    (site / "requirements.pth").write_text("\n".join(visible) + "\n")
    subprocess.run(
        [*pip, "--no-deps", "--no-build-isolation", "--disable-pip-version-check", str(source)],
        check=True,
        timeout=120,
        env=clean_environment(),
    )
    shutil.rmtree(source)
    return python


def ask(python: Path, code: str, cwd: Path) -> str:
    command = [str(python), "-c", code]
    environment = clean_environment()
    return subprocess.check_output(
        command, cwd=cwd, env=environment, text=True, timeout=60
    ).strip()


def test_torchrun_from_the_root_of_the_repository(tmp_path: Path) -> None:
    torchrun(Path(sys.executable), "bench/sweep.py", tmp_path / "run", ROOT)


def test_torchrun_from_another_folder(tmp_path: Path) -> None:
    torchrun(Path(sys.executable), str(ROOT / "bench" / "sweep.py"), tmp_path / "run", tmp_path)


def test_torchrun_installed_without_the_repository(installed: Path, tmp_path: Path) -> None:
    script = ask(installed, "import bench; print(bench.__path__[0] + '/sweep.py')", tmp_path)
    assert Path(script).is_relative_to(installed.parents[1])
    torchrun(installed, script, tmp_path / "run", tmp_path)


def test_installed_the_program_knows_its_plans_fabrics_and_labs(
    installed: Path, tmp_path: Path
) -> None:
    for kind in ("plans", "fabrics", "labs"):
        names = sorted(path.name for path in (ROOT / "configs" / kind).glob("*.toml"))
        code = f"from bench.formats import shipped; print(shipped.folder({kind!r}))"
        folder = Path(ask(installed, code, tmp_path))
        assert folder.is_relative_to(installed.parents[1])
        assert sorted(path.name for path in folder.iterdir()) == names


def test_installed_there_is_a_command(installed: Path, tmp_path: Path) -> None:
    result = subprocess.run(
        [str(installed.with_name("fabric-bench")), "explain", "interface-misselected"],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("interface-misselected")
