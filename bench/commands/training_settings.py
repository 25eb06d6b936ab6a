"""What a DeepSpeed or Accelerate configuration says of a training job, where no option says it.

In: a file and Wishes. Out: Wishes with what was not typed filled in, and the strategy that the
configuration takes. "auto" leaves a value open; a value that is none of ours is one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from bench.commands.wishes import Wishes
from bench.formats import accelerate_config, deepspeed_config
from bench.formats.file_walk import shown
from bench.formats.source import Source
from bench.model.strategies.names import DDP, HYBRID, ZERO1, ZERO2, ZERO3
from bench.records import AccelerateConfig, BadInput, Setting

STAGES = (DDP, ZERO1, ZERO2, ZERO3)
# FSDP's sharding_strategy by number and name (accelerate/utils/constants.py), version 1.
SHARDING = {
    "1": ZERO3, "2": ZERO2, "3": DDP, "4": HYBRID, "5": HYBRID, "FULL_SHARD": ZERO3,
    "SHARD_GRAD_OP": ZERO2, "NO_SHARD": DDP, "HYBRID_SHARD": HYBRID, "HYBRID_SHARD_ZERO2": HYBRID,
}  # fmt: skip
OPTIMIZERS = {
    "adam": "adam", "adamw": "adamw", "sgd": "sgd", "lion": "lion",
    "adafactor": "adafactor", "fusedadam": "adam", "deepspeedcpuadam": "adam",
}  # fmt: skip
Values = Mapping[str, Setting]


def filled(wishes: Wishes) -> Wishes:
    """The wishes with the configuration's part; BadInput where the file is none of either kind."""
    path = Path(wishes.training)
    if not path.exists():
        raise BadInput("no such file", file=shown(wishes.training))
    source = Source.open(path, file=shown(wishes.training))
    head, name = source.head(), path.name
    if deepspeed_config.likeness(head, name) > 0:
        (config,) = deepspeed_config.read(source)
        return _deepspeed(wishes, config.values)
    if accelerate_config.likeness(head, name) > 0:
        return _accelerate(wishes, accelerate_config.read(source)[0], path.parent)
    raise BadInput("is no configuration of DeepSpeed or Accelerate", file=source.file)


def _with(wishes: Wishes, **found: object) -> Wishes:
    """Found values where nothing was typed."""
    open_ones = {
        name: value
        for name, value in found.items()
        if value not in (None, "", 0, False) and not getattr(wishes, name)
    }
    return msgspec.structs.replace(wishes, **open_ones)


def _deepspeed(wishes: Wishes, values: Values) -> Wishes:
    stage = _count(values, "zero_optimization.stage") or 0
    if stage >= len(STAGES):
        raise _wrong(values["zero_optimization.stage"], "a stage from 0 to 3")
    precision = ""
    if any(key in values for key in ("bf16.enabled", "fp16.enabled")):
        on = {key: values[f"{key}.enabled"].value is True for key in ("bf16", "fp16")
              if f"{key}.enabled" in values}  # fmt: skip
        auto = any(values[key].value == "auto" for key in values if key.endswith("16.enabled"))
        precision = next((f"{key}-mixed" for key, is_on in on.items() if is_on),
                         "" if auto else "fp32")  # fmt: skip
    return _with(
        wishes,
        framework="deepspeed",
        configured=STAGES[stage],
        precision=precision,
        optimizer=_optimizer(values),
        micro_batches=_count(values, "gradient_accumulation_steps"),
        batch=_count(values, "train_micro_batch_size_per_gpu"),
        bucket_elements=_count(values, "zero_optimization.reduce_bucket_size"),
        clip=_number(values, "gradient_clipping") > 0,
        reduce_fp32=_text(values, "communication_data_type") == "fp32",
        offload_optimizer=_offloads(values, "zero_optimization.offload_optimizer.device"),
        offload_parameters=_offloads(values, "zero_optimization.offload_param.device"),
    )


