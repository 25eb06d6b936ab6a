"""Files that a user names: devices, pipes and links stay what they are."""

from __future__ import annotations

import os
import pty
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bench.report import named_file

ROOT = Path(__file__).parents[2]


def test_a_new_file_and_one_that_is_there_are_written_whole(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    for content in (b"first", b"2nd"):
        assert named_file.put(file, content) is None
        assert file.read_bytes() == content
    assert list(tmp_path.iterdir()) == [file]


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    file = tmp_path / "pipe"
    os.mkfifo(file)
    heard: list[bytes] = []
    reader = threading.Thread(target=lambda: heard.append(file.read_bytes()), daemon=True)
    reader.start()
    content = b"x" * 200_000  # more than a pipe holds at once
    assert named_file.put(file, content) is None
    reader.join(20)
    assert heard == [content]
    assert stat.S_ISFIFO(file.lstat().st_mode) and list(tmp_path.iterdir()) == [file]


def test_a_device_is_written_to_and_stays_a_device(tmp_path: Path) -> None:
    """A terminal of our own, also by a link, as /dev/stdout is one."""
    master, terminal = pty.openpty()
    try:
        name = Path(os.ttyname(terminal))
        before = name.lstat()
        link = tmp_path / "screen"
        link.symlink_to(name)
        for file in (name, link):
            assert named_file.put(file, b"words") is None
            assert os.read(master, 100) == b"words"
        after = name.lstat()
        assert stat.S_ISCHR(after.st_mode) and os.path.samestat(before, after)
        assert link.is_symlink()
    finally:
        os.close(terminal)
        os.close(master)


@pytest.mark.parametrize("there", [True, False])
def test_a_link_leads_to_the_file_that_is_written(tmp_path: Path, there: bool) -> None:
    target = tmp_path / "www" / "page.html"
    target.parent.mkdir()
    if there:
        target.write_text("old")
    link = tmp_path / "page.html"
    link.symlink_to("www/page.html")
    assert named_file.put(link, b"new") is None
    assert link.is_symlink() and target.read_bytes() == b"new"
    assert sorted(p.name for p in target.parent.iterdir()) == ["page.html"]


def test_what_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    said = named_file.put(loop, b"x")
    assert said is not None and said.startswith("loop could not be written: too many levels")
    said = named_file.put(tmp_path, b"x")
    assert said is not None and "is a directory" in said
    (tmp_path / "file").touch()
    said = named_file.put(tmp_path / "file" / "page.html", b"x")
    assert said == "page.html could not be written: not a directory."


@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1"])
def test_our_own_output_in_a_file_keeps_what_is_printed_before_and_after(
    tmp_path: Path, name: str
) -> None:
    script = """if True:
        import sys
        from pathlib import Path
        from bench.report import named_file
        print("before")
        assert named_file.put(Path(sys.argv[1]), b"content\\n") is None
        print("after")
    """
    out = tmp_path / "out.txt"
    with out.open("wb") as stream:
        subprocess.run(
            [sys.executable, "-c", script, name], cwd=ROOT, stdout=stream, timeout=60, check=True
        )
    assert out.read_text() == "before\ncontent\nafter\n"
    assert list(tmp_path.iterdir()) == [out]
