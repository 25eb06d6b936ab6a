"""What the operator expects: the contents of a fabric file.

Three kinds of files have this form: one that an operator wrote, one that `expect --learn` learned
from good runs, and the shipped hints for known systems, whose numbers are public and not yours.
"""

from __future__ import annotations

from typing import Literal

from bench.records.words import Backend, Record


class FabricNetwork(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A network the operator expects.

    `interfaces` are globs over names of interfaces and RDMA devices; or `subnet` in CIDR form. A
    hint may have neither: it knows what a system has, not what it is called. `rate_gbps` is of
    one port and direction, `ports_per_host` how many such ports carry NCCL together (rails).
    `claimed`: the rate is what the ports say, written down by `expect`; a port that negotiates
    less is found, and bandwidth is judged no harder than a claim is. `technology` is for people
    ("EFA").
    """

    name: str
    role: Literal["data", "management", "storage"] = "data"
    interfaces: tuple[str, ...] = ()
    subnet: str | None = None
    rate_gbps: float | None = None
    mtu: int | None = None
    ports_per_host: int | None = None
    claimed: bool = False
    technology: str | None = None


class FabricGpus(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The GPU side of the expectation.

    `model` are globs that the GPU's whole name must match, as NVML or a table prints it.
    `path` is how GPUs of one host reach each other: nvlink, xgmi (AMD), pcie (peer to peer over
    PCIe) or none (no peer to peer: through host memory). `nvlinks` are active links of a GPU,
    `nvlink_gbs` what all of them carry in one direction, in 1e9 bytes/s. `domain` is the number of
    GPUs that NVLink joins where that is more than a host. `pcie` is "5x16": generation x lanes.
    `bus_ids` are the PCI buses of the GPUs in device order, as nccl-tests prints them ("1b"): on
    cloud shapes they tell systems apart whose GPUs have one name.
    """

    model: tuple[str, ...] = ()
    per_host: int | None = None
    path: Literal["nvlink", "xgmi", "pcie", "none"] | None = None
    nvlinks: int | None = None
    nvlink_gbs: float | None = None
    domain: int | None = None
    pcie: str | None = None
    bus_ids: tuple[str, ...] = ()


class FabricBusbw(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one collective reaches: the plateau of its busbw in 1e9 bytes/s, from `from_bytes` on.

    `hosts` is a number, or "many": any number above two that has no entry of its own.
    `ranks_per_host` None means a rank on every GPU. `candidate` and `backend` are set in learned
    files: the way of a sweep that it holds for; without, it holds for NCCL as it comes.
    `tolerance` is the fraction below that is a finding, `latency_tolerance` the one above
    `latency_us` (small messages); None means those of the file. `runs` is how many good runs they
    were learned from. `algorithm` is what the number rests on ("NVLS", "Ring") where it is known.
    """

    collective: str
    hosts: int | Literal["many"]
    busbw_gbs: float
    ranks_per_host: int | None = None
    candidate: str | None = None
    backend: Backend | None = None
    from_bytes: int | None = None
    latency_us: float | None = None
    tolerance: float | None = None
    latency_tolerance: float | None = None
    runs: int | None = None
    algorithm: str | None = None
    source: str | None = None
    date: str | None = None
    note: str | None = None


class Tolerance(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fractions below (bandwidth) or above (latency) the expectation that are a finding."""

    bandwidth: float = 0.10
    latency: float = 0.50


class Fabric(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fabric file: what the operator paid for.

    `title` names the system to people, `provider` the cloud that rents it. `hint` marks a shipped
    file: `source` and `date` say where its numbers were published; they are other people's, so
    they gate nothing. `leaves` groups hosts (names or globs) by the switch that they hang on.
    """

    name: str
    title: str | None = None
    provider: str | None = None
    hint: bool = False
    source: str | None = None
    date: str | None = None
    hosts: tuple[str, ...] = ()
    leaves: tuple[tuple[str, ...], ...] = ()
    network: tuple[FabricNetwork, ...] = ()
    gpus: FabricGpus = FabricGpus()
    busbw: tuple[FabricBusbw, ...] = ()
    tolerance: Tolerance = Tolerance()
