"""Texts of the rooms "hang" and "launch": jobs that stop, and how they were started."""

from __future__ import annotations

from bench.judge.entry import Entry

_NAMED = (
    "A rank is named only on evidence: it died by a signal, is stopped (state T), its agent was "
    "lost, it raised an error of its own, or it alone never reached the phase in which the others "
    "wait. Otherwise the finding lists who waits."
)

ENTRIES = (
    Entry(
        code="hang-rendezvous",
        room="hang",
        title="ranks never found each other",
        meaning="The group did not come together at launch: a wrong address, a taken or "
        "firewalled port, a rank number twice or missing, a node that never started.",
        established="Each worker reports its phase to an agent with a deadline; this one ended "
        f"before the store answered all ranks. {_NAMED}",
        remedy="Check master address, port and machine rank on every host (Accelerate: "
        "main_process_ip, main_process_port, machine_rank), and that rank 0's address is "
        "reachable, not 127.0.1.1 from /etc/hosts.",
    ),
    Entry(
        code="hang-init",
        room="hang",
        title="the communicator did not form",
        meaning="Ranks met but did not connect to each other. Usually an interface that the peers "
        "cannot reach, a firewall between high ports, or a rank that died meanwhile.",
        established=f"The deadline passed while ranks were creating the group. {_NAMED} Where "
        "the first probe already showed the network unreachable, that is the finding instead.",
        remedy="See which interface the group used and whether the peers answer there; "
        "NCCL_DEBUG=INFO shows Init START without COMPLETE for those who wait.",
    ),
    Entry(
        code="hang-first-collective",
        room="hang",
        title="the first collective never finished",
        meaning="Since 2.22 NCCL connects its channels at the first collective, so a data path "
        "that does not work shows here: interface, HCA, GID, MTU, P2P.",
        established=f"The deadline passed in the first collective. {_NAMED}",
        remedy="Compare the interfaces and NET devices of all ranks; repeat with one candidate "
        "network at a time, which is what this sweep does.",
    ),
    Entry(
        code="hang-midrun",
        room="hang",
        title="a collective stopped after others had worked",
        meaning="The path works, so think of a rank: an exception, the OOM killer, a stopped "
        "process, a host that vanished; or a size that the network does not pass.",
        established=f"The deadline passed after earlier collectives had finished. {_NAMED}",
        remedy="On the named host: kernel log for 'Killed process' and Xid, the rank's own log "
        "from its first error, whether the process is stopped. Consequences (connection reset, "
        "watchdog) on the other ranks say nothing.",
    ),
    Entry(
        code="hang-end",
        room="hang",
        title="ranks ended unevenly",
        meaning="Some ranks finished while others still wait in a collective: uneven data.",
        established=f"Some ranks were done when the deadline passed. {_NAMED}",
        remedy="Sampler lengths, drop_last, filters that depend on the rank; the join context of "
        "the framework.",
    ),
    Entry(
        code="collective-mismatch",
        room="hang",
        title="ranks called different collectives",
        meaning="At the same place of a group's sequence, type, size or element type differs.",
        established="Flight Recorder entries of all ranks, matched by group and sequence number; "
        "the majority is taken as right, never the file read first.",
        remedy="The named rank's stack shows the call; look for branches that depend on the rank.",
    ),
    Entry(
        code="first-fault",
        room="hang",
        title="the first thing that went wrong",
        meaning="One rank's own fault came first (out of memory, killed data loader, exception, "
        "Xid, full /dev/shm, version mismatch, …); the rest are consequences.",
        established="All rank logs ordered in time; watchdog, reset and SIGTERM messages are "
        "consequences, and a collective began its time-out before its message.",
        remedy="Depends on the kind; the finding quotes file and line.",
    ),
    Entry(
        code="not-determinable",
        room="hang",
        title="the evidence does not decide",
        meaning="The ranks' evidence is level, or what would decide is missing.",
        established="No rule named a rank without contradicting evidence.",
        remedy="Get the missing logs or dumps that the finding lists, and run again.",
    ),
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
