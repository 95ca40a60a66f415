#!/usr/bin/env python3
"""Trains bench/specs's workloads in PyTorch and prints one line of JSON for each workload and mode.

Every step is a whole one: forward, backward, clipping by the norm of all gradients, AdamW. Batches are random tokens that
lie on the GPU. Each run has a process of its own, so that neither memory nor settings leak into the next, and a compile
that does not end costs no more than the time limit.

  python3 bench/peers/pytorch_peer.py gpt2-124m char-small --modes compile-bf16,compile-bf16-weights
  python3 bench/peers/pytorch_peer.py gpt2-124m --ranks 2        # DistributedDataParallel, a process a GPU
  python3 bench/peers/pytorch_peer.py llama-1b --ranks 2 --modes compile-bf16-fsdp
"""

import argparse
import dataclasses
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import time

from workloads import WORKLOADS, Workload, read_spec


@dataclasses.dataclass(frozen=True)
class Mode:
    help: str
    precision: str = "bf16"  # fp32, tf32, bf16
    compiled: bool = True
    narrow_weights: bool = False  # weights, gradients and optimizer states are bf16 too
    graphs: bool = False
    sharded: bool = False  # FSDP2: every block's parameters are divided over the ranks


MODES = {
    "eager-fp32": Mode("float32 throughout", "fp32", compiled=False),
    "eager-tf32": Mode("float32, matmuls in tf32", "tf32", compiled=False),
    "eager-bf16": Mode("autocast, float32 weights", compiled=False),
    "compile-fp32": Mode("torch.compile, float32 throughout", "fp32"),
    "compile-tf32": Mode("torch.compile, matmuls in tf32", "tf32"),
    "compile-bf16": Mode("torch.compile, autocast, float32 weights: the fast usual set-up"),
    "compile-bf16-weights": Mode("torch.compile, weights and states in bf16: faster, and less exact", narrow_weights=True),
    "compile-bf16-graphs": Mode("torch.compile's reduce-overhead, which records CUDA graphs", graphs=True),
    "compile-bf16-fsdp": Mode("fully_shard of every block, each compiled; several ranks", sharded=True),
}
USUAL_MODES = ("compile-bf16", "compile-bf16-weights")
SMALL = {"char-small": ("compile-bf16", "compile-bf16-graphs"), "tiny-series": ("compile-bf16", "compile-bf16-graphs")}

BATCHES = 8
WARMUP_STEPS = 5  # after the first, which compiles
MEASURED_SECONDS = 1.5
MOST_STEPS = 300


class Clock:
    """Marks between steps: CUDA events, or the host's clock without a GPU."""

    def __init__(self, torch, device: str):
        self.torch, self.cuda, self.marks = torch, device == "cuda", []

    def mark(self):
        if not self.cuda:
            self.marks.append(time.perf_counter())
            return
        self.marks.append(self.torch.cuda.Event(enable_timing=True))
        self.marks[-1].record()

    def milliseconds(self) -> list[float]:
        """Between one mark and the next; waits for the GPU."""
        if not self.cuda:
            return [(b - a) * 1e3 for a, b in itertools.pairwise(self.marks)]
        self.torch.cuda.synchronize()
        return [a.elapsed_time(b) for a, b in itertools.pairwise(self.marks)]


def fastest_attention(torch, w: Workload) -> str:
    """Tries the kernels behind scaled_dot_product_attention on the workload's shape, and enables the fastest alone."""
    shape = (w.micro_batch_size, w.num_attention_heads, w.sequence_len, w.head_dim)
    kv_shape = (shape[0], w.num_key_value_heads, *shape[2:])
    grouped = w.num_attention_heads != w.num_key_value_heads
    switches = {
        "flash": torch.backends.cuda.enable_flash_sdp,
        "cudnn": torch.backends.cuda.enable_cudnn_sdp,
        "efficient": torch.backends.cuda.enable_mem_efficient_sdp,
        "math": torch.backends.cuda.enable_math_sdp,
    }

    def enable_only(name: str):
        for other, switch in switches.items():
            switch(other == name)

    def milliseconds() -> float:
        q, k, v = (
            torch.randn(s, device="cuda", dtype=torch.bfloat16, requires_grad=True) for s in (shape, kv_shape, kv_shape)
        )
        clock = Clock(torch, "cuda")
        for repeat in range(8):
            if repeat >= 3:
                clock.mark()
            out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
            torch.autograd.grad(out, (q, k, v), torch.ones_like(out))
        clock.mark()
        return statistics.median(clock.milliseconds())

    times = {}
    for name in ("flash", "cudnn"):
        enable_only(name)
        try:
            times[name] = milliseconds()
        except RuntimeError as error:  # this kernel does not do this shape
            print(f"pytorch_peer: attention {name}: {str(error).splitlines()[0]}", file=sys.stderr)
    if not times:
        for switch in switches.values():
            switch(True)
        return "PyTorch's choice"
    torch.cuda.empty_cache()
    best = min(times, key=times.get)
    enable_only(best)
    return best


