"""Tables as people post them: what the files of tests/data/nccl_tests hold, and made ones in the
form of public reports (named beside each) where those are too long or not ours to copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.formats import nccl_tests
from bench.formats.source import Source
from bench.records import BadInput, CollectiveTable

DATA = Path(__file__).resolve().parents[1] / "data" / "nccl_tests"

SETTINGS = (
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20 "
    "agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n"
)
HEADER = (
    "#\n#                                                              out-of-place"
    "                       in-place          \n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong"
    "     time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)"
    "            (us)  (GB/s)  (GB/s)       \n"
)
OLD_HEADER = (
    "#       size         count    type   redop     time   algbw   busbw  error"
    "     time   algbw   busbw  error\n"
)
ROW = (
    "     1048576        262144     float     sum      -1    102.4   10.24   17.92      0"
    "    100.0   10.49   18.35      0\n"
)
ROW_OF_ONE = ROW.replace("17.92", " 0.00").replace("18.35", " 0.00")
ROW_OF_TWO = ROW.replace("17.92", "10.24").replace("18.35", "10.49")
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 18.135 \n#\n"


def device(rank: int, host: str = "hostA", pid: int | None = None, group: int = 0) -> str:
    return (
        f"#  Rank {rank:2d} Group {group:2d} Pid {pid or 4000 + rank:6d} on {host:>10s} device "
        f"{rank % 8:2d} [0000:1b:00] NVIDIA H100 80GB HBM3\n"
    )


def tables(text: str, name: str = "run.log") -> tuple[CollectiveTable, ...]:
    return nccl_tests.read(Source.of_text(text, name))


def only(text: str, name: str = "run.log") -> CollectiveTable:
    (table,) = tables(text, name)
    return table


def of_file(name: str) -> tuple[CollectiveTable, ...]:
    return nccl_tests.read(Source.open(DATA / name))


def peak(table: CollectiveTable) -> tuple[float, int]:
    halves = [
        (half.busbw_gbs, row.size_bytes)
        for row in table.rows
        for half in (row.out_of_place, row.in_place)
        if half
    ]
    return max(halves)


# Files as posted


@pytest.mark.parametrize(
    ("name", "collective", "ranks", "hosts", "rows", "average", "best"),
    [
        ("h100-2-hosts-all_reduce.txt", "all_reduce", 16, 2, 32, 139.56, (469.21, 17179869184)),
        ("h100-2-hosts-slow-srun-labels.txt", "all_reduce", 16, 2, 11, 142.735, (167.87, 2**28)),
        ("a100-all_reduce-old-columns.log", "all_reduce", 8, 1, 34, 68.4048, (235.26, 2**33)),
        ("a100-all_gather-old-columns.log", "all_gather", 8, 1, 34, 58.2651, (230.07, 2**33)),
        ("a100-reduce-old-columns.log", "reduce", 8, 1, 34, 65.018, (231.28, 2**32)),
        ("mi250x-all_gather-hole.txt", "all_gather", 32, 0, 17, 37.9868, (92.74, 2**32)),
        ("mi250x-all_reduce.txt", "all_reduce", 32, 0, 17, 43.7269, (92.89, 2**32)),
        ("tcp-100g-collapse.txt", "all_reduce", 32, 0, 5, 2.68429, (5.21, 2**24)),
        ("2080ti-tail-then-nothing.txt", "all_gather", 2, 0, 13, 6.6972, (21.86, 2**27)),
        ("gb200-nvl72.txt", "all_reduce", 72, 1, 5, 745.53, (846.82, 2**33)),
        ("rtx5090-2-ranks-one-gpu.log", "all_reduce", 2, 1, 8, 1.57614, (2.31, 2**27)),
        ("h100-nvl-switch-at-1050k.txt", "all_reduce", 4, 2, 11, 7.20321, (11.33, 1500000)),
    ],
)
def test_posted_tables_are_read_to_the_last_digit(
    name: str,
    collective: str,
    ranks: int,
    hosts: int,
    rows: int,
    average: float,
    best: tuple[float, int],
) -> None:
    (table,) = of_file(name)
    assert (table.collective, table.ranks, len(table.hosts)) == (collective, ranks, hosts)
    assert (len(table.rows), table.average_busbw_gbs, peak(table)) == (rows, average, best)
    assert table.complete
    assert table.runs == 1
    assert table.out_of_bounds == 0


def test_versions_come_from_whoever_prints_them() -> None:
    (table,) = of_file("h100-2-hosts-all_reduce.txt")
    assert (table.nccl_version, table.cuda_version) == ("2.26.2", "12.8")
    (table,) = of_file("rtx5090-2-ranks-one-gpu.log")
    assert (table.nccl_version, table.tests_version) == ("2.29.7", "2.18.0")
    assert table.program == "all_reduce_perf_mpi"


def test_rows_of_size_zero_stay_rows() -> None:
    (table,) = of_file("a100-all_gather-old-columns.log")
    assert [row.size_bytes for row in table.rows[:6]] == [0, 0, 0, 0, 0, 32]


def test_validation_that_was_off_is_neither_wrong_nor_right() -> None:
    for name in ("h100-2-hosts-slow-srun-labels.txt", "a100-reduce-old-columns.log"):
        (table,) = of_file(name)
        halves = [half for row in table.rows for half in (row.out_of_place, row.in_place)]
        assert all(half and half.wrong is None and half.error is None for half in halves)


def test_two_jobs_in_one_file_are_two_tables() -> None:
    first, second = of_file("h100-8-and-2-hosts-all_reduce.txt")
    assert (first.ranks, len(first.hosts), first.average_busbw_gbs) == (64, 8, 183.055)
    assert (second.ranks, len(second.hosts), second.average_busbw_gbs) == (16, 2, 276.999)
    assert first.last_line < second.line


def test_rccl_tells_itself_by_its_closing_lines() -> None:
    (table,) = of_file("mi250x-all_reduce.txt")
    assert table.flavour == "rccl"


def test_the_tail_of_an_old_all_gather_is_told_by_its_bandwidths() -> None:
    """algbw was (n-1)/n of size over time: that is no corruption, and it gives the ranks."""
    (table,) = of_file("2080ti-tail-then-nothing.txt")
    assert (table.collective, table.collective_basis) == ("all_gather", "inferred")
    assert (table.ranks, table.ranks_basis, table.check) == (2, "inferred", "error")
    assert (table.following, table.following_started) == ("broadcast_perf", True)
    assert table.following_command == "./broadcast_perf -b 8 -e 128M -f 2 -g 2"
    assert table.following_line == 17
    assert any("header" in sentence for sentence in table.missing)
    assert any("6.6972" in sentence and "12.74" in sentence for sentence in table.missing)


def test_only_the_last_device_line_still_counts_the_ranks() -> None:
    (table,) = of_file("gb200-nvl72.txt")
    assert (table.ranks, table.ranks_basis) == (72, "inferred")
    assert "device lines of ranks 0 to 70" in table.missing


def test_two_programs_of_one_rank_are_never_a_job_of_two() -> None:
    (table,) = of_file("built-without-mpi.txt")
    assert (table.runs, table.ranks, table.hosts) == (2, 1, ("hostB", "hostA"))
    assert [each.rank for each in table.devices] == [0, 0]
    assert not table.complete


def test_a_header_whose_rows_were_cut_and_whose_hashes_are_lost() -> None:
    (table,) = of_file("one-rank.txt")
    assert (table.ranks, table.average_busbw_gbs, table.rows) == (1, 0.0, ())
    assert table.settings["blocking"] == "barrier"
    assert table.missing == ("all rows",)


def test_closing_lines_alone_are_a_table_without_rows() -> None:
    (table,) = of_file("averages-only.txt")
    assert (table.average_busbw_gbs, table.rows, table.collective) == (362.198, (), None)
    assert only("# Avg bus bandwidth    : 327.981\n").average_busbw_gbs == 327.981


# Programs that printed over each other (NVIDIA/nccl-tests#109, #182, #213; #27)


def two_runs(second_starts_early: bool) -> str:
    first = SETTINGS + device(0, "hostA", 798) + device(1, "hostA", 798)
    second = SETTINGS + device(0, "hostB", 801) + device(1, "hostB", 801)
    begin = first + second + HEADER
    if second_starts_early:
        begin = SETTINGS + SETTINGS + (first + second).replace(SETTINGS, "") + HEADER
    late = ROW_OF_TWO.replace("102.4", "204.8")
    return begin + ROW_OF_TWO + HEADER + late + END + ROW_OF_TWO + END.replace("18.135", "17.2")


@pytest.mark.parametrize("early", [False, True])
def test_interleaved_rows_stay_in_one_table_of_two_runs(early: bool) -> None:
    table = only(two_runs(early))
    assert (table.runs, table.ranks, len(table.rows)) == (2, 2, 3)
    assert (table.average_busbw_gbs, table.other_averages_gbs) == (18.135, (17.2,))
    assert table.hosts == ("hostA", "hostB")


def test_a_second_program_that_starts_after_the_first_row_is_seen_too() -> None:
    text = SETTINGS + device(0, "hostA", 1) + HEADER + ROW_OF_ONE
    text += SETTINGS + device(0, "hostB", 2) + ROW_OF_ONE + ROW_OF_ONE + ROW_OF_ONE + END + END
    table = only(text)
    assert (table.runs, table.ranks, len(table.rows)) == (2, 1, 4)


def test_processes_that_a_launcher_numbers_have_a_table_each() -> None:
    lines = (SETTINGS + device(0) + HEADER + ROW_OF_ONE + END).splitlines()
    text = "".join(f"[1,0]<stdout>:{line}\n[1,1]<stdout>:{line}\n" for line in lines)
    found = tables(text)
    assert [(table.runs, table.ranks, len(table.rows)) for table in found] == [(2, 1, 1)] * 2


def test_a_run_per_host_under_pdsh_is_what_was_asked_for() -> None:
    lines = (SETTINGS + device(0) + device(1, pid=4000) + HEADER + ROW_OF_TWO + END).splitlines()
    text = "".join(f"node1: {line}\nnode2: {line}\n" for line in lines)
    found = tables(text)
    assert [(table.runs, table.ranks) for table in found] == [(1, 2)] * 2


def test_two_attempts_in_a_row_are_no_two_runs_at_once() -> None:
    text = SETTINGS + device(0, pid=11) + device(1, pid=11)
    text += "hostA: Test NCCL failure common.cu:959 'internal error'\n"
    text += " .. hostA pid 11: Test failure common.cu:844\n"
    text += SETTINGS + device(0, pid=12) + device(1, pid=12) + HEADER + ROW_OF_TWO + END
    first, second = tables(text)
    assert (first.runs, first.ranks, first.rows) == (1, 2, ())
    assert first.failure == "Test NCCL failure common.cu:959 'internal error'"
    assert first.failure_line == text[: text.index("hostA: Test")].count("\n") + 1
    assert (second.runs, second.ranks, len(second.rows), second.failure) == (1, 2, 1, None)


def test_two_attempts_without_a_word_between_them() -> None:
    text = SETTINGS + device(0, pid=11) + device(1, pid=12)
    text += SETTINGS + device(0, pid=21) + device(1, pid=22) + HEADER + ROW_OF_TWO + END
    first, second = tables(text)
    assert (first.ranks, first.rows, second.ranks, len(second.rows)) == (2, (), 2, 1)


def test_two_pairs_of_closing_lines_are_two_runs_of_which_nothing_else_is_known() -> None:
    first, second = tables(END + END)
    assert (first.runs, second.runs, first.average_busbw_gbs) == (1, 1, 18.135)


def test_split_communicators_count_the_ranks_of_one() -> None:
    text = SETTINGS + "".join(device(rank, group=rank % 2) for rank in range(8)) + HEADER + END
    table = only(text)
    assert (table.ranks, len(table.devices)) == (4, 8)


# What stands around and within a table


def test_rows_that_nccl_interrupts_are_put_together() -> None:
    """In the form of NVIDIA/nccl#1453: Intel MPI numbers what is flushed, NCCL speaks between."""
    text = (
        "[0] " + SETTINGS.replace("\n", "\n[0] ") + device(0) + "[0] " + device(1)
        + "".join(f"[0] {line}\n" for line in HEADER.splitlines())
        + "[0]      1048576        262144     float     sum      -1[0]    1626.5    0.64    0.64"
        "      0[0]    2302.3    0.46    0.46      0\n"
        "[0]      2097152        524288     float     sum      -1[0] w1:97:97 [0] NCCL INFO "
        "2097152 Bytes -> Algo 1 proto 2 time 11038.536133\n"
        "[1] w1:98:98 [1] NCCL INFO 2097152 Bytes -> Algo 1 proto 2 time 11038.536133\n"
        "[0]    2325.3    0.90    0.90      0[0] w1:97:97 [0] NCCL INFO 2097152 Bytes -> Algo 1\n"
        "[0]     416.7    5.03    5.03      0\n"
    )  # fmt: skip
    table = only(text)
    read = [
        (row.size_bytes, row.root, row.out_of_place.time_s, row.in_place.time_s, row.cut)
        for row in table.rows
        if row.out_of_place and row.in_place
    ]
    assert read == [
        (1048576, -1, 1626.5e-6, 2302.3e-6, False),
        (2097152, -1, 2325.3e-6, 416.7e-6, False),
    ]


