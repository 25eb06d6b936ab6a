"""Memory, collectives and seconds of DDP, ZeRO and FSDP: the paper's table, torch's own counts,
lines that are known, and what cannot be."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.model.strategies import (
    collectives,
    memory,
    outcome,
    pieces,
    scaling,
    timing,
    transformer,
)
from bench.model.strategies.measured import MeasuredLine, choose
from bench.model.strategies.names import DDP, HYBRID, STRATEGIES, ZERO1, ZERO2, ZERO3
from bench.plan.volumes import WIRE_SHARES
from bench.records import (
    BadInput,
    CostLine,
    Interval,
    Model,
    ModelUnit,
    Piece,
    TrainingJob,
    Weight,
)

# Rajbhandari et al., arXiv 1910.02054, table 1: GB per GPU by ranks, for 7.5B, 128B and 1T
# parameters, under P_os, P_os+g, P_os+g+p. As printed: 513.5 stands there as 513, 4187.5 as 4187.
PAPER = {
    1: ((120, 120, 120), (2048, 2048, 2048), (16000, 16000, 16000)),
    4: ((52.5, 41.3, 30), (896, 704, 512), (7000, 5500, 4000)),
    16: ((35.6, 21.6, 7.5), (608, 368, 128), (4750, 2875, 1000)),
    64: ((31.4, 16.6, 1.88), (536, 284, 32), (4187, 2218, 250)),
    256: ((30.4, 15.4, 0.47), (518, 263, 8), (4046, 2054, 62.5)),
    1024: ((30.1, 15.1, 0.12), (513, 257, 2), (4011, 2013, 15.6)),
}
SIZES = (7_500_000_000, 128_000_000_000, 1_000_000_000_000)


def digits(printed: float) -> int:
    return len(f"{printed:g}".partition(".")[2])


def job(**changes: Any) -> TrainingJob:
    plain = TrainingJob(model=transformer.estimated(7_500_000_000), ranks=64, hosts=8)
    return msgspec.structs.replace(plain, **changes)


@pytest.mark.parametrize("ranks", PAPER)
def test_the_table_of_the_zero_paper_comes_out_to_the_printed_digits(ranks: int) -> None:
    for parameters, printed in zip(SIZES, PAPER[ranks], strict=True):
        here = job(model=transformer.estimated(parameters), ranks=ranks, hosts=1)
        for strategy, figure in zip((ZERO1, ZERO2, ZERO3), printed, strict=True):
            exact = memory.of(here, strategy).state / 1e9
            scale = 10 ** digits(figure)
            cut, half_up = (math.floor(exact * scale + more) / scale for more in (0, 0.5))
            assert figure in (cut, half_up)


def test_ddp_needs_120_gb_and_zero_on_64_ranks_31_17_and_2() -> None:
    state = [memory.of(job(), strategy).state / 1e9 for strategy in STRATEGIES[:4]]
    assert [round(one, 1) for one in state] == [120.0, 31.4, 16.6, 1.9]


@pytest.mark.parametrize(
    ("optimizer", "each"),
    [("sgd", 8), ("momentum", 12), ("lion", 12), ("adam", 16), ("adamw", 16), ("adam8bit", 10.03)],
)
def test_optimizers_keep_what_they_keep(optimizer: Any, each: float) -> None:
    state = memory.of(job(optimizer=optimizer), DDP).state
    assert state / 7.5e9 == pytest.approx(each, abs=0.002)


def test_adafactor_keeps_a_row_and_a_column_of_each_matrix() -> None:
    unit = ModelUnit(name="block", weights=(Weight(name="w", shape=(300, 200)),))
    here = job(model=Model(name="m", units=(unit,)), ranks=1, hosts=1, optimizer="adafactor")
    assert memory.of(here, DDP).optimizer == 300 * 200 * 4 + 4 * 500


def adafactor_bytes(model: Model) -> float:
    """Beside the fp32 masters."""
    return memory.of(job(model=model, optimizer="adafactor"), DDP).optimizer - 4 * model.trained


def test_adafactor_keeps_as_little_of_matrices_whose_shapes_are_not_known() -> None:
    config = llama_block()
    estimated = transformer.estimated(config.parameters)
    assert adafactor_bytes(estimated) == pytest.approx(adafactor_bytes(config), rel=0.5)
    assert adafactor_bytes(estimated) < 0.01 * estimated.parameters
    for model in (config, estimated):
        some = transformer.with_trained(model, 40_000_000)
        assert 0 < adafactor_bytes(some) < 0.1 * some.trained
    tiny = transformer.estimated(7)  # no more than a number for each
    assert 0 < adafactor_bytes(tiny) <= 4 * tiny.parameters


def test_adafactor_keeps_all_of_norms_and_biases() -> None:
    weights = (Weight(name="norm", shape=(4096,)), Weight(name="head.bias", shape=(32000,)))
    model = Model(name="m", units=(ModelUnit(name="root", weights=weights),))
    assert adafactor_bytes(model) == 4 * (4096 + 32000)


@pytest.mark.parametrize(
    ("precision", "each"),
    [("fp32", 16), ("bf16-mixed", 16), ("fp16-mixed", 16), ("bf16-autocast", 16), ("bf16", 8)],
)
def test_precisions_store_what_they_store(precision: Any, each: int) -> None:
    assert memory.of(job(precision=precision), DDP).state / 7.5e9 == pytest.approx(each)


def llama_block() -> Model:
    root = ModelUnit(name="root", root=True, weights=(
        Weight(name="embedding", shape=(32000, 4096)), Weight(name="norm", shape=(4096,)),
        Weight(name="head", shape=(32000, 4096))))  # fmt: skip
    block = ModelUnit(name="block", count=32, weights=(
        *(Weight(name=name, shape=(4096, 4096)) for name in "qkvo"),
        Weight(name="gate", shape=(11008, 4096)), Weight(name="up", shape=(11008, 4096)),
        Weight(name="down", shape=(4096, 11008)), Weight(name="norm", shape=(4096,), count=2),
    ))  # fmt: skip
    return Model(name="llama", units=(root, block), basis="config", layers=32, hidden=4096,
                 vocabulary=32000)  # fmt: skip


def test_lora_trains_the_adapters_alone_and_sends_only_their_gradients() -> None:
    adapted = transformer.with_adapters(llama_block(), 16)
    # 32 blocks of 4 x 16 x (4096 + 4096) and 3 x 16 x (4096 + 11008).
    assert adapted.trained == 32 * 16 * (4 * 8192 + 3 * 15104)
    assert adapted.parameters == llama_block().parameters + adapted.trained
    here = job(model=adapted)
    assert memory.of(here, DDP).gradients == 2 * adapted.trained
    assert memory.of(here, DDP).optimizer == 12 * adapted.trained
    sent = sum(use.size_bytes * use.count for use in collectives.of_step(here, DDP))
    assert sent == 2 * adapted.trained
    gathered = [use for use in collectives.of_step(here, ZERO3) if use.collective == "all_gather"]
    assert sum(use.size_bytes * use.count for use in gathered) > 3 * llama_block().parameters


def test_qlora_stores_and_sends_the_adapted_matrices_in_four_bits() -> None:
    whole = transformer.with_adapters(llama_block(), 16)
    packed = transformer.with_adapters(llama_block(), 16, quantised=True)
    assert packed.trained == whole.trained
    matrices = 32 * (4 * 4096 * 4096 + 3 * 4096 * 11008)
    less = (
        memory.of(job(model=whole), DDP).parameters - memory.of(job(model=packed), DDP).parameters
    )
    assert less == pytest.approx(matrices * (2 - 4.127 / 8))


def test_a_lora_without_shapes_is_refused() -> None:
    with pytest.raises(BadInput, match="needs a model's shapes"):
        transformer.with_adapters(transformer.estimated(7_000_000_000), 16)


@given(parameters=st.integers(1_000, 10**12), ranks=st.integers(2, 64))
def test_volumes_are_those_of_the_paper_for_any_model(parameters: int, ranks: int) -> None:
    model = transformer.estimated(parameters)
    assert model.parameters == parameters
    here = job(model=model, ranks=ranks, hosts=1, reshard="always")
    padding = ranks * 8 * (model.layers + 1) / parameters  # of each tensor's end
    for strategy, factor in ((DDP, 2), (ZERO1, 2), (ZERO2, 2), (ZERO3, 3)):
        sent = sum(use.sent_bytes for use in collectives.of_step(here, strategy)) / 2
        expected = factor * parameters * (ranks - 1) / ranks
        assert expected * (1 - 1e-6) - 1 <= sent <= expected * (1 + 4 * padding) + 1


def test_units_are_gathered_twice_but_the_root_and_scattered_once() -> None:
    def counts(reshard: Any) -> tuple[int, int]:
        uses = collectives.of_step(job(model=llama_block(), reshard=reshard), ZERO3)
        gathers = sum(use.count for use in uses if use.collective == "all_gather")
        return gathers, sum(use.count for use in uses if use.collective == "reduce_scatter")

    assert counts("usual") == (2 * 33 - 1, 33)
    assert counts("always") == (2 * 33, 33)
    assert counts("never") == (33, 33)


def test_hybrid_shards_inside_a_host_and_reduces_shards_between() -> None:
    uses = collectives.of_step(job(model=llama_block()), HYBRID)
    between = [use for use in uses if use.scope == "between"]
    assert {use.collective for use in between} == {"all_reduce"}
    assert {use.group_ranks for use in between} == {8}
    shards = sum(use.size_bytes * use.count for use in between)
    assert shards == pytest.approx(2 * llama_block().parameters / 8)
    assert {use.group_ranks for use in uses if use.scope == "host"} == {8}


def test_accumulation_repeats_what_it_repeats() -> None:
    def sizes(strategy: str, **changes: Any) -> dict[str, int]:
        found: dict[str, int] = {}
        for use in collectives.of_step(job(micro_batches=4, **changes), strategy):
            found[use.collective] = found.get(use.collective, 0) + use.count
        return found

    once = sizes(DDP)
    assert sizes(DDP, synchronise="each")["all_reduce"] == 4 * once["all_reduce"]
    usual, last = sizes(ZERO3), sizes(ZERO3, synchronise="last")
    assert usual["all_gather"] == last["all_gather"]
    assert usual["reduce_scatter"] == 4 * last["reduce_scatter"]
    kept = memory.of(job(micro_batches=4, synchronise="last"), ZERO3)
    assert kept.live - memory.of(job(), ZERO3).live == 2 * 7.5e9  # gradients stay whole


def test_deepspeed_all_reduces_its_buckets_and_torch_broadcasts_its_shares() -> None:
    deepspeed = {u.collective for u in collectives.of_step(job(framework="deepspeed"), ZERO1)}
    assert deepspeed == {"all_reduce", "all_gather"}
    torch = {u.collective for u in collectives.of_step(job(framework="torch"), ZERO1)}
    assert torch == {"all_reduce", "broadcast"}


@pytest.mark.parametrize(
    ("precision", "usual"),
    [("bf16-mixed", 2), ("bf16", 2), ("fp32", 4), ("bf16-autocast", 4)],
)
@pytest.mark.parametrize("framework", ["paper", "torch", "deepspeed"])
def test_gradients_reduced_in_fp32_are_so_under_every_strategy(
    precision: Any, usual: int, framework: Any
) -> None:
    def reduced(strategy: str, reduce_dtype: Any) -> tuple[float, int]:
        here = job(precision=precision, framework=framework, reduce_dtype=reduce_dtype)
        uses = [
            use
            for use in collectives.of_step(here, strategy)
            if use.purpose.startswith("gradients by") and use.collective != "all_gather"
        ]
        total = sum(use.size_bytes * use.count for use in uses)
        return total / here.model.parameters, sum(use.count for use in uses)

    for strategy in (DDP, ZERO1, ZERO2, ZERO3):
        assert reduced(strategy, "fp32")[0] == pytest.approx(4, rel=0.001), strategy
    each, calls = reduced(DDP, "as-parameters")
    assert each == usual
    assert calls == reduced(DDP, "fp32")[1], "buckets are filled in the gradients' own type"


def test_buckets_close_with_the_tensor_that_fills_them() -> None:
    weights = tuple(Weight(name=f"w{at}", shape=(1 << 18,)) for at in range(30))
    model = Model(name="m", units=(ModelUnit(name="block", weights=weights),))
    # 1 MiB each: the first bucket takes one, the second 25, the third what is left.
    assert pieces.ddp_buckets(model, 4) == {1 << 18: 1, 25 << 18: 1, 4 << 18: 1}
    assert pieces.ddp_buckets(model, 4, 10 << 20) == {10 << 18: 3}


def test_a_single_rank_sends_nothing() -> None:
    for strategy in STRATEGIES[:4]:
        assert collectives.of_step(job(ranks=1, hosts=1), strategy) == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ranks": 0}, "at least 1"),
        ({"ranks": 10, "hosts": 4}, "do not spread evenly"),
        ({"micro_batches": 0}, "at least 1 micro-batch"),
        ({"model": transformer.estimated(7), "ranks": 8, "hosts": 1}, "more shards than"),
    ],
)
def test_jobs_that_cannot_be_are_one_sentence(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        outcome.costs(job(**changes))


# ------------------------------------------------------------------------------------ seconds

WIRE = 50e9  # bytes/s of a host's network


def line(collective: str, ranks: int, latency_s: float = 20e-6) -> CostLine:
    """A ring over a wire of 50 GB/s."""
    algbw = WIRE / WIRE_SHARES[collective](ranks)
    piece = Piece(from_bytes=4096, to_bytes=1 << 30, latency_s=latency_s,
                  bandwidth_bytes_per_s=algbw)  # fmt: skip
    return CostLine(
        candidate="data", collective=collective, ranks=ranks, pieces=(piece,),
        latency_s=Interval(value=latency_s, low=latency_s, high=latency_s),
        bandwidth_bytes_per_s=Interval(value=algbw, low=algbw, high=algbw),
        busbw_gbs=Interval(value=WIRE / 1e9, low=WIRE / 1e9, high=WIRE / 1e9),
    )  # fmt: skip


def measured(collective: str, ranks: int = 64, hosts: int = 8) -> MeasuredLine:
    return MeasuredLine(line=line(collective, ranks), hosts=hosts, source="data")


EVERYTHING = [measured(name) for name in ("all_reduce", "all_gather", "reduce_scatter")]
INSIDE = [measured(name, 8, 1) for name in ("all_reduce", "all_gather", "reduce_scatter")]


def test_a_measured_line_gives_its_own_seconds() -> None:
    rows, inferred = outcome.costs(job(), EVERYTHING)
    ddp = rows[0]
    assert ddp.communication_s is not None
    calls = sum(use.count for use in ddp.collectives)
    expected = ddp.sent_bytes / WIRE + calls * 20e-6
    assert ddp.communication_s.value == pytest.approx(expected)
    assert ddp.basis == "measured"
    assert ddp.communication_s.low < ddp.communication_s.value < ddp.communication_s.high
    assert all("all_reduce was not" not in words for words in inferred)


def test_a_missing_line_is_inferred_aloud_or_not_at_all() -> None:
    only = [measured("all_reduce")]
    rows, inferred = outcome.costs(job(), only)
    assert "all_gather was not measured: half of an all_reduce, as in a ring" in inferred
    zero3 = next(row for row in rows if row.strategy == ZERO3)
    assert zero3.basis == "inferred"
    assert zero3.communication_s is not None
    assert zero3.communication_s.high > 1.3 * zero3.communication_s.value
    rows, _ = outcome.costs(job(), only, infer=False)
    zero3 = next(row for row in rows if row.strategy == ZERO3)
    assert zero3.communication_s is None
    assert zero3.notes[0] == "no line of all_gather between hosts was measured"


def test_groups_inside_a_host_take_lines_inside_a_host() -> None:
    rows, _ = outcome.costs(job(), EVERYTHING)
    hybrid = next(row for row in rows if row.strategy == HYBRID)
    assert hybrid.communication_s is None  # nothing was measured inside a host
    rows, inferred = outcome.costs(job(), [*EVERYTHING, *INSIDE])
    hybrid = next(row for row in rows if row.strategy == HYBRID)
    assert hybrid.communication_s is not None
    # Between: eight rings at once over each host's wire carry what one ring of all would.
    between = sum(use.time_s.value for use in hybrid.collectives
                  if use.scope == "between" and use.time_s)  # fmt: skip
    assert between == pytest.approx(2 * 7 / 8 * 2 * 7.5e9 / WIRE, rel=0.01)
    assert any("share the host's network" in words for words in inferred)


def test_more_ranks_than_measured_are_carried_over_aloud_and_wider() -> None:
    few = [measured(name, 16, 2) for name in ("all_reduce", "all_gather", "reduce_scatter")]
    rows, inferred = outcome.costs(job(), few)
    assert "64 ranks on 8 hosts: carried over from 16 ranks on 2 hosts" in inferred
    ddp = rows[0]
    assert ddp.communication_s is not None
    assert ddp.communication_s.value == pytest.approx(ddp.sent_bytes / WIRE, rel=0.05)
    assert ddp.communication_s.high / ddp.communication_s.value > 1.4


def test_the_most_similar_table_is_taken() -> None:
    tables = [measured("all_reduce", 16, 2), measured("all_reduce", 64, 8)]
    chosen = choose(tables, "all_reduce", inside=False, ranks=64, hosts=8)
    assert chosen is not None
    assert chosen.measured.hosts == 8


def test_gloo_makes_reduce_scatter_of_all_reduce() -> None:
    gloo = [msgspec.structs.replace(measured("all_reduce"), backend="gloo")]
    chosen = choose(gloo, "reduce_scatter", inside=False, ranks=64, hosts=8)
    assert chosen is not None
    assert chosen.times == 1.0
    nccl = choose([measured("all_reduce")], "reduce_scatter", inside=False, ranks=64, hosts=8)
    assert nccl is not None
    assert nccl.times == 0.5


def test_a_step_lies_between_full_overlap_and_none() -> None:
    rows, _ = outcome.costs(job(compute_s=0.5), EVERYTHING)
    for row in rows[:4]:
        assert row.communication_s is not None
        assert row.step_no_overlap_s == pytest.approx(0.5 + row.communication_s.value)
        assert row.step_full_overlap_s == max(0.5, row.communication_s.value)
        assert row.share == pytest.approx(row.communication_s.value / row.step_no_overlap_s)


def test_a_curve_that_is_no_line_is_read_between_its_rows() -> None:
    from bench.records import Point

    points = tuple(
        Point(size_bytes=size, time_s=time_s, low_s=time_s, high_s=time_s, iterations=1,
              sessions=1, algbw_gbs=1, busbw_gbs=1)
        for size, time_s in ((1 << 20, 1e-3), (1 << 22, 9e-3))
    )  # fmt: skip
    bent = msgspec.structs.replace(line("all_reduce", 8), points=points, held_out_error=0.2)
    assert timing.seconds(bent, 1 << 21) == pytest.approx(3e-3)
    assert timing.seconds(bent, 1 << 24) == pytest.approx(36e-3)


def test_the_chart_has_measured_and_inferred_numbers_of_hosts() -> None:
    points = scaling.over_hosts(job(), EVERYTHING)
    assert [point.hosts for point in points] == [2, 4, 8, 16, 32, 64]
    assert [point.hosts for point in points if DDP in point.measured] == [8]
    taken = [point.communication_s[DDP] for point in points]
    values = [one.value for one in taken if one is not None]
    assert values == sorted(values)


@given(
    ranks=st.sampled_from([2, 8, 64, 512]),
    hosts=st.sampled_from([1, 2, 8]),
    micro_batches=st.integers(1, 8),
    precision=st.sampled_from(["fp32", "bf16-mixed", "bf16-autocast", "bf16"]),
    framework=st.sampled_from(["paper", "torch", "deepspeed"]),
    reshard=st.sampled_from(["usual", "always", "never"]),
)
def test_any_job_has_finite_figures_and_sharding_never_costs_state(**changes: Any) -> None:
    if changes["ranks"] % changes["hosts"]:
        return
    rows, _ = outcome.costs(job(**changes), [*EVERYTHING, *INSIDE])
    state = [row.state_bytes for row in rows[:4]]
    assert all(math.isfinite(row.memory_bytes) and row.memory_bytes > 0 for row in rows)
    assert state == sorted(state, reverse=True)
    for row in rows:
        took = row.communication_s
        assert took is None or 0 < took.low <= took.value <= took.high < math.inf
