"""Bytes per parameter: what a precision stores and sends, what an optimizer keeps.

In: names of a precision and an optimizer, and the tensors that are trained. Out: bytes. The
mixed precisions are told apart because they are not alike: DeepSpeed and Megatron keep 16-bit
parameters and gradients beside fp32 masters (ZeRO, arXiv 1910.02054: 2 + 2 + 12 bytes with Adam);
torch.autocast and FSDP's MixedPrecision keep everything in fp32 and cast for the computation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeVar

from bench.model.strategies.transformer import MATRICES
from bench.records import BadInput, Record, Weight
from bench.records.training import Optimizer, Precision

T = TypeVar("T")


class Storage(Record, frozen=True, kw_only=True):
    """Bytes of one parameter. `sent` is what FSDP gathers and reduces, `reduced` what DDP
    all-reduces, `state` of one number that the optimizer keeps unless it says otherwise."""

    parameter: int
    gradient: int
    master: int
    sent: int
    reduced: int
    state: int


_AUTOCAST = Storage(parameter=4, gradient=4, master=0, sent=2, reduced=4, state=4)
_MIXED = Storage(parameter=2, gradient=2, master=4, sent=2, reduced=2, state=4)
STORAGE: Mapping[Precision, Storage] = {
    "fp32": Storage(parameter=4, gradient=4, master=0, sent=4, reduced=4, state=4),
    "bf16-mixed": _MIXED,
    "fp16-mixed": _MIXED,
    "bf16-autocast": _AUTOCAST,
    "fp16-autocast": _AUTOCAST,
    "bf16": Storage(parameter=2, gradient=2, master=0, sent=2, reduced=2, state=2),
}
# Numbers that an optimizer keeps per parameter (torch.optim; Lion: arXiv 2302.06675).
STATES: Mapping[Optimizer, int] = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2, "lion": 1}
# bitsandbytes: two states of a byte, and an fp32 maximum for each block of 256 of them.
BYTES_8BIT = 2 * (1 + 4 / 256)


def named(value: str, known: tuple[T, ...], what: str) -> T:
    """The one of `known` that is called so; BadInput with those that there are."""
    for each in known:
        if value == each:
            return each
    raise BadInput(f"no {what} is called {value[:40]!r}; known are {', '.join(map(str, known))}")


def optimizer_bytes(
    name: Optimizer, storage: Storage, weights: Iterable[tuple[int, Weight]]
) -> float:
    """Of all trained weights, masters included. `weights`: how many times, and which."""
    total = 0.0
    for times, weight in weights:
        elements = times * weight.elements
        total += elements * storage.master
        if name == "adafactor":
            total += times * weight.count * 4 * _factors(weight)
        elif name == "adam8bit":
            total += elements * BYTES_8BIT
        else:
            total += elements * STATES[name] * storage.state
    return total


def _factors(weight: Weight) -> float:
    """Numbers that Adafactor keeps of one tensor: a row and a column, where there are both
    (arXiv 1804.04235, without a first moment). Matrices of unknown shape are taken for square."""
    shape = weight.shape
    if len(shape) >= 2:
        return math.prod(shape[:-2]) * (shape[-2] + shape[-1])
    elements = math.prod(shape)
    return min(elements, 2 * math.sqrt(elements)) if weight.name in MATRICES else elements
