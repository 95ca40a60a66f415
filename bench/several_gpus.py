"""What `./dev gpu-test --ranks N` does: data-parallel ranks on the GPUs of one machine. That they train alike, to the bit
where that is promised, and end as one."""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from trained import GPT2, HYDRA, LLAMA, SMALL, Place, difference, losses_apart, metrics, place_in

DROPOUT = "model.dropout=0.1 model.attention_dropout=0.1"
# (name, spec and overrides, whether its bits must be those of one GPU with exact_accumulation).
CASES = [
    ("fp32", f"{GPT2} {SMALL} optimizations.precision=fp32", True),
    ("fp32, dropout", f"{GPT2} {SMALL} optimizations.precision=fp32 {DROPOUT}", True),
    ("bf16", f"{LLAMA} {SMALL}", True),
    ("bf16, two micro-batches each", f"{HYDRA} {SMALL} train.gradient_accumulation_steps=2", False),
    ("fp16, dropout", f"{GPT2} {SMALL} optimizations.precision=fp16 {DROPOUT}", True),
    ("bf16 state", f"{LLAMA} {SMALL} optimizations.weights=bf16 optimizations.optimizer_state=bf16", False),
    ("fp8", f"{LLAMA} {SMALL} optimizations.precision=fp8 optimizations.fp8_matmuls=all", False),
    ("muon, frozen layer", f"{GPT2} {SMALL} train.optimizer.name=muon 'train.freeze=[transformer.h.0.*]'", True),
    ("lora", f"{LLAMA} {SMALL} adapter.type=lora", True),
    ("without graphs, one stream", f"{LLAMA} {SMALL} optimizations.cuda_graph=false optimizations.streams=1", False),
    ("fp32 by NCCL, with biases and positions", f"{GPT2} {SMALL} optimizations.precision=fp32 parallel.exchange=nccl", True),
]

# What parallel.zero must not change, to the bit; 2 only where a step is one micro-batch a rank, because it sums each one over
# ranks. On a GPU a shared gradient norm is added up in another order, so these do not clip; "clipped" does, and its losses agree.
ZERO_LEVELS = (1, 2)
ZERO_CASES = [
    ("fp32", f"{GPT2} {SMALL} optimizations.precision=fp32 train.max_grad_norm=0", True),
    ("bf16, dropout, two micro-batches each", f"{LLAMA} {SMALL} {DROPOUT} train.gradient_accumulation_steps=2 train.max_grad_norm=0", True),
    ("fp16", f"{GPT2} {SMALL} optimizations.precision=fp16 train.max_grad_norm=0", True),
    ("bf16, a micro-batch each, head in parts, recomputed", f"{LLAMA} {SMALL} {DROPOUT} train.gradient_accumulation_steps=1 optimizations.loss=fused_linear optimizations.recompute=block train.max_grad_norm=0", True),
    ("bf16 weights, state and gradients", f"{LLAMA} {SMALL} optimizations.weights=bf16 optimizations.optimizer_state=bf16 optimizations.gradients=compute train.max_grad_norm=0", True),
    ("int8 state in the host's memory, lion", f"{LLAMA} {SMALL} train.optimizer.name=lion optimizations.optimizer_state=int8 optimizations.offload.optimizer_state=true train.max_grad_norm=0", True),
    ("fp8", f"{LLAMA} {SMALL} optimizations.precision=fp8 optimizations.fp8_matmuls=all train.max_grad_norm=0", True),
    ("lora, without graphs", f"{LLAMA} {SMALL} adapter.type=lora optimizations.cuda_graph=false train.max_grad_norm=0", True),
    # Fewer matrices in a batch may be multiplied by another kernel.
    ("muon", f"{LLAMA} {SMALL} train.optimizer.name=muon train.max_grad_norm=0", False),
    ("muon, int8 state, a micro-batch each, frozen layer", f"{GPT2} {SMALL} train.optimizer.name=muon optimizations.optimizer_state=int8 train.gradient_accumulation_steps=1 'train.freeze=[transformer.h.0.*]'", False),
    ("clipped", f"{LLAMA} {SMALL} train.max_grad_norm=0.1", False),
]

