#!/usr/bin/env python3
"""Kills, fills disks of and damages tiny training runs at random moments, and checks that each, resumed, ends as an
undisturbed run does, bit for bit, or is refused by name.

    tests/soak/soak.py --hydrac build/hydrac [SECONDS] [--seed N] [--rounds N] [--only KIND ...]

Prints a table of counts last. Exit 1 when something was found: its folder is kept and named, and the round's seed
repeats it as far as the moments of a machine can be repeated.
"""
import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time

import rounds
from workplace import Finding, Workplace


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("seconds", nargs="?", type=float, default=60, help="begin no round after so long (60)")
    parser.add_argument("--seed", type=int, help="of all random choices; without: any, and printed")
    parser.add_argument("--rounds", type=int, help="so many rounds of each kind, however long they take")
    parser.add_argument("--only", nargs="+", choices=sorted(rounds.KINDS), help="these kinds of rounds")
    parser.add_argument("--hydrac", default="build/hydrac", help="the program (build/hydrac)")
    return parser.parse_args()


def schedule(options):
    """The kinds of the rounds to come."""
    kinds = [kind for kind in rounds.KINDS if not options.only or kind in options.only]
    if options.rounds:
        yield from kinds * options.rounds
        return
    end = time.monotonic() + options.seconds
    while True:
        for kind in kinds:
            if time.monotonic() > end:
                return
            yield kind


def main():
    options = arguments()
    hydrac = os.path.abspath(options.hydrac)
    if not os.access(hydrac, os.X_OK):
        sys.exit(f"soak: there is no program {hydrac}: ./dev build makes it")
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"soak: seed {seed}", flush=True)
    top = tempfile.mkdtemp(prefix="hydrac-soak-")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    counts, findings = {}, []
    start = time.monotonic()
    try:
        place = Workplace(top, hydrac)
        place.prepare()
        for number, kind in enumerate(schedule(options)):
            row = counts.setdefault(kind, {"rounds": 0, "identical": 0, "refused": 0, "found": 0})
            row["rounds"] += 1
            try:
                row[rounds.play(kind, place, random.Random(f"{seed}-{number}"), f"{number}-{kind}")] += 1
            except Finding as finding:
                row["found"] += 1
                findings.append(f"round {number} ({kind}): {finding}")
                print(f"soak: {findings[-1]}", flush=True)
    finally:
        if not findings:
            shutil.rmtree(top, ignore_errors=True)
    report(place, counts, findings, time.monotonic() - start, seed)
    if findings:
        print(f"soak: what they left is kept in {top}")
    return 1 if findings else 0


def report(place, counts, findings, seconds, seed):
    columns = ["rounds", "identical", "refused", "found"]
    print(f"{'':<18}" + "".join(f"{column:>10}" for column in columns))
    for kind, row in counts.items():
        print(f"{kind:<18}" + "".join(f"{row[column]:>10}" for column in columns))
    total = {column: sum(row[column] for row in counts.values()) for column in columns}
    print(f"{'all':<18}" + "".join(f"{total[column]:>10}" for column in columns))
    print("soak: " + ", ".join(f"{number} {what}" for what, number in place.counts.items()))
    print(f"soak: {total['rounds']} rounds in {seconds:.0f} s with seed {seed}, {len(findings)} findings")


if __name__ == "__main__":
    sys.exit(main())
