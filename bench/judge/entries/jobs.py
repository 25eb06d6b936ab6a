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
        established=f"Some ranks were done when the deadline passed. {_NAMED} In Flight Recorder "
        "dumps: the rank's calls repeat a pattern and end after a whole number of steps, told by "
        "where the loop began and by the pause before each step. A rank held up between two steps "
        "looks the same, so this is inferred.",
        remedy="Sampler lengths, drop_last, filters that depend on the rank; the join context of "
        "the framework.",
    ),
    Entry(
        code="collective-mismatch",
        room="hang",
        title="ranks called different collectives",
        meaning="At the same place of a group's sequence the collective (kind type), its size or "
        "its element type (dtype) differs; or ranks made the calls of one or of two groups in "
        "another order (order), and wait for each other.",
        established="Flight Recorder entries of all ranks, matched by group and sequence number. "
        "The majority is taken as right, never the file read first; on the order of two groups "
        "only ranks in both have a vote. Shapes of equal size fit; a root's side of a gather or "
        "scatter and the parts of an all_to_all may differ. Where the evidence is level both "
        "sides are told, with not-determinable beside it.",
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
        meaning="The ranks' evidence is level, or what would decide is missing; of pairs of "
        "hosts: one of those listed is slow, and they were only measured with each other.",
        established="No rule named a rank without contradicting evidence; or no pair with a good "
        "host tells the slow one from the others.",
        remedy="Get the missing logs or dumps that the finding lists, and run again; of pairs of "
        "hosts: measure each with a third one.",
    ),
    Entry(
        code="accelerate-processes",
        room="launch",
        title="num_processes does not fit num_machines",
        meaning="num_processes is the total over all machines; each starts num_processes // "
        "num_machines. Below or not divisible, ranks are missing.",
        established="The arithmetic that the launcher does, on the values of the files and the "
        "command line; GPUs by gpu_ids, a host file or what Slurm grants. Type NO starts one "
        "process whatever the number.",
        remedy="num_processes = processes per machine × machines.",
    ),
    Entry(
        code="accelerate-machine-rank",
        room="launch",
        title="machine ranks are not 0 … N-1, once each",
        meaning="A machine rank is missing or used twice, or there are more launchers than "
        "machines: the rendezvous waits until it gives up.",
        established="machine_rank of all configuration files and command lines, and who starts "
        "them: srun repeats one command, and a variable outside single quotes is filled in by the "
        "batch script's own shell, where it is 0. Files are of one job where their names differ "
        "in the node only, or their ranks complete each other. Ranks count for static meetings.",
        remedy="Start on every node with a rank that the node fills in: srun --ntasks-per-node=1 "
        "bash -c 'accelerate launch --machine_rank $SLURM_NODEID …'.",
    ),
    Entry(
        code="accelerate-address",
        room="launch",
        title="main_process_ip is not rank 0's reachable address",
        meaning="The others connect to a loopback, malformed or foreign address, or to none, or "
        "each machine to another.",
        established="The form of the address; lists of hosts where they are at hand; the other "
        "nodes' files. Names are not resolved: preflight does that.",
        remedy="Use rank 0's address on the cluster's network.",
    ),
    Entry(
        code="accelerate-port",
        room="launch",
        title="main_process_port is invalid, differs or is taken",
        meaning="Ranks look for the store at different or occupied ports.",
        established="The port of all files: its number, and whether all name the same. Whether it "
        "is taken preflight finds out.",
        remedy="One free port above 1023, the same on every node.",
    ),
    Entry(
        code="accelerate-inconsistent",
        room="launch",
        title="configuration files contradict each other",
        meaning="Nodes would run different world sizes, precisions or strategies; or sections of "
        "one file exclude each other (FSDP, DeepSpeed and its own file, meshes), so that "
        "Accelerate ends or does otherwise than the file says.",
        established="Fields that must agree were compared over the files of one job; sections by "
        "the rules of Accelerate and DeepSpeed.",
        remedy="Generate the files from one source, changing machine_rank and gpu_ids only.",
    ),
    Entry(
        code="accelerate-ignored-field",
        room="launch",
        title="a field has no effect",
        meaning="The launcher ignores it in this combination, silently.",
        established="Accelerate's own handling of the field: its parser's defaults hide "
        "rdzv_backend and same_network of the file; a switch takes no value, so the word behind "
        "it becomes the training script. A note where nothing depends on it.",
        remedy="Remove it, or use the one that acts.",
    ),
    Entry(
        code="accelerate-refused",
        room="launch",
        title="Accelerate ends before it starts anything",
        meaning="A value of the wrong type or of no meaning, an unknown field, an option of "
        "another launcher: on this node nothing starts, and the others wait for it.",
        established="Accelerate's own handling of the value, tried with 1.15.0 and read in "
        "releases back to 0.20. A field that no release knows and that is no misspelling is a "
        "warning: a later release may have it.",
        remedy="The value that the finding names.",
    ),
    Entry(
        code="launcher-world-size",
        room="launch",
        title="processes run alone or were miscounted",
        meaning="N independent jobs of one rank, or a world size that differs from the processes "
        "started.",
        established="Ranks and world sizes that the processes reported. In nccl-tests output: "
        "several programs of which each lists itself as rank 0, or fewer ranks than the launcher "
        "started. One run of one rank is no fault: its busbw is 0 by definition.",
        remedy="Build with MPI where mpirun starts it (nccl-tests: make MPI=1 MPI_HOME=…); pass "
        "nnodes, node rank and processes per node that multiply to the world size.",
    ),
    Entry(
        code="rendezvous-unreachable",
        room="launch",
        title="ranks cannot meet",
        meaning="The place where ranks meet (MASTER_ADDR, MASTER_PORT; torchrun's "
        "--rdzv-endpoint) cannot be used from some host, so a job would wait until its launcher "
        "gives up.",
        established="Each host looked the name up and connected; a store of torch was recognised "
        "by its own protocol. A silence is called a firewall only where the host's Ethernet "
        "address has answered. That nobody listens yet is no fault before rank 0 has started.",
        remedy="Open the port between the hosts, pass rank 0's address on the network that joins "
        "them, or choose a port that is free there.",
    ),
    Entry(
        code="rendezvous-address",
        room="launch",
        title="ranks would meet at the wrong address",
        meaning="The name or address of the meeting place leads each host to itself, out of the "
        "cluster, or to a container's bridge.",
        established="What the name resolves to on each host, and whose address that is.",
        remedy="Pass rank 0's private address on the network between the hosts; take the host's "
        "name off the 127.0.1.1 line of /etc/hosts.",
    ),
    Entry(
        code="host-name",
        room="launch",
        title="a host's own name misleads",
        meaning="It leads to loopback or to nothing, or two hosts have the same. gloo groups take "
        "the address of that name, and so does torchrun for MASTER_ADDR.",
        established="Each host resolved its own name; hosts were told apart by boot and network "
        "namespace.",
        remedy="One line per host in /etc/hosts or DNS with its real address; or "
        "GLOO_SOCKET_IFNAME.",
    ),
    Entry(
        code="host-limits",
        room="launch",
        title="a host grants a job too little",
        meaning="Shared memory, open files or locked memory are so short that jobs die of it "
        "after they have started.",
        established="Soft limits and the size of /dev/shm as a process of the launcher sees them: "
        "another service, such as Slurm's, may grant others.",
        remedy="Start containers with --shm-size=8g --ulimit memlock=-1; raise LimitNOFILE= and "
        "LimitMEMLOCK= of the service that starts jobs.",
    ),
    Entry(
        code="clock-offset",
        room="launch",
        title="clocks differ between hosts",
        meaning="Nothing fails of it, but the order of events on different hosts, and so the "
        "first fault of a dead job, cannot be read off their logs.",
        established="Each host's answer to a probe holds its time, compared with the middle of "
        "the probe; known to half a round trip.",
        remedy="Let all hosts follow the same NTP server.",
    ),
    Entry(
        code="rank-placement",
        room="launch",
        title="ranks sit badly",
        meaning="Ranks share a GPU or a core, see no GPU, or may run only on the other socket.",
        established="CPU masks of the ranks' own processes, CUDA_VISIBLE_DEVICES by CUDA's rules, "
        "NUMA nodes of the GPUs.",
        remedy="One rank per GPU, unbound or bound to the cores of its GPU's NUMA node.",
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
