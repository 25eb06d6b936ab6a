"""The strategies by name, from the least sharded to the most, and what others call them."""

from __future__ import annotations

DDP, ZERO1, ZERO2, ZERO3, HYBRID = "DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3", "HYBRID_SHARD"
STRATEGIES = (DDP, ZERO1, ZERO2, ZERO3, HYBRID)
ALSO = {ZERO2: "SHARD_GRAD_OP", ZERO3: "FULL_SHARD"}
