"""Texts of the room "launch": how the job was started."""

from __future__ import annotations

from bench.judge.entry import Entry

ENTRIES = (
    Entry(
        code="accelerate-processes",
        room="launch",
        title="num_processes does not fit num_machines",
        meaning="num_processes is the total over all machines; each starts num_processes // "
        "num_machines. Below or not divisible, ranks are missing.",
        established="The arithmetic that the launcher does, on the values of the files.",
        remedy="num_processes = processes per machine × machines.",
    ),
    Entry(
        code="accelerate-machine-rank",
        room="launch",
        title="machine ranks are not 0 … N-1, once each",
        meaning="A machine rank is missing or used twice: the rendezvous waits forever.",
        established="machine_rank of all configuration files and command lines.",
        remedy="Start on every node with its own rank: --machine_rank $SLURM_NODEID.",
    ),
    Entry(
        code="accelerate-address",
        room="launch",
        title="main_process_ip is not rank 0's reachable address",
        meaning="The others connect to a loopback, public, foreign or unresolvable address.",
        established="The address against the hosts' facts where they are at hand.",
        remedy="Use rank 0's address on the cluster's network.",
    ),
    Entry(
        code="accelerate-port",
        room="launch",
        title="main_process_port is invalid, differs or is taken",
        meaning="Ranks look for the store at different or occupied ports.",
        established="The port of all files; a probe where the machine allows it.",
        remedy="One free port above 1023, the same on every node.",
    ),
    Entry(
        code="accelerate-inconsistent",
        room="launch",
        title="configuration files contradict each other",
        meaning="Nodes would run different world sizes, precisions or strategies.",
        established="Fields that must agree were compared over all files.",
        remedy="Generate the files from one source, changing machine_rank only.",
    ),
    Entry(
        code="accelerate-ignored-field",
        room="launch",
        title="a field has no effect",
        meaning="The launcher ignores it in this combination, silently.",
        established="Accelerate's own handling of the field.",
        remedy="Remove it, or use the one that acts.",
    ),
    Entry(
        code="launcher-world-size",
        room="launch",
        title="processes run alone or were miscounted",
        meaning="N independent jobs of one rank, or a world size that differs from the processes "
        "started.",
        established="Ranks and world sizes that the processes reported.",
        remedy="Build with MPI where mpirun starts it; pass nnodes, node rank and processes per "
        "node that multiply to the world size.",
    ),
    Entry(
        code="software-differs",
        room="launch",
        title="hosts run different versions",
        meaning="NCCL, torch, CUDA or driver differ between hosts; mixed NCCL versions refuse or "
        "misbehave.",
        established="Versions in the facts of all hosts.",
        remedy="One image on all hosts.",
    ),
    Entry(
        code="environment-differs",
        room="launch",
        title="hosts have different environments",
        meaning="Variables that influence the run differ between hosts.",
        established="Allow-listed variables of all hosts were compared.",
        remedy="Set them in one place for all ranks.",
    ),
)
