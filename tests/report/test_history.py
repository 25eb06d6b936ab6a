"""A folder of runs as nights: damaged ones are named, holes are holes, two jobs do not meet."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.records import BadInput, Baselines
from bench.report.history import archive as history
from bench.report.history import baselines
from tests import made_nights as made

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five nights, of which the third was not run."""
    for night in (0, 1, 3, 4):
        made.keep(tmp_path, made.report(night))
    return tmp_path


def read_and_kept(folder: Path) -> history.History:
    known = history.read(folder)
    history.keep(known)
    return known


def test_nights_come_in_order_of_time_whatever_their_names(folder: Path) -> None:
    (folder / made.name_of(0)).rename(folder / "zz first")
    known = history.read(folder)
    assert [night.run for night in known.nights] == [
        "zz first", made.name_of(1), made.name_of(3), made.name_of(4),
    ]  # fmt: skip
    assert known.skipped == ()
    assert known.report("zz first").run == "zz first"


DAMAGE = {
    "empty": b"",
    "cut": b'{"run": "2026-10-02T02',
    "other": b'{"kind": "nothing of ours"}',
    "binary": bytes(range(256)) * 40,
    "list": b"[" * 5000,
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_night_is_named_and_the_others_count(folder: Path, how: str) -> None:
    file = folder / made.name_of(1) / "report.json"
    file.write_bytes(DAMAGE[how])
    known = history.read(folder)
    assert [night.run for night in known.nights] == [made.name_of(n) for n in (0, 3, 4)]
    (sentence,) = known.skipped
    assert sentence.startswith(f"{made.name_of(1)} is damaged and left out: ")
    assert "\n" not in sentence


def test_what_is_no_night_is_left_alone_and_a_cut_run_is_named(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    (folder / "empty").mkdir()
    (folder / "latest").symlink_to(made.name_of(4))
    (folder / ".hidden").mkdir()
    cut = folder / "2026-10-03T02-00-00Z"
    cut.mkdir()
    (cut / "samples.jsonl").write_text("{}")
    file = folder / made.name_of(1) / "report.json"
    file.unlink()
    file.mkdir()  # no file at all
    known = history.read(folder)
    assert [night.run for night in known.nights] == [made.name_of(n) for n in (0, 3, 4)]
    assert len(known.skipped) == 2
    assert any(f"fabric-bench report {cut}" in sentence for sentence in known.skipped)


def test_a_copy_of_a_night_counts_once_and_is_named(folder: Path) -> None:
    shutil.copytree(folder / made.name_of(1), folder / "copy of it")
    known = history.read(folder)
    assert len(known.nights) == 4
    (sentence,) = known.skipped
    assert " is a copy of " in sentence and "copy of it" in sentence


def test_the_index_saves_reading_and_is_never_believed_over_a_changed_report(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = read_and_kept(folder)
    read = []
    real = history.read_report
    monkeypatch.setattr(history, "read_report", lambda file: read.append(file) or real(file))
    assert history.read(folder).nights == first.nights
    assert read == []
    changed = made.report(3, {("data", "all_reduce", "large"): 0.5})
    shutil.rmtree(folder / changed.run)
    made.keep(folder, changed)
    again = history.read(folder)
    assert [file.parent.name for file in read] == [changed.run]
    assert again.nights != first.nights


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\n\n", b"not json\n", b"{}\n", bytes(range(256)), b'{"schema": 99}\n',
        b'{"schema": 1, "name": "x", "size_bytes": -1, "modified_ns": 0, "run": "", "night": {}}',
    ],
)  # fmt: skip
def test_a_damaged_index_costs_time_and_nothing_else(folder: Path, content: bytes) -> None:
    first = read_and_kept(folder)
    index = folder / history.INDEX_NAME
    whole = index.read_bytes()
    index.write_bytes(content)
    assert history.read(folder).nights == first.nights
    index.write_bytes(whole[: len(whole) // 2])  # half written
    assert history.read(folder).nights == first.nights
    lines = [json.loads(line) for line in whole.splitlines()]
    lines[0]["night"]["lines"][0]["times_s"] = [1.0]  # as many times as sizes no more
    index.write_text("\n".join(map(json.dumps, lines)))
    assert history.read(folder).nights == first.nights


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_damage_to_any_byte_is_a_night_less_at_most(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("history")
    place = made.keep(folder, made.report(0))
    file = place / "report.json"
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    known = history.read(folder)
    assert len(known.nights) + len(known.skipped) == 1


def test_no_folder_and_a_file_in_its_place_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such folder"):
        history.read(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInput, match="is not a folder"):
        history.read(tmp_path / "file")
    with (
        pytest.raises(BadInput, match="no history can be kept here"),
        history.held(tmp_path / "file"),
    ):
        pass
    assert history.read(tmp_path).nights == ()


def test_the_oldest_of_too_many_nights_are_left_out_and_counted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MOST_NIGHTS", 3)
    known = history.read(folder)
    assert [night.run for night in known.nights] == [made.name_of(n) for n in (1, 3, 4)]
    assert known.skipped == ("the oldest 1 of 4 runs are left out",)


# ------------------------------------------------------------------------------- two jobs

HOLD = """if True:
    import sys, time
    from pathlib import Path
    from bench.report.history import archive as history
    with history.held(Path(sys.argv[1])):
        print("held", flush=True)
        time.sleep(60)
"""


def test_a_second_job_is_refused_at_once_and_a_killed_one_holds_nothing(tmp_path: Path) -> None:
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout is not None and first.stdout.readline() == "held\n"
        began = time.monotonic()
        refused = rf"another nightly job \(process {first.pid}\) is at work in this history"
        with pytest.raises(BadInput, match=refused), history.held(tmp_path):
            pass
        assert time.monotonic() - began < 10
        os.kill(first.pid, signal.SIGKILL)
        first.wait(30)
        with history.held(tmp_path):
            pass
    finally:
        first.kill()
        first.wait(30)


def test_the_lock_follows_no_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    place = tmp_path / "history"
    place.mkdir()
    (place / history.LOCK_NAME).symlink_to(victim)
    with pytest.raises(BadInput, match="no history can be kept here"), history.held(place):
        pass
    assert victim.read_text() == "precious"


# ------------------------------------------------------------------------------ baselines


def test_a_baseline_is_kept_with_its_reason_its_figures_and_the_one_before(folder: Path) -> None:
    first, second = made.report(0), made.report(3)
    baselines.set_baseline(folder, first, "  new \n switch ")
    baselines.set_baseline(folder, second, "driver 570")
    found = baselines.load(folder)
    assert [(b.run, b.reason) for b in found.current] == [(second.run, "driver 570")]
    assert [(b.run, b.reason, b.lines) for b in found.former] == [(first.run, "new switch", ())]
    for night in (0, 1, 3):  # cleared away: the baseline has its own figures
        shutil.rmtree(folder / made.name_of(night))
    known = history.read(folder)
    held = baselines.held_against(known, known.nights)
    assert held is not None
    assert (held.run, held.reason, held.lines) == (second.run, "driver 570", second.lines)


def test_shapes_have_baselines_of_their_own(folder: Path) -> None:
    two = made.report(5, hosts=("host1", "host2"))
    made.keep(folder, two)
    baselines.set_baseline(folder, two, "two of four")
    known = history.read(folder)
    held = baselines.held_against(known, known.nights)
    assert held is not None and held.run == two.run
    held = baselines.held_against(known, known.nights[:-1])
    assert held is not None and (held.run, held.reason) == (made.name_of(0), None)


def test_the_first_good_night_is_the_baseline_where_nobody_set_one(tmp_path: Path) -> None:
    made.keep(tmp_path, made.report(0, findings=[made.degraded()]))
    made.keep(tmp_path, made.report(1, complete=False))
    made.keep(tmp_path, made.report(2))
    made.keep(tmp_path, made.report(3))
    known = history.read(tmp_path)
    held = baselines.held_against(known, known.nights)
    assert held is not None and held.run == made.name_of(2)
    held = baselines.held_against(known, known.nights[:2])
    assert held is not None and held.run == made.name_of(0), "a whole one before a cut one"


@pytest.mark.parametrize(
    ("report", "reason", "sentence"),
    [
        (made.report(0), "   ", "a baseline needs a reason"),
        (made.report(0), "x" * 501, "has 501 characters"),
        (made.report(0, candidates=()), "why", "measured nothing"),
        (made.report(0, findings=[made.degraded()]), "why", "link-degraded (data)"),
        (made.report(0, complete=False), "why", "it was cut short"),
    ],
)
def test_what_is_no_baseline_is_refused(
    tmp_path: Path, report, reason: str, sentence: str
) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadInput) as refused:
        baselines.set_baseline(tmp_path, report, reason)
    assert sentence in str(refused.value)
    assert not (tmp_path / "baseline.json").exists()


def test_a_run_with_findings_is_a_baseline_for_who_insists(tmp_path: Path) -> None:
    bad = made.report(0, findings=[made.degraded()])
    made_one = baselines.set_baseline(tmp_path, bad, "the old switch", accept_findings=True)
    assert made_one.run == bad.run


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b'{"current": [{"run": 1}]}', b"\xff\xfe",
        b'{"former": [{"run": "x", "reason": "y", "set_at": 1e300, "shape": ""}]}',
    ],
)  # fmt: skip
def test_a_damaged_baseline_stops_the_night_with_a_sentence(folder: Path, content: bytes) -> None:
    (folder / "baseline.json").write_bytes(content)
    known = history.read(folder)
    with pytest.raises(BadInput, match="is no baseline file") as refused:
        baselines.held_against(known, known.nights)
    assert "\n" not in str(refused.value)
    assert (folder / "baseline.json").read_bytes() == content


def test_baselines_survive_the_way_to_disk_and_back(folder: Path) -> None:
    made_one = baselines.set_baseline(folder, made.report(0), "why")
    content = (folder / "baseline.json").read_bytes()
    assert msgspec.json.decode(content, type=Baselines).current == (made_one,)