def shard(torch, model):
    """FSDP2 as its users set it up: a group a block, and one for what is left; 16-bit parameters, fp32 sums."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        block.compile()
        fully_shard(block, mp_policy=policy)
    model.loss = torch.compile(model.loss)
    return fully_shard(model, mp_policy=policy)


class Training:
    """One workload in one mode, a step at a time."""

    def __init__(self, torch, w: Workload, mode: Mode, device: str):
        from transformer import Transformer

        self.torch, self.mode, self.device = torch, mode, device
        torch.manual_seed(1337)
        torch.set_float32_matmul_precision("highest" if mode.precision == "fp32" else "high")
        with torch.device(device):
            model = Transformer(w)
            tokens = torch.randint(w.vocab_size, (BATCHES, w.micro_batch_size, w.sequence_len + 1))
        if mode.narrow_weights:
            for parameter in model.parameters():  # rope's tables stay float32
                parameter.data = parameter.data.to(torch.bfloat16)
        if mode.sharded:
            model = shard(torch, model)
        self.parameters = list(model.parameters())
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in self.parameters if p.dim() > 1], "weight_decay": 0.1},
                {"params": [p for p in self.parameters if p.dim() <= 1], "weight_decay": 0.0},
            ],
            lr=3e-4,
            betas=(0.9, 0.95),
            fused=True,
        )
        self.model = model
        if torch.distributed.is_initialized() and not mode.sharded:
            self.model = torch.nn.parallel.DistributedDataParallel(
                model, device_ids=[torch.cuda.current_device()], gradient_as_bucket_view=True, static_graph=True
            )
        if mode.compiled and not mode.sharded:
            self.model = torch.compile(self.model, mode="reduce-overhead" if mode.graphs else None)
        self.batches = itertools.cycle([(t[:, :-1].contiguous(), t[:, 1:].contiguous()) for t in tokens])

    def step(self):
        """Returns the loss, still on the device."""
        torch, mode = self.torch, self.mode
        autocast = mode.precision == "bf16" and not mode.narrow_weights and not mode.sharded
        tokens, targets = next(self.batches)
        if mode.graphs:
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast(self.device, dtype=torch.bfloat16, enabled=autocast):
            loss = self.model(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def measure(name: str, w: Workload, mode_name: str, device: str, least_steps: int) -> dict:
    import torch

    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    attention = "PyTorch's choice"
    if MODES[mode_name].precision == "bf16" and device == "cuda":
        attention = fastest_attention(torch, w)
    begin = time.perf_counter()
    training = Training(torch, w, MODES[mode_name], device)
    first_loss = training.step().item()
    first_step_s = time.perf_counter() - begin

    clock = Clock(torch, device)
    for _ in range(WARMUP_STEPS):
        clock.mark()
        training.step()
    clock.mark()
    step_ms = statistics.median(clock.milliseconds())
    if ranks > 1:  # they take as many steps
        shared = torch.tensor(step_ms, device=device)
        torch.distributed.all_reduce(shared)
        step_ms = shared.item() / ranks
    steps = max(least_steps, min(MOST_STEPS, int(MEASURED_SECONDS * 1e3 / step_ms)))

    cuda = device == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    clock = Clock(torch, device)
    clock.mark()
    for _ in range(steps):
        loss = training.step()
        clock.mark()
    times = clock.milliseconds()
    last_loss = loss.item()
    if last_loss != last_loss:
        raise RuntimeError("the loss is not a number")
    ms = statistics.median(times)
    return {
        "workload": name,
        "mode": mode_name,
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name() if cuda else None,
        "attention": attention,
        "batch": w.micro_batch_size,
        "sequence_len": w.sequence_len,
        "parameters": sum(p.numel() for p in training.parameters),
        "steps": steps,
        "ms": ms,
        "ms_min": min(times),
        "ranks": ranks,
        "tokens_per_second": ranks * w.micro_batch_size * w.sequence_len * 1e3 / ms,
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if cuda else None,
        "reserved_gb": torch.cuda.max_memory_reserved() / 1e9 if cuda else None,
        "first_step_s": first_step_s,
        "loss_first": first_loss,
        "loss_last": last_loss,
    }


def run_in_process(name: str, config: str, mode: str, args, seconds: float) -> dict:
    """measure() in a process of its own; what went wrong comes back as {"error": ...}."""
    result = {"workload": name, "mode": mode}
    if seconds <= 0:
        return result | {"error": "not begun: the workload's time was used up"}
    start = [sys.executable]
    if args.ranks > 1:
        start += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(args.ranks)]
    command = [*start, __file__, "--measure", mode, "--device", args.device, "--steps", str(args.steps), name]
    if config:
        command += ["--config", config]
    # A session of its own: torch.compile starts workers, which have to end with it.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = process.communicate(timeout=seconds)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return result | {"error": f"no result within {seconds:.0f} s"}
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if process.returncode == 0 and lines:
        return json.loads(lines[-1])
    return result | {"error": (err.strip().splitlines() or [f"exit code {process.returncode}"])[-1]}


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", 1)[0],
        epilog="modes: " + "; ".join(f"{name}: {mode.help}" for name, mode in MODES.items()),
    )
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(WORKLOADS) + "; with --config its name")
    parser.add_argument("--config", default="", help="another model: what `hydrac check SPEC --json` prints, or a file of it")
    parser.add_argument("--modes", default="", help="separated by commas, or `all`; default: the fast ones")
    parser.add_argument("--ranks", type=int, default=1, help="GPUs, each with a micro-batch of its own (%(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="timed steps, at least (%(default)s)")
    parser.add_argument("--time-limit", type=float, default=240, help="seconds for a workload's modes (%(default)s)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try this script")
    parser.add_argument("--dry-run", action="store_true", help="print what would run")
    parser.add_argument("--measure", metavar="MODE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.workloads = args.workloads or (["config"] if args.config else list(WORKLOADS))
    if args.config and len(args.workloads) != 1:
        parser.error("--config describes one workload")
    try:
        args.table = {args.workloads[0]: read_spec(args.config)} if args.config else WORKLOADS
    except (OSError, KeyError, TypeError, ValueError) as error:
        parser.error(f"--config: {error}")
    for name in args.workloads:
        if name not in args.table:
            parser.error(f"there is no workload {name}: {', '.join(WORKLOADS)}")
    all_modes = [name for name, mode in MODES.items() if args.ranks > 1 or not mode.sharded]
    args.modes = all_modes if args.modes == "all" else [mode for mode in args.modes.split(",") if mode]
    for mode in args.modes:
        if mode not in MODES:
            parser.error(f"there is no mode {mode}: {', '.join(MODES)}")
        if MODES[mode].sharded and args.ranks < 2:
            parser.error(f"{mode} needs --ranks of 2 or more")
    return args


def main() -> int:
    args = parse_arguments()
    if args.measure:
        name = args.workloads[0]
        result = measure(name, args.table[name], args.measure, args.device, args.steps)
        if os.environ.get("RANK", "0") == "0":
            print(json.dumps(result))
        return 0
    failed = False
    for name in args.workloads:
        deadline = time.monotonic() + args.time_limit
        for mode in args.modes or SMALL.get(name, USUAL_MODES):
            if args.dry_run:
                print(json.dumps({"workload": name, "mode": mode, **dataclasses.asdict(args.table[name])}))
                continue
            result = run_in_process(name, args.config, mode, args, deadline - time.monotonic())
            failed |= "error" in result
            print(json.dumps(result), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
