#!/usr/bin/env python3
"""Draws docs/pictures/speed.svg, the chart of the README, from bench/results/gpu.jsonl.

A model's two figures come from its newest record on an H200 in which torch.compile was timed in the same call.
`--check` compares the file with what would be drawn, and exits with 1 if they differ.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
CHART = ROOT / "docs/pictures/speed.svg"
MODELS = {
    "gpt2-124m": "64 x 1024",
    "hydra-180m": "16 x 2048",
    "hydra-100m": "16 x 2048",
    "llama-1b": "4 x 4096",
    "char-small": "64 x 256",
}
PEERS = ("compile-bf16", "compile-bf16-graphs")
LEFT, LONGEST, ROW, TOP = 150, 400, 62, 70

STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 16px }
  .small { font-size: 12px; fill: #59636e }
  .ratio { font-weight: 600 }
  .hydrac { fill: #0969da }
  .peer { fill: #afb8c1 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .small { fill: #9198a1 }
    .hydrac { fill: #4493f8 }
    .peer { fill: #656c76 }
  }"""


def measured() -> dict:
    """{model: (hydrac's tokens a second, the peer's)}"""
    found = {}
    for line in (ROOT / "bench/results/gpu.jsonl").read_text().splitlines():
        record = json.loads(line)
        peers = [peer for peer in record.get("peers") or [] if peer["mode"] in PEERS]
        if str(record.get("spec")) in MODELS and "H200" in record["machine"] and peers:
            found[record["spec"]] = record["tokens_per_second"], peers[0]["tokens_per_second"]
    return found


def shown(tokens: float) -> str:
    if tokens >= 1e6:
        return f"{tokens / 1e6:.2f} M"
    return f"{tokens / 1e3:.0f} k" if tokens >= 1e5 else f"{tokens / 1e3:.1f} k"


def row(y: int, model: str, hydrac: float, peer: float) -> list:
    scale = LONGEST / max(hydrac, peer)
    lines = [
        f'<text x="16" y="{y + 18}">{model}</text>',
        f'<text x="16" y="{y + 36}" class="small">{MODELS[model]}</text>',
        f'<text x="{LEFT + LONGEST + 76}" y="{y + 27}" class="ratio">{hydrac / peer:.2f}x</text>',
    ]
    for kind, tokens, top in (("hydrac", hydrac, y), ("peer", peer, y + 22)):
        width = tokens * scale
        lines.append(f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="20" rx="2" class="{kind}"/>')
        lines.append(f'<text x="{LEFT + width + 8:.1f}" y="{top + 15}">{shown(tokens)}</text>')
    return lines


def draw() -> str:
    figures = measured()
    height = TOP + ROW * len(MODELS)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 {height}" width="700" height="{height}" role="img">',
        "<title>Training tokens a second of hydrac and of PyTorch with torch.compile</title>",
        f"<style>{STYLE}\n</style>",
        '<text x="16" y="26" class="title">Training, tokens a second: one H200, bf16, AdamW</text>',
        f'<rect x="{LEFT}" y="38" width="12" height="12" rx="2" class="hydrac"/><text x="{LEFT + 18}" y="49" class="small">hydrac</text>',
        f'<rect x="{LEFT + 80}" y="38" width="12" height="12" rx="2" class="peer"/>'
        f'<text x="{LEFT + 98}" y="49" class="small">PyTorch 2.11, torch.compile</text>',
    ]
    for index, model in enumerate(MODELS):
        lines += row(TOP + ROW * index, model, *figures[model])
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> int:
    if sys.argv[1:] == ["--check"]:
        if CHART.read_text() == draw():
            return 0
        print("docs/pictures/speed.svg is not what bench/results/gpu.jsonl says: run bench/speed_chart.py")
        return 1
    CHART.write_text(draw())
    return 0


if __name__ == "__main__":
    sys.exit(main())
