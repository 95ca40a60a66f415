"""Every command of README.md and docs/*.md is run, or stands in a list that says why not.

A command is a line of a block, or words in backticks with something to work on: `hydrac check SPEC`, not `hydrac check`, of which
only the words are looked up. Each is run in a folder that has what the pages name: specs, texts, runs, a model. What would take long
is made short; training that is meant for a GPU is planned instead. docs/first-hour.md is run as it stands, top to bottom, and what
it prints is compared with what the page shows:

  ```sh                    runs here
  ```sh interrupt          runs until it has printed a step, then gets Ctrl-C
  ```sh install            installs something on the machine: not run
  ```python transformers   runs where python3 has the module
  ```text                  what the block above prints: numbers may differ, "..." stands for any lines
  ```text varies           not compared
"""

import atexit
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HYDRAC = os.environ["HYDRAC_PROGRAM"]
FIRST_HOUR = "docs/first-hour.md"

# Commands that are not run, by a regular expression for the whole of each, and why.
NOT_RUN = {
    r"\./dev (test|build|package|generate|fmt|setup|fuzz|soak)\b.*": "builds or tests the project itself",
    r"hydrac (verify .*|bench .*--peer libtorch.*)": "needs hydrac-oracle; verify_test runs it",
    r"hydrac build .*": "compiles for a minute; so does docs/first-hour.md, whose build is run",
    r"hydrac (bench|tune) (bench/)?specs/.*": "takes a GPU",
    r"hydrac bench SPEC (optimizations.precision=fp8|.*--combine optimizer_state\+recompute,.*)": "of a spec for GPUs",
    r"hydrac bench SPEC --ablate \[.*": "a synopsis, whose options other pages show",
    r"hydrac data prepare hf:OWNER/NAME .*": "a synopsis; hub_test prepares a dataset by its name",
    r"hydrac init --task finetune --model FOLDER .*": "a synopsis; docs/starting.md has a command",
}
# What is made shorter, or possible without a GPU: a regular expression, and what takes its place.
INSTEAD = {
    r"\bSPEC\b": "spec.yaml",
    r"--model hf:meta-llama/": "--model models/",  # hub_test begins with a name
    r"^\./dev run ": "hydrac run ",
    r"^(\./dev gpu-test .*)": rf"{ROOT}/\1 --dry-run",
    r"^hydrac (specs/(?:hydra|gpt2|chatgot|llama)\S*)": r"hydrac check \1",  # trained on GPUs: planned here
    r"^(hydrac check specs/hydra-(?!.*data.path).*)": r"\1 data.path=docs/*.md data.tokenizer=byte",
    r"^(hydrac (?:run )?specs/(?!.*max_steps).*)": r"\1 train.max_steps=2 train.lr_scheduler.warmup_steps=0",
    r"^(hydrac bench .*)": r"\1 --steps 2",
    r"^hydrac tune spec.yaml( --minutes 1)?": "hydrac tune spec.yaml --minutes 0.01",
    r" --cache-memory 4": " --cache-memory 0.01",
    r" -o tokens --vocab-size 8192|(?<=prepare PATH) -o FOLDER": " -o tokens --vocab-size 300",
}
# What a command needs that no other leaves behind.
BEFORE = {
    "hydrac diff SPEC FOLDER": "hydrac emit spec.yaml -o FOLDER",
    "hydrac export runs/tuned -o tuned-model --dtype bf16": "rm -r runs/tuned && mv RUN runs/tuned",
    "hydrac sample RUN/checkpoint-200": "mv RUN/checkpoint-60 RUN/checkpoint-200",
}
# Commands that a page shows for an error of this kind.
MISTAKES = {
    "hydrac mistake.yaml": "heads-divide-width",
    "hydrac check gpt2.yaml": "out-of-memory",
    "hydrac check gpt2.yaml optimizations.memory_limit=2 optimizations.fit=auto": "out-of-memory",
}

