"""Every name in backticks, in the docs and in comments, is one that the code has. Prints those that it has not."""

import fnmatch
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Other projects' names that no code of ours spells; an unused one is an error too.
FOREIGN = {
    *("NCCL_DEBUG", "NCCL_MAX_CTAS", "NVCC_APPEND_FLAGS", "lr_find", "lscpu", "manylinux_2_36", "nohup", "rdzv", "topo"),
    *("user_quick_gelu", "user_quick_gelu_backward"),  # of generated code, by the user's own function
}

FOLDERS = "bench cmake compiler docs examples generated oracle packaging runtime specs templates tests".split()
SCRIPTS = {"dev", "tests/run-tests"}
C_LIKE = (".cpp", ".h", ".cuh", ".cu", ".def", ".inc", ".js", ".css")
HASH_LIKE = (".py", ".yaml", ".cmake", ".txt", "")  # "": scripts
COMMENT = {**dict.fromkeys(C_LIKE, r"(?<![:\"])//[^\n]*|/\*.*?\*/"), **dict.fromkeys(HASH_LIKE, r"(?<!\S)#[^\n]*")}


def files() -> list:
    paths = [*ROOT.glob("*"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    names = [str(path.relative_to(ROOT)) for path in paths if path.is_file()]
    return sorted(name for name in names if not name.startswith("tests/fuzz/corpus/"))


def is_code(name: str) -> bool:
    is_script = name in SCRIPTS or name.startswith("bench/")
    suffix = pathlib.PurePath(name).suffix
    return suffix == ".json" or (suffix in COMMENT and (suffix != "" or is_script))


FILES = files()
code, prose = [], []  # prose: (file, text)
for name in FILES:
    if name.endswith(".md") and not name.startswith("generated/"):
        prose.append((name, re.sub(r"^```.*?^```", "", (ROOT / name).read_text(), flags=re.M | re.S)))
    elif is_code(name) and name != "tests/repository/names.py":
        text, comment = (ROOT / name).read_text(errors="replace"), COMMENT.get(pathlib.PurePath(name).suffix)
        code.append(re.sub(comment, "", text, flags=re.S) if comment else text)
        if comment:
            prose += [(name, found) for found in re.findall(comment, text, re.S)]
CODE = "\n".join(code)
WORDS = set(re.findall(r"\w+", CODE)) | set(re.findall(r"\w+", "\n".join(FILES)))


def is_known(word: str) -> bool:
    """Placeholders (FOLDER, NAME_0) are; so are beginnings and ends (cuda_*, _p95) of words that there are."""
    if word in WORDS or len(word) < 3 or word[0].isdigit() or re.fullmatch(r"[A-Z]+|NAME_\w+", word):
        return True
    word = word.removesuffix("NAME")  # eval_loss_NAME is a beginning
    if word.startswith("_") or word.endswith("_"):
        return any(other.startswith(word) or other.endswith(word) for other in WORDS)
    return False


def unknown_in(quoted: str) -> list:
    is_source = re.fullmatch(r"[\w*/-]+\.(cpp|h|cuh|cu|def|py|js)", quoted)
    if is_source and quoted not in CODE and not any(fnmatch.fnmatch("/" + name, "*/" + quoted) for name in FILES):
        return [quoted]
    return [word for word in re.findall(r"\w+", re.sub(r"\"[^\"]*\"", "", quoted)) if not is_known(word)]


found, foreign = set(), set()
for name, text in prose:
    for quoted in re.findall(r"`([^`\n]+)`", text):
        for word in unknown_in(quoted):
            foreign |= {word} & FOREIGN
            found |= set() if word in FOREIGN else {f"{name}: `{quoted}`: there is no {word}"}
for line in sorted(found):
    print(line)
for word in sorted(FOREIGN - foreign):
    print(f"tests/repository/names.py: nothing names {word} any more, so take it from FOREIGN")
sys.exit(bool(found or FOREIGN - foreign))
