"""What all pages are made with: the template engine, how strings are shown, plotly.js packed.

Everything is escaped; foreign strings keep their hidden characters visible. A page loads nothing,
so what it needs travels inside it.
"""

from __future__ import annotations

import base64
import gzip
import re
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from bench.report import digest, paste, units
from bench.report.text import abbreviated, printable

# A line never breaks between a number and its unit.
NUMBER_AND_UNIT = re.compile(r"(?<=[0-9]) (?=(?:%|[mµ]?s|[KMGT]i?B(?:/s)?|[MG]bit/s)(?![\w]))")
COMPRESSION = 9


def named(name: str) -> jinja2.Template:
    """A page's template, such as "page.html"."""
    return _environment().get_template(name)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("bench", "report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=shown,
    )
    environment.filters.update(size=units.size, busbw=units.busbw, time=units.time)
    environment.globals.update(
        abbreviated=abbreviated, digest=digest, paste=paste, shell=shell, units=units
    )
    return environment


def shown(value: Any) -> Any:
    """Foreign strings with their hidden characters visible; Markup (our own) passes as it is."""
    return NUMBER_AND_UNIT.sub("\u00a0", printable(value)) if type(value) is str else value


def shell(remedy: str) -> Markup:
    """A remedy to copy: its lines stay lines."""
    return Markup("\n").join(printable(line) for line in remedy.strip().splitlines())


@cache
def packed_plotly() -> str:
    """plotly.js, gzip in base64: what a browser's DecompressionStream unpacks."""
    packed = gzip.compress(get_plotlyjs().encode(), COMPRESSION, mtime=0)
    return base64.b64encode(packed).decode("ascii")
