"""The page of a diagnosis in a real browser: it draws every rank, tells a cell, loads nothing."""

from __future__ import annotations

import base64
import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.cli import main
from bench.hang.timeline import COMPLETED, SCHEDULED, Lines, Mark, Row, Timeline
from bench.records import Diagnosis
from bench.report.diagnosis import page as diagnosis_page
from bench.report.diagnosis import timeline as timeline_data
from tests.hang.job import Call, Job, same, write
from tests.report.test_page import Browser, browser

__all__ = ["browser"]  # the fixture: one Chromium for this module

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J"

# What is asked of the page once its timeline is drawn: keys go to the finding and about it.
LOOK = """(async () => {
  const root = document.documentElement, canvas = document.getElementById("timeline");
  for (let round = 0; round < 300 && !root.dataset.timeline; round++)
    await new Promise((done) => setTimeout(done, 50));
  const press = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", {key}));
  const told = () => document.getElementById("t-cell").textContent;
  press("ArrowLeft");
  const finding = told();
  press("ArrowUp");
  const above = told(), drawn = root.dataset.timeline;
  const pick = (id, text) => {
    const list = document.getElementById(id);
    list.selectedIndex = [...list.options].findIndex((one) => one.textContent.startsWith(text));
    list.dispatchEvent(new Event("change"));
  };
  pick("t-type", "BROADCAST");
  press("ArrowLeft");
  const filtered = told();
  pick("t-type", "all");
  pick("t-group", "all");
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const shades = new Set();
  for (let at = 0; at < pixels.length; at += 4) if (pixels[at + 3] === 255)
    shades.add(`${pixels[at]},${pixels[at + 1]},${pixels[at + 2]}`);
  return JSON.stringify({
    width: root.clientWidth, scroll: root.scrollWidth, drawn, whole: root.dataset.timeline,
    finding, above, filtered, shades: [...shades],
    nojs: document.getElementById("t-nojs").hidden,
    groups: [...document.querySelectorAll("#t-group option")].map((one) => one.textContent),
    types: [...document.querySelectorAll("#t-type option")].map((one) => one.textContent),
    loaded: performance.getEntriesByType("resource").map((entry) => entry.name),
    foreign: document.querySelectorAll("img, marquee, iframe").length,
    alerted: globalThis.alerted || 0,
  });
})()"""
LIGHT, DARK = "198,40,40", "255,90,79"  # of "never joined"


def seen(browser: Browser, file: Path, width: int, *, dark: bool = False) -> Any:
    browser.look_with = LOOK
    return browser.look(file, width, dark=dark)


