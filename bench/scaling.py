"""What `./dev gpu-test --scaling` does: times specs on every GPU by itself and on all of a machine's, divided in several ways, beside
PyTorch's DistributedDataParallel and FSDP2.

GPUs differ by a percent or two and ranks wait for the slowest, so efficiency is against that one: tokens a second of all GPUs, by N times
those of the slowest by itself. GPUs by themselves are timed side by side, so that power and heat are those of the run on all."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

from trained import metrics, place_in

DDP, FSDP = "compile-bf16", "compile-bf16-fsdp"


@dataclasses.dataclass(frozen=True)
class Workload:
    """`alone`: one GPU trains it. `divisions`: {name: overrides}, with {n} for the GPUs, {half} of them and {four_each}."""

    name: str
    spec: str
    divisions: dict
    peers: tuple = ()
    alone: bool = True


DATA = {"data": "parallel.data={n}"}
ZERO = {f"zero {level}": f"parallel.data={{n}} parallel.zero={level}" for level in (1, 2, 3)}
BY_NCCL = {"data, nccl": "parallel.data={n} parallel.exchange=nccl"}
ZERO3_BY_NCCL = {"zero 3, nccl": "parallel.data={n} parallel.zero=3 parallel.exchange=nccl"}
GPT2, LLAMA = "bench/specs/gpt2-124m.yaml", "bench/specs/llama-1b.yaml"
WORKLOADS = (
    Workload("gpt2-124m 64x1024", GPT2, DATA, (DDP,)),
    Workload("gpt2-124m 8x1024", f"{GPT2} train.micro_batch_size=8", DATA | BY_NCCL, (DDP,)),
    Workload("llama-1b 2x4096", f"{LLAMA} train.micro_batch_size=2", DATA | BY_NCCL | ZERO | ZERO3_BY_NCCL, (DDP, FSDP)),
    Workload("llama-1b 4x4096", f"{LLAMA} optimizations.loss=materialized", {"tensor 2": "parallel.data={half} parallel.tensor=2"}),
    Workload(
        "llama-8b 4x4096",
        "bench/specs/llama-8b.yaml optimizations.fit=none train.micro_batch_size=4 optimizations.recompute=block optimizations.loss=fused_linear",
        {"zero 3": "train.global_batch_size={four_each} parallel.data={n} parallel.zero=3"},
        alone=False,
    ),
)
WARMUP_STEPS = 8


@dataclasses.dataclass
class Timing:
    """Medians of steps."""

    ms: float
    exposed_ms: float  # of which a step waits for sums
    gib: float
    loss: float
    steps: int


def time_steps(command: list, run: pathlib.Path, log: pathlib.Path, environment: dict, steps: int, limit: float) -> Timing:
    """Starts a training and kills it once it took so many steps: nothing is saved, whatever the model's size. Raises RuntimeError."""
    with open(log, "wb") as file:
        process = subprocess.Popen([str(word) for word in command], env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
    end, lines = time.monotonic() + limit, []
    while len(lines) < WARMUP_STEPS + steps and time.monotonic() < end and process.poll() is None:
        time.sleep(0.1)
        path = run / "metrics.jsonl"
        lines = path.read_text().splitlines()[:-1] if path.exists() else []  # the last one may be half written
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    rows = [json.loads(line) for line in lines][WARMUP_STEPS:]
    shutil.rmtree(run, ignore_errors=True)
    if len(rows) < 5:
        raise RuntimeError("; ".join(log.read_text(errors="replace").splitlines()[-3:]) or f"{len(rows)} steps in {limit:.0f} s")

    def median(key: str) -> float:
        return statistics.median(row.get(key, 0) for row in rows)

    return Timing(median("step_ms"), median("communication_ms"), rows[-1]["memory_gib"], rows[-1]["loss"], len(rows))


def shares(overrides: str) -> int:
    """How many GPUs share a micro-batch."""
    found = re.search(r"parallel\.tensor=(\d+)", overrides)
    return int(found[1]) if found else 1


class Scaling:
    def __init__(self, runner, report, args, hydrac, where: dict, run_peer, folder: str):
        self.runner, self.report, self.args, self.where, self.run_peer = runner, report, args, where, run_peer
        self.place = place_in(folder, hydrac, runner.dry)

    def time(self, name: str, spec: str, environment: dict = {}) -> Timing | None:
        usual = (
            "target=auto data.tokenizer=byte data.val_fraction=0.1 train.save_steps=0 train.eval_steps=0 train.log_steps=1 train.lr_scheduler.warmup_steps=1 "
            "train.lr_scheduler.decay_steps=0 sample.max_new_tokens=0 train.max_steps=100000"
        )
        run = re.sub(r"[^\w.-]+", "-", name)
        command = [*self.place.words(f"{spec} {usual}", run), "-q"]
        if self.runner.dry:
            print(shlex.join(map(str, command)))
            return None
        try:
            return time_steps(command, self.place.folder / run, self.runner.log_path("scaling " + name), environment, self.args.ranks_steps, self.runner.remaining())
        except RuntimeError as error:
            self.fail(name, str(error))
            return None

    def fail(self, what: str, why: str):
        print(f"{what}: FAILED: {why}", flush=True)
        self.report.failures.append(f"scaling {what}: {why}")

    def on_each(self, work: Workload) -> float:
        """Milliseconds of the slowest GPU by itself, all at the same time; 0 where one failed."""
        gpus = range(self.args.ranks)
        with concurrent.futures.ThreadPoolExecutor(len(gpus)) as pool:
            timings = list(pool.map(lambda gpu: self.time(f"{work.name} GPU {gpu}", work.spec, {"CUDA_VISIBLE_DEVICES": str(gpu)}), gpus))
        if any(timing is None for timing in timings):
            return 0
        slowest = max(timings, key=lambda timing: timing.ms)
        self.show(work.name, "each GPU", slowest, ", ".join(f"{timing.ms:.2f}" for timing in timings))
        self.record(work, "", slowest, gpus_ms=[round(timing.ms, 2) for timing in timings])
        return slowest.ms

    def on_all(self, work: Workload, one_ms: float):
        count = self.args.ranks
        for name, words in work.divisions.items():
            overrides = words.format(n=count, half=count // 2, four_each=4 * count)
            timing = self.time(f"{work.name} {name}", f"{work.spec} {overrides}")
            if not timing:
                continue
            efficiency = one_ms / timing.ms / shares(overrides)
            self.show(work.name, name, timing, f"{efficiency:.1%}" if one_ms else "")
            self.record(work, overrides, timing, **({"one_gpu_ms": round(one_ms, 2), "efficiency": round(efficiency, 4)} if one_ms else {}))
            self.report.passed += 1

    def peers(self, chosen: list):
        """PyTorch: on one GPU, the workloads side by side, and on all, one after another."""
        count = self.args.ranks
        with_peers = [work for work in chosen if work.peers]

        def timed(work: Workload, mode: str, ranks: int, gpu: int | None = None) -> dict:
            environment = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": str(gpu)}
            return self.run_peer(self.runner, self.place.hydrac, f"{work.spec} target=auto", self.args.peer_limit, mode, ranks, environment)[0]

        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            alone = list(pool.map(lambda pair: timed(pair[1], DDP, 1, pair[0] % count), enumerate(with_peers)))
        for work, one in zip(with_peers, alone):
            for mode in work.peers:
                result = timed(work, mode, count)
                if self.runner.dry:
                    continue
                if problem := one.get("error") or result.get("error"):
                    self.fail(f"{work.name} PyTorch {mode}", problem)
                    continue
                efficiency = one["ms"] / result["ms"]
                print(f"{work.name:<20} PyTorch {mode:<18} {one['ms']:9.2f} ms on 1, {result['ms']:9.2f} on {count}: {efficiency:.1%}", flush=True)
                self.write({"spec": work.name, "peer": mode, "torch": result["torch"], "one_gpu_ms": round(one["ms"], 2), "step_ms": round(result["ms"], 2), "efficiency": round(efficiency, 4), "peak_gb": round(result["peak_gb"], 2)})

    @staticmethod
    def show(work: str, division: str, timing: Timing, more: str):
        print(f"{work:<20} {division:<12} {timing.ms:9.2f} ms, {timing.exposed_ms:6.2f} exposed, {timing.gib:6.2f} GiB, loss {timing.loss:.4f}, {timing.steps} steps  {more}", flush=True)

    def record(self, work: Workload, overrides: str, timing: Timing, **more):
        figures = {"step_ms": round(timing.ms, 2), "exposed_ms": round(timing.exposed_ms, 2), "measured_gib": round(timing.gib, 2), "steps": timing.steps}
        self.write({"spec": work.name, "overrides": overrides} | figures | more)

    def write(self, figures: dict):
        with open(self.args.out / "gpu.jsonl", "a") as file:
            file.write(json.dumps(self.where | {"bench": "scaling", "gpus": self.args.ranks} | figures, separators=(",", ":")) + "\n")


def run_scaling(runner, report, args, hydrac, where: dict, run_peer):
    """`run_peer`: gpu-test's. `args.scaling`: of the workloads, those whose names match."""
    chosen = [work for work in WORKLOADS if re.search(args.scaling, work.name)]
    if not chosen:
        report.failures.append(f"no workload of scaling matches {args.scaling}: " + ", ".join(work.name for work in WORKLOADS))
    with tempfile.TemporaryDirectory() as folder:
        scaling = Scaling(runner, report, args, hydrac, where, run_peer, folder)
        for work in chosen:
            one_ms = scaling.on_each(work) if work.alone else 0
            if one_ms or not work.alone or runner.dry:
                scaling.on_all(work, one_ms)
        if args.peers:
            scaling.peers(chosen)
