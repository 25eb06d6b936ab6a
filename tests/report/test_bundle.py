"""A run's archive: whole, listed, without secrets, the same each time, hostile folders or not."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench import cli
from bench.records import BadInput, HostFacts, RankOutcome, Report
from bench.report import bundle, stored
from bench.report.journal import Journal

SECRET = "hunter2xyz"  # noqa: S105 - a made-up one, to be looked for
LOG = (
    "host1:71:71 [0] NCCL INFO Bootstrap: Using mgmt0:10.1.0.1<0>",
    f"host1:71:71 [0] NCCL INFO NCCL_SOCKET_MAGIC set by environment to {SECRET}",
)


@pytest.fixture
def run(tmp_path: Path, made: Any, gpu_hosts: dict[str, HostFacts]) -> Path:
    """A finished run of four hosts with logs, a GPU host among them, and a secret everywhere."""
    pattern: Report = made.misselected
    gpus = gpu_hosts["links-down"]
    first = msgspec.structs.replace(
        gpus, host="host1", hostname="host1.cluster.example.org",
        interfaces=pattern.hosts[0].interfaces,
        environment={"NCCL_DEBUG": "INFO", "HF_TOKEN": SECRET},
        tool_outputs={"nvidia-smi topo -m": "\tGPU0\nGPU0\t X \n"},
    )  # fmt: skip
    hosts = (first, *pattern.hosts[1:])
    sessions = tuple(
        msgspec.structs.replace(
            session,
            hosts=tuple(msgspec.structs.replace(h, nccl_log=LOG) for h in session.hosts),
        )
        for session in pattern.sessions
    )
    died = RankOutcome(
        rank=2, host="host3", outcome="died", error=f"API_KEY={SECRET}", stacks="host3 main.py:7",
        log_tail="last words on host3",
    )  # fmt: skip
    sessions = (msgspec.structs.replace(sessions[0], ranks=(died,)), *sessions[1:])
    report = msgspec.structs.replace(pattern, hosts=hosts, sessions=sessions)
    out = tmp_path / "reports" / "a-run"
    with Journal(out) as journal:
        assert report.plan is not None
        journal.header(hosts, report.plan, report.candidates, report.fabric, run=report.run)
        for session in sessions:
            journal.append(session)
        assert journal.write(report) == ()
        journal.status(0)
    return out


def members(archive: bytes) -> dict[str, bytes]:
    """Name without the top folder -> content."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        found = {}
        for entry in tar:
            assert entry.isreg() and not entry.name.startswith("/") and ".." not in entry.name
            assert (entry.uid, entry.uname, entry.mtime) == (0, "", 0)
            content = tar.extractfile(entry)
            assert content is not None
            found[entry.name.partition("/")[2]] = content.read()
        return found


def test_report_samples_logs_facts_serials_and_counters_are_in_it(run: Path) -> None:
    found = members(bundle.packed(bundle.collect(run)))
    assert {
        "MANIFEST", "report.json", "samples.jsonl", "report.html", "summary.md", "nccl.env",
        "status", "serials.csv", "counters.csv", "facts/host1.json", "facts/host4.txt",
        "tools/host1/nvidia-smi-topo--m.txt", "logs/0000-data-0/host1.nccl.log",
        "logs/0000-data-0/rank2.txt",
    } <= set(found)  # fmt: skip
    assert json.loads(found["report.json"])["schema"] == 1
    assert len(found["samples.jsonl"].splitlines()) == 10
    facts = msgspec.json.decode(found["facts/host1.json"], type=HostFacts)
    assert facts.gpus[3].nvlinks_inactive == 2
    assert b"down: 7+12 of GPU3" in found["facts/host1.txt"]
    assert b"gpu,3,NVIDIA H100 80GB HBM3,1650230000003,GPU-h100-b-3" in found["serials.csv"]
    assert b"machine,,NVIDIA DGXH100,1660523000123" in found["serials.csv"]
    assert b"rdma,mlx5_0:1,mlx5_core,,a088:c203:0001:0001" in found["serials.csv"]
    assert b"0,data,0,measured,host1,data0.rx_bytes,100000000" in found["counters.csv"]
    assert b"last words on host3" in found["logs/0000-data-0/rank2.txt"]


def test_the_manifest_lists_every_member_with_size_and_digest(run: Path) -> None:
    found = members(bundle.packed(bundle.collect(run)))
    listed = {}
    lines = found.pop("MANIFEST").decode().splitlines()
    for line in lines[lines.index("") + 2 :]:
        size, digest, name = line.split(maxsplit=2)
        listed[name] = (int(size), digest)
    assert listed == {
        name: (len(content), hashlib.sha256(content).hexdigest())
        for name, content in found.items()
    }
    assert list(listed) == sorted(listed)


def test_equal_runs_make_equal_archives(run: Path) -> None:
    assert bundle.packed(bundle.collect(run)) == bundle.packed(bundle.collect(run))


def test_no_secret_gets_into_it(run: Path) -> None:
    folder = run / "torchrun/attempt_0/0"
    folder.mkdir(parents=True)
    (folder / "stderr.log").write_text(f"WANDB_API_KEY={SECRET}\nfine\n")
    found = members(bundle.packed(bundle.collect(run)))
    assert found["torchrun/attempt_0/0/stderr.log"] == b"WANDB_API_KEY=[left out]\nfine\n"
    for name, content in found.items():
        assert SECRET.encode() not in content, name