# Likewise of 3, beside 0 and 2. Matmuls of weights that layers gather are the library's where others of ours read weights before
# the kernel in front of them has ended (fused_matmuls: none: everywhere), which may add up in another order.
ZERO3_LEVELS = (2, 3)
ZERO3_CASES = [
    ("fp32, dropout", f"{GPT2} {SMALL} {DROPOUT} optimizations.precision=fp32 train.max_grad_norm=0", True),
    ("bf16", f"{LLAMA} {SMALL} train.gradient_accumulation_steps=1 optimizations.fused_matmuls=none train.max_grad_norm=0", True),
    ("bf16, two micro-batches each", f"{HYDRA} {SMALL} train.gradient_accumulation_steps=2 optimizations.fused_matmuls=none train.max_grad_norm=0", True),
    ("fp16, recomputed, head in parts", f"{GPT2} {SMALL} optimizations.precision=fp16 optimizations.recompute=block optimizations.loss=fused_linear optimizations.fused_matmuls=none train.max_grad_norm=0", True),
    ("bf16 weights, state and gradients", f"{LLAMA} {SMALL} optimizations.weights=bf16 optimizations.optimizer_state=bf16 optimizations.gradients=compute optimizations.fused_matmuls=none train.max_grad_norm=0", True),
    ("frozen layer, offloaded", f"{GPT2} {SMALL} 'train.freeze=[transformer.h.0.*]' optimizations.offload.optimizer_state=true optimizations.offload.activations=true optimizations.fused_matmuls=none train.max_grad_norm=0", True),
    ("lora, a micro-batch each", f"{LLAMA} {SMALL} adapter.type=lora train.gradient_accumulation_steps=1 optimizations.fused_matmuls=none train.max_grad_norm=0", True),
    ("without graphs, one stream", f"{LLAMA} {SMALL} optimizations.cuda_graph=false optimizations.streams=1 optimizations.fused_matmuls=none train.max_grad_norm=0", True),
    ("muon", f"{LLAMA} {SMALL} train.optimizer.name=muon optimizations.fused_matmuls=none train.max_grad_norm=0", False),
    ("our matmuls, clipped", f"{LLAMA} {SMALL} train.max_grad_norm=0.1", False),
]


# Ranks that share layers: losses are those of one GPU but for the order of sums, bits those of every run.
TENSOR_CASES = [
    ("fp32", f"{GPT2} {SMALL} optimizations.precision=fp32 model.dropout=0.1"),
    ("bf16", f"{LLAMA} {SMALL}"),
    ("fp16, query and key norms, two micro-batches", f"{HYDRA} {SMALL} optimizations.precision=fp16 train.gradient_accumulation_steps=2"),
    ("bf16 gradients, lion, recomputed", f"{LLAMA} {SMALL} optimizations.gradients=compute train.optimizer.name=lion optimizations.recompute=block"),
    ("lora", f"{LLAMA} {SMALL} adapter.type=lora"),
    ("without graphs, one stream", f"{LLAMA} {SMALL} optimizations.cuda_graph=false optimizations.streams=1"),
    ("bf16, recomputed norms, dropout of the stream", f"{LLAMA} {SMALL} optimizations.recompute=[norm] model.dropout=0.1"),
    ("layernorm, biases, 16-bit residual stream", f"{GPT2} {SMALL} optimizations.residual=compute model.dropout=0.1"),
    ("bf16 weights and state", f"{LLAMA} {SMALL} optimizations.weights=bf16 optimizations.optimizer_state=bf16"),
]
# On four GPUs, by two groups of two.
TENSOR_GROUP_CASES = [
    ("groups, fp32", f"{GPT2} {SMALL} optimizations.precision=fp32 train.max_grad_norm=0.1"),
    ("groups that share the update, fp32", f"{GPT2} {SMALL} optimizations.precision=fp32 train.max_grad_norm=0.1 parallel.zero=1"),
    ("groups that share the update, bf16", f"{LLAMA} {SMALL} parallel.zero=1"),
    ("groups that share the update, fp16, two micro-batches", f"{HYDRA} {SMALL} optimizations.precision=fp16 train.gradient_accumulation_steps=2 parallel.zero=1"),
    ("groups that share the update, bf16 weights and state", f"{LLAMA} {SMALL} optimizations.weights=bf16 optimizations.optimizer_state=bf16 parallel.zero=1"),
]


def tensor_cases(ranks: int) -> list:
    """(name, spec, how many groups share micro-batches), of ranks that share layers."""
    groups = TENSOR_GROUP_CASES if ranks == 4 else []
    return [(*case, 1) for case in TENSOR_CASES] + [(*case, 2) for case in groups]


