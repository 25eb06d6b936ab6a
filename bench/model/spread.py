"""How far a fitted latency or bandwidth may be off: 95 % intervals over sessions.

In: the points, their breaks (kept: refitting them 2,000 times would take minutes and only move
them about) and each session's medians. Out: an Interval. The sessions are what is repeated, so
they are what is resampled; the points' own intervals stand in where there are too few of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri, stdtrit

from bench.model.pieces import Floats, fit_rows
from bench.model.summary import CONFIDENCE, t_half_width
from bench.records import Interval

FURTHEST = 20.0  # on logs: a point known no better says nothing, and its square must stay finite
FEW_SESSIONS = 3  # with fewer, sessions cannot show how they differ
BOOTSTRAP_SESSIONS = 6  # with fewer there are too few distinct resamples (126 of five)
RESAMPLES = 2000
DRAWS = 500
SEED = 1  # any: the same points always give the same interval
# Whole runs of one lab lie 0.2-0.5 % apart (99.3-99.8 % of the payload rate) where the sessions
# of each agree to 0.05 %: what a run shares its sessions cannot show. Added in quadrature.
RUN_FLOOR = 0.003

Piece = tuple[int, int]
_TAIL = (1 - CONFIDENCE) / 2
_Z = float(ndtri(1 - _TAIL))


@dataclass(frozen=True)
class Spread:
    """Points of a line, ascending: `sizes` in bytes, `times` in seconds, `weights` of the fit,
    `half_widths` of the points' intervals on logs (all (P,)), and `sessions` (k, P): each
    session's medians, NaN where it lacks a size."""

    sizes: Floats
    times: Floats
    weights: Floats
    half_widths: Floats
    sessions: Floats

    def latency(self, value: float, piece: Piece) -> Interval:
        """Interval of `value`, the piece's latency in seconds; never below 0."""
        estimates, basis = self._estimates(piece)
        low, high = _ends(value, estimates[:, 0], basis, len(self.sessions))
        low, high = min(low, value), max(high, value)
        floor = RUN_FLOOR * value
        return Interval(
            value=value,
            low=max(0.0, value - math.hypot(value - low, floor)),
            high=value + math.hypot(high - value, floor),
        )

    def bandwidth(self, value: float, piece: Piece) -> Interval:
        """Interval of `value`, the piece's bandwidth in bytes per second, on logs."""
        estimates, basis = self._estimates(piece)
        log = math.log(value)
        low, high = _ends(log, -np.log(estimates[:, 1]), basis, len(self.sessions))
        return Interval(
            value=value,
            low=value * math.exp(-math.hypot(max(log - low, 0.0), RUN_FLOOR)),
            high=value * math.exp(math.hypot(max(high - log, 0.0), RUN_FLOOR)),
        )

    def _estimates(self, piece: Piece) -> tuple[Floats, Literal["sessions", "resamples", "draws"]]:
        """Refits of one piece (rows of latency, seconds per byte) and what they stand for."""
        columns = slice(*piece)
        sizes, weights = self.sizes[columns], self.weights[columns]
        sessions = self.sessions[:, columns]
        usable = sessions[np.isfinite(sessions).sum(-1) >= 2]
        if len(usable) < FEW_SESSIONS:
            return self._drawn(columns), "draws"
        if len(usable) < BOOTSTRAP_SESSIONS:
            return _refit(sizes, usable, weights), "sessions"
        chosen = np.random.default_rng(SEED).integers(len(usable), size=(RESAMPLES, len(usable)))
        return _refit(sizes, _medians(usable[chosen]), weights), "resamples"

    def _drawn(self, columns: slice) -> Floats:
        """Refits of points moved at random within their own intervals, or within the scatter
        about the line where that is larger (foreign tables state no interval at all). Scatter
        of few points is itself known badly: it is stretched to Student's tails."""
        sizes, times, weights = self.sizes[columns], self.times[columns], self.weights[columns]
        (fitted,), _ = fit_rows(sizes, times[None], weights[None])
        residual = np.log((fitted[0] + fitted[1] * sizes) / times)
        freedom = max(sizes.size - 2, 1)
        scatter = math.sqrt(float((weights * residual) @ (weights * residual)) / freedom)
        scatter *= float(stdtrit(freedom, 1 - _TAIL)) / _Z
        sigma = np.maximum(self.half_widths[columns] / _Z, scatter / weights)
        moves = np.random.default_rng(SEED).standard_normal((DRAWS, sizes.size))
        moves = np.clip(sigma * moves, -FURTHEST, FURTHEST)
        return _refit(sizes, times * np.exp(moves), weights)


def _refit(sizes: Floats, rows: Floats, weights: Floats) -> Floats:
    present = np.isfinite(rows)
    enough = present.sum(-1) >= 2
    rows, present = rows[enough], present[enough]
    parameters, _ = fit_rows(sizes, np.where(present, rows, 1.0), present * weights)
    return parameters


def _medians(rows: Floats) -> Floats:
    """Median over axis 1 of (B, k, P), NaN left out (np.nanmedian is far slower)."""
    ordered = np.sort(rows, axis=1)  # NaN last
    count = np.isfinite(ordered).sum(axis=1, keepdims=True)
    lower = np.take_along_axis(ordered, np.maximum((count - 1) // 2, 0), axis=1)
    upper = np.take_along_axis(ordered, np.minimum(count // 2, rows.shape[1] - 1), axis=1)
    return ((lower + upper) / 2)[:, 0]


def _ends(value: float, estimates: Floats, basis: str, sessions: int) -> tuple[float, float]:
    """Low and high end of the interval of `value`, on the scale of `estimates`."""
    if basis == "sessions":
        centre, half = float(estimates.mean()), t_half_width(estimates)
        return centre - half, centre + half
    low, high = (float(end) for end in np.quantile(estimates, (_TAIL, 1 - _TAIL)))
    if basis == "resamples":
        # Resampling k sessions shows sqrt((k - 1) / k) of their spread, with a normal's tails.
        k = sessions
        wider = float(stdtrit(k - 1, 1 - _TAIL)) / _Z * math.sqrt(k / (k - 1))
        low, high = value - wider * (value - low), value + wider * (high - value)
    return low, high
