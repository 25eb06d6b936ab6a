"""JSON that nccl-tests writes itself (-J, versions 1 to 3), and the result files of rccl-tests.

The writer below prints as src/util.cu does: no line ends, numbers with six decimals, booleans and
the root as strings, "nan" for no number and a bare inf.
"""

from __future__ import annotations

import json
import random
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats import nccl_tests
from bench.formats.source import Source
from bench.records import BadInput, CollectiveTable

TIMES = ("min_us", "max_us", "avg_us", "p50_us", "p95_us", "p99_us", "stdev_us")


def half(rng: random.Random, version: int, bitwise: bool, checked: bool) -> str:
    text = (
        f'{{"time":{rng.uniform(1, 1e6):.6f},"alg_bw":{rng.uniform(0, 500):.6f},'
        f'"bus_bw":{rng.uniform(0, 900):.6f},"nwrong":'
        + (f"{rng.choice((0, 0, 17)):.6f}" if checked else "null")
    )
    if bitwise and version >= 3:
        text += ',"bitwise":{"repeats":3,"different_elements":2,"different_bits":5,'
        text += '"first_repeat":null,"first_rank":0,"first_element":1,"first_bit":2}'
    return text + "}"


def per_iteration(rng: random.Random, version: int) -> str:
    text = "".join(f'"{name}":{rng.uniform(1, 1e6):.6f},' for name in TIMES)
    if version >= 3:
        text = '"skipped_iterations":2,' + text
    times = ",".join(f"{rng.uniform(1, 1e5):.6f}" for _ in range(3))
    return (
        f'{{{text}"cv_pct":{rng.uniform(0, 200):.6f},"times_us":[{times}],'
        f'"per_process_max_times_us":[[{times}],[{times}]]}}'
    )


def printed(
    seed: int,
    *,
    version: int = 2,
    rows: int = 4,
    processes: int = 2,
    each: int = 1,
    iterations: bool = False,
    bitwise: bool = False,
    program: str = "/opt/nccl-tests/build/all_reduce_perf",
) -> str:
    rng = random.Random(seed)
    text = (
        f'{{"version":{version},"start_time":"2026-11-30 10:00:00","args":["{program}","-b","8"],'
    )
    text += (
        '"env":["PATH=\\/usr\\/bin","NCCL_SOCKET_IFNAME=ens1","AWS_SECRET_ACCESS_KEY=hush",'
        '"NCCL_API_TOKEN=hush","HOME=\\/root"],"nccl_version":22907,'
        f'"config":{{"nthreads":1,"ngpus":{each},"minimum_bytes":8,"maximum_bytes":64,'
        '"step_factor":2,"warmup_iters":1,"iterations":20,"aggregated_iterations":1,'
        '"validation":1,"graph":0,"blocking_collectives":"false","parallel_init":"true","devices":['
    )
    text += ",".join(
        f'{{"rank":{process * each},"group":0,"pid":{4000 + process},"hostname":"host{process}",'
        f'"device":0,"device_hex":"0000:1b:00","device_info":"NVIDIA H100"}}'
        for process in range(processes)
    )
    results = []
    for at in range(rows):
        row = f'{{"size":{8 << at},"count":{2 << at},"type":"float","redop":"sum","root":"    -1"'
        for place in ("out_of_place", "in_place"):
            row += f',"{place}":{half(rng, version, bitwise, at != 1)}'
            if iterations and version >= 2:
                row += f',"{place}_per_iter":{per_iteration(rng, version)}'
        results.append(row + ',"actual_iterations":20,"experiment_name":""}')
    text += f']}},"results":[{",".join(results)}],'
    return text + (
        '"out_of_bounds":{"count":0,"okay":"true"},"average_bus_bandwidth":{"bandwidth":123.456789,'
        '"okay":"unchecked"},"errors":[""],"end_time":"2026-11-30 10:05:00"}'
    )


