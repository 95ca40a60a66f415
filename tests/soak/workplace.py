"""A folder with a spec, a corpus and caches, the runs of hydrac in it, and what an undisturbed run leaves there."""
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

import sealed

STEPS = 60
SPEC = f"""name: soak
target: cpu
model:
  hidden_size: 32
  num_hidden_layers: 1
  num_attention_heads: 2
  intermediate_size: 64
  dropout: 0.1
data:
  path: corpus.txt
  val_fraction: 0.1
  cache_dir: tokens
train:
  sequence_len: 16
  micro_batch_size: 2
  gradient_accumulation_steps: 2
  max_steps: {STEPS}
  eval_steps: 15
  eval_batches: 2
  save_steps: 3
  log_steps: 1
sample:
  max_new_tokens: 0
"""
SERIES_SPEC = """name: soak-series
target: cpu
model: {input: series, head: regression, hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2, norm: layernorm, hidden_act: gelu, position: learned}
data: {path: series.csv, target: [y], val_path: later.csv}
train: {sequence_len: 16, micro_batch_size: 2, max_steps: 60, eval_steps: 15, save_steps: 3, log_steps: 1}
"""
# The same steps by two processes.
TWO_RANKS = ["parallel.data=2", "train.gradient_accumulation_steps=1"]
LIBRARIES = ["onednn", "openblas"]
TIMINGS = (
    ["tokens_per_second", "samples_per_second", "mfu", "step_ms", "step_ms_p50", "step_ms_p95", "step_ms_max"]
    + ["data_wait_ms", "sampling_ms", "communication_ms", "memory_gib", "gpu_util", "power_watts", "temperature_celsius", "sm_clock_mhz"]
    + ["joules_per_token"]
)
STOPPED = 4  # the exit code of a run that a signal stopped after it had saved
# A run of this model takes a second; on a machine that does much else, several. What takes this long hangs.
LONGEST = 300


class Finding(Exception):
    """What must not happen."""


