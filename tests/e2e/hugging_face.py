"""Trains a tiny model of each kind that Hugging Face knows, loads its checkpoint with transformers, and compares; and
begins a run with a tiny random model of each kind that transformers saved. Adapters that are trained beside such models are
loaded with peft. Replies are embedded by an encoder that transformers made. Chat templates: the ids of conversations are
those that apply_chat_template gives with the models' own.

usage: hugging_face.py HYDRAC FOLDER TOKENIZER [CASE ...]

A CASE is one of CASES, of PUBLISHED, of ADAPTERS, of MADE_BY_PEFT, of ENCODERS, or of CHATS, or peft-keys. FOLDER is where runs go, TOKENIZER a tokenizer.json of byte-level BPE. Of each case: AutoTokenizer gives the same ids,
AutoModelForCausalLM the same logits behind every prompt (float32, to 1e-4), and the checkpoint's config.json, read as
model.from, is the same model. Exit 1 where something differs, 77 where Python's packages are missing.
"""
import copy
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys

try:
    import safetensors.torch
    import torch
    import transformers
    import yaml
except ImportError as missing:
    print(f"skipped: Python's package {missing.name} is missing: pip install torch transformers pyyaml")
    sys.exit(77)
try:
    import peft
except ImportError:
    peft = None

TOLERANCE = 1e-4
TEXT = "".join(f"line {i}: it's the quick brown fox — naïve café, 123\n" for i in range(60))
PROMPTS = ["t", "naïve café — brown\n\nfox 321", "it's  café, 123"]

GPT2 = {"norm": "layernorm", "position": "learned", "hidden_act": "gelu_tanh"}
NO_BIASES = {"norm_bias": False, "attention_bias": False, "attention_output_bias": False, "mlp_bias": False}
LLAMA = {"norm": "rmsnorm", "position": "rope", "hidden_act": "swiglu", "num_key_value_heads": 2}
QWEN2 = {**LLAMA, "attention_bias": True, "attention_output_bias": False}
QWEN3 = {**LLAMA, "qk_norm": True}
OLMO2 = {**LLAMA, "norm_placement": "output", "qk_norm": True, "qk_norm_scope": "projection"}
GEMMA = {**LLAMA, "norm_offset": 1, "embedding_scale": 8, "hidden_act": "geglu_tanh"}
ARCEE = {**LLAMA, "hidden_act": "relu2"}
FALCON = {"norm": "layernorm", "position": "rope", "hidden_act": "gelu", "block": "parallel_one_norm", "num_key_value_heads": 1}
GEMMA2 = {**LLAMA, "norm_placement": "both", "norm_offset": 1, "embedding_scale": 8, "hidden_act": "geglu_tanh"}
GEMMA3 = {**GEMMA2, "qk_norm": True}
GRANITE = {**LLAMA, "embedding_scale": 3.5, "attention_scale": 0.3, "residual_scale": 0.22, "logit_scale": 0.125}
SMOLLM3 = {**LLAMA, "no_rope_pattern": 2}
EXAONE4 = {**LLAMA, "norm_placement": "output", "qk_norm": True}
PHI3 = {**LLAMA, "packed_weights": "qkv_gate_up", "partial_rotary_factor": 0.75}
STABLELM = {**LLAMA, "norm": "layernorm", "partial_rotary_factor": 0.5, "attention_bias": False, "mlp_bias": False}
HELIUM = {**LLAMA, "rope_interleave": True}
COHERE = {**HELIUM, "norm": "layernorm", "norm_bias": False, "block": "parallel_one_norm", "logit_scale": 0.5, "attention_bias": False,
          "attention_output_bias": False, "mlp_bias": False}
NEMOTRON = {**LLAMA, "norm": "layernorm", "norm_offset": 1, "hidden_act": "relu2", "partial_rotary_factor": 0.5}
GPT_NEOX = {"norm": "layernorm", "position": "rope", "hidden_act": "gelu", "block": "parallel", "partial_rotary_factor": 0.25,
            "packed_weights": "qkv_by_head"}
PHI = {"norm": "layernorm", "position": "rope", "hidden_act": "gelu_tanh", "block": "parallel_one_norm", "partial_rotary_factor": 0.5,
       "num_key_value_heads": 2, "head_bias": True}