def check_tensor(runner, report, place: Place, ranks: int, number: int, case: tuple):
    name, spec, groups = case[0], f"{case[1]} optimizations.loss=materialized", case[2]  # no head in parts
    one, two, again = f"tensor-{number}-one", f"tensor-{number}-ranks", f"tensor-{number}-again"
    each = int(re.findall(r"accumulation_steps=(\d+)", spec)[-1])  # the last one wins
    several = [f"parallel.tensor={ranks // groups}", f"parallel.data={groups}"]
    commands = {
        one: place.words(spec, one, f"train.gradient_accumulation_steps={each * groups}"),
        two: place.words(spec, two, *several),
        again: place.words(spec, again, *several, "train.max_steps=3"),
        "resumed": place.words(spec, again, *several, "--resume"),
    }
    what, outcome = f"tensor: {name}", None
    for run, command in commands.items():
        outcome = runner.run(f"tensor {number} {run}", [*command, "-q"])
        if outcome.problem or runner.dry:
            return report.note(f"{what}, {run}", outcome)
    if problem := difference(place.folder / two / "checkpoint-6", place.folder / again / "checkpoint-6"):
        outcome.problem = f"a run that was resumed ends elsewhere: {problem}"
    apart = losses_apart(place.folder / one, place.folder / two)
    if apart > (2e-5 if "fp32" in spec else 5e-3):
        outcome.problem = outcome.problem or f"the losses are {apart:.1e} from one GPU's"
    memory = [metrics(place.folder / run)[-1]["memory_gib"] for run in (one, two)]
    report.note(what, outcome, f"losses {apart:.1e} from one GPU's; {memory[0]:.3f} GiB, a rank {memory[1]:.3f}")


def adds_in_order(spec: str, ranks: int) -> bool:
    """Whether sums are those of one GPU that adds up: of two ranks, and by copies. NCCL, which is used beside offload too, adds up more in an
    order of its own."""
    return ranks == 2 or ("offload" not in spec and "exchange=nccl" not in spec)


def among(ranks: int, spec: str) -> list:
    """The overrides of a run on so many GPUs, which add up in order wherever they can."""
    return [f"parallel.data={ranks}", *(["parallel.exchange=copies"] if ranks > 2 and adds_in_order(spec, ranks) else [])]


def check_zero(runner, report, place: Place, ranks: int, family: str, levels: tuple, number: int, case: tuple):
    """Each level from the start, and from a checkpoint of the level before it; beside 0. Where sums are in
    NCCL's order, which is another one for each way of dividing them, a level has its own bits alone."""
    name, spec, exact = case
    each = int(re.findall(r"accumulation_steps=(\d+)", spec)[-1])  # the last one wins
    several = among(ranks, spec)
    runs = {level: f"{family}-{number}-{level}" for level in (0, *levels)}
    commands = {run: place.words(spec, run, *several, f"parallel.zero={level}") for level, run in runs.items()}
    for level in levels:
        begun = level - 1 if each == 1 and adds_in_order(spec, ranks) else level  # sums of two micro-batches are others: a resume would say so
        mixed = f"{family}-{number}-{level}-mixed"
        commands[mixed] = place.words(spec, mixed, *several, f"parallel.zero={begun}", "train.max_steps=3")
        commands[f"{mixed}, resumed"] = place.words(spec, mixed, *several, f"parallel.zero={level}", "--resume")
    what, outcome = f"{family}: {name}", None
    for run, command in commands.items():
        outcome = runner.run(f"{family} {number} {run}", [*command, "-q"])
        if outcome.problem or runner.dry:
            return report.note(f"{what}, {run}", outcome)
    last = {level: place.folder / run / "checkpoint-6" for level, run in runs.items()}
    details = []
    for level in levels:
        same = difference(last[0], last[level])
        resumed = difference(last[level], place.folder / f"{family}-{number}-{level}-mixed" / "checkpoint-6")
        apart = losses_apart(place.folder / runs[0], place.folder / runs[level])
        alike = 0 if level == 1 or each == 1 else 2  # which sums each micro-batch by itself too
        other = difference(last[alike], last[level]) if exact and adds_in_order(spec, ranks) and level != alike else None
        if other:
            outcome.problem = outcome.problem or f"not the bits of zero: {alike} with {level}: {other}"
        elif exact and resumed:
            outcome.problem = outcome.problem or f"other bits with zero: {level} when it goes on from a checkpoint: {resumed}"
        elif apart > 5e-3:
            outcome.problem = outcome.problem or f"the losses of zero: {level} are {apart:.1e} from those of 0"
        details.append(f"{level}: losses {apart:.1e} apart, {'other' if same else 'the same'} bits")
    memory = ", ".join(f"{metrics(place.folder / run)[-1]['memory_gib']:.3f}" for run in runs.values())
    report.note(what, outcome, f"{'; '.join(details)}; GiB by level {memory}")


