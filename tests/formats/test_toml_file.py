"""TOML files into records, and complaints that name file, line and what was expected."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.formats.toml_file import MAX_BYTES, load, load_text
from bench.formats.toml_lines import KeyLines
from bench.records import BadInput, Fabric, PlanSettings


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["rate", "loss", "mtu"]
    host: int = 1


class Network(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    rate_mbit: float | None = None
    interface: str | tuple[str, ...] = ""

    def __post_init__(self) -> None:
        if self.rate_mbit is not None and self.rate_mbit <= 0:
            raise ValueError(f"rate_mbit is {self.rate_mbit}; expected more than 0")


class Lab(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    hosts: int
    network: tuple[Network, ...] = ()
    environment: dict[str, str] = {}
    fault: tuple[Fault, ...] = ()


LAB = """\
# a lab
hosts = 4

[[network]]
name = "mgmt"
rate_mbit = 100

[[network]]
name = "data"
interface = [
    "a0",   # host 1 ]
    "b0",
]
rate_mbit = 500

[environment]
NCCL_SOCKET_IFNAME = "mgmt"

[[fault]]
kind = "rate"
"""


def complaint(text: str, type_: type = Lab) -> str:
    with pytest.raises(BadInput) as caught:
        load_text(text, type_, file="x.toml")
    return str(caught.value)


def test_a_good_file_becomes_its_record() -> None:
    lab = load_text(LAB, Lab, file="x.toml")
    assert lab.hosts == 4
    assert lab.network[1] == Network(name="data", interface=("a0", "b0"), rate_mbit=500)
    assert lab.environment == {"NCCL_SOCKET_IFNAME": "mgmt"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "rate_mbit = 500",
            "rate_mbits = 500",
            'x.toml:14: unknown key "rate_mbits" in network[1]; did you mean "rate_mbit"?',
        ),
        (
            "rate_mbit = 500",
            "rate = 500",
            'x.toml:14: unknown key "rate" in network[1]; did you mean "rate_mbit"?',
        ),
        ("hosts = 4", "hots = 4", 'x.toml:2: unknown key "hots"; did you mean "hosts"?'),
        (
            "hosts = 4",
            "zebra = 4",
            'x.toml:2: unknown key "zebra"; known keys: hosts, network, environment, fault',
        ),
        (
            "rate_mbit = 500",
            'rate_mbit = "500"',
            'x.toml:14: network[1].rate_mbit is "500"; expected a number',
        ),
        ("hosts = 4", "hosts = 2.5", "x.toml:2: hosts is 2.5; expected a whole number"),
        (
            "interface = [",
            "interface = [ 3,",
            "x.toml:10: network[1].interface[0] is 3; expected text in quotes",
        ),
        (
            'NCCL_SOCKET_IFNAME = "mgmt"',
            'A = "b"\nNCCL_DEBUG = 3',
            "x.toml:18: environment.NCCL_DEBUG is 3; expected text in quotes",
        ),
        (
            'kind = "rate"',
            'kind = "mut"',
            'x.toml:20: fault[0].kind is "mut"; expected "loss" or "mtu" or "rate"',
        ),
        ('name = "data"\n', "", 'x.toml:8: network[1] lacks the key "name"'),
        ("hosts = 4", "", 'x.toml: the file lacks the key "hosts"'),
        (
            "rate_mbit = 500",
            "rate_mbit = -1",
            "x.toml:8: network[1]: rate_mbit is -1.0; expected more than 0",
        ),
        (
            "rate_mbit = 500",
            "rate_mbit = inf",
            "x.toml:14: network[1].rate_mbit is inf; expected a finite number below 2**63",
        ),
        ("hosts = 4", "hosts == 4", "x.toml:2: is not TOML: invalid value"),
        ("hosts = 4", 'hosts = "4', "x.toml:2: is not TOML: "),
        ('kind = "rate"', 'kind = """rate', "x.toml:20: is not TOML: "),
        ("hosts = 4", "hosts = 4\nhosts = 5", "is not TOML: cannot overwrite a value"),
        ("hosts = 4", "hosts = " + "9" * 30, "x.toml:2: hosts"),
        ("hosts = 4", "hosts = " + "9" * 5000, "x.toml: is not TOML"),
        ("hosts = 4", "hosts = 2026-11-30", "x.toml:2: hosts is"),
        ("hosts = 4", "hosts = " + "[" * 4000 + "]" * 4000, "x.toml"),
    ],
)
def test_says_what_is_wrong_and_where(old: str, new: str, expected: str) -> None:
    assert old in LAB
    assert expected in complaint(LAB.replace(old, new))


