"""Which files `read` takes of what the user names, in which order, and what it leaves out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.formats import file_walk
from bench.records import BadInput


def told(*named: object) -> list[str]:
    return [each.file for each in file_walk.files([str(name) for name in named])]


def made(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


def test_a_folder_is_walked_in_order_without_notes_and_hidden_files(tmp_path: Path) -> None:
    made(tmp_path, "b.log", "a.log", "sub/c.log", ".git/x", ".hidden", "README", "README.txt")
    made(tmp_path, "notes.md", "case.yaml", "LICENSE", "b.log~", "sub/.cache/y")
    assert told(tmp_path) == [f"{tmp_path}/{name}" for name in ("a.log", "b.log", "sub/c.log")]


def test_what_is_named_is_taken_whatever_its_name(tmp_path: Path) -> None:
    made(tmp_path, "notes.md", "case.yaml", ".hidden")
    named = [tmp_path / name for name in ("notes.md", "case.yaml", ".hidden")]
    assert told(*named) == [str(path) for path in named]
    assert all(each.named for each in file_walk.files([str(path) for path in named]))


def test_every_file_is_taken_once(tmp_path: Path) -> None:
    made(tmp_path, "a.log", "b.log")
    (tmp_path / "c.log").symlink_to("a.log")
    assert told(tmp_path / "b.log", tmp_path, tmp_path / "a.log", "-", "-") == [
        f"{tmp_path}/b.log",
        f"{tmp_path}/a.log",
        "-",
    ]


def test_a_folder_of_one_of_our_runs_stands_for_its_report(tmp_path: Path) -> None:
    made(tmp_path, "run/report.json", "run/samples.jsonl", "run/report.html", "run/status", "x")
    report = f"{tmp_path}/run/report.json"
    assert told(tmp_path) == [f"{tmp_path}/x", report]
    assert told(tmp_path / "run") == [report]


def test_links_in_a_circle_and_deep_trees_end(tmp_path: Path) -> None:
    made(tmp_path, "a.log", "/".join(["d"] * 40) + "/deep.log")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "dangling").symlink_to("nowhere")
    assert told(tmp_path) == [f"{tmp_path}/a.log"]


def test_what_cannot_be_seen_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link to itself as it is; a folder and a link without rights as the kernel refuses them."""
    made(tmp_path, "a.log", "private/x.log", "sub/b.log")
    (tmp_path / "itself").symlink_to("itself")
    (tmp_path / "link").symlink_to("private/x.log")
    assert told(tmp_path / "sub") == [f"{tmp_path}/sub/b.log"]
    real_stat, real_scandir, real_path_stat = os.stat, os.scandir, Path.stat

    def refused(path: object) -> None:
        if "private" in os.path.realpath(str(path)).split("/"):
            raise PermissionError(13, "Permission denied", str(path))

    def stat(path: object, *args: object, **kwargs: object) -> os.stat_result:
        if str(path) != f"{tmp_path}/private":
            refused(path)
        return real_stat(path, *args, **kwargs)  # type: ignore[arg-type]

    def path_stat(path: Path, **kwargs: bool) -> os.stat_result:
        stat(path)
        return real_path_stat(path, **kwargs)

    def scandir(path: object) -> object:
        refused(path)
        return real_scandir(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(Path, "stat", path_stat)
    monkeypatch.setattr(os, "scandir", scandir)
    assert told(tmp_path) == [f"{tmp_path}/a.log", f"{tmp_path}/sub/b.log"]


def test_a_folder_with_too_many_files_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_walk, "MAX_FILES", 3)
    made(tmp_path, *"abc")
    assert len(told(tmp_path)) == 3
    made(tmp_path, "d")
    with pytest.raises(BadInput, match="holds more than 3 files"):
        told(tmp_path)


def test_names_that_are_no_utf8_can_be_told(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.log")
    (tmp_path / name).write_text("x")
    (found,) = file_walk.files([str(tmp_path)])
    assert found.file == f"{tmp_path}/caf?.log"
    assert found.path.read_text() == "x"


def test_names_that_no_file_can_have_are_passed_on_to_be_refused() -> None:
    assert told("a\0b", "x" * 5000) == ["a\0b", "x" * 5000]
