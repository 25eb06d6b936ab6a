"""Gives tests a namespace of their own to look at: real interfaces, real rtnetlink, real NCCL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("namespace_script.py")


@pytest.fixture(scope="session")
def in_namespace() -> Callable[..., dict[str, Any]]:
    """in_namespace(steps, questions=..., peel=..., egress=..., sysfs=...) -> what it found."""

    def run(steps: list[Any], **request: Any) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, str(SCRIPT)],
            input=json.dumps({"steps": steps, **request}),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)  # type: ignore[no-any-return]

    return run


@pytest.fixture
def fake_tree(tmp_path: Path) -> Callable[[str], Path]:
    """fake_tree(text) -> root of a folder made of "path = content" lines (no real sysfs)."""

    def make(text: str) -> Path:
        root = tmp_path / "tree"
        for line in text.splitlines():
            if line and not line.startswith("#"):
                path, _, content = line.partition(" = ")
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(content + "\n")
        return root

    return make
