"""Configurations of Accelerate and DeepSpeed: every value with its line, nothing executed."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bench.cli import main
from bench.formats import accelerate_config, deepspeed_config, yaml_tree
from bench.formats.source import Source
from bench.formats.yaml_tree import Branch, Items, Leaf, Tree
from bench.records import AccelerateConfig, BadInput

HEAD = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\n"


def read(text: str, file: str = "c.yaml") -> AccelerateConfig:
    (config,) = accelerate_config.read(Source.of_text(text, file))
    return config


def test_every_value_knows_its_line() -> None:
    config = read(f"# a comment\n{HEAD}\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n")
    assert config.values["distributed_type"].line == 3
    assert (config.values["num_processes"].value, config.values["num_processes"].line) == (8, 5)
    assert config.section_lines == {"fsdp_config": 7}
    assert config.sections["fsdp_config"]["fsdp_version"].line == 7


def test_words_are_read_as_accelerate_reads_them() -> None:
    values = read(
        HEAD + "a: no\nb: 'no'\nc: 0,1\nd: 10.0.0.1\ne: 0o9\nf: 1_000\ng: null\nh: [1, 2]\ni: ~\n"
    ).values
    found = [values[name].value for name in "abcdefghi"]
    assert found == [False, "no", "0,1", "10.0.0.1", "0o9", 1000, None, "1, 2", None]


def test_several_documents_are_several_nodes() -> None:
    text = f"{HEAD}machine_rank: 0\n---\n{HEAD}machine_rank: 1\n"
    ranks = accelerate_config.read(Source.of_text(text, "all.yaml"))
    assert [(c.values["machine_rank"].value, c.values["machine_rank"].line) for c in ranks] == [
        (0, 3),
        (1, 7),
    ]


def test_json_is_read_as_well_with_tabs_too() -> None:
    text = '{\n\t"compute_environment": "LOCAL_MACHINE",\n\t"distributed_type": "NO",\n\t"x":1\n}'
    config = read(text, "default_config.json")
    assert config.form == "json"
    assert (config.values["x"].value, config.values["x"].line) == (1, 4)


# In the shape of huggingface/accelerate issue 37.
POST = """\
machine 1:

```
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
fp16: true
machine_rank: 0
num_machines: 2
num_processes: 4
```

machine 2:

```
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
fp16: true
machine_rank: 1
num_machines: 2
num_processes: 4
```
"""


def test_configurations_one_below_the_other_in_a_post_are_two() -> None:
    assert accelerate_config.likeness(POST, "configs.txt") == 1.0
    first, second = accelerate_config.read(Source.of_text(POST, "configs.txt"))
    assert set(first.values) == set(second.values)
    assert "machine 1" not in first.values
    ranks = [config.values["machine_rank"] for config in (first, second)]
    assert [(each.value, each.line) for each in ranks] == [(0, 7), (1, 18)]


def test_a_log_that_prints_its_configuration_stays_a_log() -> None:
    log = HEAD + "".join(f"step {n} loss 2.{n}\n" for n in range(50))
    assert accelerate_config.likeness(log, "train.txt") == 0.0


# Of huggingface/accelerate issue 2818, as `accelerate env` prints it.
REPORT = """\
- `Accelerate` version: 0.30.1
- Python version: 3.10.14
- PyTorch version (GPU?): 2.3.0+cu121 (True)
- `Accelerate` default config:
\t- compute_environment: LOCAL_MACHINE
\t- distributed_type: DEEPSPEED
\t- mixed_precision: no
\t- use_cpu: False
\t- num_processes: 1
\t- num_machines: 2
\t- deepspeed_config: {'gradient_accumulation_steps': 1, 'zero_stage': 2}
\t- main_process_ip: 10.0.0.1

