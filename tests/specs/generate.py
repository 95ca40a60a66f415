"""Random specs, made of what `hydrac schema` says of each key: a key that is added to the spec language is in them."""
import json
import re
import subprocess

# Sizes that are and are not multiples of what kernels like.
SIZES = [1, 2, 3, 4, 7, 8, 16, 24, 31, 32, 33, 40, 64, 65, 128]
NUMBERS = [0, 1e-12, 1e-6, 1e-5, 1e-3, 0.02, 0.1, 0.25, 0.3, 0.5, 0.75, 0.8, 0.9, 0.999, 1, 1.5, 2, 4, 10, 50, 1000, 1e6]

# Names that a user's function or run may have, and that something else has too.
NAMES = (
    "block main f x r rows row column i j k l m h c lanes layer part run total sum sums workspace out y gate up act mlp "
    "std hydrac runtime cuda cpu ops assert expf exp tanh max min abs floor sigmoid random_key uint32_t size_t NULL true "
    "double float int void auto const static inline class template namespace operator register restrict asm typeof "
    "blockIdx threadIdx gridDim blockDim warpSize float4 half bf16 __global__ __shared__ __device__ __syncthreads dim3 "
    "kRows kThreads kBlocks B T C H D F V L Memory Run Program forward backward evaluate_batch next_token_logits block_backward "
    "update_parameters rmsnorm layernorm swiglu adamw gemm attention_forward cross_entropy_loss zero embedding all test "
    "install clean help program train CMakeLists a.b-c 0 _ x__y user_f " + "n" * 128
).split()

FUNCTIONS = {
    "model.hidden_act": ["float {f}(float x) {{ return x > 0.0f ? x : 0.1f * x; }}",
                         "float {f}(float gate, float up) {{ return gate > 0.0f ? gate * up : 0.0f; }}"],
    "train.loss": ["float {f}(float prediction, float target) {{ const float e = prediction - target; return e * e * e * e; }}"],
    "train.lr_scheduler.name": ["float {f}(float step, float max_steps) {{ return 1.0f - 0.5f * step / max_steps; }}"],
}

# Values of keys that name something.
WORDS = {
    "name": NAMES,
    "model.from": [""], "model.weights": ["none"], "adapter.from": [""], "adapter.weights": ["none"], "extends": [""],
    "adapter.target_modules": ["all-linear", "q_proj", "down_proj", "mlp.c_proj", "o_proj"],
    "objective.embed": ["model"], "objective.reward.command": [[]],
    "data.tokenizer": ["byte", "char"], "data.val_path": [[]], "data.text_key": ["text", "other"],
    "data.features": [[], ["a", "b"], ["a"]], "data.target": [["y"], ["y", "z"], ["c"]], "data.path": [],
    "data.val": [{"one": "text.txt"}, {"one": "text.txt", "other": {"path": ["text.txt", "text.txt"]}}],
    "data.chat_template_jinja": [""], "data.chat_template_kwargs": [{}], "data.chat_date": ["2024-07-26", "2026-11-28"],
    "data.fields": [{}, {"prompt": "prompt"}, {"completion": "prompt"}],
    "data.cache_dir": ["tokens"], "output.dir": ["runs/x"],
    "train.freeze": ["*.0.*", "model.embed_tokens.*", "*.bias", "*norm*", "model.layers.*", "*", "lm_head.*"],
    "train.cpu_affinity": [],
    "optimizations.own_matmuls": ["attn.qkv", "mlp.up", "*", "d_mlp.*.weight"],
    "optimizations.library_matmuls": ["attn.qkv", "mlp.up", "*", "d_mlp.*.weight"],
    "sample.prompt": ["", "the cat", "\n\"\\"], "sample.stop": ["cat", "\n"],
}

# Without these a spec is none, and these sizes stay small: what is found is in the code, not in its time.
NEEDED = {
    "model.hidden_size": [8, 16, 32, 33, 48, 64, 65, 128, 256],
    "model.num_hidden_layers": [1, 1, 2, 3],
    "model.num_attention_heads": [1, 2, 4, 7, 8],
    "train.sequence_len": [1, 2, 7, 8, 16, 31, 32, 33, 64],
    "train.micro_batch_size": [1, 2, 3, 4, 7, 8],
    "train.max_steps": [1, 2, 4, 5],
}

# Keys without which a group of others has no effect.
FEATURES = [
    {"model.attention_kind": "ccgqa"},
    {"model.mor.recursions": 2},
    {"model.mod.capacity": 0.5},
    {"model.moe.experts": 4},
    {"adapter.type": "lora"},
    {"parallel.data": 2},
    {"parallel.tensor": 2},
    {"optimizations.precision": "fp8"},
    {"optimizations.optimizer_state": "int8"},
    {"model.dropout": 0.5},
    {"model.position": "none"},
    {"model.norm": "layernorm"},
]

