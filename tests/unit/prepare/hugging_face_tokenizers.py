"""Compares a tokenizer.json that hydrac trained with Hugging Face's package tokenizers.

usage: hugging_face_tokenizers.py CASES

CASES is a JSON file: `tokenizer` (the path of a tokenizer.json), `trained_on` (texts), `vocab_size`, `merges` (the
tokenizer's), and `cases`, each with `text` and hydrac's `ids`. The package must load the file, give the same ids and
decode them to the text, and its own trainer must learn the same merges. Exit 1 where something differs, 77 where the
package is missing.
"""
import json
import sys

try:
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers
except ImportError as missing:
    print(f"Python's package {missing.name} is missing: pip install tokenizers")
    sys.exit(77)

with open(sys.argv[1], encoding="utf-8") as file:
    given = json.load(file)
tokenizer = tokenizers.Tokenizer.from_file(given["tokenizer"])
if tokenizer.get_vocab_size() != given["vocab_size"]:
    sys.exit(f"{tokenizer.get_vocab_size()} tokens, hydrac has {given['vocab_size']}")
for case in given["cases"]:
    text, ids = case["text"], case["ids"]
    theirs = tokenizer.encode(text).ids
    if theirs != ids:
        sys.exit(f"ids of {text[:200]!r}: hydrac's {ids[:50]}, tokenizers' {theirs[:50]}")
    decoded = tokenizer.decode(ids, skip_special_tokens=False)
    if decoded != text:
        sys.exit(f"{text[:200]!r} is decoded as {decoded[:200]!r}")

learner = tokenizers.Tokenizer(models.BPE())
learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
learner.decoder = decoders.ByteLevel()
# Pairs that occur once are not merged; the special token is one of the vocabulary.
trainer = trainers.BpeTrainer(vocab_size=given["vocab_size"], min_frequency=2, show_progress=False,
                              special_tokens=["<|endoftext|>"],
                              initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
learner.train_from_iterator(given["trained_on"], trainer)
theirs = [tuple(pair) if not isinstance(pair, str) else tuple(pair.split(" "))
          for pair in json.loads(learner.to_str())["model"]["merges"]]
ours = [tuple(pair.split(" ")) for pair in given["merges"]]
if theirs != ours:
    at = next((i for i, (a, b) in enumerate(zip(theirs, ours)) if a != b), min(len(theirs), len(ours)))
    sys.exit(f"{len(theirs)} merges, hydrac has {len(ours)}; the first difference is merge {at}: "
             f"hydrac's {ours[at:at + 3]}, tokenizers' {theirs[at:at + 3]}")
print(f"tokenizers {tokenizers.__version__}: {len(given['cases'])} texts, {len(ours)} merges")
