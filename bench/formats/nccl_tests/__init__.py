"""Tables of nccl-tests and rccl-tests, as text of every age, JSON or CSV: bench.records.table."""

from __future__ import annotations

from bench.formats.nccl_tests.reader import KIND, likeness, read

__all__ = ["KIND", "likeness", "read"]
