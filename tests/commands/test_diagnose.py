"""`diagnose` as people and scripts use it: through main(), on real dumps."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench.cli import main
from bench.records import Diagnosis
from tests.hang.job import Call, Job, same, write

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "flight"


def told(*arguments: object) -> tuple[int, str]:
    out = io.StringIO()
    return main(["diagnose", *map(str, arguments)], out), out.getvalue()


def diagnosis(*arguments: object) -> Diagnosis:
    status, out = told("--json", *arguments)
    assert status == 0
    return msgspec.json.decode(out, type=Diagnosis)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["diagnose", *map(str, arguments)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("fabric-bench: ")
    assert printed.err.count("\n") == 1
    return printed.err


def test_the_tutorials_folder_becomes_one_screen() -> None:
    status, out = told(DATA / "tutorial")
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    flat = " ".join(out.split())
    assert "read 2 Flight Recorder dumps (schema 2.10), 1 file of stacks of ranks" in flat
    assert "waiting rank 0 in all_reduce #4 of main_comm" in flat
    assert "absent rank 1 never joined #4 of main_comm" in flat
    assert "rank 1 stood at verify_flight_recorder.py:140 main when asked" in flat
    assert out.splitlines()[-1] == "verdict: broken · rank 1 · 1 finding"


def test_the_readme_shows_what_it_prints() -> None:
    _, out = told(DATA / "tutorial")
    assert f"```text\n{out.rstrip()}\n```" in (ROOT / "README.md").read_text()


def test_a_healthy_job_says_so_and_what_it_rests_on() -> None:
    status, out = told(DATA / "gloo_healthy")
    assert status == 0
    assert "15 collectives in 2 groups of 3 ranks" in " ".join(out.split())
    assert out.splitlines()[-1] == "verdict: healthy · nothing stands still"


def test_json_is_one_line_with_the_ranks_to_look_at() -> None:
    status, out = told("--json", DATA / "gloo_missing")
    assert status == 0
    (line,) = out.splitlines()
    assert json.loads(line)["ranks"] == [2]
    found = diagnosis(DATA / "gloo_missing")
    assert (found.verdict, found.phase) == ("broken", "midrun")
    assert found.flight is not None
    assert found.flight.stops[0].absent == (2,)
    assert found.flight.stacks


def test_several_folders_and_files_in_any_mix_are_one_job() -> None:
    files = [DATA / "gloo_missing" / f"during_{rank}" for rank in (2, 0, 1)]
    assert diagnosis(*files).ranks == (2,)
    assert diagnosis(DATA / "gloo_missing", *files).ranks == (2,)


def test_second_dumps_of_a_rank_are_left_aside_and_told() -> None:
    _, out = told(DATA / "gloo_missing")
    assert "aside" in out
    found = diagnosis(DATA / "gloo_missing")
    assert found.flight is not None
    assert len(found.flight.left_out) == 9
    assert len(found.flight.ranks) == 3


def test_it_fails_on_demand() -> None:
    assert told(DATA / "gloo_missing", "--fail-on", "broken")[0] == 1
    assert told(DATA / "gloo_died", "--fail-on", "broken")[0] == 0
    assert told(DATA / "gloo_died", "--fail-on", "info")[0] == 1
    assert told(DATA / "gloo_healthy", "--fail-on", "info")[0] == 0


def test_filters_list_what_they_say() -> None:
    _, out = told(DATA / "gloo_healthy", "--group", "pair02")
    assert "pair02 (group 1)" in out
    assert "2/2" in out
    _, out = told(DATA / "gloo_missing", "--collective", "ALLREDUCE", "--seq", "3")
    assert "2/3" in out
    assert len([line for line in out.splitlines() if "all_reduce  [" in line]) == 1


def test_a_list_is_cut_at_its_newest_rows(tmp_path: Path) -> None:
    job = Job(2, same(2, [Call()] * 500))
    write(tmp_path, {rank: job.dump(rank) for rank in range(2)})
    _, out = told(tmp_path, "--rank", "0")
    assert "… 300 older ones" in out


def test_a_dump_cut_short_is_told_and_its_rank_suspected(tmp_path: Path) -> None:
    for rank in range(3):
        shutil.copy(DATA / "gloo_missing" / f"during_{rank}", tmp_path / f"rank_{rank}")
    whole = (tmp_path / "rank_2").read_bytes()
    (tmp_path / "rank_2").write_bytes(whole[: len(whole) // 2])
    status, out = told(tmp_path)
    assert status == 0
    assert "rank_2: Flight Recorder dump: ends in the middle" in " ".join(out.split())
    found = diagnosis(tmp_path)
    assert (found.verdict, found.suspects) == ("inconclusive", (2,))
    assert not [f for f in found.findings if f.severity == "broken"]


def test_bad_input_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "no such file" in refused(capsys, tmp_path / "absent")
    assert "holds no file" in refused(capsys, tmp_path)
    (tmp_path / "notes.txt").write_text("it hangs\n")
    assert "nothing of it is read here" in refused(capsys, tmp_path)
    assert "--seq" in refused(capsys, DATA / "gloo_missing", "--seq", "a")
    assert "no collective passes" in refused(capsys, DATA / "gloo_missing", "--group", "pp")
    assert "--fail-on" in refused(capsys, DATA / "gloo_missing", "--fail-on", "bad")


class Payload:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.marker}",)


def test_a_dump_that_wants_to_run_something_is_refused_in_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, marker = tmp_path / "dumps", tmp_path / "ran"
    folder.mkdir()
    value = {"version": "2.10", "pg_config": {}, "entries": [Payload(marker)]}
    (folder / "rank_0").write_bytes(pickle.dumps(value, protocol=2))
    assert "asks for a global" in refused(capsys, folder)
    assert not marker.exists()


def test_names_that_try_to_move_the_cursor_are_made_harmless(tmp_path: Path) -> None:
    call = Call(name="all_reduce\x1b[2J\u202e", line=5)
    job = Job(2, {0: [Call(), call], 1: [Call()]})
    write(tmp_path, {rank: job.dump(rank) for rank in range(2)})
    _, out = told(tmp_path, "--rank", "0")
    assert "\x1b" not in out and "\u202e" not in out


def test_it_reads_a_dump_from_stdin() -> None:
    dump = (DATA / "gloo_missing" / "during_0").read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "bench", "diagnose", "-", "--json"],
        input=dump, capture_output=True, cwd=ROOT, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["flight"]["ranks"][0]["entries"] == 3


def test_it_needs_no_torch() -> None:
    code = (
        "import sys; from bench.cli import main; "
        f"main(['diagnose', {str(DATA / 'tutorial')!r}, '--json']); "
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_of_any_protocol_that_runs_something_is_refused_whatever_its_name(
    protocol: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return os.system, (f"touch {tmp_path / 'ran'}",)

    for name in ("rank_0", "rank_0.log", "anything"):
        file = tmp_path / name
        file.write_bytes(pickle.dumps({"version": "2.10", "entries": [Evil()]}, protocol))
        assert "Flight Recorder dump" in refused(capsys, file)
        file.unlink()
    assert not (tmp_path / "ran").exists()
