"""A decoder-only transformer as good PyTorch programs write it: packed projections, fused attention, packed gate-up."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from workloads import GATED, Workload

ACTIVATIONS = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "relu2": lambda x: F.relu(x).square(),
    "swiglu": F.silu,
    "geglu": F.gelu,
    "geglu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}


def make_norm(w: Workload, width: int, kind: str = "") -> nn.Module:
    if (kind or w.norm) == "layernorm":
        return nn.LayerNorm(width, eps=w.norm_eps, bias=w.norm_bias)
    if w.norm_bias and not kind:
        raise ValueError("PyTorch's RMSNorm has no bias")
    return nn.RMSNorm(width, eps=w.norm_eps)


def rope_frequencies(w: Workload) -> torch.Tensor:
    """[head_dim / 2], float32; rope_scaling is Llama 3's rule."""
    frequencies = w.rope_theta ** (-torch.arange(0, w.head_dim, 2, dtype=torch.float64) / w.head_dim)
    s = w.rope_scaling
    if not s or s["factor"] == 1:
        return frequencies.float()
    turns = s["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    kept = ((turns - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])).clamp(0, 1)
    return (frequencies * (kept + (1 - kept) / s["factor"])).float()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleave: bool = False) -> torch.Tensor:
    """x[B, T, H, D]; element i turns with element i + D/2, or 2i with 2i + 1."""
    if interleave:
        a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2).type_as(x)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).type_as(x)


class Attention(nn.Module):
    def __init__(self, w: Workload):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = w.num_attention_heads, w.num_key_value_heads, w.head_dim
        self.dropout, self.interleave = w.attention_dropout, w.rope_interleave
        packed = (self.heads + 2 * self.kv_heads) * self.head_dim
        self.qkv = nn.Linear(w.hidden_size, packed, bias=w.attention_bias)
        self.out = nn.Linear(self.heads * self.head_dim, w.hidden_size, bias=w.attention_output_bias)
        self.q_norm = make_norm(w, self.head_dim, "rmsnorm") if w.qk_norm else None
        self.k_norm = make_norm(w, self.head_dim, "rmsnorm") if w.qk_norm else None

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        sizes = [self.heads * self.head_dim, self.kv_heads * self.head_dim, self.kv_heads * self.head_dim]
        q, k, v = (part.view(batch, length, -1, self.head_dim) for part in self.qkv(x).split(sizes, dim=-1))
        if self.q_norm is not None:
            q, k = self.q_norm(q).type_as(v), self.k_norm(k).type_as(v)
        if cos is not None:
            q, k = rotate(q, cos, sin, self.interleave), rotate(k, cos, sin, self.interleave)
        mixed = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=True,
            enable_gqa=self.heads != self.kv_heads,
        )
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))


class CausalConvolutions(nn.Module):
    """x[B, T, W]: over time within each head, then over time and all heads."""

    def __init__(self, w: Workload, heads: int):
        super().__init__()
        width, taps = heads * w.head_dim, w.compressed.conv_kernel
        layers = []
        if w.compressed.head_conv:
            layers.append(nn.Conv1d(width, width, taps, groups=heads, bias=False))
        if w.compressed.channel_conv:
            layers.append(nn.Conv1d(width, width, taps, bias=False))
        self.layers = nn.Sequential(*layers)
        self.padding = len(layers) * (taps - 1)  # without biases one padding serves both

    def forward(self, x):
        return self.layers(F.pad(x.transpose(1, 2), (self.padding, 0))).transpose(1, 2)


