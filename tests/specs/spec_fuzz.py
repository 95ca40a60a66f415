#!/usr/bin/env python3
"""Makes random valid specs of tiny models and has hydrac check, explain and emit each for the cpu and two GPUs; compiles
the kernels of some with NVRTC, and trains, kills, resumes, samples and builds some, whose bits must be equal.

    tests/specs/spec_fuzz.py --hydrac build/hydrac [SECONDS] [--seed N] [--specs N] [--jobs N]

Prints a table of counts last. Exit 1 when something was found: each finding is printed with the spec that still has it
when keys are left out, and with what makes it again.
"""
import argparse
import collections
import concurrent.futures
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

import generate
import trials

# Slow trials are for one of so many specs.
TRAIN_OF, BUILD_OF, KERNELS_OF = 8, 64, 32


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("seconds", nargs="?", type=float, default=60, help="begin no spec after so long (60)")
    parser.add_argument("--seed", type=int, help="of all random choices; without: any, and printed")
    parser.add_argument("--specs", type=int, help="so many specs, however long they take")
    parser.add_argument("--first", type=int, default=0, help="the number of the first spec (0), to make a finding again")
    parser.add_argument("--jobs", type=int, default=1, help="specs at a time (1)")
    parser.add_argument("--hydrac", default="build/hydrac", help="the program (build/hydrac)")
    return parser.parse_args()


class Fuzz:
    def __init__(self, options, top):
        self.options, self.top = options, top
        self.table = generate.key_table(options.hydrac)
        self.gpus = [t for t in self.table["target"]["enum"] if t not in ("auto", "cuda", "cpu")]
        self.data = os.path.join(top, "data")
        os.makedirs(self.data)
        trials.write_data(self.data)
        self.lock, self.counts, self.findings = threading.Lock(), collections.Counter(), {}

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def try_found(self):
        """The specs of found/, each of which has had a finding."""
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "found")
        for name in sorted(os.listdir(folder)):
            tries = trials.Tries(self.options.hydrac, os.path.join(self.top, name), self.data, random.Random(0))
            shutil.copy(os.path.join(folder, name), os.path.join(tries.top, "spec.yaml"))
            try:
                for trial in ("explain", "emit"):
                    self.count(getattr(tries, trial)())
            except trials.Finding as finding:
                self.count("findings")
                self.findings[f"{name}: {finding.kind}"] = [name]
                print(f"specs: {name}: {finding}", flush=True)

    def numbers(self):
        first = self.options.first
        if self.options.specs:
            yield from range(first, first + self.options.specs)
            return
        end = time.monotonic() + self.options.seconds
        yield from itertools.takewhile(lambda _: time.monotonic() < end, itertools.count(first))

    def try_spec(self, number):
        draw = random.Random(f"{self.options.seed}-{number}")
        folder = os.path.join(self.top, f"spec-{number}")
        tries = trials.Tries(self.options.hydrac, folder, self.data, draw)
        try:
            wanted = generate.a_spec(self.table, draw)
            self.count("specs")
            self.try_target(tries, generate.for_target(wanted, "cpu"), number)
            for gpu in draw.sample(self.gpus, 2):
                self.try_target(tries, generate.for_target(wanted, gpu), number)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def try_target(self, tries, wanted, number):
        spec, trial = wanted, "check"
        try:
            spec = tries.accepted(wanted)
            if spec is None:
                return self.count("refused by check")
            self.count("accepted")
            tries.write(spec)
            for trial in self.trials_of(spec["target"], number):
                self.count(getattr(tries, trial)())
        except trials.Finding as finding:
            self.note(finding, tries, spec, trial, number)

    def trials_of(self, target, number):
        yield from ["explain", "emit"]
        if target == "cpu" and (number % TRAIN_OF == 0 or not self.counts["trained and resumed"]):
            yield "train"
        elif target == "cpu" and (number % BUILD_OF == 1 or not self.counts["built and compared"]):
            yield "build"
        elif target != "cpu" and number % KERNELS_OF == 2 and os.environ.get("HYDRAC_CUDA_LIBRARIES"):
            yield "kernels"

    def note(self, finding, tries, spec, trial, number):
        self.count("findings")
        with self.lock:
            known = finding.kind in self.findings
            self.findings.setdefault(finding.kind, []).append(number)
        if known:
            return
        smaller = shrunk(finding, tries, spec, trial)
        with self.lock:
            print(f"specs: {finding}\nspec {number} (--seed {self.options.seed} --first {number} --specs 1), {trial}:\n"
                  f"{generate.Text(smaller)}", flush=True)

    def report(self, seconds):
        for what, number in sorted(self.counts.items()):
            print(f"{number:>10}  {what}")
        for kind, numbers in self.findings.items():
            print(f"specs: found {len(numbers)} times: {kind}")
        print(f"specs: {self.counts['specs']} specs in {seconds:.0f} s with seed {self.options.seed}, {self.counts['findings']} findings")


def shrunk(finding, tries, spec, trial):
    """The spec without all keys that the finding does not need."""
    def still_there(smaller):
        try:
            tries.write(smaller)
            if trial != "check" and tries.run(tries.hydrac, "check", "spec.yaml").code != 0:
                return False
            tries.accepted(smaller, most=1) if trial == "check" else getattr(tries, trial)()
        except trials.Finding as other:
            return other.kind == finding.kind
        return False

    for path in list(spec):
        if path not in generate.NEEDED and path not in ("name", "target", "data.path"):
            without = {key: value for key, value in spec.items() if key != path}
            if still_there(without):
                spec = without
    return spec


def main():
    options = arguments()
    options.hydrac = os.path.abspath(options.hydrac)
    if not os.access(options.hydrac, os.X_OK):
        sys.exit(f"specs: there is no program {options.hydrac}: ./dev build makes it")
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 32)
    print(f"specs: seed {options.seed}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="hydrac-specs-") as top:
        os.environ.setdefault("HYDRAC_CACHE", os.path.join(top, "cache"))
        start, fuzz = time.monotonic(), Fuzz(options, top)
        if options.first == 0:
            fuzz.try_found()
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            running = set()
            for number in fuzz.numbers():
                running.add(pool.submit(fuzz.try_spec, number))
                if len(running) >= 2 * options.jobs:
                    done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                    for task in done:
                        task.result()
            for task in running:
                task.result()
        fuzz.report(time.monotonic() - start)
    return 1 if fuzz.findings else 0


if __name__ == "__main__":
    sys.exit(main())
