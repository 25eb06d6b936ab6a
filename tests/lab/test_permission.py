"""Whether a lab can be built here: asked by building one, as root, as a user, where forbidden."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.lab import holder, permission, shaping
from bench.records import BadInput

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.lab

# An ordinary user. As root: nobody, allowed no more than to read, for Python may lie in a home.
READ = "+dac_read_search"
NOBODY = (
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    + [f"--{kind}=-all,{READ}" for kind in ("inh-caps", "ambient-caps", "bounding-set")]
    if os.getuid() == 0
    else []
)


def as_user(code: str, *before: str) -> subprocess.CompletedProcess[str]:
    """Run Python code as an ordinary user, `before` at the front of its command line."""
    return subprocess.run(
        [*before, *NOBODY, sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_lab_is_permitted_here() -> None:
    assert permission.not_permitted() is None


def test_a_lab_is_permitted_to_an_ordinary_user() -> None:
    done = as_user(
        "from bench.lab import namespaces, permission\n"
        "assert not namespaces.may_make_namespaces()\n"
        "print(permission.not_permitted())"
    )
    assert (done.stdout.strip(), done.stderr) == ("None", "")


def test_a_setting_that_forbids_user_namespaces_is_named() -> None:
    # In a user namespace of its own, so that the real machine's setting stays as it is; without
    # capabilities there, so that the lab needs one more.
    forbid = (
        'echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all "$0" "$@"'
    )
    code = "from bench.lab import permission; print(permission.not_permitted())"
    done = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", forbid, sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "user.max_user_namespaces = 0" in done.stdout, done.stderr
    assert "run the lab as root" in done.stdout


def test_a_container_that_forbids_everything_is_told_from_a_missing_right() -> None:
    denied = PermissionError(1, "Operation not permitted", "unshare")
    assert "--privileged" in holder._forbidden(denied, "network namespaces", as_user=False)
    assert "as root" in holder._forbidden(denied, "network namespaces", as_user=True)


def test_a_missing_kernel_module_is_named_with_the_way_out() -> None:
    with pytest.raises(BadInput) as caught, shaping.explained("tbf", "rate_mbit"):
        raise shaping.NetlinkError(2)
    assert "no tbf (module sch_tbf)" in caught.value.sentence
    assert "modprobe sch_tbf" in caught.value.sentence