def test_a_number_that_cannot_be_told_from_a_host_is_not_guessed() -> None:
    """ "010-0-0-1:97:97": of 0 and 10-0-0-1, or of 01 and 0-0-0-1?"""
    row = "     1048576        262144     float     sum      -1    102.4   10.24   17.92"
    text = (
        HEADER + row + "      010-0-0-1:97:97 [0] NCCL INFO x\n    100.0   10.49   18.35      0\n"
    )
    (read,) = only(text).rows
    assert (read.size_bytes, read.out_of_place, read.in_place, read.cut) == (
        2**20,
        None,
        None,
        True,
    )


def test_a_failure_in_the_middle_of_a_row_leaves_the_half_before_it() -> None:
    """In the form of NVIDIA/nccl-tests#322."""
    half = "     2097152        524288     float     sum      -1    204.8   10.24   17.92      0"
    text = SETTINGS + device(0) + HEADER + ROW + half
    text += "hostA: Test NCCL failure common.cu:1204 'unhandled cuda error / '\n"
    text += " .. hostA pid 4000: Test failure common.cu:915\n"
    table = only(text)
    assert table.failure == "Test NCCL failure common.cu:1204 'unhandled cuda error / '"
    last = table.rows[-1]
    assert (last.cut, last.in_place) == (True, None)
    assert last.out_of_place
    assert (last.out_of_place.time_s, last.out_of_place.wrong) == (204.8e-6, 0)
    assert not table.complete


