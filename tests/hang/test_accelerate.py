"""Launch files of jobs: what each node would start, what does not fit, and what is no fault."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.formats import accelerate_config, deepspeed_config, host_slots, launch_command
from bench.formats.source import Source
from bench.hang.accelerate import judgement
from bench.hang.accelerate.jobs import LaunchFiles
from bench.judge.docket import Docket
from bench.records import (
    AccelerateConfig,
    DeepspeedConfig,
    Finding,
    HostLine,
    LaunchCommand,
    NodeLaunch,
)

DATA = Path(__file__).resolve().parents[1] / "data" / "accelerate"

TWO = """\
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
gpu_ids: all
machine_rank: 0
main_process_ip: 10.0.0.1
main_process_port: 29500
mixed_precision: bf16
num_machines: 2
num_processes: 16
"""


def judged(**files: str) -> tuple[list[Finding], tuple[NodeLaunch, ...]]:
    """Findings and launches; "_" in a name stands for its dot."""
    configs: list[AccelerateConfig] = []
    commands: list[LaunchCommand] = []
    deepspeed: list[DeepspeedConfig] = []
    hosts: list[HostLine] = []
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        source = Source.of_text(text, f"{stem}.{suffix}")
        if suffix in ("yaml", "yml"):
            configs += accelerate_config.read(source)
        elif suffix == "json":
            deepspeed += deepspeed_config.read(source)
        elif suffix == "hosts":
            hosts += host_slots.read(source)
        else:
            for record in launch_command.read(source):
                if isinstance(record, AccelerateConfig):
                    configs.append(record)
                else:
                    commands.append(record)
    docket = Docket()
    launches = judgement.judge(
        LaunchFiles(configs=configs, commands=commands, deepspeed=deepspeed, hosts=hosts), docket
    )
    return list(docket.findings), launches


def told(**files: str) -> list[tuple[str, str | None, str]]:
    """Code, kind and severity of each finding that is more than a note."""
    findings, _ = judged(**files)
    return [(f.code, f.kind, f.severity) for f in findings if f.severity != "info"]


def changed(text: str, **values: object) -> str:
    """With other values; None takes the field out."""
    lines = [line for line in text.splitlines() if line.partition(":")[0] not in values]
    lines += [f"{name}: {value}" for name, value in values.items() if value is not None]
    return "\n".join(lines) + "\n"


# --- what each node would launch ---------------------------------------------------------------


def test_a_node_launches_its_share_at_the_files_address() -> None:
    findings, (launch,) = judged(c_yaml=TWO)
    assert not findings
    assert (launch.nodes, launch.node_rank, launch.processes_per_node) == (2, 0, 8)
    assert (launch.address, launch.port, launch.rendezvous) == ("10.0.0.1", 29500, "static")
    assert launch.command == (
        "torchrun --nnodes 2 --node-rank 0 --nproc-per-node 8 --rdzv-endpoint 10.0.0.1:29500"
    )


def test_the_command_line_goes_before_the_file() -> None:
    _, (launch,) = judged(
        c_yaml=TWO,
        run_sh="accelerate launch --config-file c.yaml --num-processes=8 --machine_rank 1 "
        "--main_process_ip 10.0.0.9 train.py --num_processes 99",
    )
    assert (launch.node_rank, launch.processes_per_node, launch.address) == (1, 4, "10.0.0.9")


@pytest.mark.parametrize("option", ["", "--rdzv_backend c10d"])
def test_the_files_rdzv_backend_is_not_read_and_the_options_is(option: str) -> None:
    findings, (launch,) = judged(
        c_yaml=TWO + "rdzv_backend: c10d\n",
        run_sh=f"accelerate launch --config_file c.yaml --machine_rank 0 {option} train.py",
    )
    assert launch.rendezvous == ("c10d" if option else "static")
    assert [f.code for f in findings] == ([] if option else ["accelerate-ignored-field"])


def test_one_machine_launches_all_and_meets_nobody() -> None:
    _, (launch,) = judged(c_yaml=changed(TWO, num_machines=1))
    assert launch.command == "torchrun --nproc-per-node 16"


# --- processes ---------------------------------------------------------------------------------


@given(total=st.integers(1, 64), machines=st.integers(1, 16))
def test_processes_are_accused_exactly_where_the_division_has_a_remainder(
    total: int, machines: int
) -> None:
    found = told(c_yaml=changed(TWO, num_processes=total, num_machines=machines))
    codes = [(code, kind) for code, kind, _ in found if code == "accelerate-processes"]
    if total < machines:
        assert codes == [("accelerate-processes", "below-machines")]
    elif total % machines:
        assert codes == [("accelerate-processes", "not-divisible")]
    else:
        assert codes == []


def test_the_total_of_one_machines_gpus_is_a_warning_for_two() -> None:
    text = changed(TWO, num_processes=8, gpu_ids="0,1,2,3,4,5,6,7")
    assert told(c_yaml=text) == [("accelerate-processes", "per-machine", "warning")]


def test_fewer_processes_than_gpus_are_nobodys_fault() -> None:
    assert told(c_yaml=changed(TWO, num_processes=8, gpu_ids="0,1,2,3,4,5")) == []


def test_type_no_starts_one_process() -> None:
    text = changed(TWO, distributed_type="'NO'", num_machines=1, num_processes=8)
    assert told(c_yaml=text) == []  # a file for --multi_gpu, for all we know
    run = "accelerate launch --config_file c.yaml {} train.py"
    assert told(c_yaml=text, run_sh=run.format("--multi_gpu")) == []
    assert told(c_yaml=text, run_sh=run.format("--debug")) == [
        ("accelerate-processes", "single", "warning")
    ]


def test_hosts_with_too_few_gpus_are_named() -> None:
    findings, _ = judged(c_yaml=TWO, list_hosts="a slots=8\nb slots=4\n")
    assert [f.kind for f in findings] == ["too-few-gpus"]
    assert findings[0].where.hosts == ("b",)


# --- ranks -------------------------------------------------------------------------------------


@given(ranks=st.permutations(range(4)))
def test_any_order_of_ranks_over_four_files_is_fine(ranks: Sequence[int]) -> None:
    files = {
        f"node{at}_yaml": changed(TWO, num_machines=4, machine_rank=rank)
        for at, rank in enumerate(ranks)
    }
    assert told(**files) == []


@given(ranks=st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_a_rank_taken_twice_is_accused_and_nothing_else(ranks: list[int]) -> None:
    files = {
        f"node{at}_yaml": changed(TWO, num_machines=4, machine_rank=rank)
        for at, rank in enumerate(ranks)
    }
    expected = [] if len(set(ranks)) == 4 else [("accelerate-machine-rank", "twice", "broken")]
    assert told(**files) == expected


def test_the_missing_machine_is_named() -> None:
    findings, _ = judged(
        **{
            f"node{at}_yaml": changed(TWO, num_machines=3, num_processes=24, machine_rank=rank)
            for at, rank in enumerate((0, 0, 2))
        }
    )
    assert "machine 1 is missing" in findings[0].summary


def test_ranks_counted_from_one_are_told() -> None:
    findings, _ = judged(
        node1_yaml=changed(TWO, machine_rank=1), node2_yaml=changed(TWO, machine_rank=2)
    )
    assert [(f.code, f.kind) for f in findings] == [("accelerate-machine-rank", "out-of-range")]
    assert "counted from 1" in findings[0].summary


def test_a_rank_above_zero_on_one_machine_trains_alone() -> None:
    text = changed(TWO, num_machines=1, machine_rank=1)
    assert told(c_yaml=text) == [("accelerate-machine-rank", "alone", "degraded")]


def test_half_of_the_files_is_no_fault() -> None:
    assert told(node0_yaml=changed(TWO, num_machines=4)) == []
    files = LaunchFiles(
        configs=accelerate_config.read(Source.of_text(changed(TWO, num_machines=4), "c.yaml"))
    )
    assert judgement.facts(files) == (
        ("open", "what starts machines 1, 2 and 3 of 4 is not here, beside c.yaml"),
    )


SPREAD = {
    "srun -N 2 accelerate launch --config_file c.yaml train.py": "fixed",
    "srun -N 2 accelerate launch --config_file c.yaml --machine_rank 0 train.py": "fixed",
    "pdsh -w h[1-2] accelerate launch --config_file c.yaml train.py": "fixed",
    "srun -N 2 accelerate launch --config_file c.yaml --machine_rank $SLURM_NODEID train.py":
        "filled-in-early",
    'srun -N 2 bash -c "accelerate launch --config_file c.yaml --machine_rank $SLURM_PROCID t.py"':
        "filled-in-early",
    "srun -N 2 bash -c 'accelerate launch --config_file c.yaml --machine_rank $SLURM_NODEID t.py'":
        None,
    'srun -N 2 bash -c "accelerate launch --config_file c.yaml --machine_rank \\$SLURM_NODEID x"':
        None,
    "srun -N 1 accelerate launch --config_file c.yaml --machine_rank 0 train.py": None,
    "srun -N 2 accelerate launch --config_file c.yaml --rdzv_backend c10d train.py": None,
    "ssh h1 accelerate launch --config_file c.yaml --machine_rank 0 train.py": None,
    "for i in 0 1; do ssh h$i accelerate launch --config_file c.yaml --machine_rank $i t.py; done":
        None,
    "if [ $R = 0 ]; then accelerate launch --config_file c.yaml --machine_rank 0 t.py; fi": None,
    "accelerate launch --config_file c.yaml --machine_rank $NODE_RANK train.py": None,
    "accelerate launch --config_file c.yaml --machine_rank 0 train.py": None,
    "accelerate launch --config_file c.yaml train.py": "fixed",
}  # fmt: skip


@pytest.mark.parametrize("command", SPREAD)
def test_one_command_for_all_nodes_needs_a_rank_that_the_node_fills_in(command: str) -> None:
    kinds = [kind for _, kind, _ in told(c_yaml=TWO, run_sh=command)]
    assert kinds == ([SPREAD[command]] if SPREAD[command] else [])


TASKS = {
    "srun -N 2 --ntasks-per-node=8": "launchers",
    "srun -n 3": "launchers",
    "srun -n 2": None,
    "srun -N 2 --ntasks-per-node=1": None,
    "srun $ARGS": None,
    "srun -N $N --ntasks-per-node=8": None,
}


@pytest.mark.parametrize("starter", TASKS)
@pytest.mark.parametrize("option", ["", "--rdzv_backend c10d"])
def test_each_machine_has_one_launcher(starter: str, option: str) -> None:
    inner = f"accelerate launch --config_file c.yaml --machine_rank $SLURM_NODEID {option} t.py"
    kinds = [kind for _, kind, _ in told(c_yaml=TWO, run_sh=f"{starter} bash -c '{inner}'")]
    assert kinds == ([TASKS[starter]] if TASKS[starter] else [])


@pytest.mark.parametrize(
    ("launcher", "kinds"), [("pdsh", []), ("openmpi", []), ("standard", ["fixed"])]
)
def test_deepspeeds_own_launchers_start_the_other_machines(
    launcher: str, kinds: list[str]
) -> None:
    text = changed(TWO, distributed_type="DEEPSPEED") + (
        "deepspeed_config:\n  deepspeed_hostfile: hostfile\n"
        f"  deepspeed_multinode_launcher: {launcher}\n"
    )
    run = "accelerate launch --config_file c.yaml train.py"
    assert [kind for _, kind, _ in told(c_yaml=text, run_sh=run)] == kinds


BATCH_OF_TWO = (
    "#SBATCH --nodes=2\naccelerate launch {} --num_machines 2 --num_processes 16 {} t.py"
)
PLACE = "--machine_rank 0 --main_process_ip 10.0.0.1"


@pytest.mark.parametrize(
    ("options", "place", "kinds"),
    [
        ("--config_file ds.yaml", "", []),
        ("--config_file ds.yaml", PLACE, []),
        ("", PLACE, []),
        ("--use_deepspeed --deepspeed_hostfile hosts", "", []),
        ("--use_deepspeed --deepspeed_hostfile hosts", PLACE, []),
        ("--use_deepspeed --deepspeed_multinode_launcher standard", PLACE, ["not-spread"]),
        ("--multi_gpu", PLACE, ["not-spread"]),
    ],
)
def test_a_configuration_that_is_not_at_hand_may_have_deepspeed_log_in_to_the_others(
    options: str, place: str, kinds: list[str]
) -> None:
    script = "#!/bin/bash\n" + BATCH_OF_TWO.format(options, place)
    assert [kind for _, kind, _ in told(run_sh=script)] == kinds


def test_the_same_rank_by_ssh_on_two_hosts_is_taken_twice() -> None:
    line = "ssh h{} accelerate launch --config_file c.yaml --machine_rank 0 t.py"
    assert told(c_yaml=TWO, run_sh="\n".join(map(line.format, (1, 2)))) == [
        ("accelerate-machine-rank", "twice", "broken")
    ]


def test_scripts_of_nodes_belong_together_and_scripts_of_experiments_do_not() -> None:
    run = "accelerate launch --multi_gpu --num_machines 2 --num_processes 16 --machine_rank 0 {}"
    rest = "--main_process_ip 10.0.0.1 t.py"
    same = {f"node{n}_sh": run.format(rest) for n in (0, 1)}
    assert told(**same) == [("accelerate-machine-rank", "twice", "broken")]
    runs = {f"exp{n}_sh": run.format(f"{rest} --seed {n}") for n in (0, 1)}
    assert told(**runs) == []


def test_copies_of_one_file_for_each_machine_belong_together() -> None:
    assert told(config_1_yaml=TWO, config_2_yaml=TWO) == [
        ("accelerate-machine-rank", "twice", "broken")
    ]
    other = changed(TWO, mixed_precision="fp16")  # of another experiment, for all we know
    assert told(config_1_yaml=TWO, config_2_yaml=other) == []


def test_two_stages_one_after_another_are_no_two_machines() -> None:
    line = "accelerate launch --config_file c.yaml --machine_rank 0 {}.py"
    assert told(c_yaml=TWO, run_sh="\n".join(map(line.format, ("train", "evaluate")))) == []


# --- address and port --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "kind", "severity"),
    [
        ("127.0.0.1", "loopback", "broken"),
        ("127.0.1.1", "loopback", "broken"),
        ("localhost", "loopback", "broken"),
        ("0.0.0.0", "loopback", "broken"),
        ("'::1'", "loopback", "broken"),
        ("10.0.0.256", "form", "broken"),
        ("10.0.0", "form", "broken"),
        ("user@10.0.0.1", "form", "broken"),
        ("tcp://10.0.0.1", "form", "broken"),
        ("10.0.0.1:29500", "form", "broken"),
        ("169.254.10.1", "link-local", "warning"),
        ("172.17.0.1", "docker", "warning"),
    ],
)
def test_addresses_that_lead_nowhere(address: str, kind: str, severity: str) -> None:
    found = told(c_yaml=changed(TWO, main_process_ip=address))
    assert found == [("accelerate-address", kind, severity)]


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1", "172.17.4.1", "172.31.47.177", "8.8.8.8", "fd00::1", "node-0",
        "ip-10-0-0-12.ec2.internal",
        "trainer-0.trainer.default.svc.cluster.local", "$MASTER_ADDR", "<IP>", "192.168.x.x",
        "IP1", "'1234'", "your_ip", "gpu-host",
    ],
)  # fmt: skip
def test_addresses_that_are_none_of_our_business(address: str) -> None:
    assert told(c_yaml=changed(TWO, main_process_ip=address)) == []


def test_loopback_is_fine_for_one_machine_and_for_two_that_share_one() -> None:
    loop = changed(TWO, main_process_ip="127.0.0.1", num_processes=4)
    assert told(c_yaml=changed(loop, num_machines=1)) == []
    files = {
        f"node{n}_yaml": changed(loop, machine_rank=n, gpu_ids=f"'{2 * n},{2 * n + 1}'")
        for n in (0, 1)
    }
    assert told(**files) == []


@pytest.mark.parametrize(
    ("starters", "ranks", "fine"),
    [
        (("CUDA_VISIBLE_DEVICES=0,1", "CUDA_VISIBLE_DEVICES=2,3"), (0, 1), True),
        (("", ""), (0, 1), True),
        (("", ""), (0, 0), False),
        (("ssh h1", "ssh h2"), (0, 1), False),
        (("", "ssh h2"), (0, 1), False),
        (("",), (0,), False),
    ],
)
@pytest.mark.parametrize(
    "launch",
    [
        "torchrun --nnodes 2 --nproc_per_node 2 --node_rank {} --master_addr 127.0.0.1 t.py &",
        (
            "accelerate launch --multi_gpu --num_machines 2 --num_processes 4 "
            "--machine_rank {} --main_process_ip 127.0.0.1 t.py &"
        ),
    ],
)
def test_nodes_that_one_script_starts_where_it_runs_meet_at_loopback(
    launch: str, starters: Sequence[str], ranks: Sequence[int], fine: bool
) -> None:
    lines = [f"{word} {launch.format(rank)}" for word, rank in zip(starters, ranks, strict=True)]
    found, _ = judged(run_sh="#!/bin/bash\n" + "\n".join(lines) + "\nwait\n")
    assert any("loopback" in each.summary for each in found) is not fine
    apart = {f"node{rank}_sh": launch.format(rank) for rank in (0, 1)}
    assert any("loopback" in each.summary for each in judged(**apart)[0])


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        (70000, ("form", "broken")),
        (-1, ("form", "broken")),
        (0, ("zero", "broken")),
        (80, ("privileged", "warning")),
        (1040, None),
        (29500, None),
        (43960, None),
        ("$PORT", None),
    ],
)
def test_ports(port: object, expected: tuple[str, str] | None) -> None:
    found = told(c_yaml=changed(TWO, main_process_port=port))
    assert found == ([("accelerate-port", *expected)] if expected else [])


def test_nodes_that_look_at_different_places_are_told_with_the_odd_ones_line() -> None:
    files = {f"node{n}_yaml": changed(TWO, machine_rank=n, num_machines=4) for n in range(4)}
    files["node2_yaml"] = changed(files["node2_yaml"], main_process_port=29501)
    files["node3_yaml"] = changed(files["node3_yaml"], main_process_ip="10.0.0.4")
    findings, _ = judged(**files)
    assert [(f.code, f.kind) for f in findings] == [
        ("accelerate-address", "differs"),
        ("accelerate-port", "differs"),
    ]
    assert findings[0].where.file == "node3.yaml"
    assert findings[0].where.line == 9
    assert findings[1].where.file == "node2.yaml"


def test_an_address_is_held_against_a_list_of_hosts() -> None:
    hosts = "10.0.0.1 a\n10.0.0.2 b\n"
    ssh = "\n".join(
        f"ssh {host} accelerate launch --config_file c.yaml --machine_rank {rank} t.py"
        for rank, host in enumerate("ba")
    )
    assert told(c_yaml=TWO, run_sh=ssh, list_hosts=hosts) == [
        ("accelerate-address", "not-machine-0", "broken")
    ]
    assert told(c_yaml=TWO, list_hosts=hosts) == []
    files = {f"{host}_yaml": changed(TWO, machine_rank=n) for n, host in enumerate("ba")}
    assert told(**files, list_hosts=hosts) == [("accelerate-address", "not-machine-0", "broken")]
    other = changed(TWO, main_process_ip="10.9.9.9")
    assert told(c_yaml=other, list_hosts=hosts) == [
        ("accelerate-address", "not-listed", "warning")
    ]


def test_an_address_that_every_host_has_is_nobodys() -> None:
    hosts = "".join(f"10.0.0.{n} h{n}\n172.20.0.1 h{n}\n" for n in (1, 2))
    found = told(c_yaml=changed(TWO, main_process_ip="172.20.0.1"), list_hosts=hosts)
    assert found == [("accelerate-address", "shared", "broken")]
    alias = "10.0.0.1 a a.cluster\n10.0.0.2 b b.cluster\n"
    assert told(c_yaml=TWO, list_hosts=alias) == []


def test_several_machines_without_an_address_meet_at_none() -> None:
    text = changed(TWO, main_process_ip=None)
    assert told(c_yaml=text) == []  # the command line may name it
    run = "accelerate launch --config_file c.yaml --machine_rank 0 train.py"
    assert told(c_yaml=text, run_sh=run) == [("accelerate-address", "absent", "broken")]


# --- agreement ---------------------------------------------------------------------------------

ODD = {
    "num_processes": (24, "accelerate-inconsistent", "num-processes"),
    "num_machines": (3, "accelerate-inconsistent", "num-machines"),
    "mixed_precision": ("fp16", "accelerate-inconsistent", "mixed-precision"),
    "distributed_type": ("FSDP", "accelerate-inconsistent", "distributed-type"),
}


@pytest.mark.parametrize("name", ODD)
def test_the_odd_node_of_four_is_named(name: str) -> None:
    value, code, kind = ODD[name]
    files = {f"node{n}_yaml": changed(TWO, machine_rank=n, num_machines=4) for n in range(4)}
    files["node1_yaml"] = changed(files["node1_yaml"], **{name: value})
    findings, _ = judged(**files)
    found = [f for f in findings if f.kind == kind]
    assert [f.code for f in found] == [code]
    assert found[0].where.file == "node1.yaml"
    assert "node1.yaml is the odd one" in found[0].summary


def test_no_with_and_without_quotes_is_one_word() -> None:
    files = {
        "node0_yaml": changed(TWO, mixed_precision="'no'"),
        "node1_yaml": changed(TWO, machine_rank=1, mixed_precision="no"),
    }
    assert told(**files) == [("accelerate-refused", "type", "broken")]


def test_two_nodes_that_differ_have_no_odd_one() -> None:
    findings, _ = judged(
        node0_yaml=TWO, node1_yaml=changed(TWO, machine_rank=1, mixed_precision="fp16")
    )
    assert [f.kind for f in findings] == ["mixed-precision"]
    assert "odd" not in findings[0].summary


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (TWO, [("accelerate-machine-rank", "twice")]),
        (changed(TWO, machine_rank=1), []),
        (changed(TWO, distributed_type="FSDP"), []),  # another attempt
    ],
)
def test_two_configurations_of_one_text(
    second: str, expected: list[tuple[str, str | None]]
) -> None:
    text = f"machine 1\n\n{TWO}\nmachine 2\n\n{second}"
    docket = Docket()
    configs = accelerate_config.read(Source.of_text(text, "post.txt"))
    judgement.judge(LaunchFiles(configs=configs), docket)
    assert [(f.code, f.kind) for f in docket.findings] == expected


def test_gpu_ids_may_differ() -> None:
    assert told(
        node0_yaml=changed(TWO, gpu_ids="0,1,2,3,4,5,6,7"),
        node1_yaml=changed(TWO, machine_rank=1, gpu_ids="8,9,10,11,12,13,14,15"),
    ) == []  # fmt: skip


@pytest.mark.parametrize(
    "names",
    [
        ("zero2", "zero3"), ("fsdp", "ddp"), ("deepspeed-zero-2", "deepspeed-zero-3"),
        ("llama-8b", "llama-70b"), ("2node", "4node"), ("fsdp1", "fsdp2"),
    ],
)  # fmt: skip
def test_a_folder_of_templates_is_many_jobs(names: tuple[str, str]) -> None:
    first, second = names
    assert told(**{
        f"{first}_yaml": changed(TWO, mixed_precision="bf16"),
        f"{second}_yaml": changed(TWO, mixed_precision="fp16", num_processes=8),
    }) == []  # fmt: skip


def test_numbers_that_count_are_no_nodes() -> None:
    assert told(
        gpus2_yaml=changed(TWO, num_processes=2),
        gpus16_yaml=TWO,
        x_4_yaml=changed(TWO, num_processes=4),
    ) == []  # fmt: skip


# --- sections ----------------------------------------------------------------------------------

FSDP = """\
distributed_type: FSDP
mixed_precision: bf16
num_processes: 8
fsdp_config:
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_sharding_strategy: FULL_SHARD
"""
DEEPSPEED = """\
distributed_type: DEEPSPEED
num_processes: 8
deepspeed_config:
  deepspeed_config_file: ds.json
  deepspeed_multinode_launcher: standard
