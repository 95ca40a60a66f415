"""What `./dev gpu-test --equal` does: options that must not change a result, trained with and without, bit for bit."""

import re
import tempfile

from trained import GPT2, HYDRA, LLAMA, SMALL, difference, place_in

OFFLOAD = "optimizations.offload.optimizer_state=true"
# (name, spec and overrides, what must not change its bits)
CASES = [
    ("moments on the host", f"{LLAMA} {SMALL}", OFFLOAD),
    ("half of the moments on the host", f"{LLAMA} {SMALL}", "optimizations.offload.optimizer_state=0.5"),
    ("moments on the host, int8, accumulation", f"{GPT2} {SMALL} optimizations.optimizer_state=int8 train.gradient_accumulation_steps=2", OFFLOAD),
    ("moments on the host, muon, fp16", f"{HYDRA} {SMALL} optimizations.precision=fp16 train.optimizer.name=muon", OFFLOAD),
    ("moments on the host, all state in bf16", f"{LLAMA} {SMALL} optimizations.weights=bf16 optimizations.optimizer_state=bf16", OFFLOAD),
    ("weights of two layers on the host", f"{LLAMA} {SMALL} optimizations.fused_matmuls=none", "optimizations.offload.weights=2"),
    ("weights on the host, accumulation, fp16", f"{GPT2} {SMALL} optimizations.precision=fp16 optimizations.fused_matmuls=none model.dropout=0.1 train.gradient_accumulation_steps=2 'train.freeze=[transformer.h.0.*]'", "optimizations.offload.weights=3"),
    ("weights on the host, no graph, one stream", f"{HYDRA} {SMALL} optimizations.fused_matmuls=none optimizations.cuda_graph=false optimizations.streams=1 optimizations.recompute=block", "optimizations.offload.weights=3"),
    ("all of lora's base on the host", f"{LLAMA} {SMALL} optimizations.fused_matmuls=none adapter.type=lora", "optimizations.offload.weights=3"),
    ("everything recomputed", f"{HYDRA} {SMALL} optimizations.fused_matmuls=none", "optimizations.recompute=block"),
    ("block recomputed in two layers, dropout", f"{GPT2} {SMALL} optimizations.fused_matmuls=none model.dropout=0.1 train.gradient_accumulation_steps=2 optimizations.recompute_layers=2", "optimizations.recompute=block"),
    ("norm and act recomputed in a layer", f"{LLAMA} {SMALL} optimizations.fused_matmuls=none optimizations.recompute_layers=1", "optimizations.recompute=[norm, act]"),
    ("no graph", f"{GPT2} {SMALL} model.dropout=0.1", "optimizations.cuda_graph=false"),
]


def run_equal(runner, report, args, hydrac):
    with tempfile.TemporaryDirectory() as folder:
        place = place_in(folder, hydrac, runner.dry)
        environment = {"HYDRAC_CACHE": f"{folder}/cache"}
        for number, (name, spec, change) in enumerate(CASES):
            if not re.search(args.only, name):
                continue
            for run, more in (("with", [change]), ("without", [])):
                outcome = runner.run(f"equal {number} {run}", [*place.words(spec, f"{number}-{run}", *more), "-q"], environment=environment)
                if outcome.problem:
                    break
            if not outcome.problem and not runner.dry:
                ends = [place.folder / f"{number}-{run}" / "checkpoint-6" for run in ("with", "without")]
                outcome.problem = difference(*ends)
            report.note(f"the same bits: {name}", outcome)
