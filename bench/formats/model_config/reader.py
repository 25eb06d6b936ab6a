"""One config.json, opened safely, into a Model.

In: a path: the file, or the folder that holds it. Out: a Model, or one sentence: not JSON, no
model's config, an unknown kind of model.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from bench.formats.model_config.families import FAMILIES
from bench.formats.model_config.fields import Fields
from bench.formats.source import Source
from bench.records import BadInput, Model

NAME = "config.json"
MAX_BYTES = 4 << 20  # a config.json is a few KiB; some list thousands of labels
MOST_LAYERS = 10_000
INNER = ("text_config", "llm_config", "language_config")  # of models that see or hear as well


def read(path: Path) -> Model:
    """BadInput names the file and says what was expected."""
    file = path / NAME if path.is_dir() else path
    if not file.exists():
        raise BadInput("no such file", file=str(file))
    source = Source.open(file, limit_bytes=MAX_BYTES)
    try:
        values = msgspec.json.decode(source.bytes_(), type=dict[str, msgspec.Raw])
        decoded = {key: msgspec.json.decode(value) for key, value in values.items()}
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInput(f"not the JSON of a model's config: {error}", file=str(file)) from None
    return _model(Fields(decoded, str(file)), path)


def _model(fields: Fields, path: Path) -> Model:
    kind = fields.text("model_type")
    notes: tuple[str, ...] = ()
    inner = next((name for name in INNER if isinstance(fields.values.get(name), dict)), None)
    if kind not in FAMILIES and inner is not None:
        notes = (f"only the language model of {kind or 'it'} ({inner}) is counted",)
        fields = Fields(fields.values[inner], fields.file)
        kind = fields.text("model_type")
    if not kind:
        raise BadInput("names no model_type; give --params instead", file=fields.file)
    family = FAMILIES.get(kind)
    if family is None:
        known = ", ".join(sorted(FAMILIES))
        raise BadInput(
            f"model_type {kind[:40]!r} is not known here; give --params instead (known: {known})",
            file=fields.file,
        )
    units = family(fields)
    layers = sum(unit.count for unit in units if not unit.root)
    if layers > MOST_LAYERS:
        raise BadInput(f"{layers} layers are more than {MOST_LAYERS}", file=fields.file)
    return Model(
        name=fields.text("_name_or_path") or path.parent.name or kind,
        units=tuple(units),
        basis="config",
        architecture=kind,
        hidden=fields.number("hidden_size", "n_embd", "n_embed"),
        layers=layers,
        heads=fields.number("num_attention_heads", "n_head", default=1),
        vocabulary=fields.number("vocab_size"),
        notes=notes,
    )
