"""Versions from bug reports, as software facts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats import accelerate_env
from bench.formats.source import Source
from bench.records import BadInput, SoftwareOf

DATA = Path(__file__).resolve().parents[1] / "data/accelerate_env"


def of(name: str) -> SoftwareOf:
    source = Source.open(DATA / name)
    assert accelerate_env.likeness(source.head(), name) >= 0.8
    (software,) = accelerate_env.read(source)
    return software


def test_accelerate_env_gives_versions_and_its_configuration() -> None:
    report = of("accelerate_env.txt")
    software = report.software
    assert (software.python, software.torch, software.cuda) == ("3.10.12", "2.4.0+cu121", "12.1")
    assert software.kernel == "5.15.0-107-generic"
    assert software.packages == {"accelerate": "1.2.1", "numpy": "1.26.4"}
    assert report.details["config.num_machines"] == "2"
    assert report.details["GPU type"] == "NVIDIA H100 80GB HBM3"
    assert not any("somebody" in value for value in report.details.values())


def test_collect_env_gives_the_driver_and_nccl() -> None:
    software = of("collect_env.txt").software
    assert (software.torch, software.cuda, software.driver) == ("2.5.1+cu118", "11.8", "535.54.03")
    assert (software.nccl, software.python) == ("2.19.3", "3.10.15")
    assert software.packages["torch"] == "2.5.1"


def test_padded_names_are_the_same_names() -> None:
    software = of("collect_env_sections.txt").software
    assert (software.torch, software.cuda) == ("2.7.0+cu126", "12.6")
    assert (software.driver, software.nccl) == ("570.86.15", "2.26.2")


def test_what_could_not_be_collected_is_not_known() -> None:
    text = "Collecting environment information...\nPyTorch version: 2.7.0\n"
    text += "CUDA used to build PyTorch: Could not collect\nNvidia driver version: No CUDA\n"
    (report,) = accelerate_env.read(Source.of_text(text))
    assert (report.software.torch, report.software.cuda, report.software.driver) == (
        "2.7.0", None, None,
    )  # fmt: skip


def test_other_files_are_refused() -> None:
    assert accelerate_env.likeness("NCCL version: 2.19\n", "x") == 0
    with pytest.raises(BadInput, match="names no version"):
        accelerate_env.read(Source.of_text("nothing: here\n"))


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    (report,) = accelerate_env.read(Source.of_text(f"PyTorch version: 2.7.0\n{text}"))
    assert report.software.torch == "2.7.0"