def test_what_should_have_come_after_a_cut_is_told() -> None:
    text = SETTINGS.replace("1024", "8388608").replace("minBytes 8 ", "minBytes 1048576 ")
    table = only(text + device(0) + device(1) + HEADER + ROW)
    assert any("rows from 2097152 B" in sentence for sentence in table.missing)


def test_memory_that_was_short_lowers_what_was_to_come() -> None:
    text = SETTINGS.replace("1024", "2097152") + device(0)
    text += "# Reducing maxBytes to 1500000 due to memory limitation\n" + HEADER + ROW
    assert not any("rows from" in sentence for sentence in only(text).missing)


def test_a_table_in_a_github_report_behind_quotes_and_indentation() -> None:
    text = HEADER + ROW + ROW + END
    quoted = "".join(f"> [1,0]<stdout>:{line}\n" for line in text.splitlines())
    indented = "Results:\n" + "".join(
        f"        [1,0]<stdout>:{line}\n" for line in text.splitlines()
    )
    for pasted in (quoted, indented):
        table = only(pasted)
        assert (len(table.rows), table.average_busbw_gbs) == (2, 18.135)


def test_blanks_that_a_web_page_swallowed_do_no_harm() -> None:
    table = only(
        "\n".join(" ".join(line.split()) for line in (HEADER + ROW * 3 + END).split("\n"))
    )
    assert (table.collective, table.ranks, len(table.rows)) == ("all_reduce", 8, 3)


