"""`cost` as people type it: with and without reports, from tables, configurations, wrong input."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench import cli
from bench.commands import training_settings
from bench.commands.wishes import Wishes
from bench.plan.volumes import WIRE_SHARES
from bench.records import Candidate, CostLine, Finding, Interval, Piece, Plan, PlanSettings, Report
from bench.report import stored

DATA = Path(__file__).parents[1] / "data"
TABLES = DATA / "nccl_tests"
A100 = [str(TABLES / f"a100-{name}-old-columns.log") for name in ("all_reduce", "all_gather")]
H100 = str(TABLES / "h100-8-and-2-hosts-all_reduce.txt")


def run(*argv: str) -> tuple[int, str]:
    stdout = io.StringIO()
    status = cli.main(["cost", *argv], stdout)
    return status, stdout.getvalue()


def answer(*argv: str) -> dict[str, Any]:
    status, text = run(*argv, "--json")
    assert status == 0
    decoded: dict[str, Any] = json.loads(text)
    return decoded


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    status, text = run(*argv)
    assert (status, text) == (2, "")
    told = capsys.readouterr().err
    assert told.startswith("fabric-bench: ")
    assert told.count("\n") == 1
    return told


def line(candidate: str, collective: str, ranks: int, busbw_gbs: float) -> CostLine:
    algbw = busbw_gbs * 1e9 / WIRE_SHARES[collective](ranks)

    def exactly(value: float) -> Interval:
        return Interval(value=value, low=value, high=value)

    piece = Piece(from_bytes=4096, to_bytes=1 << 24, latency_s=5e-4, bandwidth_bytes_per_s=algbw)
    return CostLine(
        candidate=candidate, collective=collective, ranks=ranks, pieces=(piece,),
        latency_s=exactly(5e-4), bandwidth_bytes_per_s=exactly(algbw),
        busbw_gbs=exactly(busbw_gbs),
    )  # fmt: skip


MISSELECTED = Finding(
    code="interface-misselected",
    severity="degraded",
    summary="NCCL takes mgmt0",
    confidence="asked",
)


def written(folder: Path, *collectives: str, **changes: Any) -> str:
    """A run of ours: a fast network, and the slow one that jobs get with nothing set."""
    names = collectives or ("all_reduce", "all_gather")
    report = Report(
        run="2026-11-30T10-00-00Z",
        verdict="misconfigured",
        plan=Plan(settings=PlanSettings(name="quick"), ranks=4, hosts=4),
        candidates=(
            Candidate(name="data", kind="network", outcome="measured"),
            Candidate(name="(default)", kind="default", outcome="measured"),
        ),
        lines=tuple(
            line(candidate, name, 4, busbw)
            for candidate, busbw in (("data", 0.06), ("(default)", 0.012))
            for name in names
        ),
        findings=(MISSELECTED,),
    )
    report = msgspec.structs.replace(report, **changes)
    (folder / stored.REPORT_NAME).write_bytes(stored.encode(report))
    return str(folder)


# ------------------------------------------------------------------------------------- good input


def test_without_a_report_it_tells_memory_and_bytes_only() -> None:
    told = answer("--params", "7.5e9", "--ranks", "64")
    rows = {row["strategy"]: row for row in told["strategies"]}
    assert round(rows["ZeRO-1"]["state_bytes"] / 1e9, 1) == 31.4
    assert rows["DDP"]["sent_bytes"] == pytest.approx(2 * 2 * 7.5e9 * 63 / 64)
    assert all(row["communication_s"] is None for row in told["strategies"])
    assert "no report was named: memory and bytes only" in told["notes"]


def test_a_single_rank_has_nothing_to_send_and_nothing_to_shard() -> None:
    told = answer("--params", "7B")
    assert told["recommendation"].startswith("A single rank sends nothing")
    assert {row["memory_bytes"] for row in told["strategies"]} == {16 * 7e9}


def test_nccl_tests_tables_time_a_step_on_one_host() -> None:
    told = answer(*A100, "--params", "7B", "--gpu-memory", "80")
    assert (told["job"]["ranks"], told["job"]["hosts"]) == (8, 1)
    rows = {row["strategy"]: row for row in told["strategies"]}
    # 24.5 GB by a ring of 230 GB/s, 25 to 100 MiB at a time, which are not yet at full speed.
    assert 0.105 < rows["DDP"]["communication_s"]["value"] < 0.14
    assert (
        1.4
        < (rows["ZeRO-3"]["communication_s"]["value"] / rows["ZeRO-2"]["communication_s"]["value"])
        < 1.55
    )
    assert rows["DDP"]["fits"] is False
    assert told["inferred"] == [
        "reduce_scatter was not measured: taken for the mirror of all_gather"
    ]


@pytest.mark.parametrize("params", ["7B", "13B", "70B"])
def test_the_public_h100_tables_give_a_row_for_every_strategy(params: str) -> None:
    told = answer(H100, "--params", params, "--gpu-memory", "80")
    assert (told["job"]["ranks"], told["job"]["hosts"]) == (64, 8)
    assert [row["strategy"] for row in told["strategies"]][-1] == "HYBRID_SHARD"
    assert "all_gather was not measured: half of an all_reduce, as in a ring" in told["inferred"]
    assert told["chosen"] in ("ZeRO-1", "ZeRO-2", "ZeRO-3")
    measured = [point["hosts"] for point in told["scaling"] if "DDP" in point["measured"]]
    assert measured == [2, 8]


def test_the_advice_is_one_sentence_with_what_more_sharding_would_cost() -> None:
    known = ("--params", "1B", "--gpu-memory", "80", "--compute", "200", "--activations", "9")
    told = answer(*A100, *known)
    assert re.fullmatch(
        r"The model fits with DDP; ZeRO-3 would add [0-9.]+ ms of communication a step "
        r"\(\+\d+ % of the step\), saves 13\.\d GB you do not need\.",
        told["recommendation"],
    )
    told = answer(*A100, *known[:-2])
    assert told["recommendation"].startswith("The model fits with DDP, activations not counted; ")
    assert told["recommendation"].endswith("saves 13.4 GB.")
    told = answer(*A100, "--params", "7B", "--gpu-memory", "16")
    assert told["chosen"] is None
    assert told["recommendation"].startswith("Nothing fits: even ZeRO-3 takes 15.8 GB of 16 GB")


def test_a_report_says_what_the_misselected_interface_costs(tmp_path: Path) -> None:
    told = answer(written(tmp_path), "--params", "100M", "--compute", "1000")
    assert told["lines"] == ["data: all_reduce, all_gather of 4 ranks on 4 hosts (gloo)"]
    fault, supposed = told["faults"]
    assert fault["name"] == "(default), which NCCL takes"
    assert fault["kind"] == "misselected"
    good = told["strategies"][0]["communication_s"]["value"]
    assert fault["communication_s"] == pytest.approx(5 * good, rel=0.02)
    lost = 24 * (1 - (good + 1) / (fault["communication_s"] + 1))
    assert fault["hours_a_day"] == pytest.approx(lost)
    assert fault["at_most"] is False
    assert supposed["communication_s"] == pytest.approx(2 * good, rel=0.02)
    status, text = run(written(tmp_path), "--params", "100M")
    assert status == 0
    assert "≤ " in text
    assert max(map(len, text.splitlines())) <= 80
    assert text.rstrip().splitlines()[-3].startswith(("advice:", "        "))


def test_a_network_below_its_expectation_costs_what_it_lacks(tmp_path: Path) -> None:
    slow = line("data", "all_reduce", 4, 0.03)
    slow = msgspec.structs.replace(slow, expected_busbw_gbs=0.06, expected_basis="expected")
    lines = (slow, line("data", "all_gather", 4, 0.03))
    told = answer(written(tmp_path, lines=lines, findings=()), "--params", "100M")
    degraded = next(fault for fault in told["faults"] if fault["kind"] == "degraded")
    assert degraded["added_s"] == pytest.approx(degraded["communication_s"] / 2, rel=0.02)
    assert degraded["hours_a_day"] == pytest.approx(12, rel=0.02)
    assert degraded["at_most"] is True


def test_groups_inside_a_host_are_timed_by_the_slowest_hosts_paths(tmp_path: Path) -> None:
    paths = {"p2p@host1": 300.0, "p2p@host2": 150.0, "shm@host1": 20.0}
    names = ("all_reduce", "all_gather")
    lines = [line("rdma", name, 16, 350.0) for name in names]
    lines += [line(path, name, 8, busbw) for path, busbw in paths.items() for name in names]
    candidates = (
        Candidate(name="rdma", kind="network", transport="rdma", outcome="measured"),
        *(Candidate(name=path, kind="gpu-path", ranks=tuple(range(8))) for path in paths),
    )
    run = written(
        tmp_path, backend="nccl", lines=tuple(lines), candidates=candidates, findings=(),
        plan=Plan(settings=PlanSettings(name="quick"), ranks=16, hosts=2),
    )  # fmt: skip
    told = answer(run, "--params", "7B")
    assert "p2p@host2: all_reduce, all_gather of 8 ranks on 1 host (nccl)" in told["lines"]
    hybrid = told["strategies"][-1]
    assert hybrid["strategy"] == "HYBRID_SHARD"
    inside = [use for use in hybrid["collectives"] if use["scope"] == "host"]
    took = sum(use["time_s"]["value"] for use in inside)
    calls = sum(use["count"] for use in inside)
    assert took == pytest.approx(sum(use["sent_bytes"] for use in inside) / 150e9 + calls * 5e-4)


def test_gloo_reduces_by_all_reduce_and_says_so(tmp_path: Path) -> None:
    told = answer(written(tmp_path), "--params", "100M")
    assert told["inferred"] == [
        "reduce_scatter was not measured: gloo makes it of an all_reduce of the whole buffer"
    ]
    rows = {row["strategy"]: row for row in told["strategies"]}
    ratio = rows["ZeRO-2"]["communication_s"]["value"] / rows["DDP"]["communication_s"]["value"]
    assert 1.4 < ratio < 1.7


def test_more_ranks_than_the_report_has_are_carried_over(tmp_path: Path) -> None:
    told = answer(written(tmp_path), "--params", "100M", "--hosts", "8")
    assert (told["job"]["ranks"], told["job"]["hosts"]) == (8, 8)
    assert "8 ranks on 8 hosts: carried over from 4 ranks on 4 hosts" in told["inferred"]
    told = answer(written(tmp_path), "--params", "100M", "--ranks", "32", "--hosts", "4")
    assert told["strategies"][-1]["strategy"] == "HYBRID_SHARD"
    assert told["strategies"][-1]["communication_s"] is None


def test_compute_time_is_estimated_from_flops_and_said_so() -> None:
    told = answer(*A100, "--params", "1B", "--tflops", "150", "--sequence", "2048", "--batch", "4")
    assert told["job"]["compute_s"] == pytest.approx(6 * 1e9 * 8192 / 150e12)
    assert told["job"]["compute_basis"] == "estimated"


def test_the_page_is_whole_and_escapes_what_it_is_given(tmp_path: Path) -> None:
    folder = tmp_path / "<script>x"
    folder.mkdir()
    page = tmp_path / "cost.html"
    status, _ = run(written(folder), "--params", "100M", "--page", str(page))
    assert status == 0
    text = page.read_text()
    assert "<script>x" not in text
    assert "Communication of a step over the number of hosts" in text
    assert text.rstrip().endswith("</html>")


def test_a_model_config_gives_shapes_and_activations(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
        "vocab_size": 32000}))  # fmt: skip
    told = answer("--model", str(config), "--ranks", "8", "--sequence", "2048", "--batch", "1")
    assert told["parameters"] == 6_738_415_616
    # 32 blocks of 34 s b h, and the logits.
    expected = 32 * 34 * 2048 * 4096 + 10 * 2048 * 32000
    assert told["strategies"][0]["memory"]["activations"] == pytest.approx(expected)
    told = answer("--model", str(config), "--ranks", "8", "--lora", "16")
    assert told["trained"] == 32 * 16 * (4 * 8192 + 3 * 15104)


@pytest.mark.parametrize(
    "argv",
    [
        ("--params", "7B"),
        ("--params", "671B", "--ranks", "4096", "--hosts", "512", "--gpu-memory", "80"),
        (H100, "--params", "70B", "--gpu-memory", "80", "--compute", "123456.7"),
        (*A100, "--params", "1M", "--compute", "0.001", "--trained", "1K"),
    ],
)
def test_every_screen_fits_80_columns_and_ends_with_the_advice(argv: tuple[str, ...]) -> None:
    status, text = run(*argv)
    assert status == 0
    assert max(map(len, text.splitlines())) <= 80
    assert text.rpartition("\n\n")[2].startswith("advice: ")


def test_the_readme_shows_what_it_prints() -> None:
    readme = (DATA.parents[1] / "README.md").read_text()
    section = readme.partition("## What DDP, ZeRO and FSDP would cost")[2]
    command, shown = re.findall(r"^```\w+\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)[:2]
    script = command.replace("python", sys.executable, 1)
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=DATA.parents[1], capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == shown.strip()


def test_help_and_the_command_need_no_torch() -> None:
    code = (
        "import sys; from bench import cli; status = cli.main(['cost', '--params', '7B']); "
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules; sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_adafactor_takes_as_little_whether_or_not_the_shapes_are_known() -> None:
    told = answer("--params", "7B", "--optimizer", "adafactor", "--ranks", "8")
    rows = {row["strategy"]: row for row in told["strategies"]}
    assert rows["DDP"]["state_bytes"] / 1e9 == pytest.approx(56, abs=0.1)


def test_a_reduction_in_fp32_doubles_what_ddp_sends_of_16_bit_gradients() -> None:
    def sent(*more: str) -> dict[str, float]:
        told = answer("--params", "7e9", "--ranks", "8", *more)
        return {row["strategy"]: row["sent_bytes"] for row in told["strategies"]}

    usual, wide = sent(), sent("--reduce-fp32")
    assert wide["DDP"] == pytest.approx(2 * usual["DDP"])
    assert wide["ZeRO-3"] / wide["DDP"] == pytest.approx(1, rel=0.01)  # 2 + 2 + 4 and 2 x 4
    assert sent("--reduce-fp32", "--precision", "fp32") == sent("--precision", "fp32")


# ---------------------------------------------------------------------------------- configurations


def test_a_deepspeed_data_type_of_communication_is_ddps_as_well(tmp_path: Path) -> None:
    file = tmp_path / "ds.json"
    file.write_text(json.dumps({
        "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True},
        "communication_data_type": "fp32", "zero_optimization": {"stage": 0}}))  # fmt: skip
    told = answer("--params", "7e9", "--ranks", "8", "--training", str(file))
    assert told["configured"] == "DDP"
    (ddp,) = [row for row in told["strategies"] if row["strategy"] == "DDP"]
    assert ddp["sent_bytes"] == pytest.approx(2 * 4 * 7e9 * 7 / 8)


def test_a_deepspeed_configuration_fills_in_what_no_option_says(tmp_path: Path) -> None:
    file = tmp_path / "ds.json"
    file.write_text(json.dumps({
        "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
        "bf16": {"enabled": True}, "gradient_clipping": 1.0, "optimizer": {"type": "Lion"},
        "zero_optimization": {"stage": 2, "reduce_bucket_size": 2e8,
                              "offload_optimizer": {"device": "cpu"}}}))  # fmt: skip
    told = answer("--params", "7B", "--ranks", "8", "--training", str(file))
    job = told["job"]
    assert (job["framework"], job["precision"], job["optimizer"]) == (
        "deepspeed", "bf16-mixed", "lion")  # fmt: skip
    assert (job["micro_batches"], job["batch"], job["bucket_elements"]) == (4, 2, 200_000_000)
    assert job["clip"] is True
    assert job["offload_optimizer"] is True
    assert told["configured"] == "ZeRO-2"
    assert "ZeRO-2 would " in told["recommendation"]
    told = answer("--params", "7B", "--ranks", "8", "--training", str(file), "--optimizer", "sgd")
    assert told["job"]["optimizer"] == "sgd"


@pytest.mark.parametrize(
    ("name", "ranks", "hosts", "precision", "configured"),
    [
        ("fsdp", 2, 0, "bf16-autocast", "ZeRO-3"),
        ("handbook_zero2", 8, 1, "bf16-mixed", "ZeRO-2"),
        ("trl_zero3", 8, 1, "fp16-mixed", "ZeRO-3"),
        ("multi_gpu", 2, 0, "bf16-autocast", "DDP"),
        ("simpletuner_four_machines", 32, 4, "bf16-autocast", "DDP"),
    ],
)
def test_accelerate_configurations_are_read(
    name: str, ranks: int, hosts: int, precision: str, configured: str
) -> None:
    file = DATA / "accelerate" / "good" / f"{name}.yaml"
    found = training_settings.filled(Wishes(training=str(file)))
    assert (found.ranks, found.hosts) == (ranks, hosts)
    assert (found.precision, found.configured) == (precision, configured)


# ------------------------------------------------------------------------------------ wrong input


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "either by --params or by --model"),
        (["--params", "7B", "--model", "x"], "either by --params or by --model"),
        (["--params", "many"], "a number of parameters such as 7e9, 7B or 350M, not 'many'"),
        (["--params", "0"], "a number of parameters"),
        (["--params", "1e99"], "a number of parameters"),
        (["--params", "7B", "--optimizer", "adamm"], "no optimizer is called 'adamm'; known are"),
        (["--params", "7B", "--precision", "fp8"], "no precision is called 'fp8'; known are"),
        (["--params", "7B", "--framework", "jax"], "no framework is called 'jax'"),
        (
            ["--params", "7", "--ranks", "8"],
            "8 ranks are more shards than the model has parameters",
        ),
        (["--params", "7B", "--ranks", "-1"], "--ranks lies between 1 and"),
        (["--params", "7B", "--ranks", "10", "--hosts", "4"], "do not spread evenly"),
        (["--params", "7B", "--gpu-memory", "0"], "--gpu-memory is a number above 0"),
        (["--params", "7B", "--compute", "nan"], "--compute is a number above 0"),
        (["--params", "7B", "--compute", "1", "--tflops", "1"], "give one"),
        (["--params", "7B", "--tflops", "100"], "of --sequence and --batch as well"),
        (["--params", "7B", "--lora", "8"], "needs a model's shapes"),
        (["--params", "7B", "--trained", "8B"], "trained parameters lie between 1 and"),
        (["--params", "7B", "--candidate", "data"], "name the report as well"),
        (["--params", "7B", "/nowhere"], "no such file or folder"),
        (["--params", "7B", "--training", "/nowhere"], "no such file"),
        (["--params", "7B", "--page", "/nowhere/x.html"], "no such folder"),
        (["--params", "7B", "--sync", "never"], "no --sync is called 'never'"),
        (["--params", "7B", "--bucket", "x"], "a size is a number of bytes"),
    ],
)
def test_wrong_options_are_one_sentence(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refused(capsys, *argv)


def test_a_missing_all_gather_line_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only = written(tmp_path, "all_reduce")
    told = refused(capsys, only, "--params", "7B", "--measured-only")
    assert "no all_gather and no reduce_scatter line was measured" in told
    assert "--collective all_gather" in told
    inferred = answer(only, "--params", "100M")["inferred"]
    assert "all_gather was not measured: half of an all_reduce, as in a ring" in inferred
    useless = written(tmp_path, "broadcast")
    assert "only broadcast" in refused(capsys, useless, "--params", "7B")


def test_lines_of_the_wrong_kind_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused(capsys, *A100, "--params", "7B", "--ranks", "16", "--hosts", "2")
    assert "no line was measured between 2 hosts" in told
    both = refused(capsys, A100[0], written(tmp_path), "--params", "7B")
    assert "NCCL and of gloo do not go together" in both
    told = refused(capsys, written(tmp_path), "--params", "7B", "--candidate", "dta")
    assert "no network 'dta' was measured over all 4 ranks; there are data, (default)" in told
    empty = written(tmp_path, lines=())
    assert "no line was fitted in this run" in refused(capsys, empty, "--params", "7B")


ZERO2 = '{"zero_optimization": {"stage": 2}, "train_batch_size": 8,\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"zero_optimization": {"stage": 7}, "train_batch_size": 8}', "'7' is not a stage"),
        (ZERO2 + ' "optimizer": {"type": "OneBitLamb"}}', ":2: 'OneBitLamb' is not an"),
        (ZERO2 + ' "gradient_accumulation_steps": "four"}', "'four' is not a number"),
        ("hello", "is no configuration of DeepSpeed or Accelerate"),
    ],
)  # fmt: skip
def test_wrong_configurations_are_one_sentence(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ds.json"
    file.write_text(text)
    assert words in refused(capsys, "--params", "7B", "--training", str(file))


def test_a_model_split_otherwise_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    file = DATA / "accelerate" / "good" / "megatron.yaml"
    told = refused(capsys, "--params", "7B", "--training", str(file))
    assert "only DDP, ZeRO and FSDP are" in told
