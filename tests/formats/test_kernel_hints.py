"""Kernel command lines and IOMMU lines of dmesg."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats import kernel_hints
from bench.formats.source import Source
from bench.records import BadInput, KernelHints

DATA = Path(__file__).resolve().parents[1] / "data/kernel_hints"


def of(name: str) -> KernelHints:
    source = Source.open(DATA / name)
    assert kernel_hints.likeness(source.head(), name) >= 0.8
    (hints,) = kernel_hints.read(source)
    return hints


def of_text(text: str) -> KernelHints:
    (hints,) = kernel_hints.read(Source.of_text(text))
    return hints


def test_the_kernels_own_word_on_its_domains_is_kept() -> None:
    hints = of("dmesg_iommu.txt")
    assert hints.iommu == "translated"
    assert "Default domain type: Translated" in hints.lines[0]


@pytest.mark.parametrize(("name", "state"), [("before", "on"), ("after", "off")])
def test_a_command_line_tells_what_was_asked_for(name: str, state: str) -> None:
    hints = of(f"cmdline_{name}.txt")
    assert hints.iommu == state
    assert hints.command_line == f"BOOT_IMAGE=vmlinuz-4.15.0-64-generic intel_iommu={state}"


def test_what_the_kernel_says_counts_more_than_what_was_asked() -> None:
    hints = of("dmesg_nixos.txt")
    assert hints.iommu == "passthrough"
    assert "hunter2" not in str(hints)  # the rest of a command line may hold anything
    assert "intel_iommu=on" in (hints.command_line or "")


@pytest.mark.parametrize(
    ("words", "state"),
    [
        ("amd_iommu=on iommu=pt", "passthrough"),
        ("iommu=pt amd_iommu=on", "passthrough"),
        ("intel_iommu=on,sm_on", "on"),
        ("iommu=off", "off"),
        ("iommu.passthrough=1", "passthrough"),
        ("iommu.passthrough=1 iommu.passthrough=0", "on"),
        ("quiet splash", None),
    ],
)
def test_parameters_are_read_as_the_kernel_reads_them(words: str, state: str | None) -> None:
    assert of_text(f"BOOT_IMAGE=/vmlinuz-6.8.0 root=/dev/sda1 ro {words}").iommu == state


def test_grubs_line_is_a_command_line() -> None:
    hints = of_text('GRUB_CMDLINE_LINUX="amd_iommu=off pci=noacs"\n')
    assert (hints.iommu, hints.command_line) == ("off", "amd_iommu=off pci=noacs")


@pytest.mark.parametrize(
    ("later", "state"),
    [
        ("BOOT_IMAGE=", "passthrough"),  # cut off: says nothing of a kernel
        ("BOOT_IMAGE=/vmlinuz-6.8.0 ro iommu=off", "off"),  # the next boot
        ("root=/dev/sda1 iommu=off", "passthrough"),
    ],
)
def test_of_several_lines_the_last_that_names_its_kernel_counts(later: str, state: str) -> None:
    hints = of_text(f"BOOT_IMAGE=/vmlinuz ro iommu=pt\n{later}")
    assert hints.command_line and hints.iommu == state


def test_other_kernel_messages_are_not_meant() -> None:
    text = "[    1.0] usb 1-1: new device\n[    2.0] eth0: link up\n"
    assert kernel_hints.likeness(text, "dmesg.txt") == 0
    with pytest.raises(BadInput, match="no kernel command line"):
        of_text(text)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    kernel_hints.likeness(text, "x")
    assert of_text(f"BOOT_IMAGE=/vmlinuz ro iommu=pt\n{text}").command_line