def test_a_table_far_down_in_a_debug_log_is_found() -> None:
    noise = "hostA:1:2 [0] NCCL INFO Channel 00/02 :    0   1\n" * 3000
    table = only(noise + HEADER + noise + ROW + noise + END)
    assert (len(table.rows), table.line) == (1, 3003)


def test_commands_name_the_program_even_over_several_lines() -> None:
    text = (
        "user@login:~$ mpirun -np 8 -H a:4,b:4 \\\n    -x NCCL_DEBUG=INFO \\\n"
        "    /opt/nccl-tests/build/all_reduce_perf_mpi -b 1M -e 1M\n"
    )
    table = only(text + SETTINGS + device(0) + HEADER + ROW + END)
    assert (table.program, table.collective_basis) == ("all_reduce_perf_mpi", "program")
    assert table.command == (
        "mpirun -np 8 -H a:4,b:4 -x NCCL_DEBUG=INFO "
        "/opt/nccl-tests/build/all_reduce_perf_mpi -b 1M -e 1M"
    )


@pytest.mark.parametrize(
    "line",
    [
        "ldd ./build/all_gather_perf",
        "Linking  /src/all_gather.o > /build/all_gather_perf",
        "all_gather_perf: error while loading shared libraries: libnccl.so.2",
        "mpirun noticed that process rank 3 with PID 77 on node b exited on signal 9 (Killed).",
        "-rwxr-xr-x 1 root root 9 Nov 30 all_gather_perf",
        "make: *** [all_gather_perf] Error 1",
        "hostA:1:1 [0] NCCL INFO cmd ./build/all_gather_perf -b 8",
    ],
)
def test_a_line_that_only_names_a_program_starts_none(line: str) -> None:
    table = only(f"{line}\n{SETTINGS}{device(0)}{HEADER}{ROW}{END}{line}\n")
    assert (table.program, table.command, table.following) == (None, None, None)


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("./broadcast_perf -b 8 -e 128M -f 2 -g 2", "broadcast_perf"),
        ("root@node:/nccl-tests# NCCL_ALGO=Ring ./build/sendrecv_perf", "sendrecv_perf"),
        ("+ srun --mpi=pmix -N 2 all_gather_perf_mpi -b 8", "all_gather_perf_mpi"),
        ("$ sudo ./build/./alltoall_perf", "alltoall_perf"),
        ("[me@h ~]$ NCCL_DEBUG=WARN ./nccl_alltoall_perf -b 32M -g 8", "nccl_alltoall_perf"),
    ],
)
def test_a_program_started_after_the_table_is_told(line: str, program: str) -> None:
    table = only(ROW + END + line + "\n")
    assert (table.following, table.following_started) == (program, False)


