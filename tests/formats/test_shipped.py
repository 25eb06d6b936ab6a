"""Names such as "nightly" and paths such as ./mine.toml, told apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.formats.shipped import find, folder
from bench.formats.toml_file import load
from bench.records import (
    BadInput,
    Fabric,
    FabricBusbw,
    FabricGpus,
    FabricNetwork,
    PlanSettings,
    Tolerance,
)

PLANS = sorted(path.stem for path in folder("plans").glob("*.toml"))


def test_the_shipped_plans_are_the_five_that_the_manual_names() -> None:
    assert PLANS == ["full", "ladder", "locate", "nightly", "quick"]


@pytest.mark.parametrize("name", PLANS)
def test_every_shipped_plan_loads_and_carries_its_own_name(name: str) -> None:
    assert load(find("plans", name), PlanSettings).name == name


def test_the_quick_plan_file_says_what_the_defaults_are() -> None:
    assert load(find("plans", "quick"), PlanSettings) == PlanSettings(name="quick")


@pytest.mark.parametrize("name", ["nightly", "full"])
def test_plans_that_are_compared_take_thirty_iterations_and_three_sessions(name: str) -> None:
    plan = load(find("plans", name), PlanSettings)
    assert plan.min_iterations >= 30
    assert plan.sessions >= 3


def test_a_path_is_taken_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text('name = "mine"\n')
    monkeypatch.chdir(tmp_path)
    assert find("plans", "mine.toml") == Path("mine.toml")
    assert find("plans", str(tmp_path / "mine.toml")) == tmp_path / "mine.toml"


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("nightli", 'no plan is called "nightli"; did you mean "nightly"?'),
        ("zzz", 'no plan is called "zzz"; known: full, ladder, locate, nightly, quick'),
        ("zzz.toml", "zzz.toml: no such file"),
        ("./quick", "./quick: no such file"),
        ("/", "/: is a folder; expected a TOML file"),
    ],
)
def test_what_is_not_there_is_one_sentence(wanted: str, sentence: str) -> None:
    with pytest.raises(BadInput) as caught:
        find("plans", wanted)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("file", sorted(folder("fabrics").glob("*.toml")), ids=lambda f: f.stem)
def test_every_shipped_fabric_loads_and_is_in_the_folders_table(file: Path) -> None:
    assert load(file, Fabric).name == file.stem
    table = re.findall(r"^\|(.*?)\|", (file.parent / "README.md").read_text(), re.MULTILINE)
    assert sum(f"`{file.name}`" in row for row in table) == 1


def test_the_example_fabric_shows_every_key() -> None:
    text = find("fabrics", "example").read_text()
    for record in (Fabric, FabricNetwork, FabricGpus, FabricBusbw, Tolerance):
        for name in record.__struct_fields__:
            assert re.search(rf"^(\[+)?{name}\b", text, re.MULTILINE), name
