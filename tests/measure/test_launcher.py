"""Variables into a start: whose they are, what they say, and when they contradict each other."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.measure import launcher, scheduler
from bench.measure.launcher import FIRST_PORT, PORTS, Launch
from bench.records import BadInput

# As torchrun 2.13 and a two-node Slurm 22.05 (cyclic, 2 GPUs a node) set them; Open MPI 4.1.4 and
# MPICH 4.0.2 likewise. Values of this project's own runs.
TORCHRUN = {
    "RANK": "3", "LOCAL_RANK": "1", "GROUP_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2",
    "GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "host1", "MASTER_PORT": "29500",
    "TORCHELASTIC_RESTART_COUNT": "1", "TORCHELASTIC_RUN_ID": "sweep",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}  # fmt: skip
SLURM = {
    "SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_JOB_ID": "17",
    "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "2",
    "SLURM_NTASKS": "4", "SLURM_NNODES": "2", "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_STEP_NODELIST": "n[3-4]", "SLURM_GTIDS": "1,3",
    "SLURM_GPUS_ON_NODE": "2",
}  # fmt: skip
BATCH = {
    "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_JOB_ID": "17",
    "SLURM_NTASKS": "4", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "n[1-2]",
}  # fmt: skip
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "OMPI_MCA_ess_base_jobid": "1017708545",
    "PMIX_NAMESPACE": "1017708545", "PMIX_RANK": "1",
}  # fmt: skip
MPICH = {
    "PMI_RANK": "1", "PMI_SIZE": "4", "PMI_FD": "8", "MPI_LOCALRANKID": "1",
    "MPI_LOCALNRANKS": "4",
}  # fmt: skip


def told(*environments: dict[str, str], without: tuple[str, ...] = ()) -> Launch:
    merged = {name: value for one in environments for name, value in one.items()}
    return launcher.read({k: v for k, v in merged.items() if k not in without})


def test_torchrun_is_read_as_ever() -> None:
    launch = told(TORCHRUN)
    assert launch.seat is not None and not launch.own_store
    assert (launch.seat.rank, launch.seat.ranks, launch.seat.local_rank) == (3, 4, 1)
    assert (launch.seat.local_ranks, launch.seat.node, launch.seat.nodes) == (2, 1, 2)
    assert launch.seat.node_ranks == (2, 3) and not launch.seat.leads
    assert (launch.host, launch.port, launch.prefix) == ("host1", 29500, "bench/sweep/1")
    assert launch.store_name == "torchrun's store"


@pytest.mark.parametrize("around", [SLURM, BATCH, OPEN_MPI, MPICH, {**OPEN_MPI, **BATCH}])
def test_torchrun_wins_over_whatever_started_it(around: dict[str, str]) -> None:
    assert told(around, TORCHRUN) == told(TORCHRUN)


def test_what_a_pytorchjob_sets_is_enough_and_rank_0_keeps_the_store() -> None:
    """It numbers no nodes, so the ranks find out themselves which of them share one."""
    launch = told(TORCHRUN, without=tuple(n for n in TORCHRUN if n not in scheduler.BY_HAND))
    assert launch.seat is None and launch.own_store
    assert (launch.rank, launch.ranks, launch.host, launch.port) == (3, 4, "host1", 29500)


def test_a_step_of_srun_meets_on_its_own_first_host() -> None:
    launch = told(SLURM)
    assert (launch.launcher, launch.rank, launch.ranks) == ("Slurm", 3, 4)
    assert (launch.host, launch.named_by) == ("n3", "SLURM_STEP_NODELIST")
    assert launch.own_store and launch.seat is None and launch.node_gpus == 2
    assert launch.prefix == "bench/Slurm-17.0/0"
    assert told(SLURM, without=("SLURM_STEP_NODELIST",)).host == "n1"
    assert told(SLURM, {"SLURM_RESTART_COUNT": "2"}).restart == "2"
    assert scheduler.rank_of(SLURM) == 3 and scheduler.local_rank_of(SLURM) == 1


def test_a_step_of_one_host_needs_no_name() -> None:
    assert told(SLURM, {"SLURM_STEP_NUM_NODES": "1"}).host == "127.0.0.1"


def test_the_port_follows_the_job_and_the_step_and_all_ranks_agree() -> None:
    ports = {
        told(SLURM, {"SLURM_JOB_ID": str(job), "SLURM_STEP_ID": str(step)}).port
        for job in range(1000, 1100)
        for step in range(2)
    }
    assert ports <= set(range(FIRST_PORT, FIRST_PORT + PORTS))
    assert len(ports) > 190, "200 steps of neighbouring jobs share next to no port"
    assert len({told(SLURM, {"SLURM_PROCID": str(rank)}).port for rank in range(4)}) == 1


def test_what_the_user_set_goes_first() -> None:
    launch = told(SLURM, {"MASTER_ADDR": "10.0.0.9", "MASTER_PORT": "4711"})
    assert (launch.host, launch.port, launch.named_by) == ("10.0.0.9", 4711, "MASTER_ADDR")


def test_mpirun_on_one_host_needs_nothing_more() -> None:
    launch = told(OPEN_MPI)
    assert (launch.launcher, launch.rank, launch.ranks) == ("Open MPI", 1, 4)
    assert launch.host == "127.0.0.1" and launch.port >= FIRST_PORT
    assert launch.prefix == "bench/Open-MPI-1017708545/0"
    assert scheduler.local_rank_of(OPEN_MPI) == 1


def test_mpirun_on_several_hosts_has_to_be_told_where_rank_0_is() -> None:
    several = {**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
    with pytest.raises(
        BadInput, match=r"Open MPI does not tell where rank 0 runs: set MASTER_ADD"
    ):
        told(several)
    assert told(several, {"MASTER_ADDR": "n1"}).host == "n1"
    assert told(BATCH, several).host == "n1", "within a job of Slurm its list tells"


def test_mpich_tells_no_job_and_has_to_be_told_a_port() -> None:
    with pytest.raises(BadInput, match="MPI tells no job's id to derive a port from"):
        told(MPICH)
    launch = told(MPICH, {"MASTER_PORT": "4711"})
    assert (launch.rank, launch.ranks, launch.port) == (1, 4, 4711)


def test_srun_that_speaks_pmi_is_srun() -> None:
    assert told(SLURM, {"PMI_RANK": "3", "PMI_SIZE": "4", "PMIX_RANK": "3"}) == told(SLURM)


@pytest.mark.parametrize("inner", [OPEN_MPI, {**MPICH, "MASTER_PORT": "4711"}])
def test_an_mpirun_whose_daemons_srun_started_is_an_mpirun(inner: dict[str, str]) -> None:
    """One daemon a node, so Slurm's rank is the daemon's."""
    daemons = {
        "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "PMI_RANK": "1", "PMI_SIZE": "2",
    }  # fmt: skip
    launch = told(SLURM, daemons, inner)
    assert (launch.rank, launch.ranks) == (1, 4) and launch.launcher != "Slurm"


def test_variables_exported_by_a_script_are_fine_where_they_are_right() -> None:
    exported = {"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "n3", "MASTER_PORT": "4711"}
    launch = told(SLURM, exported)
    assert (launch.launcher, launch.host, launch.port) == ("Slurm", "n3", 4711)
    assert told(SLURM, {"WORLD_SIZE": "4"}) == told(SLURM)


def test_a_launcher_of_one_host_below_srun_is_believed() -> None:
    """DeepSpeed and others: srun starts one process a node, and that sets all four variables."""
    below = {"RANK": "9", "WORLD_SIZE": "16", "MASTER_ADDR": "n3", "MASTER_PORT": "4711",
             "LOCAL_RANK": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"}  # fmt: skip
    assert told(SLURM, below).rank == 9


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, r"start it through torchrun, srun or mpirun, as in: .*\(.* usable 'RANK'\)"),
        ({"RANK": "0"}, "start it through torchrun, .* 'WORLD_SIZE'"),
        ({**TORCHRUN, "RANK": "x"}, "start it through torchrun, .* usable .*'x'"),
        (BATCH, "this is the batch script itself, not a step of the job"),
        ({"PMIX_RANK": "0"}, "PMIX_RANK is set but nothing tells how many ranks"),
        ({**SLURM, "RANK": "0"}, r"RANK=0 and SLURM_PROCID=3 \(of 4\) contradict .*: unset RANK"),
        ({**SLURM, "WORLD_SIZE": "8"}, "WORLD_SIZE=8 and SLURM_PROCID=3 "),
        ({**SLURM, "PMIX_RANK": "2"}, "PMIX_RANK=2 and SLURM_PROCID=3"),
        ({**SLURM, **OPEN_MPI}, r"OMPI_COMM_WORLD_RANK=1 \(of 4\) and SLURM_PROCID=3 \(of"),
        ({**SLURM, **OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "2"}, "contradict each other"),
        ({**OPEN_MPI, **MPICH, "PMI_RANK": "2"}, "OMPI_COMM_WORLD_RANK=1 .* and PMI_RANK=2"),
        ({**SLURM, "RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "1"},
         r"RANK=0 \(of 4\) and SLURM_PROCID=3"),
        ({**SLURM, "SLURM_PROCID": "4"}, "SLURM_PROCID=4 and SLURM_STEP_NUM_TASKS=4 cannot"),
        ({**SLURM, "SLURM_PROCID": "-1"}, "SLURM_PROCID=-1 is no whole number"),
        ({**SLURM, "SLURM_STEP_NUM_TASKS": "99999999"}, "cannot both be true"),
        ({**SLURM, "SLURM_STEP_NODELIST": "n[3-"}, r"SLURM_STEP_NODELIST: no list of hosts: 'n"),
        ({**SLURM, "MASTER_PORT": "70000"}, "MASTER_PORT=70000 is no port"),
        ({**SLURM, "MASTER_PORT": "http"}, "MASTER_PORT=http is no whole number"),
        ({"OMPI_COMM_WORLD_RANK": "0"}, "OMPI_COMM_WORLD_SIZE is not set beside"),
        ({"PMI_RANK": "0"}, "PMI_SIZE is not set beside"),
    ],
)  # fmt: skip
def test_what_is_missing_or_contradicts_itself_is_one_sentence(
    environment: dict[str, str], words: str
) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        launcher.read(environment)
    assert "\n" not in str(caught.value)


names = st.sampled_from([*TORCHRUN, *SLURM, *OPEN_MPI, *MPICH, "SLURM_RESTART_COUNT"])
values = st.sampled_from(["0", "1", "2", "4", "17", "n[1-2]", "", "-3", "x", "9" * 30, "٣", "[[["])


@given(st.dictionaries(names, values))
def test_any_variables_are_a_start_or_a_sentence(environment: dict[str, str]) -> None:
    try:
        launch = launcher.read(environment)
    except BadInput:
        return
    assert launch.launcher == "torchrun" or 0 <= launch.rank < launch.ranks
    assert isinstance(scheduler.rank_of(environment), int)


def test_reading_it_needs_no_torch() -> None:
    code = "import sys, bench.measure.launcher; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
