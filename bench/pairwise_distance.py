#!/usr/bin/env python3
"""The kernel of pairwise_cosine_distance on this machine's GPU, 64 sets of 3 vectors of 384, beside PyTorch's of the same.

hydrac's time is that of the kernel in trace.json of a short training whose objective samples 3 replies to 64 prompts; PyTorch's
is a call of the usual lines, and of torch.compile's kernel for them, by CUDA events over many calls in a graph (no launch
overhead) and without one. Prints a JSON line.

  bench/pairwise_distance.py build/hydrac
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SETS, REPLIES, WIDTH = 64, 3, 384
SPEC = f"""name: distance
target: cuda
model: {{hidden_size: {WIDTH}, num_hidden_layers: 2, num_attention_heads: 6}}
objective: {{name: polychromic, prompts: {SETS}, replies: {REPLIES}, prompt_tokens: 16, max_new_tokens: 16, top_k: 64}}
data: {{path: pairs.jsonl, format: chat, val_fraction: 0}}
train: {{sequence_len: 512, micro_batch_size: 8, max_steps: 30, eval_steps: 0, log_steps: 1}}
profile: {{start: 20, steps: 5}}
sample: {{max_new_tokens: 0}}
"""


def hydracs(program):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        lines = [json.dumps({"prompt": f"{i} and {i}: ", "completion": str(2 * i)}) for i in range(2000)]
        (folder / "pairs.jsonl").write_text("\n".join(lines) + "\n")
        (folder / "distance.yaml").write_text(SPEC)
        subprocess.run([os.path.abspath(program), "-q", "distance.yaml"], cwd=folder, check=True)
        run = folder / "runs/distance"
        events = json.loads((run / "trace.json").read_text())
        events = events["traceEvents"] if isinstance(events, dict) else events
        spans = [e["dur"] for e in events if "pairwise_cosine_distance" in str(e.get("name")) and "dur" in e]
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        plain = [r for r in records if 5 < r["step"] < 20]
        return {
            "hydrac_us": statistics.median(spans),
            "sampling_ms": statistics.median(r["sampling_ms"] for r in plain),
            "step_ms": statistics.median(r["step_ms"] for r in plain),
            "diversity": records[-1]["diversity"],
        }


def pytorchs():
    import torch

    def distance(x):
        unit = torch.nn.functional.normalize(x, dim=-1)
        cosines = unit @ unit.transpose(1, 2)
        n = x.shape[1]
        return 1 - (cosines.sum((1, 2)) - cosines.diagonal(dim1=1, dim2=2).sum(1)) / (n * (n - 1))

    x = torch.randn(SETS, REPLIES, WIDTH, device="cuda")

    def microseconds(call):
        for _ in range(10):
            call()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(200):
            call()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 200 * 1e3

    def in_graph(function):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                function(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(20):
                function(x)
        return microseconds(graph.replay) / 20

    times = {"pytorch_us": microseconds(lambda: distance(x)), "pytorch_in_graph_us": in_graph(distance)}
    try:
        compiled = torch.compile(distance)
        times["compiled_us"], times["compiled_in_graph_us"] = microseconds(lambda: compiled(x)), in_graph(compiled)
    except Exception as error:  # no Triton there
        times["compiled"] = str(error).splitlines()[0]
    return times


if __name__ == "__main__":
    result = hydracs(sys.argv[1] if len(sys.argv) > 1 else "build/hydrac")
    try:
        result |= pytorchs()
    except ImportError:
        result["pytorch_us"] = None
    print(json.dumps(result))
