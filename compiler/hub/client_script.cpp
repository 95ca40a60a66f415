#include "hub/client_script.h"

namespace hydrac::hub {

const char* const kClientScript = R"py(
import collections, glob, os, re, shutil, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "0" if sys.stderr.isatty() else "1")
os.environ.setdefault("HF_HUB_VERBOSITY", "error")
def end(letter, text, files=()):
    print(letter + " ".join(str(text).split()), *files, sep="\n")
    sys.stdout.flush()
    os._exit(0)
try:
    import huggingface_hub as hub
    from huggingface_hub import constants, utils
except ImportError as error:
    end("M", error)

# A sentence about what a repository does not have.
class Refusal(Exception):
    pass

DATA = re.compile(r"\.(parquet|arrow|((jsonl|ndjson|json|txt)(\.gz|\.zst)?))$", re.I)
UNREACHABLE = "Connect|Timeout|ProxyError|NetworkError|RemoteProtocol"
SPLITS = ("train", "test", "validation", "valid", "val", "dev", "eval")

def names(items):
    items = list(dict.fromkeys(items))
    return ", ".join(items[:12]) + (", ..." if len(items) > 12 else "")

def size(bytes):
    unit, name = (1e9, "GB") if bytes >= 1e9 else (1e6, "MB") if bytes >= 1e6 else (1e3, "kB")
    return f"{bytes / unit:.1f} {name}"

# A pattern of a dataset card: * and ? within a folder, ** through folders.
def matches(pattern, file):
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", re.sub(r"^(\./)+", "", pattern))
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.fullmatch("".join(known.get(part, re.escape(part)) for part in parts), file)

def marks(file, word):
    return re.search(rf"(^|[/._ -]){re.escape(word)}([/._ -]|$)", file)

# Files of a split by the names of files and folders.
def by_convention(files, folder, split):
    inside = {f: f[len(folder):] for f in files if f.startswith(folder) and DATA.search(f)
              and os.path.basename(f) not in ("dataset_infos.json", "dataset_info.json", "state.json")}
    if any(f.lower().endswith(".parquet") for f in inside):
        inside = {f: name for f, name in inside.items() if f.lower().endswith(".parquet")}
    marked = [f for f, name in inside.items() if marks(name, split)]
    if not marked and split == "train":
        marked = [f for f, name in inside.items() if not any(marks(name, word) for word in SPLITS)]
    if not marked:
        others = [word for word in SPLITS if any(marks(name, word) for name in inside.values())]
        raise Refusal(f"has no files of a split {split}, " + (f"but of {names(others)}" if others else
                 "nor others that hydrac reads (Parquet, Arrow, JSONL, JSON, text)"))
    return marked

def split_files(files, card, subset, split):
    configs = [c for c in card.get("configs") or [] if isinstance(c, dict)]
    folders = [f.split("/")[0] for f in files if "/" in f and DATA.search(f)]
    if not configs:
        if subset and subset not in folders:
            raise Refusal(f"has no subset {subset}" + (f" but {names(folders)}" if folders else ""))
        return by_convention(files, subset + "/" if subset else "", split)
    called = {str(c.get("config_name", "default")): c for c in configs}
    if subset and subset not in called:
        raise Refusal(f"has no subset {subset} but {names(called)}")
    usual = [name for name, c in called.items() if c.get("default") or name == "default" or len(called) == 1]
    if not subset and not usual:
        raise Refusal(f"has several subsets, {names(called)}: name one of them, as in {repo}/{next(iter(called))}")
    config = called[subset or usual[0]]
    folder = str(config.get("data_dir") or "").strip("./")
    folder = folder + "/" if folder else ""
    data = config.get("data_files")
    if data is None:
        return by_convention(files, folder, split)
    if isinstance(data, dict):
        data = [{"split": name, "path": path} for name, path in data.items()]
    data = [item if isinstance(item, dict) else {"split": "train", "path": item}
            for item in (data if isinstance(data, list) else [data])]
    paths = [item.get("path") for item in data if item.get("split", "train") == split]
    if not paths:
        raise Refusal(f"has no split {split} but {names(str(item.get('split', 'train')) for item in data)}")
    paths = [p for path in paths for p in (path if isinstance(path, list) else [path])]
    found = [f for f in files if any(matches(folder + str(path), f) for path in paths)]
    readable = [f for f in found if DATA.search(f)]
    if not readable:
        raise Refusal(f"has as its split {split} {os.path.basename(found[0]) if found else 'no file'}, "
                 "and hydrac reads Parquet, Arrow, JSONL, JSON and text")
    return readable

def model_files(files, kind):
    wanted = re.compile(r"(\d+_\w+/)?[^/]+\.(json|jinja)|vocab\.txt" +
                        (r"|(adapter_)?model[^/]*\.safetensors" if kind == "model" else ""))
    return [f for f in files if wanted.fullmatch(f)]

def card_of(path):
    import yaml
    with open(path, encoding="utf-8", errors="replace") as file:
        header = re.match(r"---\s*\n(.*?)\n---", file.read(), re.S)
    try:
        card = yaml.safe_load(header[1]) if header else {}
    except yaml.YAMLError as error:
        raise Refusal(f"has a README.md whose header is no YAML: {error}")
    return card if isinstance(card, dict) else {}