Information
\t- num_processes: 99
"""


def test_a_bug_report_holds_a_configuration() -> None:
    assert accelerate_config.likeness(REPORT, "issue.txt") == 1.0
    config = read(REPORT, "issue.txt")
    assert config.form == "report"
    assert (config.values["num_processes"].value, config.values["num_processes"].line) == (1, 9)
    assert config.values["mixed_precision"].value == "no"
    assert config.sections["deepspeed_config"]["zero_stage"].value == 2


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("apiVersion: v1\nkind: Pod\n", "pod.yaml"),
        ("#!/bin/bash\ncat > c.yaml <<EOF\n" + HEAD + "EOF\n", "run.sh"),
        ("model: llama\nmixed_precision: bf16\n", "train.yaml"),
        ("debug: true\nnum_processes: 4\nmixed_precision: bf16\nlr: 1\n", "train.yaml"),
        ('{"compute": 1}', "x.json"),
        ("", "c.yaml"),
    ],
)
def test_other_files_are_none(text: str, name: str) -> None:
    assert accelerate_config.likeness(text, name) == 0.0


def test_a_sum_in_a_configuration_makes_it_no_script() -> None:
    text = "compute_environment: TPU\ndistributed_type: TPU\ncommands: [echo $((1<<i))]\n"
    assert accelerate_config.likeness(text, "tpu.yaml") == 1.0
    assert accelerate_config.likeness(f"{text}# cat <<EOF\n", "tpu.yaml") == 0.0


def test_deepspeeds_file_has_dotted_names() -> None:
    text = (
        '{"zero_optimization": {\n"stage": 3},\n"steps_per_print": 10, "bf16": {"enabled": true}}'
    )
    assert deepspeed_config.likeness(text, "ds.json") == 1.0
    (config,) = deepspeed_config.read(Source.of_text(text, "ds.json"))
    stage = config.values["zero_optimization.stage"]
    assert (stage.value, stage.line) == (3, 2)
    assert config.values["bf16.enabled"].value is True


# --- hostile files ----------------------------------------------------------------------------

HOSTILE = {
    "aliases": HEAD
    + "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"b{n}: &b{n} [*a,*a,*a]\n" for n in range(9)),
    "a tag": HEAD + "x: !!python/object/apply:os.system ['touch OWNED']\n",
    "a tag of somebody": HEAD + "x: !secret 1\n",
    "flow nesting": HEAD + "x: " + "[" * 50_000,
    "map nesting": HEAD + "x: " + "{a: " * 50_000,
    "list nesting": HEAD + "x:\n" + "- " * 50_000,
    "indentation": HEAD + "".join(f"{' ' * n}a:\n" for n in range(400)),
    "size": HEAD + "x: " + "A" * (2 << 20),
    "many values": HEAD + "".join(f"k{n}: 1\n" for n in range(25_000)),
    "a merge key": HEAD + "<<: {num_processes: 3}\n",
    "an open quote": HEAD + 'x: "abc\n',
    "a control character": HEAD + "x: a\x01b\n",
    "a mapping for a key": HEAD + "? [1]\n: 2\n",
    "no YAML": HEAD + "a: b: c\n",
    "a number": HEAD.replace("\n", "\r") + "\x00" * 10,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_end_in_one_sentence(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "config.yaml"
    file.write_text(HOSTILE[name], newline="")
    assert main(["diagnose", "config.yaml"], io.StringIO()) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("fabric-bench: config.yaml")
    assert printed.count("\n") == 1
    assert len(printed) < 240
    assert {path.name for path in tmp_path.iterdir()} == {"config.yaml"}


def plain(tree: Tree) -> object:
    if isinstance(tree, Leaf):
        return tree.value
    if isinstance(tree, Items):
        return [plain(item) for item in tree.items]
    assert isinstance(tree, Branch)
    return {key: plain(child) for key, child in tree.children.items()}


# Words without what YAML 1.1 makes dates of, which no launch file holds.
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**9), 10**9),
    st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=20),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text("abcxyz_", min_size=1, max_size=8), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(TREES)
def test_a_tree_is_what_yamls_own_safe_reader_makes_of_it(tree: object) -> None:
    text = yaml.safe_dump(tree, allow_unicode=True)
    expected = yaml.safe_load(text)
    (found,) = yaml_tree.documents(text, "x.yaml")
    assert plain(found) == expected
    (again,) = yaml_tree.documents(json.dumps({"a": tree}, ensure_ascii=False), "x.json")
    assert plain(again) == {"a": tree}


@given(st.text(st.sampled_from("abc:-[]{}&*!|>'\"%@#,? \n\t0123.~\u2028\ud7ff"), max_size=200))
def test_any_text_is_a_tree_or_one_sentence(text: str) -> None:
    try:
        accelerate_config.read(Source.of_text(HEAD + text, "c.yaml"))
    except BadInput as error:
        bad = error
    else:
        return
    assert "\n" not in str(bad)
    assert bad.file == "c.yaml"
