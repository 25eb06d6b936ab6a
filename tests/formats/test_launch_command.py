"""Launch scripts: which commands they start, with what, by whom; whose shell fills in what."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.formats import host_slots, launch_command, shell_script, shell_sums, shell_words
from bench.formats.shell_script import Scope
from bench.formats.source import Source
from bench.records import AccelerateConfig, LaunchCommand


def read(text: str) -> list[LaunchCommand]:
    told = launch_command.read(Source.of_text(text, "run.sh"))
    return [each for each in told if isinstance(each, LaunchCommand)]


def options(text: str) -> dict[str, object]:
    (command,) = read(text)
    return {name: setting.value for name, setting in command.options.items()}


def test_options_end_at_the_program() -> None:
    (command,) = read("accelerate launch --num-processes=4 -m --debug train --num_processes 9")
    assert {k: s.value for k, s in command.options.items()} == {
        "num_processes": "4",
        "module": True,
        "debug": True,
    }
    assert command.program == "train"


def test_continued_lines_keep_their_numbers() -> None:
    (command,) = read(
        "cd x\n\naccelerate launch \\\n  --num_machines 2 \\\n --machine_rank 1 t.py"
    )
    assert command.line == 3
    assert [command.options[n].line for n in ("num_machines", "machine_rank")] == [4, 5]


def test_a_variable_that_holds_the_launcher_keeps_its_lines() -> None:
    script = 'N=2\nexport L="accelerate launch \\\n --num_machines $N \\\n"\nCMD="$L t.py"\n$CMD\n'
    (command,) = read(script)
    assert command.options["num_machines"].value == "2"
    assert command.options["num_machines"].line == 3


KNOWN = {
    "N=4; torchrun --nnodes $N t.py": "4",
    "N=4\nG=2\ntorchrun --nnodes $((N * G + 1)) t.py": "9",
    "N=4\ntorchrun --nnodes $(expr $N \\* 2) t.py": "8",
    "N=4\nN=5\ntorchrun --nnodes $N t.py": "$N",
    "if x; then N=4; fi\ntorchrun --nnodes $N t.py": "$N",
    "N=$(nproc)\ntorchrun --nnodes $N t.py": "$N",
    "torchrun --nnodes ${N:-2} t.py": "${N:-2}",
    "N=$N:2\ntorchrun --nnodes $N t.py": "$N",
    "N=4\ntorchrun --nnodes '$N' t.py": "$N",
    "#SBATCH --nodes=3\ntorchrun --nnodes $SLURM_NNODES t.py": "3",
    "#SBATCH -N 3\ntorchrun --nnodes ${SLURM_JOB_NUM_NODES} t.py": "3",
    "#SBATCH -N 2-4\ntorchrun --nnodes $SLURM_NNODES t.py": "$SLURM_NNODES",
}


@pytest.mark.parametrize("script", KNOWN)
def test_only_what_has_one_plain_value_is_filled_in(script: str) -> None:
    assert options(script)["nnodes"] == KNOWN[script]


STARTERS = {
    "srun -N 4 --ntasks-per-node=2 torchrun --nnodes 4 t.py": ("srun", 8, ()),
    "srun -n4 torchrun --nnodes 4 t.py": ("srun", 4, ()),
    "srun -w h[1-3] torchrun --nnodes 3 t.py": ("srun", 3, ("h1", "h2", "h3")),
    "srun --nodes=$N torchrun --nnodes 3 t.py": ("srun", None, ()),
    "mpirun -np 2 -H a:1,b:1 torchrun --nnodes 2 t.py": ("mpirun", 2, ("a", "b")),
    "pdsh -w a,b 'cd /x && torchrun --nnodes 2 t.py'": ("pdsh", 2, ("a", "b")),
    "ssh -p 22 -i key me@a 'torchrun --nnodes 2 t.py' &": ("ssh", 1, ("a",)),
    "nohup torchrun --nnodes 2 t.py > log 2>&1 &": ("", None, ()),
    "python -m torch.distributed.run --nnodes 2 t.py": ("", None, ()),
    "user@host:~$ torchrun --nnodes 2 t.py": ("", None, ()),
    "for h in a b; do ssh $h torchrun --nnodes 2 t.py; done": ("loop", None, ()),
    "go() {\n torchrun --nnodes 2 t.py\n}\n": ("function", None, ()),
    "NCCL_DEBUG=INFO torchrun --nnodes 2 t.py": ("", None, ()),
}


@pytest.mark.parametrize("script", STARTERS)
def test_who_starts_it_and_how_often(script: str) -> None:
    (command,) = read(script)
    starter = command.starter
    assert (starter.name, starter.launchers, starter.hosts) == STARTERS[script]


@pytest.mark.parametrize(
    "text",
    [
        "We use accelerate launch to start it.",
        "echo done",
        "accelerate config",
        "pip install torchrun-tools",
        "cat <<EOF\naccelerate launch t.py\nEOF",
        "# torchrun --nnodes 2 t.py",
        "grep 'accelerate launch' run.log",
    ],
)
def test_what_starts_nothing(text: str) -> None:
    assert read(text) == []


CONFIG = "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_machines: $N\n"


@pytest.mark.parametrize(("quote", "machines"), [("", 2), ("'", "$N")])
def test_a_configuration_that_a_script_writes_is_read_in_its_lines(
    quote: str, machines: object
) -> None:
    script = f"N=2\ncat > cfg/c.yaml <<{quote}EOF{quote}\n{CONFIG}EOF\ntorchrun t.py\n"
    command, config = launch_command.read(Source.of_text(script, "run.sh"))
    assert isinstance(command, LaunchCommand)
    assert isinstance(config, AccelerateConfig)
    assert (config.file, config.name) == ("run.sh", "cfg/c.yaml")
    setting = config.values["num_machines"]
    assert (setting.value, setting.file, setting.line) == (machines, "run.sh", 5)


def test_a_document_in_a_quoted_script_ends_nothing() -> None:
    script = "bash -c 'cat <<EOF\nx\nEOF\n'\ntorchrun --nnodes 2 t.py\n"
    assert len(read(script)) == 1


@pytest.mark.parametrize(
    ("words", "more", "program"),
    [
        ("$ARGS --num_machines 2 t.py", True, "t.py"),
        ('"${LAUNCH_ARGS[@]}" t.py', True, "t.py"),
        ("--num_machines 2 $SCRIPT $ARGS", False, "$SCRIPT"),
        ("--num_machines 2 $1", False, "$1"),
        ("--num_machines 2 $EXTRA", True, ""),
    ],
)
def test_a_variable_among_the_options_may_hold_others(
    words: str, more: bool, program: str
) -> None:
    (command,) = read(f"accelerate launch {words}")
    assert (command.more, command.program) == (more, program)


# What bash itself makes of a line is the measure for words and quotes.
PIECES = st.lists(
    st.sampled_from(
        [
            "a",
            "b-c",
            "'x y'",
            '"p q"',
            '"it\'s"',
            "\\ ",
            " ",
            "  ",
            '""',
            "'\"'",
            "x=1",
            '\\"',
            "%",
        ]
    ),
    max_size=8,
)


@given(PIECES)
def test_words_are_those_of_bash(pieces: list[str]) -> None:
    line = "".join(pieces)
    printed = subprocess.run(
        ["/bin/bash", "-c", f'set -f; printf "%s\\0" w {line}'],
        capture_output=True, text=True, check=True, timeout=20,
    ).stdout  # fmt: skip
    found = shell_words.commands(f"w {line}", 1)
    assert [word.text for words in found for word in words] == printed.split("\0")[:-1]


@given(st.text(st.sampled_from("ab \n\\'\"$(){}`;|&#<=-SBATCH"), max_size=120))
def test_any_script_is_read_to_its_end(text: str) -> None:
    read(f"#!/bin/bash\naccelerate launch {text}")


@given(st.integers(0, 999), st.integers(0, 999), st.sampled_from("+-*%/"))
def test_sums_are_those_of_bash(left: int, right: int, sign: str) -> None:
    expected = {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "%": left % right if right else None,
        "/": left // right if right else None,
    }[sign]
    assert shell_sums.arithmetic(f"{left} {sign} {right}") == expected


def test_values_that_double_are_not_filled_in_without_end() -> None:
    lines = ["A0=xxxxxxxxxx", *(f'A{n + 1}="{f"$A{n}" * 10}"' for n in range(30))]
    scope = Scope()
    list(shell_script.statements(enumerate(lines, 1), scope))
    assert len(read("\n".join([*lines, "accelerate launch $A30 x.py"]))) <= 1


def test_lists_of_hosts() -> None:
    def hosts(text: str, name: str = "hostfile") -> list[tuple[str, int | None, tuple[str, ...]]]:
        assert host_slots.likeness(text, name) > 0.5
        return [
            (line.host, line.gpus, line.addresses)
            for line in host_slots.read(Source.of_text(text, name))
        ]

    assert hosts("a slots=8\n# b\nc slots=4\n") == [("a", 8, ()), ("c", 4, ())]
    assert hosts("hostA 2 GPUs\nhostB 3 GPUs\n", "x.txt") == [("hostA", 2, ()), ("hostB", 3, ())]
    assert hosts("10.0.0.1 a a.x\n127.0.1.1 b\n", "hosts") == [
        ("a", None, ("10.0.0.1",)),
        ("a.x", None, ("10.0.0.1",)),
        ("b", None, ("127.0.1.1",)),
    ]
    assert hosts("n1\nn2\n", "nodes.txt") == [("n1", None, ()), ("n2", None, ())]
    assert host_slots.likeness("n1\nn2\n", "words.txt") == 0.0
    assert host_slots.likeness("loss 2\nstep 3\n", "train.txt") == 0.0


@pytest.mark.parametrize(
    "before",
    [
        "MASK=$((1<<i))",
        "MASK=$(( (1 << (i + 1)) | 1 ))",
        "((mask <<= one))",
        'X=$((1<<i)); Y="$((Z<<i))"',
        "cat <<END-OF-FILE\ntorchrun no.py\nEND-OF-FILE",
        "grep x <<< y; cat <<EOF\ntorchrun no.py\nEOF",
        "cat <<EOF\nno end of this comes",
        "if true; then\ncat <<A\ncat <<B\nfi",
    ],
)
def test_what_is_no_here_document_hides_nothing(before: str) -> None:
    (command,) = read(f"{before}\ntorchrun --nnodes 2 train.py\n")
    assert command.options["nnodes"].value == "2"
    assert command.line == before.count("\n") + 2


def test_documents_without_an_end_are_read_in_bounded_time() -> None:
    lines = [f"cat <<W{at}" for at in range(5_000)]
    (command,) = read("\n".join([*lines, "torchrun --nnodes 2 train.py"]))
    assert command.line == 5_001


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("-J llama-n4", {}),
        ("--ntasks=16 --no-requeue", {"ntasks": "16"}),
        ("-o slurm-nccl-%j.out -p gpu-north", {}),
        ("--exclusive -N 2", {"nodes": "2"}),
        ("--exclusive -N2 -n 16 -w node[1-2]",
         {"nodes": "2", "ntasks": "16", "nodelist": "node[1-2]"}),
        ("-N -n4 --nodes --ntasks=2", {"ntasks": "2"}),
        ("--gpus-per-node h100:8 -G16", {"gpus-per-node": "8", "gpus": "16"}),
    ],
)  # fmt: skip
def test_options_of_a_batch_script_are_words_of_their_own(
    options: str, told: dict[str, str]
) -> None:
    scope = Scope()
    assert not list(shell_script.statements([(1, f"#SBATCH {options}")], scope))
    assert {name: value for name, (value, _) in scope.batch.items() if name} == told