def _accelerate(wishes: Wishes, config: AccelerateConfig, folder: Path) -> Wishes:
    kind = _text(config.values, "distributed_type").upper()
    wishes = _with(
        wishes,
        ranks=_count(config.values, "num_processes"),
        hosts=_count(config.values, "num_machines"),
    )
    _refuse_split(kind, config)
    mixed = _text(config.values, "mixed_precision").lower()
    if kind == "DEEPSPEED":
        own = config.sections.get("deepspeed_config", {})
        named = _text(own, "deepspeed_config_file")
        if named:
            inner = Path(named) if Path(named).is_absolute() else folder / named
            return filled(msgspec.structs.replace(wishes, training=str(inner)))
        stage = _count(own, "zero_stage")
        if stage is not None and stage >= len(STAGES):
            raise _wrong(own["zero_stage"], "a stage from 0 to 3")
        return _with(
            wishes,
            framework="deepspeed",
            configured=STAGES[2 if stage is None else stage],  # Accelerate's own default
            precision=_precision(mixed, "mixed"),
            micro_batches=_count(own, "gradient_accumulation_steps"),
            clip=_number(own, "gradient_clipping") > 0,
            offload_optimizer=_offloads(own, "offload_optimizer_device"),
            offload_parameters=_offloads(own, "offload_param_device"),
        )
    if kind == "FSDP":
        own = config.sections.get("fsdp_config", {})
        return _with(
            wishes,
            configured=_sharding(own),
            precision=_precision(mixed, "autocast"),
            offload_optimizer=own.get("fsdp_offload_params", _NOTHING).value is True,
            offload_parameters=own.get("fsdp_offload_params", _NOTHING).value is True,
            checkpointing=own.get("fsdp_activation_checkpointing", _NOTHING).value is True,
        )
    # torch's default, and Accelerate's: gradients are copied into DDP's buckets.
    return _with(
        wishes, configured=DDP, precision=_precision(mixed, "autocast"), copy_buckets=True
    )


def _refuse_split(kind: str, config: AccelerateConfig) -> None:
    """A model that is split otherwise than by data would be costed wrongly."""
    if kind == "MEGATRON_LM":
        raise _wrong(config.values["distributed_type"], "modelled: only DDP, ZeRO and FSDP are")
    for key, setting in config.sections.get("parallelism_config", {}).items():
        if key.endswith(("_tp_size", "_cp_size", "_sp_size")) and str(setting.value) != "1":
            raise BadInput(
                f"{key} {setting.value} splits the model or its sequences over ranks, which is "
                "not modelled: only DDP, ZeRO and FSDP are",
                file=setting.file,
                line=setting.line,
            )


_NOTHING = Setting(value=None)


def _sharding(own: Values) -> str:
    """Version 2: reshard_after_forward, true or false; version 1: a strategy, named or counted."""
    for key in ("fsdp_sharding_strategy", "fsdp_reshard_after_forward"):
        setting = own.get(key)
        if setting is None or setting.value is None:
            continue
        if isinstance(setting.value, bool):
            return ZERO3 if setting.value else ZERO2
        found = SHARDING.get(str(setting.value).upper())
        if found is None:
            raise _wrong(
                setting, f"one of {', '.join(name for name in SHARDING if len(name) > 1)}"
            )
        return found
    return ZERO3


def _precision(mixed: str, how: str) -> str:
    if mixed in ("bf16", "fp16"):
        return f"{mixed}-{how}"
    return "fp32" if mixed in ("no", "false") else ""


def _optimizer(values: Values) -> str:
    setting = values.get("optimizer.type")
    if setting is None or setting.value in (None, "auto"):
        return ""
    found = OPTIMIZERS.get(str(setting.value).lower())
    if found is None:
        raise _wrong(setting, "an optimizer that is known here; give --optimizer")
    return "momentum" if found == "sgd" and _number(values, "optimizer.params.momentum") else found


def _offloads(values: Values, key: str) -> bool:
    return _text(values, key).lower() in ("cpu", "nvme")


def _text(values: Values, key: str) -> str:
    setting = values.get(key)
    if setting is None or setting.value is None:
        return ""
    return "no" if setting.value is False else str(setting.value)


def _number(values: Values, key: str) -> float:
    """0 where it is not there or "auto"; YAML takes 5e8 for text."""
    setting = values.get(key)
    if setting is None or setting.value in (None, "auto", "none"):
        return 0.0
    try:
        value = float(str(setting.value)[:40])
    except ValueError:
        raise _wrong(setting, "a number") from None
    if not 0 <= value < 1e15:
        raise _wrong(setting, "a number of 0 or more")
    return value


def _count(values: Values, key: str) -> int | None:
    return int(_number(values, key)) if key in values else None


def _wrong(setting: Setting, expected: str) -> BadInput:
    return BadInput(
        f"{str(setting.value)[:40]!r} is not {expected}", file=setting.file, line=setting.line
    )
