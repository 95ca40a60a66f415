"""Peers of `./dev gpu-test --bench --peers` know what to do with each key of a spec. Needs neither torch nor a GPU."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEER = ROOT / "bench/peers/pytorch_peer.py"
sys.path.insert(0, str(PEER.parent))

import workloads

# Specs of bench/specs that have no peer, and the key that is why.
WITHOUT_PEER = {
    "documents-16k": "data.document_mask",
    "llama-1b-lora": "adapter.type",
    "llama-8b": "train.gradient_accumulation_steps",
    "llama-8b-lora": "adapter.type",
    "llama-8b-qlora": "adapter.type",
    "window-16k": "model.sliding_window",
}


def resolved(spec: pathlib.Path) -> str:
    return subprocess.run([os.environ["HYDRAC_PROGRAM"], "check", spec, "--json"], cwd=ROOT, text=True, stdout=subprocess.PIPE).stdout


def dry_run(name: str, config: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, PEER, name, "--config", config, "--dry-run"], text=True, capture_output=True)


class Peers(unittest.TestCase):
    def test_every_spec_has_a_peer_or_a_key_that_says_why_not(self):
        refused = {}
        for spec in sorted((ROOT / "bench/specs").glob("*.yaml")):
            peer = dry_run(spec.stem, resolved(spec))
            if peer.returncode:
                refused[spec.stem] = peer.stderr.partition("no peer is written for ")[2].partition(":")[0] or peer.stderr
        self.assertEqual(refused, WITHOUT_PEER)

    def test_a_key_that_no_peer_knows_may_have_its_default(self):
        spec = json.loads(resolved(ROOT / "bench/specs/gpt2-124m.yaml"))
        known = workloads.read_spec(json.dumps(spec))
        workloads.READ.remove("model.qk_norm")
        self.addCleanup(workloads.READ.add, "model.qk_norm")
        self.assertEqual(workloads.read_spec(json.dumps(spec)), known)
        spec["spec"]["model"]["qk_norm"] = True
        with self.assertRaisesRegex(ValueError, "no peer is written for model.qk_norm: true; it must be false"):
            workloads.read_spec(json.dumps(spec))

    def test_keys_without_a_default_are_read_free_or_needed(self):
        schema = workloads.schema_keys()
        decided = workloads.READ | workloads.NEEDED.keys()
        undecided = {key for key, about in schema.items() if "default" not in about and key not in decided and not workloads.is_free(key)}
        self.assertEqual(undecided, set())

    def test_no_key_is_named_that_there_is_not(self):
        schema = workloads.schema_keys()
        named = workloads.READ | workloads.NEEDED.keys() | set(workloads.FREE)
        gone = {name for name in named if not any(key == name or key.startswith(name + ".") for key in schema)}
        self.assertEqual(gone, set())


if __name__ == "__main__":
    unittest.main()
