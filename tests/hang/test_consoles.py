"""The forms in which launchers and containers hand on a rank's last words."""

from __future__ import annotations

import json

import pytest

from bench.formats import rank_log
from bench.formats.source import Source
from bench.hang import logs
from bench.judge.docket import Docket
from bench.records import Finding

WORDS = (
    "[rank5]: Traceback (most recent call last):",
    '[rank5]:   File "train.py", line 7, in <module>',
    "[rank5]: RuntimeError: CUDA error: device-side assert triggered",
)
STAMP = "2024-05-01T10:00:00.{0:09d}Z"
FORMS = {
    "docker": [
        json.dumps({"log": f"{line}\n", "stream": "stderr", "time": STAMP.format(at)}).replace(
            '": ', '":'
        )
        for at, line in enumerate(WORDS)
    ],
    "cri": [f"{STAMP.format(at)} stderr F {line}" for at, line in enumerate(WORDS)],
    "deepspeed": [
        "[2024-05-01 10:00:00,123] [INFO] [launch.py:256:main] process 4242 spawned",
        *(f"node1: {line}" for line in WORDS),
        "[2024-05-01 10:00:05,000] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 42",
    ],
    "ray": [f"(Worker pid=12, ip=10.0.0.2) {line}" for line in WORDS],
}


def only(text: str, name: str) -> Finding:
    docket = Docket()
    logs.judge([rank_log.of(Source.of_text(text, name))], docket)
    (finding,) = docket.findings
    return finding


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["console.log", "exp3/out.log", "k8s.json.log"])
def test_the_rank_its_words_and_its_line_are_found(form: str, name: str) -> None:
    told = only("\n".join(FORMS[form]) + "\n", name)
    assert (told.code, told.kind, told.where.rank) == ("first-fault", "cuda", 5)
    at = next(n for n, line in enumerate(FORMS[form], 1) if "CUDA error" in line)
    assert told.where.line == at
    assert told.where.host in (None, "node1")  # no file or folder is taken for a host


def test_a_line_of_docker_that_is_cut_is_read_as_it_is() -> None:
    text = '{"log":"[rank5]: RuntimeError: CUDA error: device-side assert triggered\\n","stre'
    docket = Docket()
    logs.judge([rank_log.of(Source.of_text(text, "x.log"))], docket)
    assert [f.kind for f in docket.findings] == ["cuda"]