def test_a_second_program_that_lists_its_devices_and_hangs_is_a_table_of_its_own() -> None:
    text = "$ ./all_reduce_perf -g 2\n" + SETTINGS + device(0) + HEADER + ROW + END
    text += "$ ./all_gather_perf -g 2\n" + SETTINGS + device(0) + device(1, pid=4000)
    first, second = tables(text)
    assert (first.following, first.following_started) == ("all_gather_perf", True)
    assert (second.program, second.ranks, second.rows) == ("all_gather_perf", 2, ())


# Other layouts


def test_nccl_1_counted_in_milliseconds() -> None:
    """In the form of the README of NVIDIA/nccl v1."""
    table = only(
        "# Using devices\n#   Device  0 ->  0 [0x0a] GeForce GTX TITAN X\n"
        "#   Device  1 ->  1 [0x09] GeForce GTX TITAN X\n\n"
        "#      bytes             N    type      op     time  algbw  busbw      res"
        "     time  algbw  busbw      res\n"
        "    10000000      10000000    char     sum    1.628   6.14   6.14    0e+00"
        "    1.932   5.18   5.18    0e+00\n"
    )
    (row,) = table.rows
    assert row.out_of_place
    assert (row.out_of_place.time_s, row.redop, table.ranks) == (1.628e-3, "sum", 2)


def test_an_operation_column_that_is_there_and_empty_is_alltoall() -> None:
    """In the form of NVIDIA/nccl-tests#78; its in-place error means nothing."""
    row = (
        "   268435456       1048576     float           520935    0.52    0.51  0e+00"
        "   519562    0.52    0.51  1e+00\n"
    )
    table = only(OLD_HEADER + row)
    assert (table.collective, table.rows[0].redop, table.rows[0].root) == (
        "all_to_all",
        None,
        None,
    )
    assert table.rows[0].in_place
    assert table.rows[0].in_place.error == 1.0


