"""Trials of a spec that `hydrac check` accepts, and the outcomes that each may have."""
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import time

import generate

WORDS = "the cat sat on a mat and ran to it in small big house tree".split()
CPU_SECONDS = 60  # tiny specs take a second; what takes this much is a search that grows as none may
SAVING = ["train.save_steps=1", "train.save_total_limit=0"]  # so that what is killed can be resumed


def without_numbers(line):
    return re.sub(r"[\d.]+", "N", line)[:160]


class Finding(Exception):
    """An outcome that must not happen. `kind` is the same for the same fault in other specs."""

    def __init__(self, trial, said):
        super().__init__(said)
        self.kind = f"{trial}: {without_numbers(said.splitlines()[0])}"


def refused(verb, ended):
    """`check` had accepted it: no fault of the code that is made, but perhaps one of check."""
    return f"refused by {verb}: {without_numbers(ended.reason())}"


class Ended:
    def __init__(self, command, code, said):
        self.command, self.code, self.said = command, code, said

    def __str__(self):
        how = f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        return f"{self.reason()}\n{how} of {' '.join(self.command)}\n{self.said.strip()[-3000:]}"

    def reason(self):
        """The line that says most of what went wrong."""
        lines = self.said.splitlines() or [""]
        placed = [line for line in lines if re.match(r"\s*\S+(:\d+:\d+: (?!warning)|\(\d+\): error)", line)]
        line = (placed or [line for line in lines if "error" in line] or lines[-1:])[0]
        return re.sub(r"^\S*/", "", line.strip()) if self.code not in (-signal.SIGXCPU, -signal.SIGKILL) else "takes too long"


def write_data(top, seed=1):
    """The files that generate.SOURCES name."""
    draw = random.Random(seed)
    texts = [" ".join(draw.choice(WORDS) for _ in range(12)) for _ in range(3000)]
    with open(os.path.join(top, "text.txt"), "w") as file:
        file.write("\n".join(texts))
    with open(os.path.join(top, "records.jsonl"), "w") as file:
        file.writelines(json.dumps({"text": text, "other": text}) + "\n" for text in texts[:500])
    with open(os.path.join(top, "chats.jsonl"), "w") as file:
        file.writelines(json.dumps({"prompt": text[:9], "completion": text[9:20]}) + "\n" for text in texts[:500])
    with open(os.path.join(top, "tokens.bin"), "wb") as file:
        file.write(bytes(draw.randrange(256) if i % 2 == 0 else 0 for i in range(20000)))
    with open(os.path.join(top, "series.csv"), "w") as file:
        file.write("a,b,y,z,c\n")
        file.writelines(f"{draw.random():.3f},{draw.random():.3f},{draw.random():.3f},{draw.random():.3f},{draw.randrange(3)}\n"
                        for _ in range(2000))


