"""Trains a tiny model of each kind that Hugging Face knows, loads its checkpoint with transformers, and compares.

usage: hugging_face.py HYDRAC FOLDER TOKENIZER [CASE ...]

FOLDER is where runs go, TOKENIZER a tokenizer.json of byte-level BPE. Of each case: AutoTokenizer gives the same ids,
AutoModelForCausalLM the same logits behind every prompt (float32, to 1e-4), and the checkpoint's config.json, read as
model.from, is the same model. Exit 1 where something differs, 77 where Python's packages are missing.
"""
import json
import os
import pathlib
import subprocess
import sys

try:
    import torch
    import transformers
    import yaml
except ImportError as missing:
    print(f"skipped: Python's package {missing.name} is missing: pip install torch transformers pyyaml")
    sys.exit(77)

TOLERANCE = 1e-4
TEXT = "".join(f"line {i}: the quick brown fox — naïve café, 123\n" for i in range(60))
PROMPTS = ["t", "naïve café — brown\n\nfox 321"]

GPT2 = {"norm": "layernorm", "position": "learned", "hidden_act": "gelu_tanh"}
NO_BIASES = {"norm_bias": False, "attention_bias": False, "attention_output_bias": False, "mlp_bias": False}
LLAMA = {"norm": "rmsnorm", "position": "rope", "hidden_act": "swiglu", "num_key_value_heads": 2}
QWEN2 = {**LLAMA, "attention_bias": True, "attention_output_bias": False}
QWEN3 = {**LLAMA, "qk_norm": True}
UNTIED = {"tie_word_embeddings": False}
WIDE_HEADS = {"head_dim": 24}  # hidden_size / num_attention_heads is 16
ROPE_SCALING = {"rope_scaling": {"factor": 8, "original_max_position_embeddings": 16}}
ALL_BIASES = {"attention_bias": True, "mlp_bias": True}

# name: (model_type, model keys, tokenizer)
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
    # Whose text transformers would split as Qwen2 does.
    "qwen2-char": ("llama", QWEN2, "char"),
    "qwen2-byte": ("llama", QWEN2, "byte"),
    "qwen3-tied": ("qwen3", QWEN3, "char"),
    "qwen3-untied": ("qwen3", {**QWEN3, **UNTIED}, "byte"),
    "qwen3-head-dim": ("qwen3", {**QWEN3, **WIDE_HEADS}, "byte"),
    "qwen3-biases": ("qwen3", {**QWEN3, **UNTIED, "attention_bias": True}, "byte"),
}


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
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    greatest = 0.0
    for prompt in PROMPTS:
        ours = json.loads(hydrac("sample", f"runs/{name}", "--logits", "--prompt", prompt, "--threads", "1"))
        ids = tokenizer(prompt)["input_ids"]
        require(ids == ours["tokens"], f"ids of {prompt!r}: {ours['tokens']}, AutoTokenizer's are {ids}")
        require(tokenizer.decode(ids) == prompt, f"{prompt!r} is decoded as {tokenizer.decode(ids)!r}")
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
    now = model_keys(hydrac("check", "again.yaml"))
    then = model_keys(hydrac("check", f"{name}.yaml", f"model.vocab_size={now['vocab_size']}"))
    free = {"norm_bias", "attention_bias", "attention_output_bias", "mlp_bias"}
    if spec["model"]["position"] == "none":
        free.add("position")
    for key, value in then.items():
        require(key in free and value in (False, "none") or now[key] == value,
                f"model.{key} is {value!r}, and {now[key]!r} when read from config.json")


def run_case(hydrac, name, tokenizer_json):
    family, model, tokenizer = CASES[name]
    spec = spec_of(name, model, tokenizer_json if tokenizer == "bpe" else tokenizer)
    pathlib.Path(hydrac.folder, f"{name}.yaml").write_text(json.dumps(spec))
    hydrac("run", "-q", f"{name}.yaml")
    checkpoint = pathlib.Path(hydrac.folder, f"runs/{name}/checkpoint-2")
    config = json.loads((checkpoint / "config.json").read_text())
    require(config["model_type"] == family, f"model_type is {config['model_type']}, not {family}")
    greatest = greatest_difference(hydrac, name, checkpoint)
    require(greatest <= TOLERANCE, f"logits differ by up to {greatest:.2g}")
    require_same_from_config(hydrac, name, spec, checkpoint)
    print(f"{name}: {family}, ids are equal, logits differ by up to {greatest:.2g}", flush=True)


def main():
    program, folder, tokenizer_json, *names = sys.argv[1:]
    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    pathlib.Path(folder, "corpus.txt").write_text(TEXT)
    hydrac = Hydrac(program, folder)
    failed = 0
    for name in names or CASES:
        try:
            run_case(hydrac, name, tokenizer_json)
        except Mismatch as mismatch:
            failed += 1
            print(f"{name}: FAILED: {mismatch}", flush=True)
    sys.exit(1 if failed else 0)


main()
