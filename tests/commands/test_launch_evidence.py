"""Launch files as people hand them to `diagnose`: through main(), alone and beside logs."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import msgspec
import pytest

from bench.cli import main
from bench.commands import evidence, log_evidence
from bench.formats import file_walk
from bench.records import Address, Diagnosis, HostFacts, Interface

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
FAULTY = sorted((DATA / "accelerate" / "faulty").iterdir())


def told(*arguments: object) -> tuple[int, str]:
    out = io.StringIO()
    return main(["diagnose", *map(str, arguments)], out), out.getvalue()


def diagnosis(*arguments: object) -> Diagnosis:
    status, out = told("--json", *arguments)
    assert status == 0
    return msgspec.json.decode(out, type=Diagnosis)


@pytest.mark.parametrize("path", FAULTY, ids=[path.name for path in FAULTY])
def test_one_screen_says_what_would_be_launched_and_what_is_wrong(path: Path) -> None:
    status, out = told(path)
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "\nlaunches " in out
    assert out.splitlines()[-1].startswith(("verdict: broken", "verdict: degraded"))
    assert out.count("\n! ") == 1  # one cause, one finding
    assert told("--fail-on", "warning", path)[0] == 1


def test_the_readme_shows_what_it_prints() -> None:
    _, out = told(DATA / "accelerate" / "faulty" / "filled_in_early")
    assert f"```text\n{out.rstrip()}\n```" in (ROOT / "README.md").read_text()


def test_the_json_holds_what_each_node_would_launch() -> None:
    found = diagnosis(DATA / "accelerate" / "good" / "two_nodes")
    assert found.verdict == "healthy"
    assert [launch.node_rank for launch in found.launches] == [0, 1]
    assert {launch.command.rpartition(" ")[2] for launch in found.launches} == {
        "100.82.170.1:10080"
    }


def test_files_that_cannot_start_tell_the_phase() -> None:
    assert diagnosis(DATA / "accelerate" / "faulty" / "below_machines").phase == "rendezvous"
    assert diagnosis(DATA / "accelerate" / "good" / "two_nodes").phase is None


def test_names_that_look_like_logs_do_not_hide_configurations(tmp_path: Path) -> None:
    for rank in (0, 1):
        source = DATA / "accelerate" / "good" / "two_nodes" / f"accelerate_config_{rank + 1}.yaml"
        shutil.copy(source, tmp_path / f"rank{rank}.yaml")
    assert {each.kind for each in diagnosis(tmp_path).files} == {"Accelerate config"}


LOG = """\
[2026-11-30 10:00:00] starting
Traceback (most recent call last):
  File "train.py", line 3, in <module>
torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying \
to connect to (10.0.0.11, 6000).
"""


def test_a_rendezvous_that_failed_is_checked_against_the_launch_files(tmp_path: Path) -> None:
    (tmp_path / "node1.log").write_text(LOG)
    good = DATA / "accelerate" / "good" / "two_nodes" / "accelerate_config_1.yaml"
    shutil.copy(good, tmp_path / "c.yaml")
    found = diagnosis(tmp_path)
    (hang,) = [each for each in found.findings if each.code == "hang-rendezvous"]
    checked = [each.text for each in hang.evidence if "launch files" in each.text]
    assert checked == [
        "checked: the launch files fit together, as far as they decide it",
        (
            "checked: the launch files name 100.82.170.1:10080, and the ranks looked at "
            "10.0.0.11:6000: other files, or another setting, started this job"
        ),
    ]
    bad = DATA / "accelerate" / "faulty" / "below_machines" / "default_config.yaml"
    shutil.copy(bad, tmp_path / "c.yaml")
    found = diagnosis(tmp_path)
    assert [each.code for each in found.findings if each.severity == "broken"] == [
        "accelerate-processes",
        "hang-rendezvous",
    ]
    (hang,) = [each for each in found.findings if each.code == "hang-rendezvous"]
    texts = [each.text for each in hang.evidence]
    assert any("accelerate-processes" in text for text in texts)
    assert "checked: 10.0.0.11:6000 is the place that the launch files name" in texts


def test_a_job_that_ran_is_not_said_to_have_stopped_at_launch(tmp_path: Path) -> None:
    steps = "".join(f"[2026-11-30 10:00:{s:02}] step {s} loss 1.0\n" for s in range(1, 30))
    fault = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    (tmp_path / "rank0.log").write_text(steps + fault)
    bad = DATA / "accelerate" / "faulty" / "below_machines" / "default_config.yaml"
    shutil.copy(bad, tmp_path / "c.yaml")
    assert diagnosis(tmp_path).phase != "rendezvous"


def test_what_a_launch_script_sets_is_still_heard(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/bash\nexport NCCL_IB_HCA=mlx5_0\ntorchrun --nnodes 2 t.py\n")
    gathered = evidence.gather(file_walk.files([str(script)]))
    view = log_evidence._view(gathered)
    assert view is not None
    assert [each.variables for each in view.dossier.variables] == [{"NCCL_IB_HCA": "mlx5_0"}]


def test_programs_that_ran_side_by_side_are_told_here_too(tmp_path: Path) -> None:
    found = diagnosis(DATA / "nccl_tests" / "built-without-mpi.txt")
    assert [each.code for each in found.findings] == ["launcher-world-size"]


def test_facts_of_hosts_say_whose_an_address_is(tmp_path: Path) -> None:
    for rank, host in enumerate("ab"):
        source = DATA / "accelerate" / "good" / "two_nodes" / f"accelerate_config_{rank + 1}.yaml"
        shutil.copy(source, tmp_path / f"{host}.yaml")
        address = "100.82.170.1" if host == "b" else "100.82.170.2"
        facts = HostFacts(
            host=host,
            hostname=host,
            identity=host,
            boot_id=host,
            interfaces=(
                Interface(
                    name="eth0",
                    kind="physical",
                    index=2,
                    addresses=(Address(family="inet", address=address, prefix_length=24),),
                ),
            ),
        )
        (tmp_path / f"{host}.json").write_bytes(msgspec.json.encode(facts))
    found = diagnosis(tmp_path)
    assert [(each.code, each.kind) for each in found.findings] == [
        ("accelerate-address", "not-machine-0")
    ]
    assert "belongs to b, but machine 0 is a" in found.findings[0].summary


def test_stdin_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DATA / "accelerate" / "faulty" / "below_machines" / "default_config.yaml").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert "accelerate-processes" in told("-")[1]