GPTJ = {**PHI, "num_key_value_heads": 4, "rope_interleave": True, "attention_bias": False}
STARCODER2 = {"norm": "layernorm", "position": "rope", "hidden_act": "gelu_tanh", "num_key_value_heads": 2}
ERNIE = {**HELIUM, "head_dim": 24}
GLM = {**HELIUM, "packed_weights": "gate_up", "partial_rotary_factor": 0.5}
MOE = {"experts": 5, "top_k": 2}
UNTIED = {"tie_word_embeddings": False}
WIDE_HEADS = {"head_dim": 24}  # hidden_size / num_attention_heads is 16
ODD_HEADS = {**WIDE_HEADS, "num_attention_heads": 3, "num_key_value_heads": 3}  # which do not divide hidden_size
WINDOWS = {"sliding_window": 5, "sliding_window_pattern": 2}
ROPE_SCALING = {"rope_scaling": {"factor": 8, "original_max_position_embeddings": 16}}
YARN = {"rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 16}
LONGROPE = {"rope_type": "longrope", "factor": 4, "original_max_position_embeddings": 64, "short_factor": [1 + i / 8 for i in range(8)],
            "long_factor": [2 + i / 8 for i in range(8)]}
ALL_BIASES = {"attention_bias": True, "mlp_bias": True}

# name: (model_type, model keys, tokenizer); prepared: a tokenizer of `hydrac data prepare`, which splits as GPT-2's;
# declared: in a folder whose tokenizer_config.json names GPT-2's class, which splits otherwise
CASES = {
    "gpt2-tied": ("gpt2", GPT2, "byte"),
    "gpt2-untied": ("gpt2", {**GPT2, **UNTIED}, "byte"),
    "gpt2-char": ("gpt2", GPT2, "char"),
    "gpt2-bpe": ("gpt2", GPT2, "bpe"),
    "gpt2-gelu": ("gpt2", {**GPT2, "hidden_act": "gelu"}, "byte"),
    "gpt2-silu": ("gpt2", {**GPT2, "hidden_act": "silu"}, "byte"),
    "gpt2-relu2": ("gpt2", {**GPT2, "hidden_act": "relu2"}, "byte"),
    "gpt2-no-biases": ("gpt2", {**GPT2, **NO_BIASES, **UNTIED}, "char"),
    "gpt2-no-positions": ("gpt2", {**GPT2, "position": "none", "attention_output_bias": False}, "byte"),
    "llama-tied": ("llama", LLAMA, "byte"),
    "llama-untied": ("llama", {**LLAMA, **UNTIED}, "char"),
    "llama-bpe": ("llama", {**LLAMA, **UNTIED}, "bpe"),
    "llama-head-dim": ("llama", {**LLAMA, **WIDE_HEADS}, "byte"),
    "llama-biases": ("llama", {**LLAMA, **ALL_BIASES, **UNTIED}, "byte"),
    "llama-qkv-and-mlp-biases": ("llama", {**LLAMA, **ALL_BIASES, "attention_output_bias": False}, "byte"),
    "llama-output-bias": ("llama", {**LLAMA, "attention_bias": False, "attention_output_bias": True}, "byte"),
    "llama-gelu": ("llama", {**LLAMA, "hidden_act": "geglu"}, "byte"),
    "llama-gelu-tanh": ("llama", {**LLAMA, "hidden_act": "geglu_tanh"}, "byte"),
    "llama-rope-scaling": ("llama", {**LLAMA, **ROPE_SCALING, "rope_theta": 500}, "byte"),
    "qwen2-tied": ("qwen2", QWEN2, "bpe"),
    "qwen2-untied": ("qwen2", {**QWEN2, **UNTIED}, "bpe"),
    "qwen2-head-dim": ("qwen2", {**QWEN2, **WIDE_HEADS, **UNTIED}, "bpe"),
    "qwen2-odd-heads": ("qwen2", {**QWEN2, **ODD_HEADS}, "bpe"),
    "qwen2-windows": ("qwen2", {**QWEN2, **WINDOWS}, "bpe"),
    # Text that transformers would split as Qwen2 does.
    "qwen2-char": ("llama", QWEN2, "char"),
    "qwen2-byte": ("llama", QWEN2, "byte"),
    "qwen2-prepared": ("llama", QWEN2, "prepared"),
    "llama-prepared": ("llama", LLAMA, "prepared"),
    "llama-declared": ("llama", LLAMA, "declared"),
    "gpt2-prepared": ("gpt2", GPT2, "prepared"),
    "qwen3-prepared": ("qwen3", QWEN3, "prepared"),
    # LlamaConfig refuses them.
    "llama-odd-heads": ("mistral", {**LLAMA, **ODD_HEADS}, "byte"),
    "llama-odd-heads-stretched": ("mistral", {**LLAMA, **ODD_HEADS, **ROPE_SCALING, **UNTIED}, "prepared"),
    "mistral-window": ("mistral", {**LLAMA, "sliding_window": 5}, "prepared"),
    "qwen3-tied": ("qwen3", QWEN3, "char"),
    "qwen3-untied": ("qwen3", {**QWEN3, **UNTIED}, "byte"),
    "qwen3-head-dim": ("qwen3", {**QWEN3, **WIDE_HEADS}, "byte"),
    "qwen3-biases": ("qwen3", {**QWEN3, **UNTIED, "attention_bias": True}, "byte"),
    "qwen3-odd-heads": ("qwen3", {**QWEN3, **ODD_HEADS}, "byte"),
    "olmo2-untied": ("olmo2", {**OLMO2, **UNTIED}, "prepared"),
    "olmo2-head-dim": ("olmo2", {**OLMO2, **WIDE_HEADS, "attention_output_bias": True}, "byte"),
    "gemma-tied": ("gemma", GEMMA, "prepared"),
    "gemma-untied": ("gemma", {**GEMMA, **UNTIED, **WIDE_HEADS, "attention_bias": True}, "byte"),
    "arcee-untied": ("arcee", {**ARCEE, **UNTIED}, "prepared"),
    "arcee-biases": ("arcee", {**ARCEE, **ALL_BIASES, "hidden_act": "gelu"}, "byte"),
    "falcon-tied": ("falcon", {**FALCON, **NO_BIASES, "norm_bias": True}, "prepared"),
    "falcon-biases": ("falcon", {**FALCON, **UNTIED, "hidden_act": "gelu_tanh"}, "byte"),
    "gemma2-tied": ("gemma2", {**GEMMA2, **WINDOWS, "attention_softcap": 20, "logit_softcap": 10}, "prepared"),
    "gemma2-untied": ("gemma2", {**GEMMA2, **UNTIED, **WIDE_HEADS, "attention_scale": 0.25, "attention_bias": True}, "byte"),
    "granite-tied": ("granite", GRANITE, "prepared"),
    "granite-untied": ("granite", {**GRANITE, **UNTIED, **WIDE_HEADS, **ALL_BIASES}, "byte"),
    "smollm3-tied": ("smollm3", {**SMOLLM3, **ROPE_SCALING, "num_hidden_layers": 3}, "prepared"),
    "smollm3-untied": ("smollm3", {**SMOLLM3, **UNTIED, **WIDE_HEADS, **ALL_BIASES}, "byte"),
    "olmo3-untied": ("olmo3", {**OLMO2, **UNTIED, **WINDOWS}, "prepared"),
    "olmo3-yarn": ("olmo3", {**OLMO2, **WINDOWS, **WIDE_HEADS, "rope_theta": 77, "rope_local_theta": 55, "rope_scaling": YARN,
                             "attention_bias": True}, "byte"),
    "exaone4-tied": ("exaone4", {**EXAONE4, **ROPE_SCALING}, "prepared"),
    "exaone4-hybrid": ("exaone4", {**EXAONE4, **UNTIED, **WINDOWS, **WIDE_HEADS, "no_rope_pattern": 2}, "byte"),
    "ministral": ("ministral", {**LLAMA, **WINDOWS, **WIDE_HEADS, "num_hidden_layers": 3}, "prepared"),
    "ministral-untied": ("ministral", {**LLAMA, **WINDOWS, **UNTIED, **ROPE_SCALING}, "byte"),
    "gemma3-tied": ("gemma3_text", {**GEMMA3, **WINDOWS, "rope_local_theta": 99, "num_hidden_layers": 3,
                                    "rope_scaling": {"rope_type": "linear", "factor": 8}}, "prepared"),
    "gemma3-untied": ("gemma3_text", {**GEMMA3, **UNTIED, **WIDE_HEADS, "attention_scale": 0.25, "attention_bias": True,
                                      "logit_softcap": 10}, "byte"),
    "phi3-untied": ("phi3", {**PHI3, **UNTIED, "sliding_window": 5}, "prepared"),
    "phi3-tied": ("phi3", {**PHI3, **WIDE_HEADS}, "byte"),
    "stablelm-untied": ("stablelm", {**STABLELM, **UNTIED}, "prepared"),
    "stablelm-tied": ("stablelm", {**STABLELM, **ROPE_SCALING, "attention_bias": True, "attention_output_bias": False}, "byte"),
    "helium-untied": ("helium", {**HELIUM, **UNTIED}, "prepared"),
    "helium-tied": ("helium", {**HELIUM, "attention_bias": True, "attention_output_bias": False, "mlp_bias": True}, "byte"),
    "glm-untied": ("glm", {**GLM, **UNTIED}, "prepared"),
    "glm-tied": ("glm", {**GLM, "attention_bias": True, "attention_output_bias": False}, "byte"),
    "glm4-untied": ("glm4", {**GLM, **UNTIED, "norm_placement": "both"}, "prepared"),
    "glm4-tied": ("glm4", {**GLM, "norm_placement": "both", "attention_bias": True, "attention_output_bias": False}, "byte"),
    "nemotron-tied": ("nemotron", {**NEMOTRON, "attention_bias": False, "attention_output_bias": False, "mlp_bias": False}, "prepared"),
    "nemotron-untied": ("nemotron", {**NEMOTRON, **UNTIED, **WIDE_HEADS, **ALL_BIASES}, "byte"),
    "cohere-tied": ("cohere", COHERE, "prepared"),
    "cohere-untied": ("cohere", {**COHERE, **UNTIED, "attention_bias": True, "attention_output_bias": True}, "byte"),
    "cohere2-tied": ("cohere2", {**COHERE, **WINDOWS, "no_rope_pattern": 2}, "prepared"),
    "cohere2-untied": ("cohere2", {**COHERE, **UNTIED, "no_rope_pattern": 1}, "byte"),
    "bigcode-tied": ("gpt_bigcode", {**GPT2, "num_key_value_heads": 1}, "prepared"),
    "bigcode-untied": ("gpt_bigcode", {**GPT2, **UNTIED, "num_key_value_heads": 1, "hidden_act": "gelu", "attention_bias": False,
                                       "mlp_bias": False}, "byte"),
    "gpt-neox-untied": ("gpt_neox", {**GPT_NEOX, **UNTIED}, "prepared"),
    "gpt-neox-sequential": ("gpt_neox", {**GPT_NEOX, "block": "sequential", "attention_bias": False, "attention_output_bias": True,
                                         "partial_rotary_factor": 1, "rope_scaling": YARN}, "byte"),
    "phi-untied": ("phi", {**PHI, **UNTIED}, "prepared"),
    "phi-tied": ("phi", {**PHI, "num_key_value_heads": 4, "hidden_act": "gelu"}, "byte"),
    "gptj-untied": ("gptj", {**GPTJ, **UNTIED}, "prepared"),
    "gptj-tied": ("gptj", {**GPTJ, "partial_rotary_factor": 1, "hidden_act": "silu"}, "byte"),
    "starcoder2-tied": ("starcoder2", {**STARCODER2, "sliding_window": 5}, "prepared"),
    "starcoder2-untied": ("starcoder2", {**STARCODER2, **UNTIED, **WIDE_HEADS, "attention_bias": False, "mlp_bias": False}, "byte"),
    "ernie-biases": ("ernie4_5", {**ERNIE, **UNTIED, **ALL_BIASES}, "byte"),
    "phi3-longrope": ("phi3", {**LLAMA, **UNTIED, "packed_weights": "qkv_gate_up", "max_position_embeddings": 256,
                               "rope_scaling": LONGROPE}, "prepared"),
    "llama-longrope": ("llama", {**LLAMA, "rope_scaling": {**LONGROPE, "attention_factor": 1.5}}, "byte"),
    "llama-dynamic": ("llama", {**LLAMA, "rope_scaling": {"rope_type": "dynamic", "factor": 4, "original_max_position_embeddings": 48}}, "byte"),
    "mixtral-untied": ("mixtral", {**LLAMA, **UNTIED, "moe": MOE}, "prepared"),
    "mixtral-window": ("mixtral", {**LLAMA, **WIDE_HEADS, "sliding_window": 5, "moe": {**MOE, "top_k": 5}}, "byte"),
    "qwen3-moe-untied": ("qwen3_moe", {**QWEN3, **UNTIED, "moe": {**MOE, "intermediate_size": 40}}, "prepared"),
    "qwen3-moe-biases": ("qwen3_moe", {**QWEN3, **WIDE_HEADS, "attention_bias": True,
                                       "moe": {**MOE, "normalize_top_k": False, "aux_loss_coef": 0.1}}, "byte"),
    "olmoe-untied": ("olmoe", {**OLMO2, **UNTIED, "norm_placement": "input", "moe": MOE}, "prepared"),
    "olmoe-tied": ("olmoe", {**OLMO2, "norm_placement": "input", "attention_bias": True,
                             "moe": {"experts": 3, "top_k": 1, "normalize_top_k": False}}, "byte"),
    "llama-yarn": ("llama", {**LLAMA, "rope_scaling": YARN}, "byte"),
    "llama-linear": ("llama", {**LLAMA, "rope_scaling": {"rope_type": "linear", "factor": 4}}, "byte"),
    "qwen3-windows": ("qwen3", {**QWEN3, **WINDOWS}, "byte"),
}


SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 96, "max_position_embeddings": 64, "initializer_range": 0.2}
ODD = {"hidden_size": 72, "num_hidden_layers": 3, "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 88}
SEVENS = {"hidden_size": 56, "num_attention_heads": 7, "num_key_value_heads": 7}
NO_AUX_LOSS = {"router_aux_loss_coef": 0.0}  # transformers' is of all layers together
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}  # within the small vocabulary
LLAMA3_ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 16}

