"""Nights against the baseline and each other: what drifted, since when, what recovered."""
