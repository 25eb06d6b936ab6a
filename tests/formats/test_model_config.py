"""config.json into shapes: published models have exactly the parameters that they are known by.

Fields as in the public repositories of each model (only those that shapes depend on); numbers of
parameters are those of their safetensors indexes and of transformers' num_parameters().
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.formats import model_config
from bench.formats.model_config.families import FAMILIES
from bench.records import BadInput, Model

LLAMA = {"model_type": "llama", "tie_word_embeddings": False}
LLAMA2_7B = {
    **LLAMA,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 32000,
}
KNOWN: dict[str, tuple[int, dict[str, Any]]] = {
    "Llama-2-7b": (6_738_415_616, LLAMA2_7B),
    "Llama-2-13b": (13_015_864_320, {
        **LLAMA, "hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 40,
        "num_attention_heads": 40, "num_key_value_heads": 40, "vocab_size": 32000}),
    "Llama-2-70b": (68_976_648_192, {
        **LLAMA, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
        "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 32000}),
    "Llama-3-8B": (8_030_261_248, {
        **LLAMA, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}),
    "Llama-3-70B": (70_553_706_496, {
        **LLAMA, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
        "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256}),
    "Llama-3.2-1B": (1_235_814_400, {
        **LLAMA, "tie_word_embeddings": True, "hidden_size": 2048, "intermediate_size": 8192,
        "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 64, "vocab_size": 128256}),
    "Mistral-7B-v0.1": (7_241_732_096, {
        "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "vocab_size": 32000}),
    "Mixtral-8x7B": (46_702_792_704, {
        "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "num_local_experts": 8, "vocab_size": 32000}),
    "Qwen2-7B": (7_615_616_512, {
        "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
        "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
        "tie_word_embeddings": False, "vocab_size": 152064}),
    "Qwen2.5-0.5B": (494_032_768, {
        "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
        "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
        "tie_word_embeddings": True, "vocab_size": 151936}),
    "Qwen1.5-MoE-A2.7B": (14_315_784_192, {
        "model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632,
        "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16,
        "num_experts": 60, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
        "tie_word_embeddings": False, "vocab_size": 151936}),
    "Qwen3-8B": (8_190_735_360, {
        "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "tie_word_embeddings": False, "vocab_size": 151936}),
    "Qwen3-30B-A3B": (30_532_122_624, {
        "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
        "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
        "head_dim": 128, "num_experts": 128, "moe_intermediate_size": 768,
        "tie_word_embeddings": False, "vocab_size": 151936}),
    "gemma-2b": (2_506_172_416, {
        "model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384,
        "num_hidden_layers": 18, "num_attention_heads": 8, "num_key_value_heads": 1,
        "head_dim": 256, "vocab_size": 256000}),
    "gemma-2-9b": (9_241_705_984, {
        "model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336,
        "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8,
        "head_dim": 256, "vocab_size": 256000}),
    "Phi-3-mini": (3_821_079_552, {
        "model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
        "tie_word_embeddings": False, "vocab_size": 32064}),
    "phi-2": (2_779_683_840, {
        "model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240,
        "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 51200,
        "tie_word_embeddings": False}),
    "gpt2": (124_439_808, {
        "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
        "vocab_size": 50257}),
    "gpt2-xl": (1_557_611_200, {
        "model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 1024,
        "vocab_size": 50257}),
    "gpt-neox-20b": (20_554_567_680, {
        "model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576,
        "num_hidden_layers": 44, "num_attention_heads": 64, "vocab_size": 50432}),
    "pythia-6.9b": (6_857_302_016, {
        "model_type": "gpt_neox", "hidden_size": 4096, "intermediate_size": 16384,
        "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 50432}),
    "gpt-j-6b": (6_050_882_784, {
        "model_type": "gptj", "n_embd": 4096, "n_layer": 28, "n_head": 16, "n_positions": 2048,
        "n_inner": None, "vocab_size": 50400}),
    "opt-125m": (125_239_296, {
        "model_type": "opt", "hidden_size": 768, "ffn_dim": 3072, "num_hidden_layers": 12,
        "num_attention_heads": 12, "max_position_embeddings": 2048, "word_embed_proj_dim": 768,
        "do_layer_norm_before": True, "vocab_size": 50272}),
    "opt-6.7b": (6_658_473_984, {
        "model_type": "opt", "hidden_size": 4096, "ffn_dim": 16384, "num_hidden_layers": 32,
        "num_attention_heads": 32, "max_position_embeddings": 2048, "word_embed_proj_dim": 4096,
        "do_layer_norm_before": True, "vocab_size": 50272}),
    "bloom-7b1": (7_069_016_064, {
        "model_type": "bloom", "hidden_size": 4096, "n_layer": 30, "n_head": 32,
        "vocab_size": 250880}),
    "falcon-7b": (6_921_720_704, {
        "model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32,
        "num_attention_heads": 71, "bias": False, "multi_query": True, "parallel_attn": True,
        "new_decoder_architecture": False, "vocab_size": 65024}),
    "DeepSeek-V2-Lite": (15_706_484_224, {
        "model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944,
        "moe_intermediate_size": 1408, "num_hidden_layers": 27, "num_attention_heads": 16,
        "n_routed_experts": 64, "n_shared_experts": 2, "first_k_dense_replace": 1,
        "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128, "topk_method": "greedy", "tie_word_embeddings": False,
        "vocab_size": 102400}),
    "DeepSeek-V3": (671_026_419_200, {
        "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432,
        "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 128,
        "n_routed_experts": 256, "n_shared_experts": 1, "first_k_dense_replace": 3,
        "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128, "topk_method": "noaux_tc", "tie_word_embeddings": False,
        "vocab_size": 129280}),
    "bert-base-uncased": (109_482_240, {
        "model_type": "bert", "hidden_size": 768, "intermediate_size": 3072,
        "num_hidden_layers": 12, "num_attention_heads": 12, "max_position_embeddings": 512,
        "type_vocab_size": 2, "vocab_size": 30522}),
    "roberta-base": (124_645_632, {
        "model_type": "roberta", "hidden_size": 768, "intermediate_size": 3072,
        "num_hidden_layers": 12, "num_attention_heads": 12, "max_position_embeddings": 514,
        "type_vocab_size": 1, "vocab_size": 50265}),
}  # fmt: skip


def written(folder: Path, values: object) -> Path:
    file = folder / "config.json"
    file.write_text(values if isinstance(values, str) else json.dumps(values))
    return file


@pytest.mark.parametrize("name", KNOWN)
def test_published_models_have_their_published_number_of_parameters(
    name: str, tmp_path: Path
) -> None:
    parameters, values = KNOWN[name]
    model = model_config.read(written(tmp_path, values))
    assert model.parameters == parameters
    assert model.basis == "config"
    assert model.architecture == values["model_type"]


def test_a_folder_is_as_good_as_its_file_and_names_the_model(tmp_path: Path) -> None:
    folder = tmp_path / "Llama-2-7b-hf"
    folder.mkdir()
    written(folder, LLAMA2_7B)
    assert model_config.read(folder / "config.json").name == "Llama-2-7b-hf"
    assert model_config.read(folder).parameters == KNOWN["Llama-2-7b"][0]


def test_the_language_part_of_a_model_that_sees_is_counted_and_told(tmp_path: Path) -> None:
    model = model_config.read(
        written(tmp_path, {"model_type": "llava", "text_config": LLAMA2_7B, "vision_config": {}})
    )
    assert model.parameters == KNOWN["Llama-2-7b"][0]
    assert model.notes == ("only the language model of llava (text_config) is counted",)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("{", "not the JSON of a model's config"),
        ("[1, 2]", "not the JSON of a model's config"),
        ({"hidden_size": 8}, "names no model_type; give --params"),
        ({"model_type": "rwkv9"}, "model_type 'rwkv9' is not known here; give --params"),
        ({"model_type": "llama"}, "lacks hidden_size"),
        ({**LLAMA2_7B, "hidden_size": "4096"}, "hidden_size is a whole number above 0"),
        ({**LLAMA2_7B, "num_hidden_layers": -1}, "num_hidden_layers is a whole number above 0"),
        ({**LLAMA2_7B, "num_hidden_layers": 1e9}, "num_hidden_layers is a whole number above 0"),
        ({**LLAMA2_7B, "num_hidden_layers": 99999}, "99999 layers are more than 10000"),
        ({**LLAMA2_7B, "tie_word_embeddings": "no"}, "tie_word_embeddings is true or false"),
    ],
)
def test_what_is_no_config_is_one_sentence(values: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"config\.json") as told:
        model_config.read(written(tmp_path, values))
    assert words in str(told.value)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        model_config.read(tmp_path / "config.json")


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 1 << 40), st.floats(), st.text(max_size=4),
    st.lists(st.integers(), max_size=2),
)  # fmt: skip


@given(
    kind=st.sampled_from(sorted(FAMILIES)),
    values=st.dictionaries(
        st.sampled_from(sorted({key for _, known in KNOWN.values() for key in known})), VALUES
    ),
)
def test_any_values_make_a_model_or_one_sentence(
    kind: str, values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("config")
    text = json.dumps({**LLAMA2_7B, **values, "model_type": kind}, allow_nan=False,
                      default=str) if not _infinite(values) else "{}"  # fmt: skip
    told = None
    try:
        model = model_config.read(written(folder, text))
    except BadInput as bad:
        told = str(bad)
    if told is None:
        assert isinstance(model, Model)
        assert model.parameters > 0
    else:
        assert "\n" not in told


def _infinite(values: dict[str, Any]) -> bool:
    return any(isinstance(value, float) and value - value != 0 for value in values.values())
