"""Writes what tests/e2e/family_test.cpp expects of every family: for each model of PUBLISHED in hugging_face.py, and of IMAGES, a file of
tests/cases/families with its config.json, its tensors' names and shapes, and transformers' loss, gradients and logits in float64.

usage: family_fixtures.py [NAME ...]

Weights are a formula of a tensor's name and an element's index, which the test computes too, so that no file holds them.
"""
import json
import pathlib
import struct
import sys
import tempfile

import numpy
import safetensors.torch
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hugging_face

CASES = pathlib.Path(__file__).parents[1] / "cases/families"
TEXT = b"it's the quick brown fox, 0123"  # hydrac's byte tokenizer: ids are bytes
# Models that read images too: their text parts.
IMAGES = {"from-gemma3-images": ("gemma3", {
    "text_config": {"vocab_size": 256, "hidden_size": 72, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1,
                    "head_dim": 24, "intermediate_size": 40, "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]},
    "vision_config": {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28,
                      "patch_size": 14}, "mm_tokens_per_image": 4})}
SMALLER = {"intermediate_size": 40, "n_inner": 40, "ffn_hidden_size": 40}


def elements(name, count):
    """element() of family_test.cpp."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2**32
    h = numpy.arange(count, dtype=numpy.uint32) * numpy.uint32(2654435761) ^ numpy.uint32(seed)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h = (h ^ h >> numpy.uint32(shift)) * numpy.uint32(factor)
    return (h >> numpy.uint32(12)).astype(numpy.float32) * numpy.float32(2**-20) - numpy.float32(0.5)


def weights(name, shape):
    values = elements(name, int(numpy.prod(shape))) / 2
    is_norm = len(shape) == 1 and name.endswith("weight")
    return torch.from_numpy(values + numpy.float32(0.5) if is_norm else values).reshape(shape)


def shapes_of(file):
    with open(file, "rb") as stream:
        header = json.loads(stream.read(struct.unpack("<Q", stream.read(8))[0]))
    return {name: entry["shape"] for name, entry in sorted(header.items()) if name != "__metadata__"}


def numbers(tensor):
    return [float(f"{value:.9g}") for value in tensor.flatten().tolist()]


def in_files(model):
    """The gradients, named and divided as transformers writes the parameters into files."""
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for parameter in model.parameters():
            parameter.copy_(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
        model.save_pretrained(folder)
        return safetensors.torch.load_file(pathlib.Path(folder, "model.safetensors"))


def fixture(name):
    if name in IMAGES:
        config = transformers.AutoConfig.for_model(IMAGES[name][0], **IMAGES[name][1])
    else:
        model_type, keys, _, _ = hugging_face.PUBLISHED[name]
        keys = {key: SMALLER.get(key, value) for key, value in keys.items()}
        config = transformers.AutoConfig.for_model(model_type, vocab_size=256, **keys)
    with tempfile.TemporaryDirectory() as folder:
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        file = pathlib.Path(folder, "model.safetensors")
        shapes = shapes_of(file)
        safetensors.torch.save_file({name: weights(name, shape) for name, shape in shapes.items()}, file, {"format": "pt"})
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32, attn_implementation="eager").double()
        if hasattr(model.config, "num_experts") or hasattr(model.config, "num_local_experts"):
            model.set_experts_implementation("eager")  # the default has no float64
        written = json.loads(pathlib.Path(folder, "config.json").read_text())
    ids = torch.tensor([list(TEXT)])
    out = model(ids, labels=ids)
    out.loss.backward()
    with torch.no_grad():
        behind_text = model(torch.tensor([list(TEXT[:-1])])).logits[0, -1, ::16]
    gradients = {}
    for stored, gradient in in_files(model).items():
        if not gradient.any():
            continue  # of what reads images
        along = torch.from_numpy(elements(stored, gradient.numel())).double().reshape(gradient.shape)
        gradients[stored] = numbers(torch.stack([gradient.norm(), (gradient * along).sum()]))
    return {"config": written, "loss": float(f"{out.loss.item():.9g}"), "logits": numbers(behind_text), "tensors": shapes,
            "gradients": gradients}


def text_of(fixture):
    """A line for each key, tensor and gradient."""
    lines = []
    for key, value in fixture.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in value.items())
            lines.append(f" {json.dumps(key)}: {{\n{inner}\n }}")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    CASES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or [*hugging_face.PUBLISHED, *IMAGES]:
        (CASES / f"{name.removeprefix('from-')}.json").write_text(text_of(fixture(name)))
        print(name, flush=True)


main()