def test_send_recv_is_told_from_a_two_rank_all_reduce_by_its_unchecked_half() -> None:
    """In the form of NVIDIA/nccl-tests#214: both print sum, -1 and busbw = algbw."""
    row = "     1048576        262144     float     sum      -1    102.4   10.24   10.24      0"
    in_place = "    100.0   10.49   10.49"
    assert only(HEADER + row + in_place + "    N/A\n").collective == "send_recv"
    assert only(HEADER + row + in_place + "      0\n").collective == "all_reduce"
    unchecked = (row + in_place + "    N/A\n").replace("10.24      0", "10.24    N/A")
    assert only(HEADER + unchecked).collective is None
    assert only(HEADER + unchecked, "sendrecv_2nodes.txt").collective_basis == "file-name"


def test_a_file_name_does_not_overrule_the_rows() -> None:
    table = only(HEADER + ROW + END, "all_gather.txt")
    assert (table.collective, table.collective_basis) == ("all_reduce", "inferred")


def test_a_list_of_devices_that_was_cut_short_gives_way_to_the_rows() -> None:
    text = SETTINGS + "".join(device(rank) for rank in range(4)) + HEADER + ROW + END
    table = only(text)
    assert (table.ranks, table.ranks_basis) == (8, "inferred")
    assert "device lines of ranks 4 to 7: the rows say so" in table.missing


def test_more_devices_than_the_rows_can_have_are_told() -> None:
    text = SETTINGS + "".join(device(rank) for rank in range(16)) + HEADER + ROW + END
    table = only(text)
    assert (table.ranks, table.ranks_basis) == (16, "listed")
    assert any("16 are listed" in sentence and "say 8" in sentence for sentence in table.missing)


def test_one_rank_alone_has_no_bus_bandwidth() -> None:
    """In the form of NVIDIA/nccl-tests#287."""
    row = "    33554432       8388608     float    none      -1    19.56  1715.44    0.00      0"
    table = only(
        "$ sudo ./build/./alltoall_perf\n" + SETTINGS + device(0) + HEADER + row
        + "     0.78  43046.10    0.00    N/A\n# Out of bounds values : 0 OK\n"
        "# Avg bus bandwidth    : 0 \n"
    )  # fmt: skip
    assert (table.ranks, table.average_busbw_gbs) == (1, 0.0)
    assert table.rows[0].in_place
    assert table.rows[0].in_place.algbw_gbs == 43046.1


def test_results_that_were_wrong_are_counted() -> None:
    text = HEADER + ROW.replace("17.92      0", "17.92  1e+06").replace(
        "18.35      0", "18.35    128"
    )
    text += "# Out of bounds values : 2 FAILED\n# Avg bus bandwidth    : 18.135 FAILED\n"
    table = only(text)
    (row,) = table.rows
    assert row.out_of_place
    assert row.in_place
    assert (row.out_of_place.wrong, row.in_place.wrong) == (1_000_000, 128)
    assert (table.out_of_bounds, table.average_ok) == (2, False)


def test_an_average_over_no_rows_is_no_number() -> None:
    table = only(HEADER + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : -nan \n")
    assert (table.average_busbw_gbs, table.complete) == (None, True)
    assert any("no row was measured" in sentence for sentence in table.missing)


def test_cpu_time_is_told_and_bandwidth_not_held_against_it() -> None:
    table = only(HEADER.replace("    time", " cputime") + ROW.replace("102.4", "  3.1") + END)
    assert table.settings["time"] == "cputime"
    assert (table.collective, table.ranks) == ("all_reduce", 8)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing of the kind\n" * 50,
        "12345 678 pts/0 S 0:00 ./train.py\n",
        "mpirun -np 2 ./all_reduce_perf -b 8\n",
        "# nThreads are 8\n",
        "\0" * 1000,
        "size count type redop root time algbw\n",
    ],
)
def test_what_is_no_table_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(BadInput, match="no table of nccl-tests"):
        tables(text)
    assert nccl_tests.likeness(text, "notes.txt") < 0.5


