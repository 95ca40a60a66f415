"""Chat templates in the style of published models: hydrac's ids of conversations are those of transformers' apply_chat_template,
and what is learned is what {% generation %} blocks hold, or what tests/unit/data/chat_templates/expected.json says.

usage: chat_templates.py HYDRAC FOLDER TOKENIZER [--write]

FOLDER is where data goes, TOKENIZER a tokenizer.json of byte-level BPE. --write makes expected.json anew, to be reviewed: it is what
tests check where transformers is not. Exit 1 where something differs, 77 where Python's packages are missing.
"""
import datetime
import json
import pathlib
import subprocess
import sys

try:
    import transformers
    import transformers.utils.chat_template_utils as chat_template_utils
except ImportError as missing:
    print(f"skipped: Python's package {missing.name} is missing: pip install transformers")
    sys.exit(77)

TEMPLATES = pathlib.Path(__file__).parent.parent / "unit/data/chat_templates"


class Today(datetime.datetime):
    @classmethod
    def now(cls):
        return cls(2024, 7, 26)


def with_tokens(tokenizer_json, tokens):
    root = json.loads(pathlib.Path(tokenizer_json).read_text())
    known = {token["content"] for token in root["added_tokens"]}
    free = 1 + max([*root["model"]["vocab"].values(), *(token["id"] for token in root["added_tokens"])])
    for token in dict.fromkeys(tokens):
        if token not in known:
            root["added_tokens"].append({"id": free, "content": token, "special": True, "normalized": False, "lstrip": False,
                                         "rstrip": False, "single_word": False})
            free += 1
    return root


# A pair of ids and which of them are learned of each conversation, without what stands behind the last reply.
def shown(hydrac, folder, name, train_on):
    spec = {"name": "chat", "target": "cpu", "model": {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4},
            "data": {"path": f"{name}/{train_on}.jsonl", "format": "chat", "val_fraction": 0, "shuffle": False, "train_on": train_on,
                     "tokenizer": f"{name}/tokenizer.json"},
            "train": {"sequence_len": 8192, "micro_batch_size": 1, "max_steps": 1}}
    (folder / "chat.yaml").write_text(json.dumps(spec))
    done = subprocess.run([hydrac, "data", "show", "-q", "--tokens", "chat.yaml"], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{name}: hydrac data show: exit {done.returncode}\n{done.stdout}{done.stderr}")
    items = [([], [])]
    for line in done.stdout.splitlines()[1:]:
        if line.startswith("--- document"):
            if items[-1][0]:
                items.append(([], []))
            continue
        place, token, weight = line.split()[:3]
        items[-1][0].append(int(token))
        items[-1][1].append(int(weight))
    return items


def main():
    hydrac, folder, tokenizer_json = sys.argv[1:4]
    folder = pathlib.Path(folder)
    transformers.utils.logging.set_verbosity_error()
    chat_template_utils.datetime = Today
    cases = json.loads((TEMPLATES / "cases.json").read_text())
    golden = TEMPLATES / "expected.json"
    expected = {} if "--write" in sys.argv else json.loads(golden.read_text())
    failed = compared = 0
    for name, case in cases["templates"].items():
        source = (TEMPLATES / f"{name}.jinja").read_text()
        (folder / name).mkdir(exist_ok=True)
        tokens = [case["bos"], case["eos"], *case["tokens"]]
        (folder / name / "tokenizer.json").write_text(json.dumps(with_tokens(tokenizer_json, tokens)))
        (folder / name / "tokenizer_config.json").write_text(json.dumps({"bos_token": case["bos"], "eos_token": case["eos"]}))
        (folder / name / "chat_template.jinja").write_text(source)
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / name / "tokenizer.json"), bos_token=case["bos"],
                                                         eos_token=case["eos"], chat_template=source)
        blocks = "{%- generation" in source or "{% generation" in source
        for train_on in ("replies", "last"):
            kinds = [kind for kind in case["kinds"] if (kind in case.get("unclear", [])) == (train_on == "last")]
            if not kinds:
                continue
            lines = [json.dumps(cases["conversations"][kind], ensure_ascii=False) for kind in kinds]
            (folder / name / f"{train_on}.jsonl").write_text("\n".join(lines) + "\n")
            for kind, (ids, is_learned) in zip(kinds, shown(hydrac, folder, name, train_on), strict=True):
                conversation = cases["conversations"][kind]
                theirs = tokenizer.apply_chat_template(
                    conversation["messages"], tools=conversation.get("tools"), documents=conversation.get("documents"), tokenize=True,
                    return_dict=True, return_assistant_tokens_mask=blocks, **conversation.get("chat_template_kwargs", {}))
                learned = tokenizer.decode([token for token, one in zip(ids, is_learned) if one], clean_up_tokenization_spaces=False)
                compared += 1
                all_ids = theirs["input_ids"]
                if ids != all_ids[:len(ids)] or len(all_ids) - len(ids) > 1:
                    failed += 1
                    print(f"{name}, {kind}: FAILED: ids {ids}, apply_chat_template's are {all_ids}")
                if blocks and is_learned != theirs["assistant_masks"][:len(ids)]:
                    failed += 1
                    print(f"{name}, {kind}: FAILED: {learned!r} is learned, and another assistant_masks is transformers'")
                if "--write" in sys.argv:
                    expected.setdefault(name, {})[kind] = {"ids": all_ids, "learned": learned}
                elif expected[name][kind] != {"ids": all_ids, "learned": learned}:
                    failed += 1
                    print(f"{name}, {kind}: FAILED: {learned!r} is learned, and {expected[name][kind]} expected")
    if "--write" in sys.argv:
        lines = [f" {json.dumps(name)}: {json.dumps(of_name, ensure_ascii=False)}" for name, of_name in expected.items()]
        golden.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{compared} conversations of {len(cases['templates'])} templates", flush=True)
    sys.exit(1 if failed else 0)


main()
