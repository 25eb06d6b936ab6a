"""DeepSeek V2 and V3: latent attention, a few dense blocks, then experts.

In: Fields. Out: ModelUnits. Source: the public modeling_deepseek.py; without V3's module that
predicts a second token, which config.json's num_nextn_predict_layers counts apart.
"""

from __future__ import annotations

from bench.formats.model_config.fields import Fields
from bench.formats.model_config.tensors import blocks, experts, gated, linear, norm, root
from bench.records import ModelUnit, Weight


def deepseek(fields: Fields) -> list[ModelUnit]:
    hidden = fields.number("hidden_size")
    layers = fields.number("num_hidden_layers")
    dense = min(fields.count("first_k_dense_replace"), layers)
    norms = norm("norm", hidden, count=2)
    inner = fields.number("moe_intermediate_size")
    number = fields.number("n_routed_experts")
    shared = fields.count("n_shared_experts")
    mixed = experts(hidden, inner, number)
    if shared:
        mixed += gated(hidden, inner * shared)
    if fields.text("topk_method") == "noaux_tc":
        mixed += [Weight(name="router.bias", shape=(number,))]
    every = _attention(fields, hidden)
    return [
        root(hidden, fields.number("vocab_size"), tied=fields.flag("tie_word_embeddings"),
             norms=norm("norm", hidden)),
        *([blocks(dense, every, gated(hidden, fields.number("intermediate_size")), norms,
                  name="dense block")] if dense else []),
        *([blocks(layers - dense, every, mixed, norms)] if layers > dense else []),
    ]  # fmt: skip


def _attention(fields: Fields, hidden: int) -> list[Weight]:
    heads = fields.number("num_attention_heads")
    nope, rope = fields.number("qk_nope_head_dim"), fields.number("qk_rope_head_dim")
    value, latent = fields.number("v_head_dim"), fields.number("kv_lora_rank")
    queries = fields.count("q_lora_rank")
    rows = heads * (nope + rope)
    made = linear("q_proj", rows, queries or hidden)
    if queries:
        made += [*linear("q_a_proj", queries, hidden), *norm("q_a_norm", queries)]
    return [
        *made,
        *linear("kv_a_proj", latent + rope, hidden),
        *norm("kv_a_norm", latent),
        *linear("kv_b_proj", heads * (nope + value), latent),
        *linear("o_proj", hidden, heads * value),
    ]
