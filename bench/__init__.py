"""nccl-fabric-bench: is the network under NCCL the one you paid for?

The pipeline, left to right; each room speaks only `bench.records` to the next:

    facts   -> what is this host?      interfaces, routes, RDMA, GPUs, what NCCL would choose
    plan    -> what to measure         candidate networks, cases, sizes, a budget
    measure -> run it                  an agent per rank, a fresh worker process per case
    model   -> numbers to lines        medians with intervals, t = latency + size / bandwidth
    judge   -> lines to findings       expected against asked, predicted and measured
    report  -> findings to people      terminal screen, report.json, page, exports

`formats` reads files into records; `lab` builds a cluster of network namespaces on one machine.
Nothing is imported here on purpose: `python -m bench --help` must not wait for torch.
"""