def read(text: str, name: str = "run.json") -> CollectiveTable:
    (table,) = nccl_tests.read(Source.of_text(text, name))
    return table


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from((1, 2, 3)),
    st.integers(0, 8),
    st.booleans(),
    st.booleans(),
)
def test_every_number_of_the_file_is_in_the_record(
    seed: int, version: int, rows: int, iterations: bool, bitwise: bool
) -> None:
    text = printed(seed, version=version, rows=rows, iterations=iterations, bitwise=bitwise)
    table, document = read(text), json.loads(text)
    assert len(table.rows) == rows
    for row, given_row in zip(table.rows, document["results"], strict=True):
        assert (row.size_bytes, row.count, row.dtype) == (
            given_row["size"], given_row["count"], "float",
        )  # fmt: skip
        assert (row.redop, row.root) == ("sum", -1)
        for place in ("out_of_place", "in_place"):
            one, other = getattr(row, place), given_row[place]
            assert f"{one.time_s * 1e6:.6f}" == f"{other['time']:.6f}"
            assert (one.algbw_gbs, one.busbw_gbs) == (other["alg_bw"], other["bus_bw"])
            assert one.wrong == other["nwrong"]
            assert one.different_bits == other.get("bitwise", {}).get("different_bits")
            spread, told = one.iterations, given_row.get(f"{place}_per_iter")
            assert (spread is None) == (told is None)
            if told:
                seconds = [
                    spread.min_s, spread.max_s, spread.mean_s, spread.median_s, spread.p95_s,
                    spread.p99_s, spread.stdev_s,
                ]  # fmt: skip
                assert seconds == pytest.approx([told[name] / 1e6 for name in TIMES], rel=1e-12)
                assert spread.cv == pytest.approx(told["cv_pct"] / 100, rel=1e-12)
                assert len(spread.times_s) == 3
                assert len(spread.per_process_s) == 2
                assert spread.skipped == told.get("skipped_iterations")
    assert (table.average_busbw_gbs, table.average_ok) == (123.456789, None)
    assert (table.layout, table.complete, table.out_of_bounds) == ("json", True, 0)


def test_header_and_settings_are_those_of_the_text() -> None:
    table = read(printed(1))
    assert (table.nccl_version, table.program) == ("2.29.7", "all_reduce_perf")
    assert (table.collective, table.ranks, table.hosts) == ("all_reduce", 2, ("host0", "host1"))
    assert table.command == "/opt/nccl-tests/build/all_reduce_perf -b 8"
    wanted = {"nThread": "1", "minBytes": "8", "step": "2(factor)", "parallel_init": "true"}
    assert wanted.items() <= table.settings.items()


def test_of_the_environment_only_what_steers_communication_is_kept() -> None:
    table = read(printed(1))
    assert table.environment == {"NCCL_SOCKET_IFNAME": "ens1"}
    assert b"hush" not in msgspec.json.encode(table)


def test_only_the_first_device_of_a_process_is_in_the_file_but_all_ranks_count() -> None:
    table = read(printed(1, processes=2, each=8))
    assert (table.ranks, table.ranks_basis, len(table.devices)) == (16, "listed", 2)
    assert any("first of each process" in sentence for sentence in table.missing)


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from((1, 2, 3)), st.floats(0, 0.999))
def test_a_file_that_a_crash_cut_off_keeps_what_was_whole(
    seed: int, version: int, part: float
) -> None:
    text = printed(seed, version=version, iterations=True)
    whole = read(text)
    try:
        table = read(text[: int(len(text) * part)])
    except BadInput:
        return
    assert not table.complete
    assert any("cut off" in sentence for sentence in table.missing)
    for row, expected in zip(table.rows, whole.rows, strict=False):
        for place in ("out_of_place", "in_place"):
            one, other = getattr(row, place), getattr(expected, place)
            assert one is None or one.time_s == other.time_s
            assert one is None or one.busbw_gbs == other.busbw_gbs


def test_numbers_that_are_none_do_not_stop_the_rest() -> None:
    text = printed(3)
    first = text.index('"time":')
    end = text.index(",", first)
    for word in ("inf", "-inf", "-nan", '"nan"'):
        table = read(text[:first] + f'"time":{word}' + text[end:])
        assert table.rows[0].out_of_place is None
        assert table.rows[0].in_place
        assert len(table.rows) == 4