class Tries:
    """The trials of one spec, in a folder of its own that links to the data."""

    def __init__(self, hydrac, top, data, draw):
        self.hydrac, self.top, self.draw = hydrac, top, draw
        os.makedirs(top)
        for name in os.listdir(data):
            os.link(os.path.join(data, name), os.path.join(top, name))

    def run(self, *words, seconds=CPU_SECONDS, kill_after=None):
        def limit():
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        process = subprocess.Popen(words, cwd=self.top, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, errors="replace", preexec_fn=limit, start_new_session=True)
        try:
            out, err = process.communicate(timeout=kill_after or 20 * seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        return Ended(words, process.returncode, err or out)

    def expect(self, trial, ended, codes=(0,)):
        if ended.code not in codes or "internal error" in ended.said:
            raise Finding(trial, str(ended))
        return ended

    def write(self, spec):
        text = generate.Text(spec)
        with open(os.path.join(self.top, "spec.yaml"), "w") as file:
            file.write(str(text))
        return text

    def accepted(self, spec, most=25):
        """The spec without the keys that `check` refuses beside the others, or None."""
        spec = dict(spec)
        for _ in range(most):
            text = self.write(spec)
            ended = self.expect("check", self.run(self.hydrac, "check", "spec.yaml"), (0, 2))
            if ended.code == 0:
                return spec
            refused = generate.refused_keys(text, ended.said)
            if not refused:
                return None
            generate.change(spec, refused, self.draw)
        return None

    # ---- each of them is of spec.yaml, which `check` accepts, and returns what it came to

    def explain(self):
        self.expect("explain", self.run(self.hydrac, "explain", "spec.yaml"), (0, 2))
        return "explained"

    def emit(self):
        """Every file that is written was parsed by Clang before."""
        shutil.rmtree(os.path.join(self.top, "emitted"), ignore_errors=True)
        ended = self.expect("emit", self.run(self.hydrac, "emit", "spec.yaml", "-o", "emitted", "-q"), (0, 2))
        return "emitted" if ended.code == 0 else refused("emit", ended)

    def kernels(self):
        """NVRTC compiles every kernel."""
        ended = self.expect("kernels", self.run(self.hydrac, "explain", "spec.yaml", "--kernels", seconds=10 * CPU_SECONDS), (0, 2))
        return "compiled by NVRTC" if ended.code == 0 else refused("explain --kernels", ended)

    def train(self):
        """A run that is killed and resumed ends as one that is not, and generates."""
        start = time.monotonic()
        whole = self.trained("whole")
        if whole != "trained":
            return whole
        # The second time its kernels are compiled: where it is killed too early there is nothing to resume.
        self.run(*self.training("killed"), kill_after=self.draw.uniform(0, 0.5) * (time.monotonic() - start))
        if self.checkpoints("killed"):
            self.expect("resume", self.run(*self.training("killed"), "--resume"))
            self.compare("resume", "killed")
        self.expect("sample", self.run(self.hydrac, "sample", "runs/whole", "--max-new-tokens", "3"), (0, 2))
        return "trained and resumed"

    def build(self):
        """The program that is built ahead of time trains to the bits of the JIT's."""
        whole = self.trained("whole")
        if whole != "trained":
            return whole
        self.expect("build", self.run(self.hydrac, "build", "spec.yaml", *SAVING, "-o", "program", "-q", seconds=20 * CPU_SECONDS))
        self.expect("built", self.run("program/build/train", "--quiet", "--output", "runs/built"))
        self.compare("built", "built")
        return "built and compared"

    def training(self, name):
        return [self.hydrac, "run", "spec.yaml", *SAVING, "-q", f"output.dir=runs/{name}"]

    def trained(self, name):
        shutil.rmtree(os.path.join(self.top, "runs"), ignore_errors=True)
        ended = self.expect("run", self.run(*self.training(name)), (0, 2, 3))
        if ended.code == 3 and "not finite" not in ended.said and "no number" not in ended.said:
            raise Finding("run", str(ended))
        return "trained" if ended.code == 0 else refused("run", ended) if ended.code == 2 else "diverged"

    def compare(self, trial, name):
        a, b = (self.last_checkpoint(run) for run in ("whole", name))
        different = sorted(file for file in a.keys() | b.keys() if a.get(file) != b.get(file))
        if different:
            raise Finding(trial, f"WRONG: other bits in {', '.join(different)}")

    def checkpoints(self, run):
        """The steps of the run's checkpoints, which get their names when they are whole."""
        folder = os.path.join(self.top, "runs", run)
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return [int(name.split("-")[1]) for name in names if re.fullmatch(r"checkpoint-\d+", name)]

    def last_checkpoint(self, run):
        last = max(self.checkpoints(run), default=0)
        files = {"step": last}
        for name in ("model.safetensors", "adapter_model.safetensors", "optimizer.safetensors"):
            path = os.path.join(self.top, "runs", run, f"checkpoint-{last}", name)
            if os.path.exists(path):
                with open(path, "rb") as file:
                    files[name] = hashlib.sha256(file.read()).hexdigest()
        return files