def test_the_words_of_a_complaint_do_not_speak_of_python() -> None:
    for text in ("name = 3\n", 'name = "a"\nnetwork = 3\n', 'name = "a"\ngpus = []\n'):
        assert not any(
            word in complaint(text, Fabric) for word in ("null", "array", "Struct", "`")
        )


def test_a_key_of_an_inline_table_gets_the_line_it_stands_on() -> None:
    text = 'name = "a"\n\ntolerance = { bandwith = 0.1 }\n'
    expected = 'x.toml:3: unknown key "bandwith" in tolerance; did you mean "bandwidth"?'
    assert complaint(text, Fabric) == expected


def test_a_records_own_refusal_gets_the_file() -> None:
    class Strict(msgspec.Struct):
        a: int

        def __post_init__(self) -> None:
            raise BadInput("a and b exclude each other")

    assert complaint("a = 1", Strict) == "x.toml: a and b exclude each other"


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    def complaint_about(path: Path) -> str:
        with pytest.raises(BadInput) as caught:
            load(path, PlanSettings)
        return str(caught.value).replace(str(tmp_path), "")

    assert complaint_about(tmp_path / "no.toml") == "/no.toml: no such file"
    assert complaint_about(tmp_path) == ": cannot be read: Is a directory"
    (tmp_path / "big.toml").write_bytes(b"#" * (MAX_BYTES + 1))
    assert "larger than 1 MiB" in complaint_about(tmp_path / "big.toml")
    (tmp_path / "latin.toml").write_bytes(b'# ok\nname = "\xe9"\n')
    assert complaint_about(tmp_path / "latin.toml") == "/latin.toml:2: is not UTF-8 text"


def test_a_byte_order_mark_and_windows_line_ends_are_no_error(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_bytes(b'\xef\xbb\xbfname = "a"\r\nsessions = 2\r\n')
    assert load(tmp_path / "plan.toml", PlanSettings).sessions == 2
    (tmp_path / "plan.toml").write_bytes(b'name = "a"\r\nsessions = "2"\r\n')
    with pytest.raises(BadInput, match=r"plan.toml:2: sessions is"):
        load(tmp_path / "plan.toml", PlanSettings)


def test_lines_are_found_through_dotted_quoted_and_nested_keys() -> None:
    lines = KeyLines(
        'a.b = 1\n"c d".e = """\n[no]\nx = 1\n"""\n[[n]]\nz = 1\n[n.sub]\ny = 2\n[[n]]\n'
        "z = [ # [\n  1,\n]\nw = '''\nz''' # ]\nlast = 1\n"
    )
    assert lines.of(("a", "b")) == 1
    assert lines.of(("c d", "e")) == 2
    assert lines.of(("n", 0, "sub", "y")) == 9
    assert lines.of(("n", 1)) == 10
    assert lines.of(("n", 1, "z")) == 11
    assert lines.of(("n", 1, "z", 0)) == 11
    assert lines.of(("n", 1, "last")) == 16
    assert lines.of(("x",)) is None


@given(st.text(alphabet=st.sampled_from(list("ab=[]{}\"'\\\n#.,1 \t")), max_size=60))
def test_any_text_gives_a_record_or_a_complaint(text: str) -> None:
    with contextlib.suppress(BadInput):
        load_text(text, Lab, file="x.toml")