def cached_snapshot():
    root = os.path.join(constants.HF_HUB_CACHE, f"{kind_of_repo}s--" + repo.replace("/", "--"))
    commit = revision
    if os.path.isfile(ref := os.path.join(root, "refs", revision)):
        commit = open(ref).read().strip()
    folder = os.path.join(root, "snapshots", commit)
    found = glob.glob("**", root_dir=folder, recursive=True)
    return commit, folder, [f for f in found if os.path.isfile(os.path.join(folder, f))]

def chosen(files, card):
    if kind_of_repo == "model":
        return model_files(files, kind)
    return split_files(files, card_of(card()) if "README.md" in files else {}, subset, split)

def require_room(sizes, files):
    folder = constants.HF_HUB_CACHE
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder) or "."
    free, needed = shutil.disk_usage(folder).free, sum(sizes[f] for f in files)
    if needed > free:
        end("E", f"takes {size(needed)}, and the disk of {folder} has {size(free)} left: "
                 "make room, or let HF_HOME name a folder of another disk")
    return needed

def fetch():
    info = hub.HfApi().repo_info(repo, repo_type=kind_of_repo, revision=revision, files_metadata=True, timeout=30)
    sizes = {f.rfilename: f.size or 0 for f in info.siblings}
    get = lambda: hub.hf_hub_download(repo, "README.md", repo_type=kind_of_repo, revision=info.sha)
    files = sorted(chosen(sorted(sizes), get))
    have = set(cached_snapshot()[2]) if files else set()
    missing = [f for f in files if f not in have]
    needed = require_room(sizes, missing)
    if missing:
        print(f"hydrac: fetching {size(needed)} of {repo}: {names(missing)}", file=sys.stderr, flush=True)
    folder = hub.snapshot_download(repo, repo_type=kind_of_repo, revision=revision,
                                   allow_patterns=[glob.escape(f) for f in files])
    end("P", os.path.basename(folder), files)

def why(error):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__

# Files of the cache, unless some are known to be missing.
def from_cache():
    commit, folder, files = cached_snapshot()
    if not files:
        return
    try:
        taken = sorted(chosen(sorted(files), lambda: os.path.join(folder, "README.md")))
    except Refusal:
        return
    of = collections.Counter(re.sub(r"-\d{5}(-of-\d{5}\.)", r"-*\1", f) for f in taken)
    if all(count == int(m[1]) for name, count in of.items() if (m := re.search(r"-\*-of-(\d{5})\.", name))):
        end("L", commit, taken)

def is_one(error, *types):
    found = tuple(t for name in types if (t := getattr(utils, name, None) or getattr(hub, name, None)))
    return any(isinstance(e, found) for e in why(error))

def fetched_or_why_not():
    try:
        fetch()
    except Refusal as refusal:
        end("E", refusal)
    except Exception as error:
        address = f"{constants.ENDPOINT}/{'datasets/' if kind_of_repo == 'dataset' else ''}{repo}"
        if is_one(error, "GatedRepoError"):
            end("E", f"is gated: ask for access on {address}, then `hf auth login` or HF_TOKEN proves who you are")
        if is_one(error, "RevisionNotFoundError"):
            end("E", f"has no revision {revision}")
        if is_one(error, "RepositoryNotFoundError"):
            end("E", f"is no {kind_of_repo} on {constants.ENDPOINT}, or a private one, for which `hf auth login` or HF_TOKEN "
                     "proves who you are")
        if is_one(error, "OfflineModeIsEnabled"):
            from_cache()
            end("E", f"is not in {constants.HF_HUB_CACHE}, and HF_HUB_OFFLINE forbids to fetch it")
        words = " ".join(type(e).__name__ for e in why(error))
        if re.search(UNREACHABLE, words):
            from_cache()
            end("E", f"cannot be fetched: {constants.ENDPOINT} cannot be reached, and {constants.HF_HUB_CACHE} does not have it")
        if isinstance(error, OSError) and error.errno == 28:
            end("E", f"cannot be fetched: the disk of {constants.HF_HUB_CACHE} is full")
        end("E", f"cannot be fetched: {str(error) or type(error).__name__}")

if sys.argv[1] == "fetch":
    kind, repo, revision, subset, split = sys.argv[2:]
    kind_of_repo = "dataset" if kind == "dataset" else "model"
    fetched_or_why_not()
try:
    if sys.argv[1] == "create":
        end("U", hub.HfApi().create_repo(sys.argv[2], exist_ok=True, private=True))
    folder, repo = sys.argv[2:]
    end("U", hub.HfApi().upload_folder(folder_path=folder, repo_id=repo, commit_message="Exported by hydrac"))
except Exception as error:
    unreachable = re.search(UNREACHABLE, " ".join(type(e).__name__ for e in why(error)))
    end("E", f"{constants.ENDPOINT} cannot be reached" if unreachable else str(error) or type(error).__name__)
)py";

}  // namespace hydrac::hub
