"""Tensors that models are made of: projections, norms, gated and plain feed-forwards, experts.

In: sizes. Out: Weights of one block or of the root.
"""

from __future__ import annotations

from collections.abc import Iterable

from bench.records import ModelUnit, Weight


def linear(
    name: str, rows: int, columns: int, *, bias: bool = False, count: int = 1
) -> list[Weight]:
    """A matrix of `rows` outputs and `columns` inputs, and its bias."""
    made = [Weight(name=name, shape=(rows, columns), count=count)]
    return made + ([Weight(name=f"{name}.bias", shape=(rows,), count=count)] if bias else [])


def norm(name: str, width: int, *, bias: bool = False, count: int = 1) -> list[Weight]:
    """Scale, and shift where the norm has one."""
    return [Weight(name=name, shape=(width,), count=count * (2 if bias else 1))]


def attention(
    hidden: int,
    heads: int,
    kv_heads: int,
    head: int,
    *,
    bias: bool = False,
    out_bias: bool | None = None,
) -> list[Weight]:
    """Four projections; with fewer key and value heads than heads where they are shared."""
    return [
        *linear("q_proj", heads * head, hidden, bias=bias),
        *linear("k_proj", kv_heads * head, hidden, bias=bias),
        *linear("v_proj", kv_heads * head, hidden, bias=bias),
        *linear("o_proj", hidden, heads * head, bias=bias if out_bias is None else out_bias),
    ]


def gated(hidden: int, inner: int, *, bias: bool = False, count: int = 1) -> list[Weight]:
    """SwiGLU and its kin: gate, up, down."""
    return [
        *linear("gate_proj", inner, hidden, bias=bias, count=count),
        *linear("up_proj", inner, hidden, bias=bias, count=count),
        *linear("down_proj", hidden, inner, bias=bias, count=count),
    ]


def plain(hidden: int, inner: int, *, bias: bool = True) -> list[Weight]:
    """Up and down."""
    return [*linear("up", inner, hidden, bias=bias), *linear("down", hidden, inner, bias=bias)]


def experts(hidden: int, inner: int, number: int) -> list[Weight]:
    """A router and `number` gated feed-forwards."""
    return [*linear("router", number, hidden), *gated(hidden, inner, count=number)]


def root(
    hidden: int,
    vocabulary: int,
    *,
    tied: bool,
    positions: int = 0,
    norms: Iterable[Weight] = (),
    head_bias: bool = False,
) -> ModelUnit:
    """Embeddings, what follows the last block, and the head where it is not the embedding."""
    weights = linear("embedding", vocabulary, hidden)
    if positions:
        weights += linear("embedding.positions", positions, hidden)
    weights += norms
    if not tied:
        weights += linear("head", vocabulary, hidden, bias=head_bias)
    return ModelUnit(name="root", root=True, weights=tuple(weights))


def blocks(count: int, *weights: Iterable[Weight], name: str = "block") -> ModelUnit:
    """`count` blocks alike."""
    return ModelUnit(name=name, count=count, weights=tuple(w for part in weights for w in part))
