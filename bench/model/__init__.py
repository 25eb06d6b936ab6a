"""Numbers into lines: medians with intervals, latency/bandwidth pieces."""