def check_case(runner, report, place: Place, ranks: int, number: int, case: tuple):
    name, spec, exact = case
    each = int(re.findall(r"accumulation_steps=(\d+)", spec)[-1])  # the last one wins
    one, two, again = f"{number}-one", f"{number}-ranks", f"{number}-again"
    several = [*among(ranks, spec), f"train.gradient_accumulation_steps={each}"]
    commands = {
        one: place.words(spec, one, f"train.gradient_accumulation_steps={each * ranks}", "optimizations.exact_accumulation=true"),
        two: place.words(spec, two, *several),
        again: place.words(spec, again, *several, "train.max_steps=3"),
        "resumed": place.words(spec, again, *several, "--resume"),
    }
    what, detail, outcome = f"ranks: {name}", "", None
    for run, command in commands.items():
        outcome = runner.run(f"ranks {number} {run}", [*command, "-q"])
        if outcome.problem or runner.dry:
            return report.note(f"{what}, {run}", outcome)
    last = place.folder / two / "checkpoint-6"
    if problem := difference(last, place.folder / again / "checkpoint-6"):
        outcome.problem = f"a run that was resumed ends elsewhere: {problem}"
    apart = losses_apart(place.folder / one, place.folder / two)
    same = difference(last, place.folder / one / "checkpoint-6")
    detail = f"losses {apart:.1e} from one GPU's, " + ("the same bits" if not same else "other bits")
    if exact and same and adds_in_order(spec, ranks):
        outcome.problem = outcome.problem or f"not the bits of one GPU that accumulates: {same}"
    if apart > (2e-5 if "fp32" in spec else 5e-3):
        outcome.problem = outcome.problem or f"the losses are {apart:.1e} from one GPU's"
    report.note(what, outcome, detail)


def check_ends(runner, report, place: Place, ranks: int):
    """A signal to one rank stops all after a step; a rank that is killed ends all within seconds."""
    spec = f"{LLAMA} {SMALL}"
    for kind, code in ((signal.SIGTERM, 4), (signal.SIGKILL, 3)):
        run = place.folder / f"ends-{kind.name}"
        words = place.words(spec, run.name, f"parallel.data={ranks}", "train.max_steps=100000000", "train.eval_steps=0", "train.save_steps=200")
        if runner.dry:
            print(shlex.join(map(str, words)))
            continue
        outcome = runner.run(f"ranks {kind.name}", [sys.executable, __file__, kind.name, str(run), *map(str, words)], limit=90)
        said = runner.log_of(f"ranks {kind.name}")
        told = json.loads(said[-1]) if said and said[-1].startswith("{") else {}
        if not outcome.problem and told.get("code") != code:
            outcome.problem = f"exit code {told.get('code')}, not {code}: {told.get('said')}"
        report.note(f"ranks: {kind.name} to rank 1", outcome, f"ended after {told.get('seconds', 0):.1f} s: {told.get('said', '')}")


