"""Every case that `./dev gpu-test --list` prints is a spec that hydrac accepts for a GPU. Needs no GPU.

A case that names a key which was renamed would fail only where there is a GPU.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
HYDRAC = os.environ["HYDRAC_PROGRAM"]
AT_LEAST = 200  # cases: fewer means that the list was not read


def cases() -> list[tuple[str, list[str]]]:
    """The name of each case, and its spec with the keys to set."""
    listed = subprocess.run([ROOT / "bench/gpu-test", "--list"], text=True, stdout=subprocess.PIPE, check=True).stdout
    rows = [re.fullmatch(r"(.*?) +(\S+\.yaml\b.*)", line) for line in listed.splitlines()]
    return [(row[1], shlex.split(row[2])) for row in rows if row]


def problem(case: tuple[str, list[str]]) -> str:
    name, (spec, *options) = case
    keys = [option for option in options if "=" in option and not option.startswith(("-", "target=auto"))]
    target = [] if any(key.startswith("target=") for key in keys) else ["target=h200"]
    checked = subprocess.run([HYDRAC, "check", spec, *keys, *target], cwd=ROOT, text=True, capture_output=True)
    found = set(re.findall(r"error: .* \[([\w-]+)\]$", checked.stderr, re.MULTILINE))
    accepted = not checked.returncode or found == {"unreadable-file"}  # data that `verify --small` makes up
    return "" if accepted else f"{name}: {' '.join(keys)}\n{checked.stderr}"


def main() -> int:
    listed = cases()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [found for found in pool.map(problem, listed) if found]
    if len(listed) < AT_LEAST:
        problems.append(f"only {len(listed)} cases were found in what bench/gpu-test --list prints")
    print(*problems, sep="\n", end="")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
