"""Kinds of models (config.json's model_type) and the tensors of each.

In: Fields. Out: ModelUnits. Each family is one function; add one here for a new kind of model.
Sources: the public modeling code of each kind, and its published number of parameters (the tests).
"""

from __future__ import annotations

from collections.abc import Callable

from bench.formats.model_config.fields import Fields
from bench.formats.model_config.latent import deepseek
from bench.formats.model_config.tensors import (
    attention,
    blocks,
    experts,
    gated,
    linear,
    norm,
    plain,
    root,
)
from bench.records import ModelUnit, Weight

Family = Callable[[Fields], list[ModelUnit]]


def _llama(
    fields: Fields,
    *,
    tied: bool = False,
    qkv_bias: bool = False,
    head_norms: bool = False,
    norms: int = 2,
    norm_bias: bool = False,
    parallel: bool = False,
) -> list[ModelUnit]:
    """Gated feed-forward, RMS norms, shared key heads: most of what is trained today."""
    hidden, vocabulary = fields.number("hidden_size"), fields.number("vocab_size")
    heads = fields.number("num_attention_heads")
    kv_heads = fields.number("num_key_value_heads", default=heads)
    head = fields.number("head_dim", default=hidden // heads or 1)
    bias = fields.flag("attention_bias")
    weights = [
        *attention(hidden, heads, kv_heads, head, bias=bias or qkv_bias, out_bias=bias),
        *(norm("head_norm", head, count=2) if head_norms else []),
        *_feed_forward(fields, hidden),
        *norm("norm", hidden, count=1 if parallel else norms, bias=norm_bias),
    ]
    return [
        root(hidden, vocabulary, tied=fields.flag("tie_word_embeddings", default=tied),
             norms=norm("norm", hidden, bias=norm_bias)),
        blocks(fields.number("num_hidden_layers"), weights),
    ]  # fmt: skip


def _feed_forward(fields: Fields, hidden: int) -> list[Weight]:
    """Experts where the file tells of any, one gated feed-forward otherwise."""
    number = fields.count("num_local_experts", "num_experts", "n_routed_experts")
    inner = fields.number("intermediate_size")
    if not number:
        return gated(hidden, inner, bias=fields.flag("mlp_bias"))
    made = experts(hidden, fields.number("moe_intermediate_size", default=inner), number)
    shared = fields.count("shared_expert_intermediate_size")
    if shared:  # Qwen2-MoE: one shared expert with a gate of its own
        made += [*gated(hidden, shared), *linear("shared_gate.router", 1, hidden)]
    return made


def _gpt2(fields: Fields) -> list[ModelUnit]:
    hidden = fields.number("n_embd", "hidden_size")
    inner = fields.number("n_inner", default=4 * hidden)
    return [
        root(hidden, fields.number("vocab_size"), tied=True,
             positions=fields.number("n_positions", "n_ctx"),
             norms=norm("norm", hidden, bias=True)),
        blocks(fields.number("n_layer", "num_hidden_layers"),
               linear("qkv", 3 * hidden, hidden, bias=True),
               linear("out", hidden, hidden, bias=True),
               plain(hidden, inner), norm("norm", hidden, bias=True, count=2)),
    ]  # fmt: skip


def _gpt_neox(fields: Fields) -> list[ModelUnit]:
    hidden = fields.number("hidden_size")
    bias = fields.flag("attention_bias", default=True)
    return [
        root(hidden, fields.number("vocab_size"), tied=fields.flag("tie_word_embeddings"),
             norms=norm("norm", hidden, bias=True)),
        blocks(fields.number("num_hidden_layers"),
               linear("qkv", 3 * hidden, hidden, bias=bias),
               linear("out", hidden, hidden, bias=bias),
               plain(hidden, fields.number("intermediate_size")),
               norm("norm", hidden, bias=True, count=2)),
    ]  # fmt: skip


def _gptj(fields: Fields) -> list[ModelUnit]:
    hidden = fields.number("n_embd", "hidden_size")
    return [
        root(hidden, fields.number("vocab_size"), tied=False, head_bias=True,
             norms=norm("norm", hidden, bias=True)),
        blocks(fields.number("n_layer", "num_hidden_layers"),
               attention(hidden, 1, 1, hidden),
               plain(hidden, fields.number("n_inner", default=4 * hidden)),
               norm("norm", hidden, bias=True)),
    ]  # fmt: skip


def _opt(fields: Fields) -> list[ModelUnit]:
    hidden = fields.number("hidden_size")
    narrow = fields.number("word_embed_proj_dim", default=hidden)
    ends = [] if narrow == hidden else linear("project", hidden, narrow, count=2)
    made = root(narrow, fields.number("vocab_size"), tied=True, norms=[
        *linear("embedding.positions", fields.number("max_position_embeddings") + 2, hidden),
        *ends,
        *(norm("norm", hidden, bias=True) if fields.flag("do_layer_norm_before", default=True)
          else []),
    ])  # fmt: skip
    return [
        made,
        blocks(fields.number("num_hidden_layers"), attention(hidden, 1, 1, hidden, bias=True),
               plain(hidden, fields.number("ffn_dim")), norm("norm", hidden, bias=True, count=2)),
    ]  # fmt: skip


def _bloom(fields: Fields) -> list[ModelUnit]:
    hidden = fields.number("hidden_size", "n_embed")
    return [
        root(hidden, fields.number("vocab_size"), tied=True,
             norms=norm("norm", hidden, bias=True, count=2)),
        blocks(fields.number("n_layer", "num_hidden_layers"),
               linear("qkv", 3 * hidden, hidden, bias=True),
               linear("out", hidden, hidden, bias=True),
               plain(hidden, 4 * hidden), norm("norm", hidden, bias=True, count=2)),
    ]  # fmt: skip


def _falcon(fields: Fields) -> list[ModelUnit]:
    hidden = fields.number("hidden_size")
    heads = fields.number("num_attention_heads", "n_head")
    bias, newer = fields.flag("bias"), fields.flag("new_decoder_architecture")
    kv_heads = 1 if fields.flag("multi_query", default=True) else heads
    if newer:
        kv_heads = fields.number("num_kv_heads", "n_head_kv", default=heads)
    norms = 2 if newer or not fields.flag("parallel_attn", default=True) else 1
    head = hidden // heads
    return [
        root(hidden, fields.number("vocab_size"), tied=fields.flag("tie_word_embeddings",
             default=True), norms=norm("norm", hidden, bias=True)),
        blocks(fields.number("num_hidden_layers", "n_layer"),
               linear("qkv", (heads + 2 * kv_heads) * head, hidden, bias=bias),
               linear("out", hidden, hidden, bias=bias),
               plain(hidden, fields.number("ffn_hidden_size", default=4 * hidden), bias=bias),
               norm("norm", hidden, bias=True, count=norms)),
    ]  # fmt: skip


def _phi(fields: Fields) -> list[ModelUnit]:
    hidden = fields.number("hidden_size")
    return [
        root(hidden, fields.number("vocab_size"), tied=fields.flag("tie_word_embeddings"),
             head_bias=True, norms=norm("norm", hidden, bias=True)),
        blocks(fields.number("num_hidden_layers"), attention(hidden, 1, 1, hidden, bias=True),
               plain(hidden, fields.number("intermediate_size")),
               norm("norm", hidden, bias=True)),
    ]  # fmt: skip


def _bert(fields: Fields, *, offset: int = 0) -> list[ModelUnit]:
    """With the pooler that the bare model has."""
    hidden = fields.number("hidden_size")
    positions = fields.number("max_position_embeddings") + offset
    kinds = fields.count("type_vocab_size", default=2)
    return [
        root(hidden, fields.number("vocab_size"), tied=True, positions=positions, norms=[
            *(linear("embedding.kinds", kinds, hidden) if kinds else []),
            *norm("embedding.norm", hidden, bias=True),
            *linear("pooler", hidden, hidden, bias=True)]),
        blocks(fields.number("num_hidden_layers"), attention(hidden, 1, 1, hidden, bias=True),
               plain(hidden, fields.number("intermediate_size")),
               norm("norm", hidden, bias=True, count=2)),
    ]  # fmt: skip


FAMILIES: dict[str, Family] = {
    "llama": _llama,
    "mistral": _llama,
    "mixtral": _llama,
    "granite": _llama,
    "smollm3": lambda f: _llama(f, tied=True),
    "olmo2": lambda f: _olmo2(f),
    "qwen2": lambda f: _llama(f, qkv_bias=True),
    "qwen2_moe": lambda f: _llama(f, qkv_bias=True),
    "qwen3": lambda f: _llama(f, head_norms=True),
    "qwen3_moe": lambda f: _llama(f, head_norms=True),
    "phi3": _llama,  # its fused projections hold the same numbers
    "gemma": lambda f: _llama(f, tied=True),
    "gemma2": lambda f: _llama(f, tied=True, norms=4),
    "gemma3_text": lambda f: _llama(f, tied=True, norms=4, head_norms=True),
    "deepseek_v2": deepseek,
    "deepseek_v3": deepseek,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "gptj": _gptj,
    "opt": _opt,
    "bloom": _bloom,
    "falcon": _falcon,
    "phi": _phi,
    "bert": _bert,
    "roberta": _bert,
}


def _olmo2(fields: Fields) -> list[ModelUnit]:
    """Llama with norms over all queries and all keys."""
    ends, middle = _llama(fields)
    hidden = fields.number("hidden_size")
    heads = fields.number("num_attention_heads")
    keys = fields.number("num_key_value_heads", default=heads) * (hidden // heads)
    more = (*norm("q_norm", hidden), *norm("k_norm", keys))
    return [ends, blocks(middle.count, middle.weights, more)]
