"""Ubuntu 22.04 has Python 3.10: syntax is checked everywhere, the program where a 3.10 is found.

The torch-free commands run in an environment of their own, without torch, kept inside .venv and
keyed by the requirements, so that it is built once.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench.records import Finding, Report

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONSTRAINTS = ROOT / "configs" / "constraints.txt"
REPORT = Report(
    run="r",
    verdict="degraded",
    findings=(Finding(code="link-degraded", severity="degraded", summary="half its rate"),),
)


def find_python310() -> str | None:
    """A CPython 3.10 of this machine: on PATH, of pyenv, of /opt/python, or the one running."""
    places = [
        sys.executable,
        shutil.which("python3.10"),
        *map(str, Path.home().glob(".pyenv/versions/3.10*/bin/python3.10")),
        *map(str, Path("/opt/python").glob("cp310-cp310/bin/python3.10")),
    ]
    ask = "import sys; print(sys.version_info[:2] == (3, 10), sys.implementation.name)"
    for place in filter(None, places):
        answer = subprocess.run(
            [place, "-c", ask], capture_output=True, text=True, timeout=30, check=False
        )
        if answer.stdout.split() == ["True", "cpython"]:
            return place
    return None


@pytest.fixture(scope="module")
def python310() -> Path | None:
    """The Python of an environment with the requirements but torch; None without a 3.10."""
    base = find_python310()
    if base is None:
        return None
    wanted = [text for text in METADATA["project"]["dependencies"] if not text.startswith("torch")]
    content = repr(sorted(wanted)) + CONSTRAINTS.read_text()
    key = hashlib.sha256(content.encode()).hexdigest()[:12]
    folder = Path(sys.prefix) / f"python310-{key}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([base, "-m", "venv", str(folder)], check=True, timeout=120)
        # Not compiled here: a few of thousands of modules are ever imported (see run).
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pip += ["--no-compile", "--no-input"]
        subprocess.run([*pip, "-c", str(CONSTRAINTS), *wanted], check=True, timeout=280)
        (folder / "complete").touch()
    return python


def run(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL"))}
    environment["PYTHONPATH"] = str(ROOT)
    environment["PYTHONPYCACHEPREFIX"] = str(python.parents[1] / "pycache")
    return subprocess.run(
        [str(python), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_syntax_is_that_of_310() -> None:
    for path in sorted((ROOT / "bench").rglob("*.py")):
        ast.parse(path.read_text(), str(path), feature_version=(3, 10))


def test_lint_and_types_are_checked_for_310() -> None:
    # mypy and ruff run before the tests; they know which module or function came after 3.10.
    assert METADATA["project"]["requires-python"] == ">=3.10"
    assert METADATA["tool"]["mypy"]["python_version"] == "3.10"
    assert METADATA["tool"]["ruff"]["target-version"] == "py310"


def test_the_torch_free_modules_import(python310: Path | None) -> None:
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted((ROOT / "bench").rglob("*.py"))
        if "measure" not in path.parts and path.name != "__main__.py"
    ]
    code = f"import importlib\nfor name in {names!r}: importlib.import_module(name)"
    result = run(python310 or Path(sys.executable), "-c", code)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--help"], "explain"),
        (["explain", "interface-misselected"], "interface-misselected"),
        (["explain", "--list"], "hang-init"),
        (["facts"], "lo"),
        (["facts", "--json"], '"interfaces"'),
    ],
    ids=["help", "explain", "explain --list", "facts", "facts --json"],
)
def test_the_torch_free_commands_run(
    python310: Path | None, arguments: list[str], expected: str
) -> None:
    result = run(python310 or Path(sys.executable), "-m", "bench", *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    assert expected in result.stdout


def test_a_report_is_gated(python310: Path | None, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes(msgspec.json.encode(REPORT))
    result = run(python310 or Path(sys.executable), "-m", "bench", "gate", str(tmp_path))
    assert (result.returncode, result.stderr) == (1, "")
    assert result.stdout == "degraded  link-degraded: half its rate\n"


def test_a_bad_file_is_one_sentence(python310: Path | None, tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text("hosts = 2\nnetwrk = 3\n")
    arguments = ["-m", "bench", "lab", "run", str(tmp_path / "lab.toml")]
    result = run(python310 or Path(sys.executable), *arguments)
    assert result.returncode == 2
    assert f'{tmp_path}/lab.toml:2: unknown key "netwrk"' in result.stderr
    assert 'did you mean "network"?' in result.stderr
