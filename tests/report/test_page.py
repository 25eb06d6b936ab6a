"""The page in a real browser: it draws, fits, loads nothing and runs nobody else's script."""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.records import Report
from bench.report import page, template

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
NAMES = ("healthy", "misselected", "hung", "unreachable", "thousand", "hostile")

# What is asked of the page once its curves are drawn.
LOOK = """(async () => {
  const root = document.documentElement;
  const wanted = document.querySelectorAll(".plot").length;
  for (let round = 0; round < 300 && Number(root.dataset.drawn || 0) < wanted; round++)
    await new Promise((done) => setTimeout(done, 100));
  for (const folded of document.querySelectorAll("details")) folded.open = true;
  const words = document.querySelector(".plot text");
  return JSON.stringify({
    width: root.clientWidth, scroll: root.scrollWidth, drawn: Number(root.dataset.drawn), wanted,
    curves: document.querySelectorAll(".plot .scatterlayer .trace").length,
    ticks: [...document.querySelectorAll("#busbw-0 .xtick text")].map((tick) => tick.textContent),
    legend: [...document.querySelectorAll("#busbw-0 .legendtext")].map((name) => name.textContent),
    loaded: performance.getEntriesByType("resource").map((entry) => entry.name),
    foreign: document.querySelectorAll("img, marquee, u, iframe, i:not([class])").length,
    scripts: document.querySelectorAll("script").length, alerted: globalThis.alerted || 0,
    copies: document.querySelectorAll("button.copy").length,
    paper: getComputedStyle(document.body).backgroundColor,
    ink: getComputedStyle(words).fill,
  });
})()"""


class Browser:
    """A headless Chromium, spoken to over a pipe; the width is a telephone's where asked."""

    look_with = LOOK

    def __init__(self, profile: Path) -> None:
        program = next(filter(None, map(shutil.which, BROWSERS)), None)
        assert program, f"this test looks at the page in a browser: install {BROWSERS[0]}"
        # Chromium reads commands from descriptor 3 and answers on 4.
        inner_read, self._write = os.pipe()
        self._read, inner_write = os.pipe()
        inner = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (inner_read, inner_write)]

        def connect() -> None:
            os.dup2(inner[0], 3)
            os.dup2(inner[1], 4)

        self._process = subprocess.Popen(
            [
                program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic",
                "--no-first-run", "--disable-background-networking", "--disable-sync",
                "--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe",
                f"--user-data-dir={profile}", "about:blank",
            ],
            preexec_fn=connect, pass_fds=(3, 4),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for fd in (inner_read, inner_write, *inner):
            os.close(fd)
        self._number, self._buffer, self._session = 0, b"", ""
        targets = self.ask("Target.getTargets")["targetInfos"]
        page_id = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self.ask("Target.attachToTarget", targetId=page_id, flatten=True)
        self._session = attached["sessionId"]

    def ask(self, method: str, **parameters: Any) -> Any:
        """One command and its answer, within a minute."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            while b"\0" not in self._buffer:
                left = max(deadline - time.monotonic(), 0)
                assert select.select([self._read], [], [], left)[0], f"no answer to {method}"
                chunk = os.read(self._read, 2**20)
                assert chunk, "the browser has gone"
                self._buffer += chunk
            answer, self._buffer = self._buffer.split(b"\0", 1)
            told = json.loads(answer)
            if told.get("id") == self._number:
                assert "error" not in told, told
                return told["result"]

    def look(self, file: Path, width: int, *, dark: bool = False) -> Any:
        """What `look_with` finds on the page at that width, in CSS pixels."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=1200, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.enable")
        # A hostile name that ran would call alert, which would stop the page for an answer.
        self.ask("Page.addScriptToEvaluateOnNewDocument", source="alert = () => { alerted = 1; };")
        self.ask("Page.navigate", url=file.as_uri())
        for _ in range(100):
            state = self.ask("Runtime.evaluate", expression="location.href + document.readyState")
            if state["result"]["value"] == file.as_uri() + "complete":
                break
            time.sleep(0.1)
        seen = self.ask(
            "Runtime.evaluate", expression=self.look_with, awaitPromise=True, returnByValue=True
        )
        return json.loads(seen["result"]["value"])

    def close(self) -> None:
        """End it and wait for its end."""
        self._session = ""
        self.ask("Browser.close")
        self._process.wait(30)
        os.close(self._read)
        os.close(self._write)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("profile"))
    try:
        yield opened
    finally:
        opened.close()


