"""NCCL_DEBUG logs of NCCL 2.3 to 2.32 and RCCL, of one or many ranks mixed, as an NcclLog.

In: a Source. Out: per process, per communicator, per rank what NCCL said; warnings with the first
fault first. Wording after NCCL's src/{init,bootstrap,debug}.cc, src/transport/*.cc, src/plugin/*
of the tags 2.3.5 to 2.30.7, the strings of 2.32.3, and RCCL's additions.
"""

from __future__ import annotations

from bench.formats.nccl_log.reader import read
from bench.formats.nccl_log.recognition import KIND, likeness

__all__ = ["KIND", "likeness", "read"]