def test_a_root_that_is_no_number_is_none() -> None:
    table = read(printed(3).replace('"root":"    -1"', '"root":"²"'))
    assert [row.root for row in table.rows] == [None] * 4


@pytest.mark.parametrize(
    "text",
    [
        '{"version":2,"start_time":"","args":[],"env":[]}',
        '{"version":2,"start_time":"x","args":["a"],"env":',
        '{"alg_bw":1,"bus_bw":2,"results":3}',
        '{"version":1,"args":1,"start_time":1,"env":1,"results":[1,null,[]],"config":[]}',
        '{"alg_bw"' + "[" * 5000 + '"bus_bw" "results"',
        '{"version":1,"start_time":1,"env":1,"args":' + "[" * 100_000,
    ],
)
def test_json_of_something_else_has_no_rows(text: str) -> None:
    rows: list[object] = []
    with suppress(BadInput):
        rows += read(text).rows
    assert rows == []


def test_json_of_something_else_is_refused_in_a_sentence() -> None:
    with pytest.raises(BadInput, match="neither results nor a config"):
        read('{"version":2,"start_time":"","args":[],"env":[]}')


# Result files of rccl-tests (ROCm/rccl-tests pull requests 93 and 140)


def record(size: int, in_place: int, time: float, **more: object) -> dict[str, object]:
    algbw = size / time / 1e3
    return {
        "numCycle": 0, "name": "AllReduce", "nodes": 2, "ranks": 16, "ranksPerNode": 8,
        "gpusPerRank": 1, "size": size, "type": "float", "redop": "sum", "inPlace": in_place,
        "time": time, "algBw": algbw, "busBw": algbw * 1.875, "wrong": "0", **more,
    }  # fmt: skip


RECORDS = [
    record(1024, 0, 19.18415),
    record(1024, 1, 19.89765),
    record(2048, 0, 20.5, wrong="N/A"),
    record(2048, 1, 21.5, wrong="3"),
]


@pytest.mark.parametrize("form", ["list", "one line", "lines", "csv"])
def test_result_files_of_rccl_tests_pair_their_halves(form: str) -> None:
    lines = [json.dumps(each) for each in RECORDS]
    text = {
        "list": "[\n" + ",\n".join(lines) + "\n]\n",
        "one line": "[" + ",".join(lines) + "]",
        "lines": "\n".join(lines),
        "csv": ", ".join(RECORDS[0])
        + "\n"
        + "".join(", ".join(map(str, each.values())) + "\n" for each in RECORDS),
    }[form]
    assert nccl_tests.likeness(text, "out") > 0.9
    table = read(text)
    assert (table.flavour, table.collective, table.ranks) == ("rccl", "all_reduce", 16)
    assert table.layout == ("csv" if form == "csv" else "json")
    first, second = table.rows
    assert (first.size_bytes, first.count, second.size_bytes) == (1024, 256, 2048)
    assert first.out_of_place
    assert first.in_place
    assert (first.out_of_place.time_s, first.in_place.time_s) == (19.18415e-6, 19.89765e-6)
    assert second.out_of_place
    assert second.in_place
    assert (second.out_of_place.wrong, second.in_place.wrong) == (None, 3)


def test_stress_cycles_are_tables_of_their_own() -> None:
    lines = [json.dumps(each) for each in (RECORDS[0], {**RECORDS[0], "numCycle": 1})]
    found = nccl_tests.read(Source.of_text("\n".join(lines), "stress.json"))
    assert [len(table.rows) for table in found] == [1, 1]


def test_a_result_file_that_ends_in_a_record_keeps_the_others() -> None:
    text = "[\n" + ",\n".join(json.dumps(each) for each in RECORDS)
    table = read(text[:-20])
    assert (len(table.rows), table.complete) == (2, False)
    assert table.rows[1].in_place is None


def test_a_count_that_is_no_number_is_none() -> None:
    table = read("\n".join(json.dumps(record(1024, at, 20.0, wrong="²")) for at in (0, 1)))
    (row,) = table.rows
    assert row.out_of_place
    assert row.out_of_place.wrong is None