def _looked_at(
    browser: Browser, tmp_path: Path, html: str, width: int, *, dark: bool = False
) -> Any:
    file = tmp_path / "page.html"
    file.write_text(html, encoding="utf-8")
    return browser.look(file, width, dark=dark)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_a_browser_draws_the_page_within_its_width(
    made: Any, browser: Browser, tmp_path: Path, width: int, dark: bool
) -> None:
    seen = _looked_at(browser, tmp_path, page.render(made.misselected), width, dark=dark)
    assert seen["width"] == seen["scroll"] == width
    assert seen["drawn"] == seen["wanted"] == 4 and seen["curves"] >= 30
    assert seen["legend"] == ["data", "mgmt", "(default)", "expected 0.0603 GB/s"]
    assert "4 MiB" in seen["ticks"]
    assert seen["loaded"] == [] and seen["copies"] == 1
    light_on_dark = ("rgb(20, 23, 27)", "rgb(228, 231, 235)")
    assert (seen["paper"], seen["ink"]) == (
        light_on_dark if dark else ("rgb(255, 255, 255)", "rgb(29, 33, 39)")
    )


@pytest.mark.parametrize("name", ["hostile", "thousand"])
def test_hostile_names_and_a_thousand_hosts_fit_a_telephone(
    made: Any, browser: Browser, tmp_path: Path, name: str
) -> None:
    html = page.render(getattr(made, name))
    seen = _looked_at(browser, tmp_path, html, 400)
    assert seen["width"] == seen["scroll"] == 400
    assert seen["drawn"] == seen["wanted"] == 2
    assert seen["alerted"] == 0 and seen["foreign"] == 0
    assert seen["scripts"] == 4 + 1  # the page's own, and plotly unpacked
    assert seen["loaded"] == []


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_loaded_and_no_foreign_tag_gets_in(made: Any, name: str) -> None:
    parser = _Tags()
    parser.feed(page.render(getattr(made, name)))
    for tag, attributes in parser.tags:
        assert tag not in {"img", "link", "iframe", "marquee", "u", "object", "embed"}
        assert not {"src", "href", "onerror", "srcset", "action"} & set(attributes)
    style = re.search("(?s)<style>(.*?)</style>", page.render(getattr(made, name)))
    assert style and "url(" not in style[1] and "@import" not in style[1]
    scripts = sum(tag == "script" for tag, _ in parser.tags)
    assert scripts == (1 if name == "unreachable" else 4)


def test_plotly_travels_once_and_only_when_there_are_curves(made: Any) -> None:
    html = page.render(made.misselected)
    assert html.count(template.packed_plotly()) == 1
    assert len(html) < 2_500_000
    assert len(page.render(made.unreachable)) < 20_000


def test_a_page_without_findings_is_short(made: Any) -> None:
    healthy, bad = (
        re.sub("(?s)<(script|style).*?</\\1>|<details>.*?</details>|<[^>]+>", "", page.render(r))
        for r in (made.healthy, made.misselected)
    )
    assert len(healthy.split()) < len(bad.split()) < 500
    assert "Missing" not in healthy and "Notes" not in healthy


def test_the_verdict_is_read_first_and_the_fix_can_be_copied(made: Any) -> None:
    html = page.render(made.misselected)
    order = [
        html.index(text)
        for text in (
            '<span class="misconfigured">misconfigured</span>',
            "! interface-misselected",
            "<pre>export NCCL_SOCKET_IFNAME=&#39;=data0&#39;</pre>",
            'id="busbw-0"',
            'id="time-0"',
            "Who carried the bytes",
            "<h2>Candidates</h2>",
            "Environment",
        )
    ]
    assert order == sorted(order)


def test_a_thousand_alike_findings_are_folded(made: Any) -> None:
    html = page.render(made.thousand)
    assert html.count('<section class="finding') == 4
    assert "297 more findings of interface-no-match" in html
    assert "992 more hosts in report.json" in html


def test_an_interface_has_one_colour_whoever_is_measured(made: Any) -> None:
    html = page.render(made.misselected)
    shades = re.findall(r'<li><i class="(s\d)"></i>(\w+) ', html)
    assert {name: shade for shade, name in shades} == {"data0": "s0", "mgmt0": "s1"}
    assert len(set(shades)) == 2
    assert "99.9\u00a0%" in html and "&lt;0.1\u00a0%" in html


def test_logs_and_stacks_of_a_hang_are_on_the_page_line_by_line(made: Any) -> None:
    html = page.render(made.hung)
    assert "train.py:141 train_step\nmodel.py:77 forward" in html
    assert "\\x1b[2JNCCL WARN something\n" in html and "\x1b" not in html


def test_a_report_with_next_to_nothing_has_a_page(made: Any) -> None:
    assert "inconclusive" in page.render(Report(run="x", verdict="inconclusive"))
    bare = msgspec.structs.replace(made.healthy, plan=None, hosts=(), candidates=(), fabric=None)
    assert "healthy" in page.render(bare)
