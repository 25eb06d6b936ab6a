"""nccl-tests' own JSON (`-J FILE`, versions 1 to 3), whole or cut off by a crash.

In: the file. Out: one table. Version 1 came with 2.17.3, 2 with `-I`, 3 with bitwise checks and
skipped iterations. Booleans are the strings "true" and "false", root is a padded string, a value
that is no number is "nan" (or a bare inf, which is no JSON). The file holds the whole environment:
only variables that steer communication are taken over. Source: src/util.cu.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

import msgspec

from bench.formats.allow_list import VALUE_LIMIT, recorded
from bench.formats.nccl_tests.cells import seconds
from bench.formats.nccl_tests.columns import HALF, Layout
from bench.formats.nccl_tests.json_values import (
    from_microseconds,
    items,
    mapping,
    number,
    whole,
    words,
)
from bench.formats.nccl_tests.lines import coded_version
from bench.formats.nccl_tests.naming import Naming
from bench.formats.nccl_tests.ranks import listed
from bench.formats.nccl_tests.tables import mean_busbw
from bench.formats.source import Source
from bench.records import (
    BadInput,
    CollectiveTable,
    IterationTimes,
    TableDevice,
    TableRow,
    TableTime,
)

# The names that the text prints for the same settings.
_SETTINGS = {
    "nthreads": "nThread", "ngpus": "nGpus", "minimum_bytes": "minBytes",
    "maximum_bytes": "maxBytes", "warmup_iters": "warmup iters", "iterations": "iters",
    "aggregated_iterations": "agg iters", "validation": "validation", "graph": "graph",
}  # fmt: skip
_LAYOUT = Layout(lead=("size", "count", "type", "redop", "root"), half=(*HALF, "wrong"))
# A string that was cut reaches to the end: were it none, every quote in it would be tried again.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_NO_NUMBER = re.compile(r"(?<=[:\[,])\s{0,4}-?(?:inf|nan)\b")
_MOST_LEVELS = 64  # results hold six
_MOST_RANKS = 1 << 20


def likely(head: str) -> bool:
    """Whether the file begins as such a file does, whatever was appended to it."""
    return head.lstrip()[:1] == "{" and (
        all(name in head for name in ('"version"', '"args"', '"start_time"', '"env"'))
        or all(name in head for name in ('"alg_bw"', '"bus_bw"', '"results"'))
    )


def read(source: Source) -> tuple[CollectiveTable, ...]:
    """The table. BadInput where the text is no JSON, or JSON of something else."""
    text = source.bytes_().replace(b"\0", b"").decode("utf-8", "replace").lstrip("\ufeff")
    document, entire = _document(text, source.file)
    results = items(document.get("results"))
    if not results and not isinstance(document.get("config"), dict):
        raise BadInput("holds neither results nor a config of nccl-tests", file=source.file)
    config = mapping(document.get("config"))
    rows = [row for each in results if (row := _row(mapping(each))) is not None]
    args = words(document.get("args"))
    program = args[0].rpartition("/")[2] if args else None
    devices = tuple(
        found for each in items(config.get("devices")) if (found := _device(mapping(each)))
    )
    ranks, hosts, missing = _ranks(devices, config)
    named = Naming(program, source.file, rows, (), _LAYOUT)
    collective, basis = named.collective(ranks)
    fitting = named.fit(collective=collective).ranks
    if len(rows) < len(results):
        missing.append(f"{len(results) - len(rows)} results that lack size, count or type")
    if not entire:
        missing.append("the end of the file: it was cut off, what was whole before it is here")
    if not rows:
        missing.append("all rows")
    average = mapping(document.get("average_bus_bandwidth"))
    errors = [word for word in words(document.get("errors")) if word]
    code = document.get("nccl_version")
    return (
        CollectiveTable(
            file=source.file,
            line=1,
            last_line=text.count("\n") + 1,
            layout="json",
            check="wrong",
            program=program,
            command=shlex.join(args) if args else None,
            collective=collective,
            collective_basis=basis,
            ranks=ranks or fitting,
            ranks_basis="listed" if ranks else "inferred" if fitting else None,
            hosts=hosts,
            devices=devices,
            nccl_version=coded_version(code) if isinstance(code, int) else None,
            settings=_settings(config),
            environment=_environment(words(document.get("env"))),
            rows=tuple(rows),
            average_busbw_gbs=number(average.get("bandwidth")),
            average_ok={"true": True, "false": False}.get(str(average.get("okay"))),
            mean_busbw_gbs=mean_busbw(rows),
            out_of_bounds=whole(mapping(document.get("out_of_bounds")).get("count")),
            bitwise_mismatches=whole(mapping(document.get("bitwise_mismatches")).get("count")),
            complete=entire and bool(average),
            failure=errors[0] if errors else None,
            missing=tuple(missing),
        ),
    )


def _document(text: str, file: str) -> tuple[Mapping[str, object], bool]:
    """The object, and whether the text held all of it."""
    for attempt in (text, _NO_NUMBER.sub("null", text)):
        try:
            return mapping(msgspec.json.decode(attempt)), True
        except (msgspec.DecodeError, RecursionError):
            continue
    cut = _closed(_NO_NUMBER.sub("null", text))
    try:
        found = msgspec.json.decode(cut) if cut else None
    except (msgspec.DecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadInput("is no JSON, nor the beginning of a JSON object", file=file)
    return found, False


def _closed(text: str) -> str | None:
    """The text up to the last object that was whole, with its open brackets closed."""
    stack: list[str] = []
    keep: tuple[int, str] | None = None
    for found in _TOKEN.finditer(text):
        mark = found[0]
        if mark in ("{", "["):
            stack.append("}" if mark == "{" else "]")
            if len(stack) > _MOST_LEVELS:
                return None
        elif mark in ("}", "]"):
            if not stack or stack.pop() != mark:
                return None
            keep = found.end(), "".join(reversed(stack))
    return text[: keep[0]] + keep[1] if keep else None


def _row(given: Mapping[str, object]) -> TableRow | None:
    size, count, dtype = whole(given.get("size")), whole(given.get("count")), given.get("type")
    if size is None or count is None or not isinstance(dtype, str):
        return None
    redop, root = given.get("redop"), str(given.get("root", "")).strip()
    labels = {}
    if given.get("experiment_name"):
        labels["experiment"] = str(given["experiment_name"])
    if whole(given.get("actual_iterations")) is not None:
        labels["iterations"] = str(given["actual_iterations"])
    return TableRow(
        size_bytes=size,
        count=count,
        dtype=dtype,
        redop=redop if isinstance(redop, str) and redop else None,
        root=int(root) if root.removeprefix("-").isdecimal() and len(root) < 12 else None,
        out_of_place=_half(given, "out_of_place"),
        in_place=_half(given, "in_place"),
        labels=labels,
    )


def _half(given: Mapping[str, object], place: str) -> TableTime | None:
    half = mapping(given.get(place))
    time_s = from_microseconds(half.get("time", half.get("cpu_time")))
    algbw, busbw = number(half.get("alg_bw")), number(half.get("bus_bw"))
    if time_s is None or algbw is None or busbw is None:
        return None
    event = number(half.get("hip_event_time"))
    return TableTime(
        time_s=time_s,
        algbw_gbs=algbw,
        busbw_gbs=busbw,
        wrong=whole(half.get("nwrong")),
        different_bits=whole(mapping(half.get("bitwise")).get("different_bits")),
        iterations=_iterations(mapping(given.get(f"{place}_per_iter"))),
        more={} if event is None else {"hipevt": event},
    )


def _iterations(given: Mapping[str, object]) -> IterationTimes | None:
    if not given:
        return None
    cv = number(given.get("cv_pct"))
    return IterationTimes(
        min_s=from_microseconds(given.get("min_us")),
        max_s=from_microseconds(given.get("max_us")),
        p99_s=from_microseconds(given.get("p99_us")),
        cv=None if cv is None else seconds(repr(cv), -2),
        mean_s=from_microseconds(given.get("avg_us")),
        median_s=from_microseconds(given.get("p50_us")),
        p95_s=from_microseconds(given.get("p95_us")),
        stdev_s=from_microseconds(given.get("stdev_us")),
        skipped=whole(given.get("skipped_iterations")),
        times_s=_times(given.get("times_us")),
        per_process_s=tuple(_times(each) for each in items(given.get("per_process_max_times_us"))),
    )


def _ranks(
    devices: Sequence[TableDevice], config: Mapping[str, object]
) -> tuple[int | None, tuple[str, ...], list[str]]:
    """Ranks, their hosts, and what the list lacks: only the first device of a process is in it."""
    each = (whole(config.get("nthreads")) or 1) * (whole(config.get("ngpus")) or 1)
    hosts = tuple(dict.fromkeys(device.host for device in devices if device.host))
    if not devices:
        return None, (), ["the list of devices"]
    if each > 1 and [device.rank for device in devices] == [
        at * each for at in range(len(devices))
    ]:
        if len(devices) * each > _MOST_RANKS:
            return None, hosts, ["a believable number of ranks"]
        told = f"devices: only the first of each process is listed, of {each}"
        return len(devices) * each, hosts, [told]
    ranks, members, gap = listed(devices)
    hosts = tuple(dict.fromkeys(device.host for device in members if device.host))
    return ranks, hosts, [gap] if gap else []


def _device(given: Mapping[str, object]) -> TableDevice | None:
    rank = whole(given.get("rank"))
    if rank is None:
        return None
    return TableDevice(
        rank=rank,
        host=str(given.get("hostname", "")),
        pid=whole(given.get("pid")),
        device=whole(given.get("device")),
        group=whole(given.get("group")),
        bus_id=str(given["device_hex"]) if given.get("device_hex") else None,
        name=str(given["device_info"]) if given.get("device_info") else None,
    )


def _times(given: object) -> tuple[float, ...]:
    found = (from_microseconds(value) for value in items(given))
    return tuple(time_s for time_s in found if time_s is not None)


def _environment(variables: Sequence[str]) -> dict[str, str]:
    """The allow-listed part of "NAME=value" strings."""
    pairs = (variable.partition("=")[::2] for variable in variables)
    return {name: value[:VALUE_LIMIT] for name, value in pairs if recorded(name)}


def _settings(config: Mapping[str, object]) -> dict[str, str]:
    found = {}
    for name, value in config.items():
        if isinstance(value, str | int):
            found[_SETTINGS.get(name, name)] = str(value)
    for name, unit in (("step_factor", "factor"), ("step_bytes", "bytes")):
        if name in found:
            found["step"] = f"{found.pop(name)}({unit})"
    return found
