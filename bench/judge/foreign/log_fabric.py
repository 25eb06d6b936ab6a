"""GPUs that their NVLink fabric does not know yet, or that lost bandwidth in it (MNNVL lines).

In: a Job (one run's logs). Out: gpu-path-unexpected. Several cliques are several domains, which is
no fault; healthMask is a set of flags, of which NCCL itself names the one that counts.
"""

from __future__ import annotations

from bench.judge.docket import Docket
from bench.judge.foreign.log_jobs import Job
from bench.judge.foreign.log_words import line_of
from bench.records import Finding, Where

REGISTERED = "3"  # nvmlGpuFabricState_t: 1 not started, 2 in progress, 3 completed


def judge(job: Job, docket: Docket) -> None:
    """GPUs that their NVLink fabric does not know yet, or that lost bandwidth in it."""
    for told in job.told:
        fabric = told.process.fabric
        state = fabric.get("state")
        late = state is not None and state != REGISTERED
        weak = fabric.get("degradedBw", "").lower() == "true"
        if not late and not weak:
            continue
        bus = f" (bus {fabric['busId']})" if "busId" in fabric else ""
        what = f"is not registered (state {state}, not 3)" if late else "runs with less bandwidth"
        docket.add(
            Finding(
                code="gpu-path-unexpected",
                severity="warning" if late else "degraded",
                summary=f"A GPU of {told.process.host}{bus} {what} in its NVLink fabric: "
                + ("NCCL leaves multi-node NVLink." if late else "links of the fabric are down."),
                where=Where(
                    host=told.process.host, file=told.log.file, line=told.place("fabric")[1]
                ),
                evidence=(*line_of(told, "fabric"), *line_of(told, "degraded")),
                remedy="nvidia-smi -q | grep -A4 Fabric; systemctl status nvidia-fabricmanager "
                "nvidia-imex",
                confidence="asked",
            )
        )
        return