SPEC = """
name: tiny
target: cpu
model: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64, max_position_embeddings: 4096}
data: {path: mytext.txt, tokenizer: byte, val_fraction: 0.1}
train: {sequence_len: 16, micro_batch_size: 1, max_steps: 60, eval_batches: 1}
optimizations: {threads: 1}
sample: {max_new_tokens: 4}
"""
OBJECTIVE = """
extends: specs/polychromic.yaml
train: {max_steps: 2, lr_scheduler: {warmup_steps: 0}, eval_batches: 1}
objective: {max_new_tokens: 4}
sample: {max_new_tokens: 4}
"""
TOO_LARGE = """
extends: specs/gpt2-124m.yaml
optimizations: {memory_limit: 4}
data: {path: mytext.txt, tokenizer: byte}
train: {micro_batch_size: 32, gradient_accumulation_steps: 1}
"""
STORIES = """
name: stories
model: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64}
data: {path: "hf:roneneldan/TinyStories", val_path: "hf:roneneldan/TinyStories:validation", tokenizer: byte}
train: {sequence_len: 16, micro_batch_size: 1, max_steps: 4, eval_batches: 1, lr_scheduler: {warmup_steps: 0}}
sample: {max_new_tokens: 4}
"""
REWARD = """#!/usr/bin/env python3
import json, sys
for line in sys.stdin:
    print(*(len(reply) for reply in json.loads(line)["replies"]), sep="\\n")
"""
FILES = {
    **dict.fromkeys(("spec.yaml", "model.yaml"), SPEC),
    **dict.fromkeys(("mytext.txt", "shakespeare.txt", "TEXT", "PATH"), "".join(f"{a} + {a * 7 % 40} = ?\n" for a in range(400))),
    "objective.yaml": OBJECTIVE,
    "stories.yaml": STORIES,
    "gpt2.yaml": TOO_LARGE,
    "mistake.yaml": "model: {hidden_size: 768, num_hidden_layers: 12, num_attention_heads: 10}\n",
    "reward.py": REWARD,
    "in.jsonl": '{"prompt": "1 + 2"}\n{"prompt": "3 + 4"}\n',
}
LINKS = {
    **{name: ROOT / name for name in ("README.md", "bench", "compiler", "docs", "examples", "runtime", "specs")},
    **dict.fromkeys(("models/Qwen2.5-0.5B", "models/Llama-3.2-1B"), ROOT / "examples/lora/model"),
    "mine.jsonl": ROOT / "examples/lora/chat.jsonl",
    "hydrac": ROOT,
}
MAKE_RUNS = """
hydrac spec.yaml -q output.dir=runs/mine
cp -r runs/mine RUN
hydrac objective.yaml -q output.dir=runs/tuned objective.name=none
hydrac emit model.yaml -o train
hydrac bench spec.yaml --steps 1 --json >TABLE.json
"""

# Pages that name repositories of Hugging Face's hub are run with one on loopback that has these, by the client that ./dev setup gets.
HUB = {f"datasets/roneneldan/TinyStories/data/{split}-00000-of-00001.jsonl": '{"text": "Once upon a time there was a cat."}\n' * 40 for split in ("train", "validation")}
WITH_HUB = r"hydrac .*\bstories\b.*"

failures = []


def fail(where: str, what: str):
    failures.append(where)
    print(f"{where}: {what}", flush=True)


