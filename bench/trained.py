"""Short trainings whose results are compared: what `./dev gpu-test`'s checks of bits share."""

import array
import dataclasses
import json
import pathlib
import shlex

GPT2, LLAMA, HYDRA = "specs/gpt2-124m.yaml", "specs/llama-1b.yaml", "specs/hydra-180m.yaml"
SMALL = (
    "target=auto data.tokenizer=byte data.val_fraction=0.2 model.num_hidden_layers=3 model.hidden_size=256 model.num_attention_heads=4 "
    "model.num_key_value_heads=4 model.head_dim=64 model.intermediate_size=512 model.vocab_size=1024 train.sequence_len=256 "
    "train.micro_batch_size=4 train.gradient_accumulation_steps=1 train.max_steps=6 train.save_steps=3 train.eval_steps=3 train.eval_batches=2 train.lr_scheduler.warmup_steps=1 "
    "train.lr_scheduler.decay_steps=0 train.lr_scheduler.name=cosine sample.max_new_tokens=0"
)
FILES = ("model.safetensors", "optimizer.safetensors", "adapter_model.safetensors")


@dataclasses.dataclass
class Place:
    """A folder for runs, and what starts them."""

    folder: pathlib.Path
    hydrac: pathlib.Path
    tokens: pathlib.Path

    def words(self, spec: str, run: str, *more: str) -> list:
        tail = [f"data.path={self.tokens}", f"output.dir={self.folder / run}", *more]
        return [self.hydrac, *shlex.split(spec), *tail]


def place_in(folder: str, hydrac: pathlib.Path, dry: bool) -> Place:
    place = Place(pathlib.Path(folder), hydrac, pathlib.Path(folder) / "tokens.bin")
    if not dry:
        write_tokens(place.tokens)
    return place


def write_tokens(path: pathlib.Path):
    """4 million tokens below 256 that have some order, in llm.c's format."""
    ids, x = array.array("H"), 1
    for i in range(4_000_000):
        if i % 7 < 3:
            x = x * 48271 % 0x7FFFFFFF
        ids.append((x >> 8) % 256 if i % 7 < 3 else ids[i - 3])
    path.write_bytes(array.array("i", [20240520, 1, len(ids)] + [0] * 253).tobytes() + ids.tobytes())


def metrics(run: pathlib.Path) -> list:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def difference(a: pathlib.Path, b: pathlib.Path) -> str:
    """The first file of two checkpoints whose bytes differ; "" where none does."""
    for name in FILES:
        if (a / name).exists() != (b / name).exists():
            return f"{name} is in one alone"
        if (a / name).exists() and (a / name).read_bytes() != (b / name).read_bytes():
            return f"{name} differs"
    return "" if (a / FILES[1]).exists() else "there is no checkpoint"


def losses_apart(a: pathlib.Path, b: pathlib.Path) -> float:
    """The largest relative difference of the losses of two runs, validation included."""
    apart = 0.0
    for one, other in zip(metrics(a), metrics(b), strict=True):
        for key in ("loss", "eval_loss"):
            if one.get(key):
                apart = max(apart, abs(one[key] - other[key]) / abs(one[key]))
    return apart
