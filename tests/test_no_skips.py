"""The rule of conftest.py about skipped tests, tried on a suite of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")
INI = "[pytest]\nmarkers =\n    gpu: needs a GPU\n"
SUITE = {
    "passes": "def test_a():\n    pass\n",
    "skips": "import pytest\ndef test_a():\n    pytest.skip('no reason')\n",
    "is marked skip": "import pytest\n@pytest.mark.skip\ndef test_a():\n    pass\n",
    "module skips": "import pytest\npytest.importorskip('no_such_module')\n",
    "needs a GPU": "import pytest\n@pytest.mark.gpu\ndef test_a():\n    pytest.skip('no GPU')\n",
    "is expected to fail": "import pytest\n@pytest.mark.xfail\ndef test_a():\n    assert 0\n",
}


@pytest.mark.parametrize(
    ("kind", "fails", "processes"),
    [
        ("passes", False, []),
        ("skips", True, []),
        ("skips", True, ["-n", "2"]),
        ("is marked skip", True, []),
        ("module skips", True, []),
        ("module skips", True, ["-n", "2"]),
        ("needs a GPU", False, ["-n", "2"]),
        ("is expected to fail", False, []),
    ],
)
def test_a_skip_fails_the_run_unless_it_is_for_a_gpu(
    tmp_path: Path, kind: str, fails: bool, processes: list[str]
) -> None:
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_one.py").write_text("def test_fine():\n    pass\n")
    (tmp_path / "test_two.py").write_text(SUITE[kind])
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *processes,
            str(tmp_path),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == (1 if fails else 0), result.stdout
    assert ("these did, so the run has failed" in result.stdout) == fails