class CompressedAttention(nn.Module):
    """CCGQA (arXiv 2510.04476)."""

    def __init__(self, w: Workload):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = w.num_attention_heads, w.num_key_value_heads, w.head_dim
        self.dropout, self.interleave, self.parts = w.attention_dropout, w.rope_interleave, w.compressed
        self.qkv = nn.Linear(w.hidden_size, (self.heads + 2 * self.kv_heads) * self.head_dim, bias=False)
        self.q_conv, self.k_conv = CausalConvolutions(w, self.heads), CausalConvolutions(w, self.kv_heads)
        with_temperature = w.compressed.l2_norm and w.compressed.temperature
        self.temperature = nn.Parameter(torch.full((1,), math.sqrt(w.head_dim))) if with_temperature else None
        self.out = nn.Linear(self.heads * self.head_dim, w.hidden_size, bias=False)

    def couple(self, q, k, projected_q, projected_k):
        if self.heads == self.kv_heads:
            mean = 0.5 * (projected_q + projected_k)
            return q + mean, k + mean
        return q + 0.5 * projected_k.mean(2, keepdim=True), k + 0.5 * projected_q.mean(2, keepdim=True)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        by_head = lambda part: part.reshape(batch, length, -1, self.head_dim)
        sizes = [self.heads * self.head_dim, self.kv_heads * self.head_dim, self.kv_heads * self.head_dim]
        projected_q, projected_k, v = self.qkv(x).split(sizes, dim=-1)
        q, k = by_head(self.q_conv(projected_q)), by_head(self.k_conv(projected_k))
        if self.parts.qk_mean:
            q, k = self.couple(q, k, by_head(projected_q), by_head(projected_k))
        if self.parts.l2_norm:
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        if self.temperature is not None:
            k = k * self.temperature
        if cos is not None:
            q, k = rotate(q, cos, sin, self.interleave), rotate(k, cos, sin, self.interleave)
        if self.parts.value_shift:
            now, shifted = v.chunk(2, dim=-1)
            v = torch.cat((now, F.pad(shifted, (0, 0, 1, 0))[:, :-1]), dim=-1)
        v = by_head(v)
        mixed = F.scaled_dot_product_attention(
            q.type_as(v).transpose(1, 2),
            k.type_as(v).transpose(1, 2),
            v.transpose(1, 2),
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=True,
            enable_gqa=self.heads != self.kv_heads,
        )
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))


class Mlp(nn.Module):
    def __init__(self, w: Workload):
        super().__init__()
        self.gated = w.hidden_act in GATED
        self.activation = ACTIVATIONS[w.hidden_act]
        self.up = nn.Linear(w.hidden_size, w.intermediate_size * (2 if self.gated else 1), bias=w.mlp_bias)
        self.down = nn.Linear(w.intermediate_size, w.hidden_size, bias=w.mlp_bias)

    def forward(self, x):
        x = self.up(x)
        if not self.gated:
            return self.down(self.activation(x))
        gate, up = x.chunk(2, dim=-1)
        return self.down(self.activation(gate) * up)


class Block(nn.Module):
    def __init__(self, w: Workload):
        super().__init__()
        attention = CompressedAttention(w) if w.compressed else Attention(w)
        self.norm1, self.attention = make_norm(w, w.hidden_size), attention
        self.norm2, self.mlp = make_norm(w, w.hidden_size), Mlp(w)
        self.dropout = nn.Dropout(w.dropout)

    def forward(self, x, cos, sin):
        x = x + self.dropout(self.attention(self.norm1(x), cos, sin))
        return x + self.dropout(self.mlp(self.norm2(x)))


def mean_loss(logits, targets):
    """logits [B, T, V], targets [B, T]."""
    return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.reshape(-1))


class Transformer(nn.Module):
    """tokens, targets [B, T] -> the mean loss."""

    def __init__(self, w: Workload):
        super().__init__()
        self.loss = mean_loss
        self.tokens = nn.Embedding(w.vocab_size, w.hidden_size)
        self.positions = nn.Embedding(w.max_position_embeddings, w.hidden_size) if w.position == "learned" else None
        self.dropout = nn.Dropout(w.dropout)
        self.blocks = nn.ModuleList(Block(w) for _ in range(w.num_hidden_layers))
        self.norm = make_norm(w, w.hidden_size)
        self.head = nn.Linear(w.hidden_size, w.vocab_size, bias=False)
        if w.tie_word_embeddings:
            self.head.weight = self.tokens.weight
        self.rope = w.position == "rope"
        if self.rope:
            angles = torch.outer(torch.arange(w.sequence_len).float(), rope_frequencies(w))
            self.register_buffer("cos", angles.cos()[:, None], persistent=False)  # [T, 1, D/2]
            self.register_buffer("sin", angles.sin()[:, None], persistent=False)
        deviation = w.initializer_range
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                # GPT-2's rule: what is added to the residual stream shrinks with depth.
                into_residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(
                    parameter, std=deviation / math.sqrt(2 * w.num_hidden_layers) if into_residual else deviation
                )
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions.weight[: tokens.shape[1]]
        x = self.dropout(x)
        cos, sin = (self.cos, self.sin) if self.rope else (None, None)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.loss(self.head(self.norm(x)), targets)