def end_a_rank(kind: str, run: str, words: list) -> int:
    """In a process of its own: starts a run, sends its rank 1 a signal once it trains, and tells how all ended."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    log = pathlib.Path(run) / "rank-1.log"
    for _ in range(600):
        time.sleep(0.1)
        if process.poll() is not None or (log.exists() and "step 100" in log.read_text(errors="replace")):
            break
    began = time.monotonic()
    if process.poll() is None:
        rank = int(re.search(r"process (\d+)", log.read_text(errors="replace"))[1])
        os.kill(rank, getattr(signal, kind))
    _, said = process.communicate(timeout=60)
    checkpoints = sorted(path.name for path in pathlib.Path(run).glob("checkpoint-*"))
    print(json.dumps({"code": process.returncode, "seconds": time.monotonic() - began, "said": " / ".join(said.split("\n"))[-300:], "checkpoints": checkpoints[-1:]}))
    return 0


def check_launchers(runner, report, place: Place, ranks: int):
    spec = f"{LLAMA} {SMALL}"
    own = runner.run("ranks own start", [*place.words(spec, "own-start", f"parallel.data={ranks}", "-q")])
    if own.problem:
        return report.note("ranks: hydrac's own start", own)
    launchers = {
        "torchrun": [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "--no-python"],
        "mpirun": ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks)],
    }
    for launcher, start in launchers.items():
        if launcher == "mpirun" and subprocess.run(["which", "mpirun"], capture_output=True).returncode:
            continue
        outcome = runner.run(f"ranks {launcher}", [*start, *place.words(spec, launcher, f"parallel.data={ranks}", "-q")])
        if not outcome.problem and not runner.dry:
            if problem := difference(place.folder / launcher / "checkpoint-6", place.folder / "own-start" / "checkpoint-6"):
                outcome.problem = f"not what hydrac's own start gives: {problem}"
        report.note(f"ranks: started by {launcher}", outcome)


def check_hosts(runner, report, place: Place, ranks: int):
    """Two torchruns on this machine, as on two: each has half of the GPUs and a loopback address of its own."""
    spec = f"{LLAMA} {SMALL} parallel.data={ranks}"
    outcome = runner.run("ranks one host", [*place.words(f"{spec} parallel.exchange=nccl", "one-host"), "-q"])  # as several hosts do
    if not outcome.problem:
        outcome = runner.run("ranks two hosts", [sys.executable, __file__, "hosts", str(ranks), *place.words(spec, "two-hosts"), "-q"])
    if not outcome.problem and not runner.dry:
        if problem := difference(place.folder / "two-hosts" / "checkpoint-6", place.folder / "one-host" / "checkpoint-6"):
            outcome.problem = f"not what one host gives: {problem}"
    report.note("ranks: two torchruns, as on two hosts", outcome)


def start_hosts(ranks: int, words: list) -> int:
    """In a process of its own: the command of each of two hosts."""
    each = ranks // 2
    hosts = []
    for host in range(2):
        gpus = ",".join(str(host * each + gpu) for gpu in range(each))
        start = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(host), "--master-addr", "127.0.0.1", "--master-port", "29731",
                 "--nproc-per-node", str(each), "--no-python"]  # fmt: skip
        hosts.append(subprocess.Popen([*start, *words], env={**os.environ, "CUDA_VISIBLE_DEVICES": gpus, "HYDRAC_ADDRESS": f"127.0.0.{host + 1}"}))
    return max(host.wait() for host in hosts)


def check_built(runner, report, place: Place, ranks: int):
    keys = {f"zero-{level}": f"parallel.data={ranks} parallel.zero={level}" for level in (0, 2, 3)}
    keys["tensor"] = f"parallel.tensor={ranks} optimizations.loss=materialized"
    if ranks == 4:
        keys["groups"] = "parallel.tensor=2 parallel.data=2 parallel.zero=1 optimizations.loss=materialized"
    for level, overrides in keys.items():
        spec = f"{LLAMA} {SMALL} {overrides}"
        folder, jit, built = place.folder / f"program-{level}", f"jit-{level}", place.folder / f"built-{level}"
        outcome = runner.run(f"ranks jit {level}", [*place.words(spec, jit), "-q"])
        if not outcome.problem:
            outcome = runner.run(f"ranks build {level}", [place.hydrac, "build", *shlex.split(spec), f"data.path={place.tokens}", "-o", folder, "-q"])
        if not outcome.problem:
            outcome = runner.run(f"ranks built {level}", [folder / "build/train", "--quiet", "--output", built])
        if not outcome.problem and not runner.dry:
            if problem := difference(built / "checkpoint-6", place.folder / jit / "checkpoint-6"):
                outcome.problem = f"not what hydrac itself trains: {problem}"
        report.note(f"ranks: a program that is built ahead of time, {level}", outcome)


def run_ranks(runner, report, args, hydrac):
    ranks = args.ranks
    with tempfile.TemporaryDirectory() as folder:
        place = place_in(folder, hydrac, runner.dry)
        for number, case in enumerate(CASES):
            if re.search(args.only, case[0]):
                check_case(runner, report, place, ranks, number, case)
        for family, levels, cases in (("zero", ZERO_LEVELS, ZERO_CASES), ("zero3", ZERO3_LEVELS, ZERO3_CASES)):
            for number, case in enumerate(cases):
                if re.search(args.only, f"{family} {case[0]}"):
                    check_zero(runner, report, place, ranks, family, levels, number, case)
        for number, case in enumerate(tensor_cases(ranks)):
            if re.search(args.only, f"tensor {case[0]}"):
                check_tensor(runner, report, place, ranks, number, case)
        for name, check in (("ends", check_ends), ("launchers", check_launchers), ("hosts", check_hosts), ("built", check_built)):
            if re.search(args.only, name):
                check(runner, report, place, ranks)


if __name__ == "__main__":
    if sys.argv[1] == "hosts":
        sys.exit(start_hosts(int(sys.argv[2]), sys.argv[3:]))
    sys.exit(end_a_rank(sys.argv[1], sys.argv[2], sys.argv[3:]))