def stuck(world: int, steps: int, odd: int) -> Job:
    """A loop in which one rank leaves out the last call of the default group."""
    program = [Call(name="broadcast"), *(Call(inputs=[[512]]) for _ in range(steps))]
    programs = same(world, program)
    programs[odd] = program[:-1]
    return Job(world, programs)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_the_timeline_is_drawn_within_the_width_and_tells_what_a_cell_is(
    browser: Browser, tmp_path: Path, width: int, dark: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    job = stuck(3, 12, odd=1)
    write(tmp_path / "dumps", {rank: job.dump(rank) for rank in range(3)})
    page = tmp_path / "page.html"
    assert main(["diagnose", str(tmp_path / "dumps"), "--page", str(page)]) == 0
    assert "verdict: broken · rank 1" in capsys.readouterr().out
    found = seen(browser, page, width, dark=dark)
    assert found["width"] == found["scroll"] == width
    assert (found["drawn"], found["whole"], found["nojs"]) == ("3 x 13", "3 x 13", True)
    assert found["finding"].startswith("rank 1, #13 of default_pg: never joined")
    assert "Rank 1 never joined all_reduce #13 of default_pg" in found["finding"]
    assert found["above"].startswith("rank 0: all_reduce #13 of default_pg, [512] float32, 2 KiB")
    assert "UTC by its own clock" in found["above"] and "train.py:141 step" in found["above"]
    assert "not BROADCAST" in found["filtered"] or "never joined" in found["filtered"]
    assert found["groups"] == ["default_pg (3 ranks)", "all, in the order of each rank's calls"]
    assert found["types"] == ["all", "ALL_REDUCE", "BROADCAST"]
    assert (DARK if dark else LIGHT) in found["shades"]
    assert found["loaded"] == []


def test_foreign_words_stay_words(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = stuck(3, 4, odd=2)
    dumps = {rank: job.dump(rank) for rank in range(3)}
    for dump in dumps.values():
        dump["pg_config"]["0"]["desc"] = EVIL
        for entry in dump["entries"]:
            entry["process_group"] = ("0", EVIL)
            entry["profiling_name"] = f"nccl:{EVIL}"
            for frame in entry["frames"]:
                frame["filename"] = frame["name"] = EVIL
    write(tmp_path / "dumps", dumps)
    page = tmp_path / "page.html"
    assert main(["diagnose", str(tmp_path / "dumps"), "--page", str(page)]) == 0
    capsys.readouterr()
    found = seen(browser, page, 400)
    assert found["width"] == found["scroll"] == 400
    assert (found["alerted"], found["foreign"]) == (0, 0)
    assert "<script>alert(1)" in found["finding"] and "\\x1b" in found["finding"]
    assert "\x1b" not in page.read_text()


def thousand(ranks: int = 1024, calls: int = 2000) -> Timeline:
    """As hang/timeline makes it of full rings: groups of eight beside the default one."""
    step = np.arange(calls)
    small = (step % 3 == 1) & (step < calls - 1)
    seq = np.where(small, np.cumsum(small), np.cumsum(~small)) + 6000
    rank = np.repeat(np.arange(ranks), calls)
    state = np.where(step == calls - 1, SCHEDULED, COMPLETED)
    odd = ranks // 2
    cells = {
        "group": np.where(np.tile(small, ranks), rank // 8 + 1, 0),
        "seq": np.tile(seq, ranks),
        "record": np.tile(step + 6000, ranks),
        "call": np.tile(step % 21, ranks),
        "state": np.tile(state, ranks),
        "stack": np.tile(step % 3, ranks),
    }
    kept = ~((rank == odd) & (np.tile(step, ranks) == calls - 1))
    cells = {name: column[kept] for name, column in cells.items()}
    everyone = tuple(range(ranks))
    last = int(seq[-1])
    return Timeline(
        rows=tuple(Row(f"rank {at}", named=at == odd) for at in everyone),
        groups=(
            Lines("default_pg", everyone),
            *(Lines(f"tp_{at}", everyone[8 * at : 8 * at + 8]) for at in range(ranks // 8)),
        ),
        calls=tuple((f"op_{at % 3}", f"[{4096 * at}] bfloat16") for at in range(21)),
        stacks=tuple((f"train.py:{at} step", "main.py:1 main") for at in range(3)),
        marks=(Mark(0, last, (odd,), f"Rank {odd} never joined", absent=True),),
        counts=np.bincount(rank[kept], minlength=ranks),
        created_ns=np.full(int(kept.sum()), 1_796_000_000_000_000_000),
        **cells,
    )


def test_a_thousand_ranks_of_two_thousand_calls_are_drawn_at_once(
    browser: Browser, tmp_path: Path
) -> None:
    html = diagnosis_page.render(Diagnosis(verdict="broken", ranks=(512,)), thousand())
    assert len(html) < 3_000_000
    page = tmp_path / "page.html"
    page.write_text(html)
    begun = time.monotonic()
    found = seen(browser, page, 400)
    assert time.monotonic() - begun < 30
    assert found["width"] == found["scroll"] == 400
    assert found["drawn"] == "1024 x 1334" and found["whole"] == "1024 x 2000"
    assert found["finding"].startswith("rank 512, #")
    assert "never joined" in found["finding"]
    assert LIGHT in found["shades"]


def unpacked(timeline: Timeline) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the page's script reads."""
    data = gzip.decompress(base64.b64decode(timeline_data.packed(timeline)))
    length = int.from_bytes(data[:4], "little")
    head = json.loads(data[4 : 4 + length])
    at, columns = -(-(4 + length) // 8) * 8, {}
    for name, kind, count in head["columns"]:
        columns[name] = np.frombuffer(data, f"<{kind}", count, at)
        at += -(-columns[name].nbytes // 8) * 8
    assert at == len(data)
    return head, columns


def test_what_is_packed_is_what_the_timeline_has() -> None:
    timeline = thousand(16, 30)
    head, columns = unpacked(timeline)
    for name in ("seq", "record"):
        assert (columns[name] + head["least"][name] == getattr(timeline, name)).all()
    for name in ("group", "call", "state", "counts"):
        assert (columns[name] == getattr(timeline, name)).all()
    assert (columns["stack"].astype(int) - 1 == timeline.stack).all()
    assert head["marks"][0]["rows"] == [[8, 8]] and head["rows"][8] == ["rank 8", True, True]


def test_a_page_of_logs_alone_has_no_timeline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rank_0.log").write_text(
        'Traceback (most recent call last):\n  File "train.py", line 3, in step\nValueError: <b>\n'
    )
    page = tmp_path / "page.html"
    assert main(["diagnose", str(tmp_path / "rank_0.log"), "--page", str(page)]) == 0
    capsys.readouterr()
    html = page.read_text()
    assert "&lt;b&gt;" in html and "<canvas" not in html and "t-data" not in html


def test_a_page_that_cannot_be_written_is_told_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rank_0.log").write_text("Traceback (most recent call last):\nValueError: x\n")
    asked = ["diagnose", str(tmp_path / "rank_0.log"), "--page", str(tmp_path / "no" / "p.html")]
    assert main(asked) == 2
    assert capsys.readouterr().err.strip().endswith("no such folder")
