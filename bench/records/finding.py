"""One thing that is so, where, with what proof."""

from __future__ import annotations

from typing import Literal

from bench.records.words import Basis, Record, Severity


class Where(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What a finding is about; only what applies is set. `link` is a pair of hosts, or of GPUs
    (GPU0, GPU3) inside one; `gpu` a GPU's index; `device` an RDMA device or a PCI address."""

    host: str | None = None
    hosts: tuple[str, ...] = ()
    rank: int | None = None
    gpu: int | None = None
    device: str | None = None
    ranks: tuple[int, ...] = ()
    interface: str | None = None
    candidate: str | None = None
    collective: str | None = None
    size_bytes: int | None = None
    from_bytes: int | None = None
    to_bytes: int | None = None
    link: tuple[str, ...] = ()
    file: str | None = None
    line: int | None = None


class Evidence(Record, frozen=True, kw_only=True):
    """One line of proof and the word that says what kind of proof it is."""

    basis: Basis
    text: str


class Finding(Record, frozen=True, kw_only=True):
    """One thing that is so, and its proof. `remedy` is a line to paste, quoted for every shell."""

    code: str
    severity: Severity
    summary: str
    kind: str | None = None
    where: Where = Where()
    evidence: tuple[Evidence, ...] = ()
    remedy: str | None = None
    confidence: Literal["asked", "measured", "predicted", "inferred"] = "measured"