def bash(script: str, folder: pathlib.Path, environment: dict) -> tuple:
    """The exit code, and what it printed."""
    words = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(words, cwd=folder, env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode(errors="replace")


def start_hub(folder: pathlib.Path, environment: dict):
    """What leads there is added to the environment, where there is a client."""
    packages = f"{ROOT}/.cache/huggingface_hub"
    python = os.environ.get("HYDRAC_PYTHON", "python3")
    if bash(f"PYTHONPATH={packages} {python} -c 'import huggingface_hub'", ROOT, {})[0] != 0:
        print(f"NOT RUN: commands of stories.yaml, because {python} has no huggingface_hub; ./dev setup gets it")
        NOT_RUN[WITH_HUB] = "needs huggingface_hub"
        return
    for name, text in HUB.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    server = subprocess.Popen([sys.executable, ROOT / "tests/e2e/data/hub_server.py", folder], stdout=subprocess.PIPE, text=True)
    atexit.register(server.kill)
    environment |= {"HF_ENDPOINT": server.stdout.readline().strip(), "HF_HOME": f"{folder}/home", "PYTHONPATH": packages}


def read_pages() -> tuple:
    """[[(place, command, planned memory or ""), ...], ...], one list a block; and {words: place} of mentions."""
    groups, mentions, last = [], {}, None
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        page, fence = str(path.relative_to(ROOT)), None
        for number, line in enumerate(path.read_text().splitlines() if page != FIRST_HOUR else [], 1):
            where = f"{page}:{number}"
            if line.startswith("```"):
                fence = line[3:] if fence is None else None
            elif shown := re.match(r" {4}(?:\$ )?((?:hydrac|\./dev) .*)" if fence is None else r"(?:\$ )?((?:hydrac|\./dev) .*)", line):
                command = re.split(r"\s{2,}|\s+#|, ", shown[1])[0]
                if fence not in (None, "sh") and not line.startswith("$"):
                    continue
                if last == (page, number - 1):
                    groups[-1].append((where, command, ""))
                else:
                    groups.append([(where, command, "")])
                last = page, number
            elif fence is None:
                planned = re.search(r"\| ([0-9.]+ GiB) \|$", line)
                for quoted in re.findall(r"`((?:hydrac|\./dev) [^`]*)`", line):
                    if re.search(r"[A-Z./=]|gpu-test -", quoted.partition(" ")[2]):
                        groups.append([(where, quoted, planned[1] if planned else "")])
                    else:
                        mentions.setdefault(quoted, where)
    return groups, mentions


def as_run(command: str, page: str) -> str:
    command = re.sub(r" \.\.\.| \[(REGEX|key=value[^]]*|SECONDS|--seed N)\]", "", command)
    if page == "docs/objectives.md":
        command = command.replace("spec.yaml", "objective.yaml")
    for pattern, replacement in INSTEAD.items():
        command = re.sub(pattern, replacement, command)
    return command


def run_groups(groups: list, place: pathlib.Path, environment: dict, wanted: str):
    """Each group in a copy of the place, and no group twice."""
    seen, used, page = set(), set(), None
    for group in [group for group in groups if re.search(wanted, group[0][0])]:
        if page != (page := group[0][0].partition(":")[0]):
            print(page, flush=True)
        copy = place.with_name("copy")
        subprocess.run(["rm", "-rf", copy], check=True)
        subprocess.run(["cp", "-a", place, copy], check=True)
        key = tuple(command for _, command, _ in group)
        for where, command, planned in [] if key in seen else group:
            not_run = next((pattern for pattern in NOT_RUN if re.fullmatch(pattern, command)), None)
            used |= {not_run, command}
            if not_run:
                continue
            script = as_run(command, where.partition(":")[0])
            code, printed = bash(f"{BEFORE.get(command, '')}\n{script}", copy, environment)
            kind = MISTAKES.get(command)
            lacks = [text for text in (f"[{kind}]" if kind else "", planned) if text not in printed]
            warned = script.startswith("hydrac check specs/") and "warning" in printed
            if code != (2 if kind else 0) or lacks or warned:
                fail(where, f"{script}: exit code {code}{', without ' + lacks[0] if lacks else ''}\n{printed}")
        seen.add(key)
    for gone in [] if wanted else [*NOT_RUN.keys() - used, *BEFORE.keys() - used, *MISTAKES.keys() - used]:
        fail("tests/repository/commands.py", f"no page has {gone} any more")


def look_up(mentions: dict, environment: dict):
    """Verbs exist, and have the options that are named with them."""
    for words, where in mentions.items():
        program, *rest = words.split()
        verb = " ".join(rest[: 2 if rest[0] == "data" else 1])
        code, printed = bash(f"hydrac {verb} --help" if program == "hydrac" else f"{ROOT}/dev help | grep '^  {verb} '", ROOT, environment)
        missing = [word for word in rest if program == "hydrac" and word.startswith("-") and word not in printed]
        if code != 0 or missing:
            fail(where, f"`{words}`: there is no such verb, or no option {' '.join(missing)}")


def not_printed(shown: str, printed: str):
    """The first line of `shown` that `printed` does not have after the lines before it, but for numbers."""

    def plain(line: str) -> str:
        return re.sub(r"[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?([kMGT]| [KMG]iB)?", "#", line)

    lines = iter([plain(line) for line in printed.splitlines()])
    return next((line for line in shown.splitlines() if line != "..." and plain(line) not in lines), None)


# With job control, for without it what runs in the background ignores Ctrl-C.
INTERRUPT = """set -m
mkfifo printed
COMMAND >printed 2>&1 &
run=$! code=0
while IFS= read -r line; do
  printf '%s\\n' "$line"
  if [[ $line == 'step '* && -n $run ]]; then kill -INT $run; run=; fi
done <printed
wait $! || code=$?
rm printed
[[ $code == 4 ]]
"""


def run_first_hour(place: pathlib.Path, environment: dict):
    """Its 700 steps of quickstart are 20."""
    (place / "bin").mkdir()
    (place / "work").mkdir()
    script = f'#!/bin/sh\ncase $1 in quickstart) exec {HYDRAC} "$@" train.max_steps=20 ;; *) exec {HYDRAC} "$@" ;; esac\n'
    (place / "bin/hydrac").write_text(script)
    (place / "bin/hydrac").chmod(0o755)
    environment = environment | {"PATH": f"{place}/bin:{os.environ['PATH']}", "CCACHE_BASEDIR": str(place / "work"), "CCACHE_NOHASHDIR": "1"}
    has_transformers = bash("python3 -c 'import torch, transformers'", place, environment)[0] == 0
    printed = ""
    for block in re.finditer(r"^```(\w.*)\n((?:.*\n)*?)```$", (ROOT / FIRST_HOUR).read_text(), re.M):
        kind, text = block.groups()
        where = f"{FIRST_HOUR}:{block.string.count(chr(10), 0, block.start()) + 1}"
        scripts = {"sh": text, "sh interrupt": INTERRUPT.replace("COMMAND", text.rstrip())}
        if has_transformers:
            scripts["python transformers"] = f"python3 - <<'END'\n{text}END\n"
        if kind in scripts:
            code, printed = bash(scripts[kind], place / "work", environment)
            if code != 0:
                return fail(where, f"{text}exit code {code}\n{printed}")
        elif kind == "text":
            missing = not_printed(text, printed)
            if missing is not None:
                fail(where, f"was not printed: {missing}\nbut:\n{printed}")
        elif kind not in ("sh install", "text varies", "python transformers"):
            fail(where, f'no block is "{kind}"')


def main(wanted: str = "") -> int:
    """`wanted`: of "page:line", a regular expression for those that are run; without it all of them."""
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        place = top / "place"
        for name in ("place/models", "bin"):
            (top / name).mkdir(parents=True)
        (top / "bin/hydrac").symlink_to(HYDRAC)
        environment = {"PATH": f"{top}/bin:{os.environ['PATH']}", "HYDRAC_CACHE": f"{top}/cache"}
        for name, text in FILES.items():
            (place / name).write_text(text)
        (place / "reward.py").chmod(0o755)
        for name, target in LINKS.items():
            (place / name).symlink_to(target)
        code, printed = bash(MAKE_RUNS, place, environment)
        if code != 0:
            sys.exit(f"{MAKE_RUNS}: exit code {code}\n{printed}")
        start_hub(top / "hub", environment)
        groups, mentions = read_pages()
        run_groups(groups, place, environment, wanted)
        look_up(mentions, environment)
        if re.search(wanted, FIRST_HOUR):
            (top / "first-hour").mkdir()
            run_first_hour(top / "first-hour", environment)
    took = os.times()
    print(f"{took.children_user + took.children_system:.0f} s of CPU time")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
