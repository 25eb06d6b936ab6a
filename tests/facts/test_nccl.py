"""Asking the real libnccl: environment, conf files, lost answers, several at once."""

from __future__ import annotations

import ctypes.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.facts import interfaces, libraries, nccl, nccl_conf


@pytest.fixture(autouse=True)
def no_conf_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own NCCL settings are not part of these questions."""
    monkeypatch.setenv("NCCL_CONF_FILE", "/dev/null")
    monkeypatch.delenv("NCCL_SOCKET_IFNAME", raising=False)


def test_libnccl_is_found_and_tells_its_version() -> None:
    path = libraries.find_nccl()
    assert path is not None, "these tests need libnccl: pip install nvidia-nccl-cu13"
    choice = nccl.ask("=lo", library=path)
    assert (choice.bootstrap, choice.address, choice.code) == ("lo", "127.0.0.1", 0)
    assert choice.nccl_version is not None
    assert choice.nccl_version.startswith("2.")
    assert choice.line == "Bootstrap: Using lo:127.0.0.1<0>"


def test_no_match_is_an_answer_with_nccls_own_words() -> None:
    choice = nccl.ask("=nosuch0")
    assert choice.bootstrap is None
    assert choice.code == 5
    assert choice.line == "Bootstrap : no socket interface found"


def test_the_unset_question_takes_the_environment_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "=lo")
    assert nccl.ask(None).bootstrap == "lo"
    assert nccl.choose(None, interfaces.read()[0]).interfaces == ("lo",)


def test_a_conf_file_counts_where_the_environment_is_silent(tmp_path: Path) -> None:
    conf = tmp_path / "nccl.conf"
    conf.write_text("# site settings\nNCCL_SOCKET_IFNAME==lo\nNCCL_DEBUG_FILE=/nowhere/x\n")
    environment = {"NCCL_CONF_FILE": str(conf)}
    choice = nccl.choose(None, interfaces.read()[0], environment=environment)
    assert (choice.bootstrap, choice.interfaces) == ("lo", ("lo",))
    environment["NCCL_SOCKET_IFNAME"] = "=nosuch0"
    assert nccl.ask(None, environment=environment).bootstrap is None


def test_a_quiet_debug_level_or_a_log_file_does_not_hide_the_answer(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    environment = {"NCCL_DEBUG": "WARN", "NCCL_DEBUG_FILE": str(log), "NCCL_DEBUG_SUBSYS": "COLL"}
    assert nccl.ask("=lo", environment=environment).bootstrap == "lo"
    assert not log.exists()


def test_other_settings_of_this_process_do_not_enter_a_named_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NCCL_COMM_ID", "192.0.2.77:1")
    assert nccl.ask("=lo").bootstrap == "lo"
    assert nccl.ask(None).bootstrap != "lo"


def test_many_questions_at_once_do_not_disturb_each_other() -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(nccl.ask, ["=lo", "=nosuch0"] * 8))
    assert [answer.bootstrap for answer in answers] == ["lo", None] * 8


def test_a_library_that_is_not_nccl_gives_no_answer_and_the_rules_step_in() -> None:
    libc = Path(ctypes.util.find_library("c") or "libc.so.6")
    choice = nccl.ask("=lo", library=libc)
    assert choice.code is None
    assert "ncclGetVersion" in str(choice.line)
    predicted = nccl.choose("=lo", interfaces.read()[0], library=libc)
    assert (predicted.basis, predicted.bootstrap, predicted.interfaces) == (
        "predicted",
        "lo",
        ("lo",),
    )


def test_a_silent_library_is_given_up_on_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "_CHILD", "import time; time.sleep(60)")
    monkeypatch.setattr(nccl, "ANSWER_WITHIN_S", 0.3)
    choice = nccl.ask("=lo", library=Path("/lib/slow.so"))
    assert choice.line == "no answer from slow.so within 0 s"


def test_a_lost_answer_is_asked_for_once_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mark = tmp_path / "asked"
    name = repr(str(mark))
    loses_one = f"import os\nif not os.path.exists({name}): open({name}, 'w'), os._exit(9)\n"
    monkeypatch.setattr(nccl, "_CHILD", loses_one + nccl._CHILD)
    assert nccl.ask("=lo").bootstrap == "lo"
    assert mark.exists()


def test_asking_may_be_left_out() -> None:
    choice = nccl.choose("=lo", interfaces.read()[0], asking=False)
    assert (choice.basis, choice.bootstrap, choice.code) == ("predicted", "lo", None)


@pytest.mark.parametrize(
    ("text", "name", "address"),
    [
        ("eth0:10.0.0.1", "eth0", "10.0.0.1"),
        ("eth0:1:10.0.0.1", "eth0:1", "10.0.0.1"),
        ("eth0:fe80::1%eth0", "eth0", "fe80::1"),
        ("eth0:fd00:1::1", "eth0", "fd00:1::1"),
        ("eth0", None, None),
    ],
)
def test_name_and_address_are_told_apart(text: str, name: str, address: str) -> None:
    assert nccl._split(text) == (name, address)


def test_version_numbers_of_both_schemes_are_read() -> None:
    assert [nccl.version_name(code) for code in (23203, 2708, 21903, 0)] == [
        "2.32.3",
        "2.7.8",
        "2.19.3",
        None,
    ]


def test_conf_files_are_read_as_nccl_reads_them(tmp_path: Path) -> None:
    user, system = tmp_path / "user.conf", tmp_path / "etc.conf"
    user.write_text(
        "#NCCL_IB_DISABLE=1\nNCCL_A=1\nNCCL_A=2\n NCCL_B=3\nnothing here\nNCCL_C= x \nSECRET=1\n"
        "NCCL_SOCKET_MAGIC=7\n"
    )
    system.write_text("NCCL_A=9\nNCCL_D=4")
    environment = {"NCCL_CONF_FILE": str(user), "NCCL_D": "5", "HOME": "/nowhere"}
    files, unreadable = nccl_conf.read(environment, system_file=system)
    assert [file.path for file in files] == [str(user), str(system)]
    assert files[0].settings == {"NCCL_A": "1", "NCCL_C": " x "}  # no trimming, first one wins
    assert unreadable == {}
    effective = nccl_conf.effective(environment, files)
    assert (effective["NCCL_A"], effective["NCCL_D"]) == ("1", "5")


def test_a_conf_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    files, unreadable = nccl_conf.read(
        {"NCCL_CONF_FILE": str(tmp_path)}, system_file=tmp_path / "x"
    )
    assert files == ()
    assert "Is a directory" in unreadable[f"nccl_conf.{tmp_path}"]


def test_without_a_named_file_the_home_of_the_password_file_counts() -> None:
    paths = nccl_conf._paths({"HOME": "/elsewhere"}, Path("/etc/nccl.conf"))
    assert paths[-1] == Path("/etc/nccl.conf")
    assert "/elsewhere" not in str(paths[0])