def expect(ended, codes, what):
    if ended.code not in codes:
        raise Finding(f"{what} ended with {ended}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Ended:
    """A process that ended: its exit code, or minus the signal, and its outputs."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __str__(self):
        how = f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        return f"{how}: {self.err.strip() or self.out.strip()[-400:]}"


def is_complete(checkpoint):
    """Its manifest is written last."""
    try:
        with open(os.path.join(checkpoint, "manifest.json")) as manifest:
            return bool(json.load(manifest))
    except (OSError, ValueError):
        return False


class Workplace:
    def __init__(self, top, hydrac):
        self.top, self.hydrac = top, hydrac
        self.caches = {}  # by library: a cache whose measured choice is that library
        self.expected = {}  # by library: what an undisturbed run leaves
        self.seconds = 1.0  # that it takes
        self.counts = {}  # of what was done to runs

    def count(self, what, number=1):
        self.counts[what] = self.counts.get(what, 0) + number

    def path(self, *parts):
        return os.path.join(self.top, *parts)

    def prepare(self):
        with open(self.path("corpus.txt"), "w") as corpus:
            corpus.writelines(f"line {i}: the fox jumps over {i * i % 97} dogs\n" for i in range(200))
        with open(self.path("soak.yaml"), "w") as spec:
            spec.write(SPEC)
        for name in ("series.csv", "later.csv"):
            with open(self.path(name), "w") as series:
                series.write("a,y\n")
                series.writelines(f"{i * i % 97},{i % 7 + i / 100}\n" for i in range(200))
        with open(self.path("soak-series.yaml"), "w") as spec:
            spec.write(SERIES_SPEC)
        first = self.path("cache-first")
        self.undisturbed("first", first)
        ended = self.run("of-ranks", first, *TWO_RANKS)  # its kernels are compiled here, once
        if ended.code != 0 or str(self.end_of("of-ranks")) != str(self.end_of("first")):
            raise Finding(f"two ranks do not end as one process does: {ended}")
        for library in LIBRARIES:
            cache = self.caches[library] = self.path("cache-" + library)
            shutil.copytree(first, cache)
            if not sealed.force_choice(os.path.join(cache, "blas-choices"), library, LIBRARIES):
                self.caches = {"the only library": first}  # nothing was measured
                break
        for library, cache in self.caches.items():
            start = time.monotonic()
            self.expected[library] = self.undisturbed(library, cache)
            self.seconds = time.monotonic() - start
        if len({str(end) for end in self.expected.values()}) < len(self.expected):
            print("soak: both libraries give the same bits here, so a wrong choice would not be seen")
        print(f"soak: an undisturbed run takes {self.seconds:.1f} s; libraries: {', '.join(self.caches)}", flush=True)

    def failing_calls(self):
        """The library that lets system calls fail, compiled once."""
        library = self.path("failing_calls.so")
        if not os.path.exists(library):
            source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "failing_calls.c")
            subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        return library

    def undisturbed(self, name, cache):
        ended = self.run(name, cache)
        if ended.code != 0:
            raise Finding(f"an undisturbed run ended with {ended}")
        return self.end_of(name)

    def start(self, name, cache, *words, environment=None, limit=None, out=subprocess.PIPE, spec="soak.yaml"):
        """Starts a run in runs/<name>; `limit`: bytes that each of its files may have."""

        def limit_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        command = [self.hydrac, "run", spec, f"output.dir=runs/{name}", "--threads", "1", *words]
        variables = {**os.environ, "HYDRAC_CACHE": cache, **(environment or {})}
        return subprocess.Popen(command, cwd=self.top, env=variables, stdin=subprocess.DEVNULL, stdout=out,
                                stderr=subprocess.PIPE, text=True, errors="replace",
                                preexec_fn=limit_files if limit is not None else None)

    def finish(self, process):
        try:
            out, err = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Finding(f"{' '.join(process.args)} did not end in {LONGEST} s") from None
        ended = Ended(process.returncode, out or "", err)
        crash = ended.code in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT, -signal.SIGFPE, -signal.SIGILL)
        if crash or "internal error" in ended.err:
            raise Finding(f"{' '.join(process.args)}: {ended}")
        return ended

    def run(self, name, cache, *words, **options):
        return self.finish(self.start(name, cache, *words, **options))

    def end_of(self, name):
        """What a complete run leaves, as far as it must be the same in each."""
        run = self.path("runs", name)
        end = {}
        for file in ("model.safetensors", "optimizer.safetensors", "state.json", "choices.json"):
            with open(os.path.join(run, f"checkpoint-{STEPS}", file), "rb") as opened:
                end[file] = hashlib.sha256(opened.read()).hexdigest()
        with open(os.path.join(run, "metrics.jsonl")) as lines:
            records = [json.loads(line) for line in lines]
        end["metrics.jsonl"] = [{key: value for key, value in record.items() if key not in TIMINGS} for record in records]
        return end

    def library_of(self, checkpoint):
        """What the checkpoint was computed with, as a key of `expected`."""
        with open(os.path.join(checkpoint, "choices.json")) as file:
            library = json.load(file)["blas"]["library"]
        return library if library in self.expected else next(iter(self.expected))

    def compare(self, name, library):
        """With an undisturbed run of the library, or of any where it is None."""
        end = self.end_of(name)
        library = library or self.library_of(self.path("runs", name, f"checkpoint-{STEPS}"))
        different = [file for file, value in self.expected[library].items() if end[file] != value]
        if different:
            raise Finding(f"runs/{name} was resumed and differs from an undisturbed run in {', '.join(different)}")

    def checkpoints(self, name):
        """Of a run: the folders that hold checkpoints, the newest last; also one that was killed before it got its name."""
        run = self.path("runs", name)
        found = []
        for folder in os.listdir(run) if os.path.isdir(run) else []:
            checkpoint = re.fullmatch(r"checkpoint-(\d+)(\.tmp-\d+)?", folder)
            if checkpoint and (not checkpoint[2] or is_complete(os.path.join(run, folder))):
                found.append((int(checkpoint[1]), os.path.join(run, folder)))
        return [path for _, path in sorted(found)]