def test_rank_numbers_that_nobody_has_do_not_fill_memory() -> None:
    table = only(SETTINGS + device(9_999_999) + device(4_000_000) + HEADER + ROW + END)
    assert (table.ranks, table.ranks_basis) == (None, None)


def test_a_table_of_three_numbers_with_units_in_its_header() -> None:
    """As other vendors' look-alikes and people's own excerpts have it."""
    table = only(
        "#    size(B)  count(elems)  type  redop  root  time(us)  algbw(GB/s)  busbw(GB/s)\n"
        "   1048576         262144  float    sum    -1     78.12        13.42        23.49\n"
        "Avg bus bandwidth:      23.49GB/s\n"
    )
    (row,) = table.rows
    assert row.out_of_place
    assert (row.out_of_place.time_s, row.in_place, row.cut) == (78.12e-6, None, False)
    assert (table.average_busbw_gbs, table.collective, table.ranks) == (23.49, "all_reduce", 8)


def test_a_quoted_command_over_several_lines_is_put_together() -> None:
    text = "## Result\n\n> mpirun --hostfile ~/hostfile \\\n>    -np 16 \\\n>    -x ${VARS} \\\n"
    text += ">    /opt/nccl-tests/build/all_gather_perf -b 8 -g 1\n\n"
    table = only(text + SETTINGS + device(0) + HEADER + ROW + END)
    assert table.command == (
        "mpirun --hostfile ~/hostfile -np 16 -x ${VARS} "
        "/opt/nccl-tests/build/all_gather_perf -b 8 -g 1"
    )


def test_a_list_of_devices_that_no_table_follows_still_tells_ranks_and_hosts() -> None:
    table = only(SETTINGS + device(0, "hostA") + device(1, "hostB"))
    assert (table.ranks, table.hosts, table.complete) == (2, ("hostA", "hostB"), False)
    assert "header and rows" in table.missing


def test_each_table_of_a_script_has_its_own_command() -> None:
    parts = [
        f"+ ./build/{program} -b 1M -e 1M -g 8\n{SETTINGS}{device(0)}{HEADER}{ROW}{END}"
        for program in ("all_reduce_perf", "reduce_scatter_perf", "alltoall_perf")
    ]
    found = tables("".join(parts))
    assert [table.collective for table in found] == ["all_reduce", "reduce_scatter", "all_to_all"]
    assert all(table.following is None for table in found)


def test_per_iteration_and_bitwise_columns_are_read() -> None:
    text = (
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
        "  #bitdiff    i_min    i_max    i_p99    i_cv%     time   algbw   busbw  #wrong"
        "  #bitdiff    i_min    i_max    i_p99    i_cv%           timestamp\n"
        "     1048576        262144     float     sum      -1   100.00   10.49   18.35       0"
        "        0    98.10   103.20   103.00     1.20   101.00   10.38   18.17       0"
        "        3    99.00   104.00   104.00     1.10  2026-11-26 10:00:00\n"
        "# Out of bounds values : 0 OK\n# Bitwise mismatches   : 1 FAILED\n"
        "# Avg bus bandwidth    : 18.26 \n"
    )
    table = only(text)
    (row,) = table.rows
    assert row.in_place
    assert row.in_place.iterations
    assert (row.in_place.different_bits, table.bitwise_mismatches) == (3, 1)
    assert (row.in_place.iterations.p99_s, row.in_place.iterations.cv) == (104e-6, 1.1e-2)
    assert row.labels == {"timestamp": "2026-11-26 10:00:00"}


def test_a_step_that_is_no_number_tells_no_size_to_come() -> None:
    table = only(SETTINGS.replace("step: 2(", "step: 2²(") + device(0) + HEADER + ROW)
    assert len(table.rows) == 1
    assert not any("more were to come" in sentence for sentence in table.missing)


def test_bandwidths_of_which_no_sum_can_be_made_are_none() -> None:
    for word in ("1.7e308", "-1.7e308"):
        rows = ROW.replace("17.92", word).replace("18.35", word)
        table = only(SETTINGS + device(0) + device(1) + HEADER + rows + ROW + END)
        assert [row.out_of_place is None for row in table.rows] == [True, False]
        assert table.mean_busbw_gbs == pytest.approx((17.92 + 18.35) / 2)
