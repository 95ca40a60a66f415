"""The transformers that peers train: the reference workloads of bench/specs, and any other by its spec's keys."""

import dataclasses
import json
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


def read_config(text: str) -> Workload:
    """A workload from JSON, or from the path of a JSON file. Raises ValueError for what it does not know."""
    if not text.lstrip().startswith("{"):
        text = pathlib.Path(text).read_text()
    keys = json.loads(text)
    # What a spec may state without changing the model.
    usual = {
        "input": "tokens",
        "head": "language_model",
        "num_features": 0,
        "num_labels": 0,
        "attention_mask": "causal",
        "sliding_window": 0,
        "attention_softcap": 0,
        "logit_softcap": 0,
    }
    for key, value in usual.items():
        if keys.pop(key, value) != value:
            raise ValueError(f"no peer is written for {key}: it must be {value}")
    keys.pop("sliding_window_pattern", None)  # of the layers without sliding_window
    unknown = sorted(set(keys) - {field.name for field in dataclasses.fields(Workload)})
    if unknown:
        raise ValueError("unknown keys: " + ", ".join(unknown))
    return Workload(**keys)