SOURCES = [
    {"data.path": "text.txt"},
    {"data.path": "text.txt", "data.tokenizer": "char"},
    {"data.path": "records.jsonl"},
    {"data.mix": {"one": "text.txt", "other": {"path": "records.jsonl", "weight": 0.25, "epochs": 2}}},
    {"data.path": "tokens.bin", "data.format": "uint16", "model.vocab_size": 257},
    {"data.path": "chats.jsonl", "data.format": "chat", "train.sequence_len": 32},
    {"data.path": "chats.jsonl", "data.format": "chat", "train.sequence_len": 32, "objective.name": "polychromic", "objective.max_new_tokens": 4},
    {"data.path": "series.csv", "model.input": "series", "data.target": ["y"]},
    {"data.path": "series.csv", "model.input": "series", "model.head": "classification", "model.num_labels": 3, "data.target": ["c"]},
]


def key_table(hydrac):
    """Each key's path, and its schema."""
    schema = json.loads(subprocess.run([hydrac, "schema"], capture_output=True, check=True).stdout)
    table = {}

    def walk(node, path):
        for name, child in node["properties"].items():
            if "properties" in child:
                walk(child, f"{path}{name}.")
            else:
                table[path + name] = child

    walk(schema, "")
    return table


def a_function(path, random):
    name = random.choice(NAMES)
    return {"cpp": "f.h", "function": name, "text": random.choice(FUNCTIONS[path]).format(f=name)}


def a_number(schema, random):
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1e300))
    high = schema.get("maximum", schema.get("exclusiveMaximum", 1e300))
    whole = schema["type"] == "integer"
    pool = [n for n in (SIZES + [0] if whole else NUMBERS) if low <= n <= high]
    pool = [n for n in pool if n != schema.get("exclusiveMinimum") and n != schema.get("exclusiveMaximum")]
    bounds = [schema[bound] for bound in ("minimum", "maximum") if bound in schema]
    return random.choice(bounds if bounds and (not pool or random.random() < 0.05) else pool)


def a_value(path, schema, random):
    if "anyOf" in schema:
        return a_value(path, random.choice(schema["anyOf"]), random)
    if "enum" in schema:
        return random.choice(schema["enum"])
    if schema["type"] == "object":
        return random.choice(WORDS[path]) if path in WORDS else a_function(path, random)
    if schema["type"] == "array":
        count = random.randint(schema.get("minItems", 0), schema.get("maxItems", 2))
        return [a_value(path, schema["items"], random) for _ in range(count)]
    if schema["type"] == "boolean":
        return random.random() < 0.5
    if schema["type"] == "string":
        return random.choice(WORDS.get(path) or ["", "x"])
    return a_number(schema, random)


def a_spec(table, random):
    """Keys by path; what one says may not go with what another says."""
    spec = {"name": "x", "target": "cpu", "data.val_fraction": 0.1, "sample.max_new_tokens": 3}
    spec.update({path: random.choice(values) for path, values in NEEDED.items()})
    likely = random.choice([0.02, 0.05, 0.1, 0.2, 0.4])
    for path, schema in table.items():
        if path in ("target", "extends", "train.cpu_affinity", "data.path", "data.mix") or (path in NEEDED and random.random() < 0.95):
            continue
        if random.random() < likely:
            spec[path] = a_value(path, schema, random)
    for feature in FEATURES:
        if random.random() < 0.12:
            spec.update(feature)
    spec.update(random.choice(SOURCES))
    return spec


def for_target(spec, target):
    """An emitted program for the cpu has a number of threads, and one for a GPU none."""
    spec = {**spec, "target": target}
    spec.pop("optimizations.threads", None)
    return {**spec, "optimizations.threads": 1} if target == "cpu" else spec


class Text:
    """A spec as YAML, a key a line, and which key a line has."""

    def __init__(self, spec):
        self.lines, self.key_of_line = [], {}
        tree = {}
        for path, value in spec.items():
            node = tree
            *sections, name = path.split(".")
            for section in sections:
                node = node.setdefault(section, {})
            node[name] = (path, value)
        self._print(tree, 0)

    def _print(self, node, depth):
        for name, child in node.items():
            indent = "  " * depth
            if isinstance(child, dict):
                self.lines.append(f"{indent}{name}:")
                self._print(child, depth + 1)
            else:
                path, value = child
                self.lines.append(f"{indent}{name}: {json.dumps(value)}")
                self.key_of_line[len(self.lines)] = path

    def __str__(self):
        return "\n".join(self.lines) + "\n"


def refused_keys(text, said):
    """The keys of the lines at which the errors are, in the spec or in a function that it holds."""
    keys = set()
    for file, line in re.findall(r"^(?:hydrac: error: )?(\S+?):(\d+):\d+: (?!warning|note)", said, re.MULTILINE):
        if file == "f.h":
            keys.update(path for path in text.key_of_line.values() if path in FUNCTIONS)
        elif int(line) in text.key_of_line:
            keys.add(text.key_of_line[int(line)])
    return keys


def change(spec, refused, random):
    """Leaves out what is refused; where that is what every spec has, draws it again with what it must go with."""
    for path in refused - NEEDED.keys() - {"data.path", "data.mix"}:
        del spec[path]
    if refused & NEEDED.keys():
        spec.update({path: random.choice(values) for path, values in NEEDED.items()})
        if random.random() < 0.5:
            spec["model.head_dim"] = random.choice([8, 16, 24, 40, 64])
    if refused & {"data.path", "data.mix"}:
        for path in SOURCES[0].keys() | SOURCES[1].keys() | {key for source in SOURCES for key in source}:
            spec.pop(path, None)
        spec.update(SOURCES[0])
    spec.setdefault("name", "x")
