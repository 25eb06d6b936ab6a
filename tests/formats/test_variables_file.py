"""Variables as people hand them in, launch lines, and what must never be kept."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats import host_name, launch_line, variables_file
from bench.formats.allow_list import recorded
from bench.formats.source import Source
from bench.records import BadInput, Variables

DATA = Path(__file__).resolve().parents[1] / "data/variables_file"


def of(name: str) -> Variables:
    source = Source.open(DATA / name)
    assert variables_file.likeness(source.head(), name) >= 0.5
    (variables,) = variables_file.read(source)
    return variables


def of_text(text: str, file: str = "<text>") -> Variables:
    (variables,) = variables_file.read(Source.of_text(text, file))
    return variables


def test_a_plain_list_is_read() -> None:
    variables = of("env.txt")
    assert variables.variables["NCCL_IB_HCA"] == "rocep80s0,rocep203s0"
    assert variables.variables["NCCL_CROSS_NIC"] == "0"
    assert len(variables.variables) == 11


def test_exports_that_mpirun_does_not_forward_are_told_apart() -> None:
    script = of("launch.sh")
    assert script.exported == (
        "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_IB_DISABLE", "NCCL_SOCKET_IFNAME",
    )  # fmt: skip
    assert script.forwarded == ()
    assert script.launched_on == ("hostA", "hostB")
    assert (script.launcher or "").startswith("mpirun --allow-run-as-root")


def test_what_x_forwards_is_told() -> None:
    commands = of("commands.txt")
    assert commands.forwarded == ("NCCL_DEBUG",)
    assert commands.variables == {"NCCL_DEBUG": "INFO"}


def test_a_slurm_script_gives_values_without_quotes_comments_and_secrets() -> None:
    script = of("run.sbatch")
    assert script.variables == {
        "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1",
        "NCCL_DEBUG": "WARN",
        "NCCL_CROSS_NIC": "0",
        "NCCL_NVLS_ENABLE": "0",
    }
    assert script.exported == ("NCCL_IB_HCA", "NCCL_DEBUG")
    assert script.forwarded == ("ALL", "NCCL_NVLS_ENABLE")
    kept = msgspec.json.encode(script).decode()
    assert not any(secret in kept for secret in ("hf_secret", "sk-123", "xyz"))


def test_a_pods_list_of_variables_is_read() -> None:
    assert of("pod.yaml").variables == {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_DEBUG": "INFO"}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("NCCL_DEBUG=INFO", "INFO"),
        ("export NCCL_DEBUG='INFO'", "INFO"),
        ('  export NCCL_DEBUG="INFO"  # loud', "INFO"),
        ("declare -x NCCL_DEBUG=\"INFO\"", "INFO"),
        ("setenv NCCL_DEBUG INFO", "INFO"),
        ("ENV NCCL_DEBUG=INFO", "INFO"),
        ("NCCL_DEBUG: INFO", "INFO"),
        ("- NCCL_DEBUG=INFO", "INFO"),
        ("NCCL_DEBUG=", ""),
        ("NCCL_DEBUG=INFO mpirun -np 2 ./all_reduce_perf", "INFO"),
        ("mpirun -np 2 \\\n  -x NCCL_DEBUG=INFO ./all_reduce_perf", "INFO"),
        ("mpiexec -genv NCCL_DEBUG INFO -n 2 ./all_reduce_perf", "INFO"),
        ("$ env NCCL_DEBUG=INFO torchrun train.py", "INFO"),
    ],
)  # fmt: skip
def test_every_way_of_setting_a_variable_is_understood(line: str, value: str) -> None:
    assert of_text(line).variables == {"NCCL_DEBUG": value}


@pytest.mark.parametrize(
    ("line", "values", "exported"),
    [
        ("NCCL_P2P_DISABLE=1 HF_TOKEN=hf_abc python train.py", {"P2P_DISABLE": "1"}, ()),
        ("NCCL_ALGO=Ring NCCL_PROTO='LL 128' ./build/all_reduce_perf -b 8",
         {"ALGO": "Ring", "PROTO": "LL 128"}, ()),
        ("user@host:~$ sudo env -u X -i NCCL_ALGO=Ring HF_TOKEN=hf_abc ./run", {"ALGO": "Ring"},
         ()),
        ("export NCCL_DEBUG=INFO && export NCCL_IB_DISABLE=1",
         {"DEBUG": "INFO", "IB_DISABLE": "1"}, ("DEBUG", "IB_DISABLE")),
        ("export NCCL_DEBUG=INFO NCCL_ALGO=Ring # both", {"DEBUG": "INFO", "ALGO": "Ring"},
         ("DEBUG", "ALGO")),
        ("export NCCL_DEBUG=INFO NCCL_ALGO HF_TOKEN=hf_abc", {"DEBUG": "INFO"},
         ("DEBUG", "ALGO")),
        ("cd /x && NCCL_DEBUG=INFO ./run | NCCL_ALGO=Tree tee", {"DEBUG": "INFO", "ALGO": "Tree"},
         ()),
        ("NCCL_DEBUG='a;b'; NCCL_ALGO=Ring", {"DEBUG": "a;b", "ALGO": "Ring"}, ()),
        ("NCCL_SOCKET_IFNAME=$(ip route | awk '{print $5}') ./run HF_TOKEN=hf_abc",
         {"SOCKET_IFNAME": "$(ip route | awk '{print $5}')"}, ()),
        ("declare -gx NCCL_DEBUG=INFO", {"DEBUG": "INFO"}, ("DEBUG",)),
        ("setenv NCCL_DEBUG \"INFO\" # loud", {"DEBUG": "INFO"}, ("DEBUG",)),
        ("ENV NCCL_DEBUG=INFO HF_TOKEN=hf_abc NCCL_ALGO=Ring", {"DEBUG": "INFO", "ALGO": "Ring"},
         ("DEBUG", "ALGO")),
        ("NCCL_IB_HCA=mlx5_0,\\\nmlx5_1 ./run", {"IB_HCA": "mlx5_0,mlx5_1"}, ()),
    ],
)  # fmt: skip
def test_a_line_of_several_settings_gives_each_and_no_more(
    line: str, values: dict[str, str], exported: tuple[str, ...]
) -> None:
    told = of_text(line)
    assert told.variables == {f"NCCL_{name}": value for name, value in values.items()}
    assert told.exported == tuple(f"NCCL_{name}" for name in exported)
    assert "hf_abc" not in msgspec.json.encode(told).decode()


@pytest.mark.parametrize(
    "line",
    [
        "[ $USER = x ] && export NCCL_P2P_DISABLE=1",
        "[[ -z $A || -n $B ]] && NCCL_P2P_DISABLE=1 ./run",
        "cd /x || export NCCL_P2P_DISABLE=1",
        "echo NCCL_P2P_DISABLE=1",
        "python train.py NCCL_P2P_DISABLE=1",
        "NCCL_P2P_DISABLE=1 makes no difference",
        "export NCCL_P2P_DISABLE=1 is not needed",
        "NCCL_P2P_DISABLE: 1 (no peer-to-peer)",
        "# NCCL_P2P_DISABLE=1",
        '"NCCL_P2P_DISABLE": "1",',
        "export -n NCCL_P2P_DISABLE",
    ],
)
def test_what_may_not_run_and_sentences_set_nothing(line: str) -> None:
    told = of_text(f"NCCL_DEBUG=INFO\n{line}")
    assert (told.variables, told.exported) == ({"NCCL_DEBUG": "INFO"}, ())


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "NCCL_SOCKET_MAGIC", "UCX_API_KEY", "HOME"]
)
def test_names_behind_which_a_secret_may_stand_are_not_kept(name: str) -> None:
    assert not recorded(name)
    kept = of_text(f"NCCL_DEBUG=INFO\n{name}=hunter2\nexport {name}=hunter2\n")
    assert "hunter2" not in msgspec.json.encode(kept).decode()


def test_sentences_and_logs_are_no_launch_lines() -> None:
    assert launch_line.launcher("mpirun forwards nothing without -x") == "mpirun"
    assert launch_line.launcher("The mpirun command failed") is None
    assert launch_line.launcher("mpirun: Error") is None
    assert launch_line.launcher("accelerate env") is None
    log = "host:1:2 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5\n" * 5
    assert variables_file.likeness(log, "rank.log") == 0
    with pytest.raises(BadInput, match="sets no variable"):
        of_text(log)


@pytest.mark.parametrize(
    ("file", "host"),
    [
        ("hostA_ibv.txt", "hostA"),
        ("node07/ibstat.log", "node07"),
        ("ibstat-node3.txt", "node3"),
        ("dgx-12_env.txt", "dgx-12"),
        ("env.txt", None),
        ("launch.sh", None),
        ("run3.env", None),
        ("cmdline_before.txt", None),
        ("some-long-title-of-a-folder/env.txt", None),
        ("<text>", None),
    ],
)
def test_a_files_name_tells_a_host_only_where_it_looks_like_one(
    file: str, host: str | None
) -> None:
    assert host_name.of_file(file) == host


NAMES = st.from_regex(r"NCCL_[A-Z][A-Z_]{0,12}", fullmatch=True).filter(recorded)
VALUES = st.text(alphabet="abcXYZ019,=^:._-", max_size=20)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=12), st.sampled_from(["", "export "]))
def test_any_list_comes_back_as_written(values: dict[str, str], lead: str) -> None:
    text = "\n".join(f"{lead}{name}={value}" for name, value in values.items())
    assert of_text(text).variables == values


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    variables_file.likeness(text, "x.sh")
    assert of_text(f"NCCL_DEBUG=INFO\n\n{text}").variables