"""
DS_FILE = '{"zero_optimization": {"stage": 2}, "steps_per_print": 1,\n "bf16": {"enabled": true}}'

SECTIONS = {
    "cpu_ram_efficient_loading without sync": (
        FSDP + "  fsdp_cpu_ram_efficient_loading: true\n  fsdp_sync_module_states: false\n",
        ("accelerate-inconsistent", "fsdp", "broken"),
    ),
    "a strategy that is none": (
        FSDP.replace("FULL_SHARD", "FULL_SHRAD"), ("accelerate-refused", "type", "broken"),
    ),
    "local states in version 2": (
        FSDP + "  fsdp_version: 2\n  fsdp_state_dict_type: LOCAL_STATE_DICT\n",
        ("accelerate-inconsistent", "fsdp", "broken"),
    ),
    "a section of another type": (
        FSDP.replace("distributed_type: FSDP", "distributed_type: MULTI_GPU"),
        ("accelerate-ignored-field", "section", "warning"),
    ),
    "two sections": (
        FSDP + "deepspeed_config:\n  zero_stage: 3\n",
        ("accelerate-inconsistent", "section", "warning"),
    ),
    "zero_stage beside DeepSpeed's file": (
        DEEPSPEED + "  zero_stage: 3\n", ("accelerate-inconsistent", "deepspeed-file", "broken"),
    ),
    "mixed_precision beside DeepSpeed's file": (
        DEEPSPEED + "mixed_precision: bf16\n",
        ("accelerate-inconsistent", "deepspeed-file", "broken"),
    ),
    "pdsh without a host file": (
        changed(DEEPSPEED.replace("standard", "pdsh"), num_machines=2, main_process_ip="h1"),
        ("accelerate-inconsistent", "hostfile", "degraded"),
    ),
    "a mesh of other size": (
        FSDP + "  fsdp_version: 2\nparallelism_config:\n  parallelism_config_dp_shard_size: 4\n",
        ("accelerate-inconsistent", "parallelism", "broken"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SECTIONS)
def test_sections_that_contradict(name: str) -> None:
    text, expected = SECTIONS[name]
    assert told(c_yaml=text) == [expected]


def test_deepspeeds_own_file_is_held_against_the_command_line() -> None:
    files = {"c_yaml": DEEPSPEED, "ds_json": DS_FILE}
    run = "accelerate launch --config_file c.yaml --mixed_precision {} train.py"
    assert told(**files) == []
    assert told(**files, run_sh=run.format("bf16")) == []
    assert told(**files, run_sh=run.format("fp16")) == [
        ("accelerate-inconsistent", "precision", "broken")
    ]


def test_deepspeeds_batch_sizes_multiply_to_the_whole() -> None:
    sizes = (
        '{"zero_optimization": {"stage": 2}, "gradient_accumulation_steps": 2,\n'
        ' "train_micro_batch_size_per_gpu": 4, "train_batch_size": %s}'
    )
    assert told(c_yaml=DEEPSPEED, ds_json=sizes % 64) == []
    assert told(c_yaml=DEEPSPEED, ds_json=sizes % '"auto"') == []
    findings, _ = judged(c_yaml=DEEPSPEED, ds_json=sizes % 32)
    assert [(f.kind, f.where.file, f.where.line) for f in findings] == [
        ("batch-size", "ds.json", 2)
    ]


# --- fields ------------------------------------------------------------------------------------

REFUSED = {
    "mixed_precision": "no",
    "distributed_type": "MULTI_GPUS",
    "gpu_ids": 0,
    "num_processes": "'16'",
    "main_process_prot": 29500,
}


@pytest.mark.parametrize("name", REFUSED)
def test_values_at_which_accelerate_ends(name: str) -> None:
    found = told(c_yaml=changed(TWO, **{name: REFUSED[name]}))
    assert ("accelerate-refused", "broken") in [(code, severity) for code, _, severity in found]


def test_a_field_that_may_be_of_a_later_release_is_a_warning() -> None:
    assert told(c_yaml=TWO + "quantum_config: 1\n") == [
        ("accelerate-refused", "unknown-field", "warning")
    ]


def test_torchruns_options_are_not_accelerates() -> None:
    run = "accelerate launch --config_file c.yaml --machine_rank 0 --nproc_per_node 8 train.py"
    assert told(c_yaml=TWO, run_sh=run) == [("accelerate-refused", "option", "broken")]


def test_a_key_that_stands_twice_is_told_where_it_differs() -> None:
    assert told(c_yaml=TWO + "num_processes: 16\n") == []
    assert told(c_yaml=TWO + "num_processes: 32\n") == [
        ("accelerate-ignored-field", "twice", "warning")
    ]


# --- torchrun ----------------------------------------------------------------------------------


def test_torchrun_may_start_more_processes_than_gpus_and_is_asked() -> None:
    run = "#SBATCH --gpus-per-node=4\ntorchrun --nproc_per_node 8 t.py"
    assert told(run_sh=run) == [("launcher-world-size", "processes", "warning")]
    assert told(run_sh=run.replace("8", "4")) == []


def test_a_rank_that_only_the_default_configuration_tells_is_open() -> None:
    command = (
        "accelerate launch --multi_gpu --num_machines 2 --num_processes 4 --main_process_ip a t"
    )
    told_by = launch_command.read(Source.of_text(command, "run.sh"))
    commands = [each for each in told_by if isinstance(each, LaunchCommand)]
    (fact,) = judgement.facts(LaunchFiles(commands=commands))
    assert "default configuration" in fact[1]
    assert told(run_sh=command) == []


def test_options_in_a_variable_leave_open_what_they_may_set() -> None:
    wrong = changed(TWO, num_processes=15, main_process_ip=None, main_process_port=0)
    for starter in ("srun -N 2 ", ""):
        run = f"{starter}accelerate launch --config_file c.yaml $ARGS t.py"
        assert told(c_yaml=wrong, run_sh=run) == []
    assert told(run_sh='srun -n 16 torchrun "${DISTRIBUTED_ARGS[@]}" t.py') == []


def test_a_configuration_that_the_script_writes_is_judged_with_its_command() -> None:
    script = (
        "#SBATCH --nodes=2\ncat > c.yaml <<EOF\n"
        + changed(TWO, num_machines="$SLURM_NNODES")
        + "EOF\nsrun accelerate launch --config_file c.yaml t.py\n"
    )
    findings, (launch,) = judged(job_sh=script)
    assert [(f.code, f.kind, f.where.line) for f in findings] == [
        ("accelerate-machine-rank", "fixed", 6)
    ]
    assert (launch.nodes, launch.processes_per_node) == (2, 8)


def test_torchrun_commands_are_asked_the_same() -> None:
    line = "ssh h{} torchrun --nnodes 2 --nproc-per-node 8 --node-rank {} --master-addr {} t.py"
    good = "\n".join(line.format(n, n, "h0") for n in (0, 1))
    assert told(run_sh=good) == []
    twice = "\n".join(line.format(n, 0, "h0") for n in (0, 1))
    assert told(run_sh=twice) == [("launcher-world-size", "machine-rank", "broken")]
    loop = "\n".join(line.format(n, n, "127.0.0.1") for n in (0, 1))
    assert told(run_sh=loop) == [("launcher-world-size", "address", "broken")]


# --- Accelerate itself --------------------------------------------------------------------------

LAUNCHED = json.loads((DATA / "launched.json").read_text())["launches"]


@pytest.mark.parametrize("at", range(len(LAUNCHED)))
def test_a_launch_is_what_accelerate_itself_made_of_it(at: int) -> None:
    case = LAUNCHED[at]
    findings, (launch,) = judged(c_yaml=case["config"], run_sh=case["command"])
    if "error" in case:  # what Accelerate refuses is accused
        assert "broken" in {finding.severity for finding in findings}, case["error"]
        return
    assert "accelerate-refused" not in {finding.code for finding in findings}
    if "torchrun" not in case:
        assert launch.how == ("process" if case.get("process") else "deepspeed")
        if launch.how == "deepspeed":
            words = case["deepspeed"]
            assert words[words.index("--num_gpus") + 1] == str(launch.processes_per_node)
        return
    expected = case["torchrun"]
    assert launch.how == "torchrun"
    assert launch.nodes == expected["nnodes"]
    assert launch.processes_per_node == expected["nproc_per_node"]
    if expected["nnodes"] > 1:
        assert f"{launch.address}:{launch.port}" == expected["endpoint"]
        assert launch.rendezvous == expected["rdzv_backend"]
        if launch.rendezvous == "static":
            assert launch.node_rank == expected["node_rank"]


def test_torchrun_itself_takes_the_commands_that_are_shown() -> None:
    from torch.distributed import run

    parser = run.get_args_parser()
    taken = 0
    for case in LAUNCHED:
        _, (launch,) = judged(c_yaml=case["config"], run_sh=case["command"])
        if launch.how != "torchrun" or "?" in launch.command:
            continue
        words = launch.command.split()[1:]
        options = parser.parse_args([*words, "train.py"])
        assert options.nproc_per_node == str(launch.processes_per_node)
        if (launch.nodes or 1) > 1:
            assert options.nnodes == str(launch.nodes)
            assert options.rdzv_endpoint == f"{launch.address}:{launch.port}"
            assert options.rdzv_backend == launch.rendezvous
        taken += 1
    assert taken > 40


# --- public files ------------------------------------------------------------------------------

GOOD = sorted(DATA.glob("good/*"))
FAULTY = {
    "below_machines": ("accelerate-processes", "below-machines", "default_config.yaml", 10),
    "uneven_gpus": ("accelerate-processes", "not-divisible", "launch.sh", 6),
    "fixed_rank": ("accelerate-machine-rank", "fixed", "gpu8.yaml", 5),
    "eight_and_two_gpus": ("accelerate-processes", "too-few-gpus", "node1.yaml", 4),
    "value_of_a_switch": ("accelerate-ignored-field", "value-of-a-switch", "launch.sh", 2),
    "user_in_the_address": ("accelerate-address", "form", "default_config.yaml", 10),
    "filled_in_early": ("accelerate-machine-rank", "filled-in-early", "job.sbatch", 12),
    "without_srun": ("accelerate-machine-rank", "not-spread", "job.sbatch", 6),
    "port_too_large": ("accelerate-port", "form", "launch.sh", 3),
    "one_gpu": ("accelerate-refused", "one-gpu", "accelerate.yaml", 4),
    "nothing_to_shard": ("accelerate-inconsistent", "parallelism", "tp_hsdp.yaml", 16),
}


def folder(path: Path) -> list[Finding]:
    """What is told of a file or folder, each file read as `diagnose` recognises it."""
    from bench.commands import evidence, launch_evidence
    from bench.formats import file_walk

    gathered = evidence.gather(file_walk.files([str(path)]))
    read = [each for each in gathered.files if not each.file.endswith("launched.json")]
    assert not [each for each in read if each.kind in ("unknown", "unreadable")]
    docket = Docket()
    launch_evidence.judge(gathered, docket, None)
    return list(docket.findings)


@pytest.mark.parametrize("path", GOOD, ids=[path.name for path in GOOD])
def test_public_files_that_work_are_not_accused(path: Path) -> None:
    assert [f for f in folder(path) if f.severity != "info"] == []


def test_all_public_files_that_work_together_are_not_accused_either() -> None:
    assert [f for f in folder(DATA / "good") if f.severity != "info"] == []
    assert len(GOOD) >= 35


@pytest.mark.parametrize("name", FAULTY)
def test_public_files_that_do_not_work_are_explained(name: str) -> None:
    serious = [f for f in folder(DATA / "faulty" / name) if f.severity != "info"]
    code, kind, file, line = FAULTY[name]
    assert [(f.code, f.kind) for f in serious] == [(code, kind)]
    assert Path(serious[0].where.file or "").name == file
    assert serious[0].where.line == line
    assert serious[0].remedy


def test_every_faulty_folder_is_explained_by_a_test() -> None:
    assert {path.name for path in (DATA / "faulty").iterdir()} == set(FAULTY)


def test_all_public_files_together_say_what_each_says_alone() -> None:
    told = {
        (f.code, f.kind, Path(f.where.file or "").parent.name)
        for f in folder(DATA)
        if f.severity != "info"
    }
    alone = {(code, kind, name) for name, (code, kind, _, _) in FAULTY.items()}
    assert told == alone


def test_every_finding_says_where_and_by_what() -> None:
    for path in itertools.chain((DATA / "faulty").iterdir(), (DATA / "good").iterdir()):
        for finding in folder(path):
            assert finding.where.file
            assert finding.evidence
