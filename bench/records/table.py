"""A table of nccl-tests (or rccl-tests), as it was printed: rows, devices, what was missing."""

from __future__ import annotations

from typing import Literal

from bench.records.words import Record


class IterationTimes(Record, frozen=True, kw_only=True):
    """Spread over iterations (`-I`, or JSON `*_per_iter`); `cv` is a fraction, not per cent.

    The text table prints the first four; JSON has all, `times_s` being the slowest process of each
    iteration and `per_process_s` one line a process. `skipped` iterations count for none of them.
    """

    min_s: float | None = None
    max_s: float | None = None
    p99_s: float | None = None
    cv: float | None = None
    mean_s: float | None = None
    median_s: float | None = None
    p95_s: float | None = None
    stdev_s: float | None = None
    skipped: int | None = None
    times_s: tuple[float, ...] = ()
    per_process_s: tuple[tuple[float, ...], ...] = ()


class TableTime(Record, frozen=True, kw_only=True):
    """One half of a row: mean seconds of a call and the printed bandwidths in 1e9 bytes/s.

    `wrong` is None where validation was off (N/A): neither an error nor "none wrong". `error` is
    the largest error of tables before nccl-tests 2.13, which had that column instead; `beyond`
    is rccl-tests' asterisk at it. `more` holds columns that only some builds print (hipevt).
    """

    time_s: float
    algbw_gbs: float
    busbw_gbs: float
    wrong: int | None = None
    error: float | None = None
    beyond: bool = False
    different_bits: int | None = None
    iterations: IterationTimes | None = None
    more: dict[str, float] = {}


class TableRow(Record, frozen=True, kw_only=True):
    """One size. A half that the file lacks (`cut` off) or that was not run is None.

    `count` is of elements: per rank where a rank holds a part only (all_gather, reduce_scatter,
    all_to_all, gather, scatter). `dtype` and `redop` as printed ("none" where there is no
    operation), `root` -1 where there is none. `labels`: timestamp, algo, proto, nchannels.
    """

    size_bytes: int
    count: int
    dtype: str
    redop: str | None = None
    root: int | None = None
    out_of_place: TableTime | None = None
    in_place: TableTime | None = None
    cut: bool = False
    labels: dict[str, str] = {}
    line: int = 0


class TableDevice(Record, frozen=True, kw_only=True):
    """One line of "Using devices". `bus_id` as printed, without brackets; `host` may be empty."""

    rank: int
    host: str
    pid: int | None = None
    device: int | None = None
    bus_id: str | None = None
    name: str | None = None
    group: int | None = None


class CollectiveTable(Record, frozen=True, kw_only=True):
    """One table of one run. `line` and `last_line` are 1-based, in `file`.

    `collective` in the project's words (all_reduce, all_gather, reduce_scatter, broadcast, reduce,
    all_to_all, all_to_all_v, gather, scatter, send_recv, hypercube); its basis is the program's
    name, arithmetic, or the file's name where arithmetic leaves several. `ranks` are those of one
    communicator (NCCL_TESTS_SPLIT makes several: `devices` lists all): listed by the header, or
    inferred from count and bandwidths. `hosts` are those of these ranks.

    `runs` > 1: that many independent programs ran at once, each believing to be the whole job.
    Where a launcher's prefix tells their lines apart each has its own table, else one table holds
    the rows of all and `ranks` is what one of them had.
    `complete`: the closing lines were there. `missing` are sentences. Values that the file does
    not hold are None. `mean_busbw_gbs` is that of the rows here, over both halves, as nccl-tests
    takes it; where it differs from the printed average, `missing` says so.
    """

    file: str
    line: int
    last_line: int
    layout: Literal["text", "json", "csv"] = "text"
    flavour: Literal["nccl", "rccl"] = "nccl"
    check: Literal["wrong", "error"] | None = None  # which column judges the data
    program: str | None = None
    command: str | None = None
    collective: str | None = None
    collective_basis: Literal["program", "file-name", "inferred"] | None = None
    ranks: int | None = None
    ranks_basis: Literal["listed", "inferred"] | None = None
    runs: int = 1
    hosts: tuple[str, ...] = ()
    devices: tuple[TableDevice, ...] = ()
    nccl_version: str | None = None
    tests_version: str | None = None
    cuda_version: str | None = None
    settings: dict[str, str] = {}  # of the header: nThread, nGpus, minBytes, iters, validation …
    environment: dict[str, str] = {}
    rows: tuple[TableRow, ...] = ()
    average_busbw_gbs: float | None = None  # as printed
    average_ok: bool | None = None  # held against NCCL_TESTS_MIN_BW; None: it was not set
    other_averages_gbs: tuple[float, ...] = ()  # of the other runs
    mean_busbw_gbs: float | None = None
    out_of_bounds: int | None = None
    bitwise_mismatches: int | None = None
    complete: bool = True
    failure: str | None = None  # "Test NCCL failure …", as the program said it
    failure_line: int | None = None
    failure_host: str | None = None
    following: str | None = None  # a program that was started after it and printed no table
    following_started: bool = False  # its first line was printed; else only the command is there
    following_command: str | None = None
    following_line: int | None = None
    missing: tuple[str, ...] = ()
