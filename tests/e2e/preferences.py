"""Preference objectives beside TRL: the same weights, pairs and order, three steps of SGD in fp32. Losses, logged
log-probabilities and rewards, and the weights afterwards agree to 1e-5. Losses that TRL has otherwise (label smoothing, which
its DPO dropped; ORPO, whose likelihood it takes of prompts too) are written here, with TRL's own odds ratio.

    preferences.py HYDRAC FOLDER TOKENIZER_JSON [NAME ...]     exit 77: a package is missing
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import types

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
try:
    import torch
    import torch.nn.functional as F
    import transformers
    import trl
    from datasets import Dataset
    from safetensors.torch import load_file
    from trl.experimental.cpo import CPOConfig, CPOTrainer
    from trl.experimental.orpo import ORPOTrainer
except ImportError as missing:
    print(missing)
    sys.exit(77)

STEPS, RATE, TOLERANCE = 3, 0.01, 1e-5
WORDS = "one two three four five six seven eight nine ten eleven twelve".split()
PAIRS = [{"prompt": f"After {a} comes", "chosen": f" {WORDS[(i + 1) % 12]}, as everybody knows.",
          "rejected": f" {WORDS[i - 3]}" + " or so" * (i % 3) + "."} for i, a in enumerate(WORDS[:2 * STEPS])]


def make_model(folder, tokenizer_json):
    torch.manual_seed(1)
    folder.mkdir()
    shutil.copy(tokenizer_json, folder / "tokenizer.json")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}))
    config = transformers.LlamaConfig(
        vocab_size=512, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.1, tie_word_embeddings=False)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


def run_hydrac(program, folder, name, keys):
    spec = {"name": name, "target": "cpu", "model": {"from": "model"}, "objective": keys,
            "data": {"path": "pairs.jsonl", "format": "chat", "val_fraction": 0, "shuffle": False},
            # A sequence holds one pair, so that a step has two in the file's order.
            "train": {"sequence_len": 48, "micro_batch_size": 2, "max_steps": STEPS, "eval_steps": 0, "log_steps": 1,
                      "max_grad_norm": 0, "lr_scheduler": {"name": "constant"},
                      "optimizer": {"name": "sgd", "learning_rate": RATE, "momentum": 0, "weight_decay": 0}},
            "optimizations": {"threads": 1}, "sample": {"max_new_tokens": 0}}
    (folder / f"{name}.yaml").write_text(json.dumps(spec))
    done = subprocess.run([program, f"{name}.yaml"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    records = [json.loads(line) for line in (folder / "runs" / name / "metrics.jsonl").read_text().splitlines()]
    return records, load_file(folder / "runs" / name / f"checkpoint-{STEPS}" / "model.safetensors")


def opened(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32)
    return model, transformers.AutoTokenizer.from_pretrained(folder / "model")


def in_order(trainer):
    class InOrder(trainer):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)
    return InOrder


def run_trl(folder, trainer, config, **keys):
    model, tokenizer = opened(folder)
    arguments = config(
        output_dir=str(folder / "trl"), per_device_train_batch_size=2, max_steps=STEPS, learning_rate=RATE, optim="sgd",
        lr_scheduler_type="constant", max_grad_norm=0, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True,
        bf16=False, gradient_checkpointing=False, disable_tqdm=True, weight_decay=0, **keys)
    run = in_order(trainer)(model=model, args=arguments, train_dataset=Dataset.from_list(PAIRS), processing_class=tokenizer)
    run.train()
    return [entry for entry in run.state.log_history if "loss" in entry], run.model.state_dict()


def log_probabilities(model, tokenizer, prompt, completion):
    ids = tokenizer(prompt)["input_ids"]
    whole = ids + tokenizer(completion + tokenizer.eos_token)["input_ids"]
    log_p = model(torch.tensor([whole])).logits[0].log_softmax(-1)
    return torch.stack([log_p[i - 1, whole[i]] for i in range(len(ids), len(whole))])


def run_torch(folder, loss_of):
    model, tokenizer = opened(folder)
    reference, _ = opened(folder)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    records = []
    for step in range(STEPS):
        losses = []
        for pair in PAIRS[2 * step:2 * step + 2]:
            chosen, rejected = (log_probabilities(model, tokenizer, pair["prompt"], pair[key]) for key in ("chosen", "rejected"))
            with torch.no_grad():
                before = [log_probabilities(reference, tokenizer, pair["prompt"], pair[key]).sum() for key in ("chosen", "rejected")]
            losses.append(loss_of(chosen, rejected, *before))
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        records.append({"loss": loss.item()})
    return records, model.state_dict()


def smoothed(chosen, rejected, before_chosen, before_rejected, beta=0.3, e=0.2):
    z = beta * ((chosen.sum() - before_chosen) - (rejected.sum() - before_rejected))
    return -(1 - e) * F.logsigmoid(z) - e * F.logsigmoid(-z)


def orpo(chosen, rejected, *_, beta=0.4):
    own = types.SimpleNamespace(beta=beta, accelerator=types.SimpleNamespace(device="cpu"))
    ratio, *_ = ORPOTrainer.odds_ratio_loss(own, chosen.mean(), rejected.mean())
    return -chosen.mean() - ratio


def dpo_of_trl(folder, loss_type, beta):
    return run_trl(folder, trl.DPOTrainer, trl.DPOConfig, loss_type=[loss_type], beta=beta)


CASES = {
    "dpo": ({"name": "dpo", "beta": 0.3}, lambda folder: dpo_of_trl(folder, "sigmoid", 0.3)),
    "ipo": ({"name": "ipo", "beta": 0.5}, lambda folder: dpo_of_trl(folder, "ipo", 0.5)),
    "apo_zero": ({"name": "apo_zero", "beta": 0.3}, lambda folder: dpo_of_trl(folder, "apo_zero", 0.3)),
    "apo_down": ({"name": "apo_down", "beta": 0.3}, lambda folder: dpo_of_trl(folder, "apo_down", 0.3)),
    "simpo": ({"name": "simpo", "beta": 2.0, "gamma": 1.0, "label_smoothing": 0.1},
              lambda folder: run_trl(folder, CPOTrainer, CPOConfig, loss_type="simpo", cpo_alpha=0.0, beta=2.0,
                                     simpo_gamma=1.0, label_smoothing=0.1)),
    "smoothed": ({"name": "dpo", "beta": 0.3, "label_smoothing": 0.2}, lambda folder: run_torch(folder, smoothed)),
    "orpo": ({"name": "orpo", "beta": 0.4}, lambda folder: run_torch(folder, orpo)),
}
LOGGED = ("rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies", "logps/chosen", "logps/rejected")


def compare(program, folder, name):
    keys, peer = CASES[name]
    records, weights = run_hydrac(program, folder, name, keys)
    theirs, their_weights = peer(folder)
    start = load_file(folder / "model" / "model.safetensors")
    assert len(records) == len(theirs) == STEPS, f"{len(records)} steps, and {len(theirs)}"
    worst = 0.0
    for own, other in zip(records, theirs):
        for key in ("loss", *LOGGED):
            if key not in other:
                continue
            # TRL logs a mean of per-token log-probabilities where it compares these.
            if key.startswith("logps") and name == "simpo":
                continue
            off = abs(own[key] - float(other[key])) / max(1, abs(float(other[key])))
            assert off < TOLERANCE, f"step {own['step']}: {key} is {own[key]}, the peer's {other[key]}"
            worst = max(worst, off)
    moved = max((weights[key] - start[key]).abs().max().item() for key in start)
    off = max((weights[key] - their_weights[key]).abs().max().item() for key in start)
    assert moved > 100 * TOLERANCE and off < TOLERANCE, f"weights moved by {moved}, and differ by {off}"
    print(f"{name}: loss and metrics within {worst:.1e}, weights within {off:.1e} of the peer's (moved by {moved:.1e})")


def main():
    program, folder, tokenizer_json, *names = sys.argv[1:]
    folder = pathlib.Path(folder)
    transformers.utils.logging.set_verbosity_error()
    make_model(folder / "model", tokenizer_json)
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS))
    failed = 0
    for name in names or CASES:
        try:
            compare(program, folder, name)
        except AssertionError as mismatch:
            failed += 1
            print(f"{name}: FAILED: {mismatch}", flush=True)
    sys.exit(1 if failed else 0)


main()