EVERY_HEAD = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
# Any length is longer than the original one, or none.
LONG = {"type": "longrope", "short_factor": [1.0] * 12, "long_factor": [1 + i / 4 for i in range(12)], "attention_factor": 1.25}
SHORT = {"type": "longrope", "short_factor": [1 + i / 4 for i in range(8)], "long_factor": [1.0] * 8}

# Models that transformers makes and saves. name: (model_type, keys of its configuration, dtype, bytes of a file)
PUBLISHED = {
    "from-gpt2": ("gpt2", {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.2},
                  torch.float32, None),
    "from-llama2": ("llama", SMALL, torch.float16, 100_000),
    "from-llama3": ("llama", {**SMALL, "rope_theta": 500000.0, "rope_scaling": LLAMA3_ROPE, "tie_word_embeddings": True},
                    torch.bfloat16, None),
    "from-smollm": ("llama", {**SMALL, "tie_word_embeddings": True}, torch.bfloat16, None),
    "from-mistral": ("mistral", {**SMALL, "sliding_window": 5}, torch.bfloat16, 100_000),
    "from-qwen2": ("qwen2", {**SMALL, "tie_word_embeddings": True}, torch.bfloat16, None),
    "from-qwen3": ("qwen3", {**SMALL, "head_dim": 24}, torch.bfloat16, None),
    "from-olmo2": ("olmo2", {**SMALL, **ODD}, torch.float32, None),
    "from-olmo2-biases": ("olmo2", {**SMALL, "hidden_size": 56, "num_attention_heads": 7, "num_key_value_heads": 7,
                                    "num_hidden_layers": 1, "attention_bias": True, "tie_word_embeddings": True},
                          torch.bfloat16, None),
    "from-gemma": ("gemma", {**SMALL, **ODD, "head_dim": 24}, torch.float32, None),
    "from-gemma-untied": ("gemma", {**SMALL, "hidden_size": 56, "num_attention_heads": 7, "num_key_value_heads": 1, "head_dim": 16,
                                    "attention_bias": True, "tie_word_embeddings": False}, torch.bfloat16, None),
    "from-arcee": ("arcee", {**SMALL, **ODD}, torch.float32, None),
    "from-arcee-biases": ("arcee", {**SMALL, "hidden_size": 56, "num_attention_heads": 7, "num_key_value_heads": 7, "attention_bias": True,
                                    "mlp_bias": True, "hidden_act": "gelu", "tie_word_embeddings": True}, torch.bfloat16, None),
    "from-falcon": ("falcon", {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "initializer_range": 0.2},
                    torch.float32, None),
    "from-falcon-biases": ("falcon", {"hidden_size": 72, "num_hidden_layers": 3, "num_attention_heads": 3, "ffn_hidden_size": 88,
                                      "bias": True, "tie_word_embeddings": False, "initializer_range": 0.2}, torch.bfloat16, 100_000),
    "from-gemma2": ("gemma2", {**SMALL, **ODD, "head_dim": 24, "sliding_window": 5, "query_pre_attn_scalar": 10},
                    torch.float32, None),
    "from-gemma2-uncapped": ("gemma2", {**SMALL, "hidden_size": 56, "num_attention_heads": 7, "num_key_value_heads": 1,
                                        "head_dim": 16, "attention_bias": True, "tie_word_embeddings": False,
                                        "attn_logit_softcapping": None, "final_logit_softcapping": None,
                                        "sliding_window": 7, "layer_types": ["sliding_attention"] * 2},
                             torch.bfloat16, None),
    "from-granite": ("granite", {**SMALL, **ODD, "embedding_multiplier": 3.5, "attention_multiplier": 0.3, "residual_multiplier": 0.22,
                                 "logits_scaling": 7.0}, torch.float32, None),
    "from-granite-tied": ("granite", {**SMALL, **SEVENS, "embedding_multiplier": 12.0, "attention_multiplier": 0.25,
                                      "residual_multiplier": 0.5, "logits_scaling": 2.0, "attention_bias": True, "mlp_bias": True,
                                      "tie_word_embeddings": True}, torch.bfloat16, None),
    "from-smollm3": ("smollm3", {**SMALL, **ODD, **TOKENS, "no_rope_layer_interval": 2}, torch.float32, None),
    "from-smollm3-untied": ("smollm3", {**SMALL, **SEVENS, **TOKENS, "no_rope_layers": [1, 0, 1, 0], "num_hidden_layers": 4, "attention_bias": True,
                                        "mlp_bias": True, "tie_word_embeddings": False}, torch.bfloat16, None),
    "from-olmo3": ("olmo3", {**SMALL, **ODD, "num_hidden_layers": 4, "sliding_window": 5}, torch.float32, None),
    "from-olmo3-yarn": ("olmo3", {**SMALL, **SEVENS, "sliding_window": 7, "layer_types": ["sliding_attention", "full_attention"],
                                  "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16,
                                                   "beta_fast": 8, "beta_slow": 2, "attention_factor": 1.5},
                                  "attention_bias": True, "tie_word_embeddings": True}, torch.bfloat16, None),
    "from-exaone4": ("exaone4", {**SMALL, **ODD, "num_hidden_layers": 4, "sliding_window": 5}, torch.float32, None),
    "from-exaone4-global": ("exaone4", {**SMALL, **SEVENS, "sliding_window": None, "layer_types": ["full_attention"] * 2,
                                        "rope_scaling": LLAMA3_ROPE, "tie_word_embeddings": True}, torch.bfloat16, None),
    "from-ministral": ("ministral", {**SMALL, **ODD, "head_dim": 24, "sliding_window": 5, "layer_types": ["sliding_attention", "sliding_attention",
                                                                                          "full_attention"]}, torch.float32, None),
    "from-ministral-tied": ("ministral", {**SMALL, **SEVENS, "head_dim": 16, "sliding_window": 7, "tie_word_embeddings": True},
                            torch.bfloat16, None),
    "from-gemma3": ("gemma3_text", {**SMALL, **ODD, "num_hidden_layers": 6, "head_dim": 24, "sliding_window": 5,
                                    "query_pre_attn_scalar": 10, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
                    torch.float32, None),
    "from-gemma3-untied": ("gemma3_text", {**SMALL, **SEVENS, "head_dim": 16, "attention_bias": True, "tie_word_embeddings": False,
                                           "final_logit_softcapping": 20.0, "sliding_window": 7,
                                           "layer_types": ["sliding_attention", "full_attention"]}, torch.bfloat16, None),
    "from-phi3": ("phi3", {**SMALL, **ODD, **TOKENS}, torch.float32, None),
    "from-phi4": ("phi3", {**SMALL, **SEVENS, **TOKENS, "hidden_size": 112, "partial_rotary_factor": 0.75, "sliding_window": 7,
                           "tie_word_embeddings": True}, torch.bfloat16, None),
    "from-stablelm": ("stablelm", {**SMALL, **ODD, "partial_rotary_factor": 0.5}, torch.float32, None),
    "from-stablelm-tied": ("stablelm", {**SMALL, **SEVENS, "hidden_size": 112, "partial_rotary_factor": 0.75, "use_qkv_bias": True,
                                        "tie_word_embeddings": True}, torch.bfloat16, None),
    "from-helium": ("helium", {**SMALL, **ODD, "head_dim": 24}, torch.float32, None),
    "from-helium-tied": ("helium", {**SMALL, **SEVENS, "head_dim": 8, "attention_bias": True, "mlp_bias": True,
                                    "tie_word_embeddings": True}, torch.bfloat16, None),
    "from-nemotron": ("nemotron", {**SMALL, **ODD, "head_dim": 24, "initializer_range": 0.1}, torch.float32, None),
    "from-nemotron-tied": ("nemotron", {**SMALL, **SEVENS, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
                           torch.bfloat16, None),
    "from-cohere": ("cohere", {**SMALL, **ODD, "logit_scale": 0.3, **TOKENS}, torch.float32, None),
    "from-cohere-tied": ("cohere", {**SMALL, **SEVENS, "logit_scale": 1.5, "attention_bias": True, "tie_word_embeddings": True, **TOKENS},
                         torch.bfloat16, None),
    "from-cohere2": ("cohere2", {**SMALL, **ODD, "num_hidden_layers": 4, "sliding_window": 5, "logit_scale": 1.5, "tie_word_embeddings": False, **TOKENS},
                     torch.float32, None),
    "from-cohere2-tied": ("cohere2", {**SMALL, **SEVENS, "logit_scale": 1.5, "sliding_window": 7, "layer_types": ["sliding_attention"] * 2, **TOKENS},
                          torch.bfloat16, None),
    "from-glm": ("glm", {**SMALL, **ODD, "head_dim": 24, **TOKENS}, torch.float32, None),
    "from-glm-tied": ("glm", {**SMALL, **SEVENS, "head_dim": 16, "partial_rotary_factor": 0.25, "attention_bias": False,
                              "tie_word_embeddings": True, **TOKENS}, torch.bfloat16, None),
    "from-glm4": ("glm4", {**SMALL, **ODD, "head_dim": 24, **TOKENS}, torch.float32, None),
    "from-glm4-tied": ("glm4", {**SMALL, **SEVENS, "head_dim": 16, "partial_rotary_factor": 0.25, "attention_bias": False,
                                "tie_word_embeddings": True, **TOKENS}, torch.bfloat16, None),
    "from-bigcode": ("gpt_bigcode", {"n_embd": 72, "n_layer": 3, "n_head": 3, "n_positions": 64, "initializer_range": 0.2},
                     torch.float32, None),
    "from-bigcode-untied": ("gpt_bigcode", {"n_embd": 112, "n_layer": 2, "n_head": 7, "n_positions": 64, "n_inner": 88,
                                            "activation_function": "gelu", "initializer_range": 0.2, "tie_word_embeddings": False},
                            torch.bfloat16, None),
    "from-gpt-neox": ("gpt_neox", {**EVERY_HEAD, "hidden_size": 72, "num_hidden_layers": 3, "num_attention_heads": 3}, torch.float32, None),
    "from-gpt-neox-sequential": ("gpt_neox", {**EVERY_HEAD, "hidden_size": 112, "num_attention_heads": 7, "rotary_pct": 1.0,
                                              "use_parallel_residual": False, "attention_bias": False, "tie_word_embeddings": True,
                                              "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}, torch.bfloat16, None),
    "from-phi": ("phi", {**SMALL, **ODD}, torch.float32, None),
    "from-phi-tied": ("phi", {**SMALL, **SEVENS, "hidden_size": 112, "partial_rotary_factor": 0.25, "tie_word_embeddings": True},
                      torch.bfloat16, None),
    "from-gptj": ("gptj", {"n_embd": 72, "n_layer": 3, "n_head": 3, "n_positions": 64, "rotary_dim": 10, "initializer_range": 0.2},
                  torch.float32, None),
    "from-gptj-tied": ("gptj", {"n_embd": 112, "n_layer": 2, "n_head": 7, "n_positions": 64, "rotary_dim": 16, "n_inner": 88,
                                "activation_function": "gelu", "initializer_range": 0.2, "tie_word_embeddings": True}, torch.bfloat16, None),
    "from-starcoder2": ("starcoder2", {**SMALL, **ODD}, torch.float32, None),
    "from-starcoder2-untied": ("starcoder2", {**SMALL, **SEVENS, "sliding_window": 5, "use_bias": False, "tie_word_embeddings": False},
                               torch.bfloat16, None),
    "from-ernie": ("ernie4_5", {**SMALL, **ODD, "head_dim": 24}, torch.float32, None),
    "from-ernie-biases": ("ernie4_5", {**SMALL, **SEVENS, "head_dim": 16, "use_bias": True, "tie_word_embeddings": False},
                          torch.bfloat16, None),
    "from-phi3-long": ("phi3", {**SMALL, **ODD, **TOKENS, "original_max_position_embeddings": 1, "rope_scaling": LONG}, torch.float32, None),
    "from-phi3-short": ("phi3", {**SMALL, **SEVENS, **TOKENS, "hidden_size": 112, "max_position_embeddings": 128,
                                 "original_max_position_embeddings": 64, "rope_scaling": SHORT}, torch.bfloat16, None),
    "from-llama-dynamic": ("llama", {**SMALL, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}, torch.float32, None),
    "from-mixtral": ("mixtral", {**SMALL, **ODD, **NO_AUX_LOSS, "num_hidden_layers": 2, "num_local_experts": 5, "num_experts_per_tok": 3}, torch.float32, None),
    "from-mixtral-tied": ("mixtral", {**SMALL, **SEVENS, **NO_AUX_LOSS, "head_dim": 16, "num_local_experts": 3, "sliding_window": 7,
                                      "tie_word_embeddings": True}, torch.bfloat16, 100_000),
    "from-qwen3-moe": ("qwen3_moe", {**SMALL, **ODD, **NO_AUX_LOSS, "head_dim": 24, "num_experts": 6, "num_experts_per_tok": 4,
                                     "moe_intermediate_size": 40, "norm_topk_prob": True}, torch.float32, None),
    "from-qwen3-moe-tied": ("qwen3_moe", {**SMALL, **SEVENS, **NO_AUX_LOSS, "head_dim": 16, "num_experts": 4, "num_experts_per_tok": 1,
                                          "moe_intermediate_size": 56, "attention_bias": True, "tie_word_embeddings": True},
                            torch.bfloat16, None),
    "from-olmoe": ("olmoe", {**SMALL, **ODD, **NO_AUX_LOSS, "num_experts": 5, "num_experts_per_tok": 2}, torch.float32, None),
    "from-olmoe-tied": ("olmoe", {**SMALL, **SEVENS, **NO_AUX_LOSS, "num_experts": 4, "num_experts_per_tok": 4, "norm_topk_prob": True,
                                  "attention_bias": True, "tie_word_embeddings": True}, torch.bfloat16, None),
    "from-llama-yarn": ("llama", {**SMALL, "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16}},
                        torch.float32, None),
    "from-llama-linear": ("llama", {**SMALL, **ODD, "rope_scaling": {"type": "linear", "factor": 4.0}}, torch.float32, None),
}


# Adapters beside these models. name: (the model, keys of adapter)
ADAPTERS = {
    "lora-gpt2": ("from-gpt2", {"r": 4, "dropout": 0.1}),
    "lora-gpt2-mlp": ("from-gpt2", {"r": 3, "target_modules": ["mlp.c_proj", "c_attn"]}),
    "lora-llama3": ("from-llama3", {"r": 8, "alpha": 4.5}),
    "lora-mistral": ("from-mistral", {"r": 4, "rslora": True}),
    "lora-qwen2": ("from-qwen2", {"r": 8, "target_modules": ["q_proj", "v_proj", "up_proj"]}),
    "lora-qwen3": ("from-qwen3", {"r": 2}),
    "lora-olmo2": ("from-olmo2", {"r": 4}),
    "lora-gemma": ("from-gemma", {"r": 4}),
    "lora-arcee": ("from-arcee", {"r": 4}),
    "lora-gemma2": ("from-gemma2", {"r": 4}),
    "lora-falcon": ("from-falcon", {"r": 4}),
    "lora-granite": ("from-granite", {"r": 4}),
    "lora-smollm3": ("from-smollm3", {"r": 4}),
    "lora-olmo3": ("from-olmo3", {"r": 4}),
    "lora-exaone4": ("from-exaone4", {"r": 4}),
    "lora-ministral": ("from-ministral", {"r": 4}),
    "lora-gemma3": ("from-gemma3", {"r": 4}),
    "lora-stablelm": ("from-stablelm", {"r": 4}),
    "lora-helium": ("from-helium", {"r": 4}),
    "lora-glm4": ("from-glm4", {"r": 4}),
    "lora-nemotron": ("from-nemotron", {"r": 4}),
    "lora-cohere": ("from-cohere", {"r": 4}),
    "lora-cohere2": ("from-cohere2", {"r": 4}),
    "lora-bigcode": ("from-bigcode", {"r": 4}),
    "lora-gpt-neox": ("from-gpt-neox", {"r": 4}),
    "lora-phi": ("from-phi", {"r": 4}),
    "lora-gptj": ("from-gptj", {"r": 4}),
    "lora-starcoder2": ("from-starcoder2", {"r": 4}),
    "lora-ernie": ("from-ernie", {"r": 4}),
    "lora-phi3": ("from-phi3", {"r": 4}),
    "lora-mixtral": ("from-mixtral", {"r": 4}),
    "lora-qwen3-moe": ("from-qwen3-moe", {"r": 4}),
    "lora-olmoe": ("from-olmoe", {"r": 4}),
    "lora-phi4": ("from-phi4", {"r": 3, "target_modules": ["qkv_proj", "down_proj"]}),
}

# Adapters that peft made, to go on from. name: (the model, arguments of LoraConfig, keys that are left out of its file)
MADE_BY_PEFT = {
    "peft-gpt2": ("from-gpt2", {"r": 4, "lora_alpha": 6, "target_modules": ["c_attn", "mlp.c_proj"], "fan_in_fan_out": True}, []),
    "peft-llama3": ("from-llama3", {"r": 8, "use_rslora": True, "target_modules": "all-linear"}, []),
    "peft-defaults": ("from-llama2", {"target_modules": ["q_proj", "up_proj"]},
                      ["r", "lora_alpha", "lora_dropout", "use_rslora", "bias", "init_lora_weights", "task_type"]),
    "peft-orthogonal": ("from-qwen2", {"r": 4, "target_modules": ["v_proj"], "init_lora_weights": "orthogonal"}, []),
}

# Encoders of sentences that embed replies. name: (keys of BertConfig, whether text is lower-cased, sentence-transformers' longest text)
ENCODERS = {
    "encoder": ({"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 80}, True, None),
    "encoder-cased": ({"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 64,
                       "hidden_act": "gelu_new", "layer_norm_eps": 1e-5}, False, 9),
}

# The templates that models are published with, without their parts for tools. name: (special tokens, Jinja)
CHATS = {
    "chatml": (["<|im_start|>", "<|im_end|>"],
               "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
               "{% endfor %}"),
    "qwen": (["<|im_start|>", "<|im_end|>"],
             "{%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}"
             "{%- else %}{{- '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n' }}"
             "{%- endif %}{%- for message in messages %}{%- if (message.role == \"user\") or (message.role == \"system\" and not "
             "loop.first) or (message.role == \"assistant\" and not message.tool_calls) %}"
             "{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}{%- endif %}{%- endfor %}"),
    "llama3": (["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
               "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
               "message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
               "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"),
    "mistral": (["<s>", "</s>", "[INST]", "[/INST]"],
                "{{- bos_token }}{%- for message in messages %}{%- if message['role'] == 'user' %}{{- '[INST]' + message['content'] + "
                "'[/INST]' }}{%- elif message['role'] == 'assistant' %}{{- message['content'] + eos_token}}{%- endif %}{%- endfor %}"),
}
CONVERSATION = [{"role": "user", "content": "What is café?\n\nTell me."}, {"role": "assistant", "content": "A drink: 1, 2.\n"},
                {"role": "user", "content": "  And\ttea?"}, {"role": "assistant", "content": "Too."}]


class Mismatch(Exception):
    pass


def require(holds, what):
    if not holds:
        raise Mismatch(what)


class Hydrac:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def __call__(self, *words):
        done = subprocess.run([self.program, *words], cwd=self.folder, capture_output=True, text=True)
        require(done.returncode == 0, f"hydrac {' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout


def spec_of(name, model, tokenizer):
    return {
        "name": name,
        "target": "cpu",
        # Large weights and steps, so that no part of the model is too small to be missed.
        "model": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
                  "initializer_range": 0.2, **model},
        "data": {"path": "corpus.txt", "tokenizer": tokenizer, "val_fraction": 0.0},
        "train": {"sequence_len": 48, "micro_batch_size": 2, "max_steps": 2, "eval_steps": 0,
                  "optimizer": {"learning_rate": 0.05}},
        "optimizations": {"threads": 1},
        "sample": {"max_new_tokens": 0},
    }


def greatest_difference(hydrac, name, checkpoint):
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, torch_dtype=torch.float32).eval()
    greatest = 0.0
    for prompt in PROMPTS:
        ours = json.loads(hydrac("sample", f"runs/{name}", "--logits", "--prompt", prompt, "--threads", "1"))
        ids = tokenizer(prompt)["input_ids"]
        require(ids == ours["tokens"], f"ids of {prompt!r}: {ours['tokens']}, AutoTokenizer's are {ids}")
        text = tokenizer.decode(ids, skip_special_tokens=True)
        require(text == prompt, f"{prompt!r} is decoded as {text!r}")
        with torch.no_grad():
            theirs = model(torch.tensor([ids])).logits[0, -1]
        logits = torch.tensor(ours["logits"])
        require(logits.shape == theirs.shape, f"{list(logits.shape)} logits, transformers has {list(theirs.shape)}")
        require(logits.abs().max() > 0.5, "the logits are too small to tell models apart")
        greatest = max(greatest, (logits - theirs).abs().max().item())
    return greatest


def model_keys(text):
    return yaml.safe_load(text)["model"]


def require_same_from_config(hydrac, name, spec, checkpoint):
    """A model whose missing biases were stored as zeros comes back with biases."""
    again = {**spec, "name": "again", "model": {"from": f"{checkpoint}/config.json"}}
    pathlib.Path(hydrac.folder, "again.yaml").write_text(json.dumps(again))
    now = model_keys(hydrac("check", "-v", "again.yaml"))
    then = model_keys(hydrac("check", "-v", f"{name}.yaml", f"model.vocab_size={now['vocab_size']}"))
    free = {"norm_bias", "attention_bias", "attention_output_bias", "mlp_bias"}
    if spec["model"]["position"] == "none":
        free.add("position")
    for key, value in then.items():
        require(key in free and value in (False, "none") or now[key] == value,
                f"model.{key} is {value!r}, and {now[key]!r} when read from config.json")


def run_case(hydrac, name, tokenizer_json):
    family, model, tokenizer = CASES[name]
    if tokenizer == "prepared" and not pathlib.Path(hydrac.folder, tokenizer).exists():
        hydrac("data", "prepare", "-q", "corpus.txt", "-o", tokenizer, "--vocab-size", "290")
    declared = pathlib.Path(hydrac.folder, "declared")
    declared.mkdir(exist_ok=True)
    (declared / "tokenizer.json").write_bytes(pathlib.Path(tokenizer_json).read_bytes())
    (declared / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer"}))
    files = {"bpe": tokenizer_json, "prepared": "prepared/tokenizer.json", "declared": "declared/tokenizer.json"}
    spec = spec_of(name, model, files.get(tokenizer, tokenizer))
    pathlib.Path(hydrac.folder, f"{name}.yaml").write_text(json.dumps(spec))
    promise = f"checkpoints are Hugging Face's {family}: transformers loads them\n"
    require(promise in hydrac("check", f"{name}.yaml"), f"check does not say {promise!r}")
    hydrac("run", "-q", f"{name}.yaml")
    checkpoint = pathlib.Path(hydrac.folder, f"runs/{name}/checkpoint-2")
    config = json.loads((checkpoint / "config.json").read_text())
    require(config["model_type"] == family, f"model_type is {config['model_type']}, not {family}")
    greatest = greatest_difference(hydrac, name, checkpoint)
    require(greatest <= TOLERANCE, f"logits differ by up to {greatest:.2g}")
    require_same_from_config(hydrac, name, spec, checkpoint)
    print(f"{name}: {family}, ids are equal, logits differ by up to {greatest:.2g}", flush=True)


def publish(folder, tokenizer_json, model_type, keys, dtype, file_bytes):
    """A random model with biases and norms that are not those it would begin with."""
    torch.manual_seed(7)
    vocabulary = 1 + max(json.loads(pathlib.Path(tokenizer_json).read_text())["model"]["vocab"].values()) + 100
    config = transformers.AutoConfig.for_model(model_type, vocab_size=vocabulary, **keys)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.to(dtype).save_pretrained(folder, safe_serialization=True, **({"max_shard_size": file_bytes} if file_bytes else {}))
    is_sharded = (folder / "model.safetensors.index.json").exists()
    require(is_sharded == (file_bytes is not None), f"{folder} is{'' if is_sharded else ' not'} in parts")
    # As Llama's, with a token before each text.
    root = json.loads(pathlib.Path(tokenizer_json).read_text())
    begin = root["added_tokens"][0]
    root["post_processor"] = {
        "type": "TemplateProcessing", "pair": [],
        "single": [{"SpecialToken": {"id": begin["content"], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {begin["content"]: {"id": begin["content"], "ids": [begin["id"]], "tokens": [begin["content"]]}}}
    (folder / "tokenizer.json").write_text(json.dumps(root))


def dtype_of(name):
    return PUBLISHED[name][2]


def require_same_gradients(hydrac, name, model):
    """A step of SGD with rate 1 over the only sequence leaves weights minus gradients."""
    pathlib.Path(hydrac.folder, "sequence.txt").write_text(TEXT[:90])
    spec = {
        "name": f"{name}-step", "target": "cpu", "model": {"from": name, "dropout": 0, "attention_dropout": 0},
        "data": {"path": "sequence.txt", "val_fraction": 0},
        "train": {"sequence_len": 31, "micro_batch_size": 1, "max_steps": 1, "max_grad_norm": 0,
                  "lr_scheduler": {"name": "constant"}, "optimizer": {"name": "sgd", "learning_rate": 1, "momentum": 0}},
        "optimizations": {"threads": 1}, "sample": {"max_new_tokens": 0},
    }
    pathlib.Path(hydrac.folder, f"{name}-step.yaml").write_text(json.dumps(spec))
    shown = hydrac("data", "show", "-q", "--tokens", f"{name}-step.yaml").splitlines()[1:]
    ids = torch.tensor([[int(line.split()[1]) for line in shown]])
    require(ids.shape[1] == 32, f"{ids.shape[1]} tokens are shown of a sequence")
    hydrac("run", "-q", f"{name}-step.yaml")
    run = pathlib.Path(hydrac.folder, f"runs/{name}-step")
    after = dict(transformers.AutoModelForCausalLM.from_pretrained(run / "checkpoint-1", torch_dtype=torch.float32).named_parameters())
    model = copy.deepcopy(model).double()  # transformers' float32 is further from it than hydrac's
    if hasattr(model.config, "num_experts"):
        model.set_experts_implementation("eager")  # the default has no float64
    loss = model(ids, labels=ids).loss
    loss.backward()
    ours = json.loads((run / "metrics.jsonl").read_text().splitlines()[0])["loss"]
    require(abs(ours - loss.item()) <= 1e-5 * loss.item(), f"the loss is {ours}, and transformers' {loss.item()}")
    greatest = 0.0
    for key, parameter in model.named_parameters():
        stored = after[key if key in after else "embed_out.weight"]  # GPT-NeoX's head, which transformers renames
        difference = (parameter.detach() - stored - parameter.grad).abs().max().item()
        # Weights minus gradients are rounded at 1e-7; biases of keys without positions have no gradient but rounding.
        greatest = max(greatest, difference / max(parameter.grad.abs().max().item(), 0.01))
    require(greatest <= 1e-5, f"gradients differ by up to {greatest:.2g} of a tensor's largest")
    return greatest


def run_published(hydrac, name, tokenizer_json):
    """One step without a learning rate leaves the weights as they are."""
    if PUBLISHED[name][0] not in transformers.CONFIG_MAPPING:
        print(f"{name}: skipped: this transformers has no {PUBLISHED[name][0]}", flush=True)
        return
    folder = pathlib.Path(hydrac.folder, name)
    publish(folder, tokenizer_json, *PUBLISHED[name])
    spec = {
        "name": name, "target": "cpu", "model": {"from": name, "dropout": 0, "attention_dropout": 0},
        "data": {"path": "corpus.txt", "val_fraction": 0},
        "train": {"sequence_len": 48, "micro_batch_size": 2, "max_steps": 1, "optimizer": {"learning_rate": 0}},
        "optimizations": {"threads": 1}, "sample": {"max_new_tokens": 0},
    }
    pathlib.Path(hydrac.folder, f"{name}.yaml").write_text(json.dumps(spec))
    hydrac("run", "-q", f"{name}.yaml")
    hydrac("export", "-q", f"runs/{name}", "-o", f"{name}-out")
    out = transformers.AutoModelForCausalLM.from_pretrained(pathlib.Path(hydrac.folder, f"{name}-out"), torch_dtype=dtype_of(name))
    saved = transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=dtype_of(name)).state_dict()
    for key, value in out.state_dict().items():
        require(torch.equal(value, saved[key]), f"{key} is exported as another tensor")
    # The ids are those of hydrac's checkpoint; the weights are those that transformers saved.
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32).eval()
    greatest = 0.0
    for prompt in PROMPTS:
        ours = json.loads(hydrac("sample", f"runs/{name}", "--logits", "--prompt", prompt, "--threads", "1"))
        with torch.no_grad():
            theirs = model(torch.tensor([ours["tokens"]])).logits[0, -1]
        logits = torch.tensor(ours["logits"])
        require(logits.shape == theirs.shape, f"{list(logits.shape)} logits, transformers has {list(theirs.shape)}")
        require(logits.abs().max() > 0.5, "the logits are too small to tell models apart")
        greatest = max(greatest, (logits - theirs).abs().max().item())
    require(greatest <= TOLERANCE, f"logits differ by up to {greatest:.2g}")
    gradients = require_same_gradients(hydrac, name, model)
    print(f"{name}: {dtype_of(name)}, logits differ by up to {greatest:.2g}, gradients by {gradients:.2g}", flush=True)


def run_adapter(hydrac, name, tokenizer_json):
    if peft is None:
        print(f"{name}: skipped: Python's package peft is missing", flush=True)
        return
    base, adapter = ADAPTERS[name]
    folder = pathlib.Path(hydrac.folder, base)
    publish(folder, tokenizer_json, *PUBLISHED[base])
    spec = {
        "name": name, "target": "cpu", "model": {"from": base, "dropout": 0, "attention_dropout": 0},
        "adapter": {"type": "lora", **adapter}, "data": {"path": "corpus.txt", "val_fraction": 0},
        "train": {"sequence_len": 48, "micro_batch_size": 2, "max_steps": 3, "optimizer": {"learning_rate": 0.02}},
        "optimizations": {"threads": 1}, "sample": {"max_new_tokens": 0},
    }
    pathlib.Path(hydrac.folder, f"{name}.yaml").write_text(json.dumps(spec))
    hydrac("run", "-q", f"{name}.yaml")
    checkpoint = pathlib.Path(hydrac.folder, f"runs/{name}/checkpoint-3")
    load = lambda: transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32).eval()
    plain, adapted = load(), peft.PeftModel.from_pretrained(load(), checkpoint).eval()
    # peft passes over what finds no place.
    stored = len(safetensors.torch.load_file(checkpoint / "adapter_model.safetensors"))
    count = sum(".lora_" in key for key in adapted.state_dict())
    require(stored == count, f"{stored} tensors are stored, and peft wants {count}")
    greatest = change = 0.0
    for prompt in PROMPTS:
        ours = json.loads(hydrac("sample", f"runs/{name}", "--logits", "--prompt", prompt, "--threads", "1"))
        with torch.no_grad():
            ids = torch.tensor([ours["tokens"]])
            theirs, before = adapted(ids).logits[0, -1], plain(ids).logits[0, -1]
        greatest = max(greatest, (torch.tensor(ours["logits"]) - theirs).abs().max().item())
        change = max(change, (theirs - before).abs().max().item())
    require(change > 0.1, "the adapter changes too little to tell")
    require(greatest <= TOLERANCE, f"logits differ by up to {greatest:.2g}")
    print(f"{name}: {count} tensors, logits differ by up to {greatest:.2g}, of a change of {change:.2g}", flush=True)


def run_made_by_peft(hydrac, name, tokenizer_json):
    """One step without a learning rate leaves the adapter as it is."""
    if peft is None:
        print(f"{name}: skipped: Python's package peft is missing", flush=True)
        return
    base, config, left_out = MADE_BY_PEFT[name]
    folder, made = pathlib.Path(hydrac.folder, base), pathlib.Path(hydrac.folder, f"{name}-adapter")
    publish(folder, tokenizer_json, *PUBLISHED[base])
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32)
    config = {"task_type": "CAUSAL_LM", "init_lora_weights": False, **config}
    adapted = peft.get_peft_model(model, peft.LoraConfig(**config)).eval()
    adapted.save_pretrained(made)
    written = json.loads((made / "adapter_config.json").read_text())
    (made / "adapter_config.json").write_text(json.dumps({k: v for k, v in written.items() if k not in left_out}))
    spec = {
        "name": name, "target": "cpu", "model": {"from": base, "dropout": 0, "attention_dropout": 0},
        "adapter": {"from": made.name}, "data": {"path": "corpus.txt", "val_fraction": 0},
        "train": {"sequence_len": 48, "micro_batch_size": 2, "max_steps": 1, "optimizer": {"learning_rate": 0}},
        "optimizations": {"threads": 1}, "sample": {"max_new_tokens": 0},
    }
    pathlib.Path(hydrac.folder, f"{name}.yaml").write_text(json.dumps(spec))
    hydrac("run", "-q", f"{name}.yaml")
    greatest = 0.0
    for prompt in PROMPTS:
        ours = json.loads(hydrac("sample", f"runs/{name}", "--logits", "--prompt", prompt, "--threads", "1"))
        with torch.no_grad():
            theirs = adapted(torch.tensor([ours["tokens"]])).logits[0, -1]
        greatest = max(greatest, (torch.tensor(ours["logits"]) - theirs).abs().max().item())
    require(greatest <= TOLERANCE, f"logits differ by up to {greatest:.2g}")
    print(f"{name}: logits differ by up to {greatest:.2g}", flush=True)


def run_peft_keys(hydrac, name, tokenizer_json):
    if peft is None:
        print(f"{name}: skipped: Python's package peft is missing", flush=True)
        return
    table = pathlib.Path(__file__).parents[2] / "compiler/spec/hugging_face/peft_keys.def"
    rows = set(re.findall(r"^(?:BECOMES|ONE_OF|OFF|FREE)\((\w+)", table.read_text(), re.MULTILINE))
    fields = {field.name for field in dataclasses.fields(peft.LoraConfig)}
    require(fields <= rows, f"{table} has no row for {sorted(fields - rows)} of peft {peft.__version__}")
    print(f"{name}: all {len(fields)} of peft {peft.__version__} have a row", flush=True)


def make_encoder(folder, keys, lowercase, longest):
    """A random BERT, and a tokenizer of characters."""
    torch.manual_seed(11)
    characters = [chr(c) for c in range(33, 127)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters, *("##" + c for c in characters)]
    config = transformers.BertConfig(vocab_size=len(vocabulary), max_position_embeddings=64, initializer_range=0.3, **keys)
    model = transformers.BertModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder, safe_serialization=True)
    (folder / "vocab.txt").write_text("".join(token + "\n" for token in vocabulary))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": lowercase}))
    if longest:
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": longest}))


def diversity_of(folder, sets, longest):
    """The mean over sets of the mean cosine distance of two replies."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, torch_dtype=torch.float64).eval()
    distances = []
    for replies in sets:
        with torch.no_grad():
            vectors = [model(**tokenizer(reply, truncation=True, max_length=longest or 64, return_tensors="pt")).last_hidden_state[0].mean(0)
                       for reply in replies]
        vectors = torch.nn.functional.normalize(torch.stack(vectors), dim=-1)
        cosines = vectors @ vectors.T
        count = len(replies)
        distances.append((1 - (cosines.sum() - count) / (count * (count - 1))).item())
    return sum(distances) / len(distances)


def run_encoder(hydrac, name, tokenizer_json):
    """A command that rewards replies sees what is embedded."""
    keys, lowercase, longest = ENCODERS[name]
    folder = pathlib.Path(hydrac.folder, name)
    make_encoder(folder, keys, lowercase, longest)
    pathlib.Path(hydrac.folder, f"{name}.jsonl").write_text(
        "".join(json.dumps({"prompt": f"after {i} comes ", "completion": str(i + 1)}) + "\n" for i in range(20)))
    seen = pathlib.Path(hydrac.folder, f"{name}-seen.jsonl")
    pathlib.Path(hydrac.folder, f"{name}.sh").write_text(f"tee -a {seen} | awk '{{ print 1; print 2; print 3 }}'\n")
    spec = {
        "name": name, "target": "cpu", "model": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4},
        "objective": {"name": "grpo", "prompts": 3, "replies": 3, "prompt_tokens": 16, "max_new_tokens": 12, "embed": name},
        "data": {"path": f"{name}.jsonl", "format": "chat", "val_fraction": 0},
        "train": {"sequence_len": 48, "micro_batch_size": 2, "max_steps": 3, "log_steps": 1},
        "optimizations": {"threads": 1}, "sample": {"max_new_tokens": 0},
    }
    pathlib.Path(hydrac.folder, f"{name}.yaml").write_text(json.dumps(spec))
    hydrac("run", "-q", f"{name}.yaml", f"objective.reward.command=[sh, {name}.sh]")
    sets = [json.loads(line)["replies"] for line in seen.read_text().splitlines()]
    records = [json.loads(line) for line in pathlib.Path(hydrac.folder, f"runs/{name}/metrics.jsonl").read_text().splitlines()]
    require(len(records) == 3 and len(sets) == 9, f"{len(records)} records of {len(sets)} sets")
    greatest = 0.0
    for step, record in enumerate(records):
        theirs = diversity_of(folder, sets[3 * step:3 * step + 3], longest)
        require(theirs > 1e-3, "the replies are too much alike to tell")
        greatest = max(greatest, abs(record["diversity"] - theirs))
    require(greatest <= 1e-5, f"the diversity of replies differs by up to {greatest:.2g}")
    print(f"{name}: the diversity of replies differs by up to {greatest:.2g}", flush=True)


def run_chat(hydrac, name, tokenizer_json):
    special, template = CHATS[name]
    root = json.loads(pathlib.Path(tokenizer_json).read_text())
    known = {token["content"] for token in root["added_tokens"]}
    free = 1 + max([*root["model"]["vocab"].values(), *(token["id"] for token in root["added_tokens"])])
    for token in special:
        if token not in known:
            root["added_tokens"].append({"id": free + special.index(token), "content": token, "special": True, "normalized": False,
                                         "lstrip": False, "rstrip": False, "single_word": False})
    folder = pathlib.Path(hydrac.folder, f"chat-{name}")
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(root))
    # Which of hydrac's formats this is, it finds out.
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": special[0], "eos_token": special[1], "chat_template": template}))
    (folder / "chat.jsonl").write_text(json.dumps({"messages": CONVERSATION}) + "\n")
    spec = {
        "name": name, "target": "cpu", "model": {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4},
        "data": {"path": f"chat-{name}/chat.jsonl", "format": "chat", "val_fraction": 0,
                 "tokenizer": f"chat-{name}/tokenizer.json"},
        "train": {"sequence_len": 192, "micro_batch_size": 1, "max_steps": 1},
    }
    pathlib.Path(hydrac.folder, f"chat-{name}.yaml").write_text(json.dumps(spec))
    shown = hydrac("data", "show", "-q", "--tokens", f"chat-{name}.yaml").splitlines()[1:]
    ours = [(int(line.split()[1]), line.split()[2] == "1") for line in shown]
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), bos_token=special[0],
                                                     eos_token=special[1], chat_template=template)
    theirs = tokenizer.apply_chat_template(CONVERSATION, tokenize=True, return_dict=True)["input_ids"]
    # What stands behind the last reply is no target, and not shown.
    ids = [token for token, _ in ours]
    require(ids == theirs[:len(ids)] and len(theirs) - len(ids) <= 1, f"ids {ids}, apply_chat_template's are {theirs}")
    learned = tokenizer.decode([token for token, is_learned in ours if is_learned], clean_up_tokenization_spaces=False)
    trim = str.strip if name == "llama3" else str
    end = {"llama3": "<|eot_id|>", "mistral": "</s>"}.get(name, "<|im_end|>")
    replies = "".join(trim(message["content"]) + end for message in CONVERSATION if message["role"] == "assistant")
    require(learned == replies, f"{learned!r} is learned, not {replies!r}")
    print(f"{name}: {len(ids)} ids are apply_chat_template's", flush=True)


def main():
    program, folder, tokenizer_json, *names = sys.argv[1:]
    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    pathlib.Path(folder, "corpus.txt").write_text(TEXT)
    hydrac = Hydrac(program, folder)
    failed = 0
    kinds = ((CASES, run_case), (PUBLISHED, run_published), (ADAPTERS, run_adapter), (MADE_BY_PEFT, run_made_by_peft),
             (ENCODERS, run_encoder), (CHATS, run_chat), (("peft-keys",), run_peft_keys))
    runs = {name: run for names_of_kind, run in kinds for name in names_of_kind}
    for name in names or runs:
        try:
            runs[name](hydrac, name, tokenizer_json)
        except Mismatch as mismatch:
            failed += 1
            print(f"{name}: FAILED: {mismatch}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