def test_host_names_stay_or_go_everywhere_alike(run: Path, made: Any) -> None:
    renamed = {f"host{n}": f"vesuvius-{n}" for n in range(1, 5)}
    for file in (run / "report.json", run / "samples.jsonl"):
        text = file.read_text()
        for old, new in renamed.items():
            text = text.replace(old, new)
        file.write_text(text)
    (run / "torchrun").mkdir()
    (run / "torchrun/0.log").write_text("vesuvius-3.cluster.example.org: peer vesuvius-2 gone\n")
    assert "facts/vesuvius-3.json" in members(bundle.packed(bundle.collect(run)))
    found = members(bundle.packed(bundle.collect(run, anonymize=True)))
    for name, content in found.items():
        assert b"vesuvius" not in content and "vesuvius" not in name, name
        assert b"cluster.example.org" not in content, name
    assert found["torchrun/0.log"] == b"host3: peer host2 gone\n"
    assert b"replaced by host1" in found["MANIFEST"]
    report = msgspec.json.decode(found["report.json"], type=Report)
    assert [host.host for host in report.hosts] == ["host1", "host2", "host3", "host4"]
    assert set(report.candidates[0].interfaces) == {"host1", "host2", "host3", "host4"}


def test_links_pipes_and_strangers_in_the_folder_are_not_packed(run: Path, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private/id_rsa").write_text(SECRET)
    logs = run / "torchrun"
    logs.mkdir()
    (logs / "linked.log").symlink_to(tmp_path / "private/id_rsa")
    (logs / "folder").symlink_to(tmp_path / "private")
    os.mkfifo(logs / "pipe.log")
    (run / "id_rsa").write_text(SECRET)
    (run / "status").unlink()
    (run / "status").symlink_to(tmp_path / "private/id_rsa")
    found = members(bundle.packed(bundle.collect(run)))
    assert not {name for name in found if "torchrun" in name or "id_rsa" in name}
    assert "status" not in found
    assert all(SECRET.encode() not in content for content in found.values())


def test_what_is_too_large_is_left_out_and_said(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "SAMPLES_MOST_BYTES", 1000)
    monkeypatch.setattr(bundle, "MOST_BYTES", 400_000)
    packed = bundle.collect(run)
    names = {member.name for member in packed.members}
    assert "samples.jsonl" not in names and "report.html" not in names
    assert "facts/host1.json" in names  # from the samples' first line
    assert packed.left_out[0].startswith("samples.jsonl: ")
    assert any(sentence.startswith("report.html: ") for sentence in packed.left_out)
    assert b"left out: samples.jsonl" in packed.members[0].content


def test_a_run_that_was_cut_short_is_packed_from_its_samples(run: Path) -> None:
    (run / "report.json").unlink()
    packed = bundle.collect(run)
    report = next(m.content for m in packed.members if m.name == "report.json")
    assert len(msgspec.json.decode(report, type=Report).sessions) == 9
    assert "cut short" in packed.left_out[0]


def test_a_report_alone_is_packed_too(run: Path) -> None:
    (run / "samples.jsonl").unlink()
    packed = bundle.collect(run / "report.json")
    assert {"report.json", "facts/host1.json"} <= {member.name for member in packed.members}
    assert packed.left_out == ("samples.jsonl: not in the run's folder",)


def test_hosts_whose_names_differ_in_odd_letters_only_keep_files_of_their_own(
    run: Path, tmp_path: Path
) -> None:
    report = stored.read_report(run)
    hosts = tuple(
        msgspec.structs.replace(host, host=name)
        for host, name in zip(report.hosts, ("a/b", "a:b", "../..", "ä"), strict=True)
    )
    (tmp_path / "odd").mkdir()
    odd = msgspec.structs.replace(report, hosts=hosts)
    (tmp_path / "odd/report.json").write_bytes(stored.encode(odd))
    found = members(bundle.packed(bundle.collect(tmp_path / "odd")))
    facts = sorted(name for name in found if name.startswith("facts/") and name.endswith("json"))
    assert facts == ["facts/a-b.json", "facts/a-b~2.json", "facts/unnamed.json",
                     "facts/unnamed~2.json"]  # fmt: skip


@pytest.mark.parametrize("anonymize", [False, True])
def test_a_hostile_report_is_packed_under_harmless_names(
    made: Any, tmp_path: Path, anonymize: bool
) -> None:
    (tmp_path / "report.json").write_bytes(stored.encode(made.hostile))
    found = members(bundle.packed(bundle.collect(tmp_path, anonymize=anonymize)))
    assert all(name.isascii() and name.isprintable() and " " not in name for name in found)
    assert len(found) > 5


def test_a_folder_without_a_run_gets_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        bundle.collect(tmp_path)


def test_the_command_lists_what_it_packed_and_where_it_lies(run: Path, tmp_path: Path) -> None:
    out = io.StringIO()
    assert cli.main(["bundle", str(run)], out) == 0
    lines = out.getvalue().splitlines()
    assert any(line.endswith("  report.json") for line in lines)
    assert str(run / "bundle.tar.gz") in lines[-1]
    before = (run / "bundle.tar.gz").read_bytes()
    assert cli.main(["bundle", str(run)], io.StringIO()) == 0  # it does not pack itself
    assert (run / "bundle.tar.gz").read_bytes() == before
    other, told = tmp_path / "for-vendor.tgz", io.StringIO()
    assert cli.main(["bundle", str(run), "--out", str(other), "--anonymize", "--json"], told) == 0
    listed = json.loads(told.getvalue())
    assert listed["archive"] == str(other)
    assert {f["name"] for f in listed["files"]} == set(members(other.read_bytes()))


def test_a_place_that_cannot_be_written_is_one_sentence(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bundle", str(run), "--out", str(run / "absent/x.tgz")], io.StringIO()) == 2
    assert "could not be written" in capsys.readouterr().err
