"""A transformer of so many parameters, where no config.json tells its shapes; and adapters.

In: a number of parameters. Out: a Model of blocks of 12 h² parameters with h = 128 x layers, which
is what published ones of 1 to 100 billion have within a third (7B: 32 of 4096, 13B: 40 of 5120).
Only how many pieces there are follows from it, never how many bytes.
"""

from __future__ import annotations

import msgspec

from bench.records import BadInput, Model, ModelUnit, Weight

WIDTH_PER_LAYER = 128
VOCABULARY = 32_000
LARGEST_ROOT = 0.2  # of the parameters: a small model's embeddings must leave room for blocks
MOST_PARAMETERS = 10**15
# Tensors that are made up here with one dimension, and stand for matrices whose shapes are not
# known: biases and norms of a config.json have other names.
MATRICES = frozenset({"embedding", "head", "attention", "up", "down", "trained"})


def estimated(parameters: int, *, name: str = "", layers: int | None = None) -> Model:
    """Blocks of equal size and a root that make exactly `parameters`."""
    if not 0 < parameters <= MOST_PARAMETERS:
        raise BadInput(f"parameters lie between 1 and 1e15, not {parameters}")
    blocks = layers or max(1, round((parameters / (12 * WIDTH_PER_LAYER**2)) ** (1 / 3)))
    if blocks > parameters:
        raise BadInput(f"{blocks} layers cannot share {parameters} parameters")
    root = min(2 * VOCABULARY * WIDTH_PER_LAYER * blocks, int(LARGEST_ROOT * parameters))
    each = (parameters - root) // blocks
    root = parameters - each * blocks
    return Model(
        name=name or f"{parameters:,} parameters",
        basis="estimated",
        layers=blocks,
        units=(
            _root(root),
            ModelUnit(name="block", count=blocks, weights=_block(each)),
        ),
    )


def _root(elements: int) -> ModelUnit:
    """The embedding and the head."""
    head = elements // 2
    halves = (("embedding", elements - head), ("head", head))
    weights = tuple(Weight(name=name, shape=(size,)) for name, size in halves if size)
    return ModelUnit(name="root", root=True, weights=weights)


def _block(elements: int) -> tuple[Weight, ...]:
    """Four matrices of the attention and two of four times their size."""
    small = elements // 12
    large = 4 * small
    last = elements - 4 * small - large
    made = [("attention", small)] * 4 + [("up", large), ("down", last)]
    return tuple(Weight(name=name, shape=(size,)) for name, size in made if size)


ADAPTED_BITS = 4.127  # NF4 with double quantisation (QLoRA, arXiv 2305.14314): 4 + 0.127 bits


def with_adapters(model: Model, rank: int, *, quantised: bool = False) -> Model:
    """The model frozen, with a LoRA of `rank` on every matrix of its blocks (not embeddings, head
    and norms): r x (rows + columns) trained parameters each. `quantised`: those matrices in 4 bit.
    """
    if model.basis != "config":
        raise BadInput("LoRA needs a model's shapes: give --model config.json, or --trained")
    if not 0 < rank <= 4096:
        raise BadInput(f"a LoRA rank lies between 1 and 4096, not {rank}")
    units = []
    for unit in model.units:
        frozen = [
            msgspec.structs.replace(
                weight,
                trained=False,
                bits=ADAPTED_BITS if quantised and _adapted(unit, weight) else 0.0,
            )
            for weight in unit.weights
        ]
        pairs = [
            Weight(name=f"{weight.name}.lora", shape=shape, count=weight.count)
            for weight in unit.weights
            if _adapted(unit, weight)
            for shape in ((rank, weight.shape[-1]), (weight.shape[-2], rank))
        ]
        units.append(msgspec.structs.replace(unit, weights=(*frozen, *pairs)))
    return msgspec.structs.replace(model, units=tuple(units))


def _adapted(unit: ModelUnit, weight: Weight) -> bool:
    return not unit.root and len(weight.shape) == 2 and "router" not in weight.name


def with_trained(model: Model, trained: int) -> Model:
    """Only `trained` of the parameters have gradients: spread evenly over the units, as adapters
    are; the others are frozen as they are stored."""
    total = model.parameters
    if not 0 < trained <= total:
        raise BadInput(f"trained parameters lie between 1 and {total:,}, not {trained:,}")
    units = []
    left = trained
    for unit in sorted(model.units, key=lambda one: one.root):
        here = left // unit.count if unit.root else min(unit.elements, trained * unit.elements
                                                        // total)  # fmt: skip
        if unit.root:
            here = min(here, unit.elements)
        left -= here * unit.count
        frozen = unit.elements - here
        weights = [Weight(name="frozen", shape=(frozen,), trained=False)] if frozen else []
        weights += [Weight(name="trained", shape=(here,))] if here else []
        units.append(msgspec.structs.replace(unit, weights=tuple(weights)))
    return msgspec.structs.replace(model, units=tuple(units))
