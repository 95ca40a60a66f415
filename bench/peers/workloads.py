"""The transformers that peers train: the reference workloads of bench/specs, and any other by its spec's keys."""

import dataclasses
import json
import math
import pathlib

GATED = ("swiglu", "geglu", "geglu_tanh")


@dataclasses.dataclass
class Compressed:
    """The keys of a spec's model.ccgqa."""

    compression: int = 4
    conv_kernel: int = 3
    head_conv: bool = True
    channel_conv: bool = True
    qk_mean: bool = True
    l2_norm: bool = True
    temperature: bool = True
    value_shift: bool = True


@dataclasses.dataclass
class Workload:
    """Keys and defaults are those of a spec's model section, and of train for the last two."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    vocab_size: int
    num_key_value_heads: int = 0  # 0: num_attention_heads
    head_dim: int = 0  # 0: hidden_size / num_attention_heads
    intermediate_size: int = 0  # 0: 4 * hidden_size, 8/3 of it rounded up to 64s when gated
    max_position_embeddings: int = 0  # 0: sequence_len
    norm: str = "rmsnorm"
    norm_eps: float = 1e-5
    norm_bias: bool | None = None  # None, here and below: what the norm and the activation suggest
    hidden_act: str = "swiglu"
    position: str = "rope"
    rope_interleave: bool | None = None  # None: that of the kind of attention
    rope_theta: float = 10000.0
    rope_scaling: dict | None = None
    qk_norm: bool = False
    attention_kind: str = "gqa"
    ccgqa: dict | None = None
    attention_bias: bool | None = None
    attention_output_bias: bool | None = None
    mlp_bias: bool | None = None
    tie_word_embeddings: bool = True
    dropout: float = 0.0
    attention_dropout: float = 0.0
    initializer_range: float = 0.02
    micro_batch_size: int = 1
    sequence_len: int = 1024

    def __post_init__(self):
        layernorm, gated = self.norm == "layernorm", self.hidden_act in GATED
        self.num_key_value_heads = self.num_key_value_heads or self.num_attention_heads
        self.compressed = Compressed(**(self.ccgqa or {})) if self.attention_kind == "ccgqa" else None
        compression = self.compressed.compression if self.compressed else 1
        self.head_dim = self.head_dim or self.hidden_size // compression // self.num_attention_heads
        if self.rope_interleave is None:
            self.rope_interleave = self.compressed is not None
        if not self.intermediate_size:
            self.intermediate_size = -(-8 * self.hidden_size // 192) * 64 if gated else 4 * self.hidden_size
        self.max_position_embeddings = self.max_position_embeddings or self.sequence_len
        if self.norm_bias is None:
            self.norm_bias = layernorm
        if self.attention_bias is None:
            self.attention_bias = layernorm and not self.compressed
        if self.attention_output_bias is None:
            self.attention_output_bias = self.attention_bias
        if self.mlp_bias is None:
            self.mlp_bias = layernorm and not gated
        known = {
            "norm": ("layernorm", "rmsnorm"),
            "hidden_act": ("gelu", "gelu_tanh", "silu", "relu2", *GATED),
            "position": ("learned", "rope", "none"),
            "attention_kind": ("gqa", "ccgqa"),
        }
        for key, names in known.items():
            if getattr(self, key) not in names:
                raise ValueError(f"{key} is {getattr(self, key)!r}; it must be one of {', '.join(names)}")


GPT = {"norm": "layernorm", "hidden_act": "gelu_tanh", "position": "learned"}

# The models of bench/specs, for use without hydrac; bench/gpu-test takes them from the specs themselves.
WORKLOADS = {
    "gpt2-124m": Workload(768, 12, 12, 50304, **GPT, micro_batch_size=64, sequence_len=1024),
    "hydra-180m": Workload(
        768, 24, 12, 32768, 4, intermediate_size=2048, qk_norm=True, micro_batch_size=16, sequence_len=2048
    ),
    "hydra-100m": Workload(
        768,
        14,
        12,
        32768,
        4,
        intermediate_size=2048,
        attention_kind="ccgqa",
        micro_batch_size=16,
        sequence_len=2048,
    ),
    "llama-1b": Workload(
        2048,
        16,
        32,
        128256,
        8,
        intermediate_size=8192,
        max_position_embeddings=131072,
        rope_theta=500000.0,
        rope_scaling={
            "rope_type": "llama3",
            "factor": 32,
            "low_freq_factor": 1,
            "high_freq_factor": 4,
            "original_max_position_embeddings": 8192,
        },
        micro_batch_size=4,
        sequence_len=4096,
    ),
    "char-small": Workload(384, 6, 6, 128, **GPT, micro_batch_size=64, sequence_len=256),
    "tiny-series": Workload(256, 4, 4, 256, **GPT, micro_batch_size=32, sequence_len=64),
}


SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "specs/schema.json"

# Keys, and whole sections, that may have any value: a step's work does not depend on them, or the mode decides instead.
FREE = """
name target extends data optimizations parallel sample profile tune output
model.from model.weights model.num_features model.num_labels model.sliding_window_pattern model.packed_weights
train.max_steps train.epochs train.global_batch_size train.global_batch_tokens train.lr_scheduler train.seed train.cpu_affinity
train.optimizer.learning_rate train.optimizer.betas train.optimizer.eps train.optimizer.weight_decay train.optimizer.momentum
train.eval_steps train.eval_batches train.save_steps train.save_minutes train.save_best train.save_total_limit train.log_steps
adapter.weights adapter.alpha model.rope_scaling.attention_factor objective.prompt_tokens objective.seed objective.embed_layer
objective.beta model.moe.intermediate_size
""".split()

# The one value of keys that the schema has no default for, and of a key in a free section; or what it is of a spec.
NEEDED = {
    "model.head": "language_model",
    "model.attention_scale": lambda spec: 1 / math.sqrt(spec["model"]["head_dim"]),
    "data.document_mask": False,
    "train.gradient_accumulation_steps": 1,
    "train.loss": "cross_entropy",
}

FIELDS = {field.name for field in dataclasses.fields(Workload)}
COMPRESSED_FIELDS = {field.name for field in dataclasses.fields(Compressed)}
ROPE_FIELDS = {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}
READ = {
    *(f"model.{name}" for name in FIELDS - {"sequence_len", "micro_batch_size"}),
    *("train.sequence_len", "train.micro_batch_size"),
    *(f"model.ccgqa.{name}" for name in COMPRESSED_FIELDS),
    *(f"model.rope_scaling.{name}" for name in ROPE_FIELDS),
}


def leaves(tree: dict, into: str, prefix: str = "") -> dict:
    """{"model.norm": ...} of a spec, or with into = "properties" of its JSON Schema."""
    found = {}
    for key, value in tree.items():
        inner = value if not into else value.get(into)
        found |= leaves(inner, into, f"{prefix}{key}.") if isinstance(inner, dict) else {prefix + key: value}
    return found


def schema_keys() -> dict:
    return leaves(json.loads(SCHEMA.read_text())["properties"], "properties")


def is_free(key: str) -> bool:
    return any(key == free or key.startswith(free + ".") for free in FREE)


def read_spec(text: str) -> Workload:
    """A workload of what `hydrac check SPEC --json` prints, or of a file of it. A key that no peer knows is refused where
    its value is not the default. Raises ValueError."""
    if not text.lstrip().startswith("{"):
        text = pathlib.Path(text).read_text()
    spec = json.loads(text)["spec"]
    schema = schema_keys()
    for key, value in leaves(spec, "").items():
        if key in READ or (is_free(key) and key not in NEEDED):
            continue
        default = NEEDED.get(key, schema.get(key, {}).get("default", value))
        default = default(spec) if callable(default) else default
        if value != default:
            raise ValueError(f"no peer is written for {key}: {json.dumps(value)}; it must be {json.dumps(default)}")
    given = spec["model"] | spec["train"]
    keys = {name: value for name, value in given.items() if name in FIELDS}
    keys["ccgqa"] = {name: value for name, value in given["ccgqa"].items() if name in COMPRESSED_FIELDS}
    return Workload(**keys)
