"""The kinds of rounds: each disturbs one run in its way and has it resumed to its end."""
import errno
import glob
import os
import shutil
import signal
import subprocess
import time

import damage
import rank_rounds
from workplace import STOPPED, Finding, expect

IDENTICAL, REFUSED = "identical", "refused"


class Round:
    """One run, with a cache of its own, and what was done to it."""

    def __init__(self, place, random, name):
        self.place, self.random, self.name = place, random, name
        self.library = random.choice(sorted(place.caches))
        self.cache = damage.copy(place.caches[self.library], place.path("cache-of-" + name))
        self.tokens = place.path("tokens-of-" + name)
        if os.path.isdir(place.path("tokens")):
            damage.copy(place.path("tokens"), self.tokens)
        self.words = (f"data.cache_dir=tokens-of-{name}",)
        self.done = []
        self.spoiled = set()  # checkpoints that this round damaged

    def start(self, *words, **options):
        return self.place.start(self.name, options.pop("cache", self.cache), *self.words, *words, **options)

    def moment(self):
        """A moment of a run, or of the end of one."""
        return self.random.uniform(0, 1.1 * self.place.seconds)

    def interrupt(self, number, *words, **options):
        """Runs until a random moment, when it gets the signal. Returns how it ended."""
        process = self.start(*words, **options)
        after = self.moment()
        time.sleep(after)
        if process.poll() is None:
            process.send_signal(number)
        ended = self.place.finish(process)
        self.done.append(f"{signal.Signals(number).name} after {after:.3f} s: {ended}")
        if ended.code in (-number, STOPPED):
            self.place.count("kills" if number == signal.SIGKILL else "stops")
        return ended

    def has_checkpoint(self):
        return bool(self.place.checkpoints(self.name))

    def recorded_library(self):
        """Of the checkpoint that a resumed run continues from; None where a run begins anew and may choose."""
        for path in reversed(self.place.checkpoints(self.name)):
            if path not in self.spoiled:
                return self.place.library_of(path)
        return None

    def resume(self, cache=None):
        """Continues to the end and compares, or begins anew where nothing was saved."""
        library = self.recorded_library()
        words = ["--resume"] if self.has_checkpoint() or os.path.exists(self.place.path("runs", self.name)) else []
        ended = self.place.finish(self.start(*words, cache=cache or self.cache))
        if ended.code == 2 and words and not self.has_checkpoint():
            ended = self.place.finish(self.start(cache=cache or self.cache))
        if ended.code == 0:
            self.place.compare(self.name, library)
            return IDENTICAL
        return self.refused(ended)

    def damage(self, folder):
        lines = damage.damage_folder(folder, self.random)
        self.place.count("damaged files", len(lines))
        self.done += lines

    def refused(self, ended):
        """Only where no checkpoint is intact, and by name."""
        intact = [path for path in self.place.checkpoints(self.name) if path not in self.spoiled]
        if intact or not self.spoiled or ended.code != 2 or "checkpoint-" not in ended.err:
            raise Finding(f"runs/{self.name} could not be resumed: {ended}")
        return REFUSED

    def clean(self):
        runs = self.place.path("runs", self.name.split("/")[0])
        moved_aside = glob.glob(runs + ".*")
        for folder in (self.cache, self.cache + "-fresh", self.tokens, runs, *moved_aside):
            shutil.rmtree(folder, ignore_errors=True)


def kill(round):
    for _ in range(round.random.randint(1, 3)):
        resumed = ["--resume"] if round.has_checkpoint() else []
        expect(round.interrupt(signal.SIGKILL, *resumed), (0, -signal.SIGKILL), "a killed run")
        if not resumed and not round.has_checkpoint():
            break
    return round.resume()


def stop(round):
    number = round.random.choice([signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
    # Before its handlers are there, a signal ends a run as it ends any program.
    expect(round.interrupt(number), (0, STOPPED, -number), "a stopped run")
    return round.resume()


def full_disk(round):
    """No file may be longer than some random size, as on a full disk; the screen may be full too."""
    size = round.random.choice([0, 100, 1000, 5000, 20000, 50000, 100000, 200000])
    screen = round.random.random() < 0.3
    with open("/dev/full", "w") as full:
        process = round.start(limit=size, out=full if screen else subprocess.PIPE)
        ended = round.place.finish(process)
    round.done.append(f"files of at most {size} bytes{', screen full' if screen else ''}: {ended}")
    expect(ended, (0, 3), "a run with a full disk")
    round.place.count("full disks", ended.code == 3)
    if ended.code == 3 and "cannot" not in ended.err:
        raise Finding(f"a run with a full disk does not say what cannot be written: {ended}")
    return round.resume()


def small_tmpfs(round):
    """A file system of its own, which is full at some random moment."""
    place, folder = round.place, round.place.path("runs", round.name)
    os.makedirs(folder)
    round.name += "/run"
    size = round.random.randrange(8, 400) * 1024
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "soak", folder], capture_output=True)
    if mounted.returncode != 0:
        return full_disk(round)  # only root may mount
    try:
        ended = place.finish(round.start())
        round.done.append(f"on a disk of {size} bytes: {ended}")
        expect(ended, (0, 3), "a run on a full disk")
        place.count("full disks", ended.code == 3)
        if ended.code == 3 and "No space left" not in ended.err:
            raise Finding(f"a run on a full disk does not say so: {ended}")
        subprocess.run(["mount", "-o", "remount,size=64m", folder], check=True)
        return round.resume()
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def damaged_cache(round):
    """Damaged between a killed run and its end, and while it runs."""
    round.interrupt(signal.SIGKILL)
    for folder in [round.cache] + ([round.tokens] if round.random.random() < 0.5 else []):
        round.damage(folder)
    if round.random.random() < 0.5:
        process = round.start(*(["--resume"] if round.has_checkpoint() else []))
        time.sleep(round.moment())
        round.damage(round.cache)
        expect(round.place.finish(process), (0, 3), "a run whose cache was damaged")
    return round.resume()


def damaged_checkpoint(round):
    round.interrupt(signal.SIGKILL)
    checkpoints = round.place.checkpoints(round.name)
    newest = checkpoints[-round.random.randint(1, 3):]
    for path in newest:
        round.spoiled.add(path)
        round.damage(path)
    return round.resume()


def fresh_choices(round):
    """Resumed with a cache that has measured nothing, or measured the other library to be faster."""
    round.interrupt(signal.SIGKILL)
    fresh = round.cache + "-fresh"
    if round.random.random() < 0.5:
        other = round.random.choice(sorted(round.place.caches))
        damage.copy(round.place.caches[other], fresh)
    else:
        damage.copy(round.cache, fresh)
        if os.path.exists(os.path.join(fresh, "blas-choices")):
            os.unlink(os.path.join(fresh, "blas-choices"))
    round.place.count("resumes with other choices cached")
    return round.resume(fresh)


def fresh_cache(round):
    """Resumed with an empty cache: kernels are compiled and libraries measured anew."""
    round.interrupt(signal.SIGKILL)
    shutil.rmtree(round.tokens, ignore_errors=True)
    round.place.count("resumes with an empty cache")
    return round.resume(round.cache + "-fresh")


def other_data(round):
    """A killed run that finds other bytes in its data, for training or for validation, is not resumed."""
    place, random = round.place, round.random
    if random.random() < 0.5:
        spec, keys = "soak.yaml", {"data.path": "corpus.txt"}
    else:
        spec, keys = "soak-series.yaml", {"data.path": "series.csv", "data.val_path": "later.csv"}
    copies = {key: f"{round.name}-{file}" for key, file in keys.items()}
    for key, file in keys.items():
        shutil.copy(place.path(file), place.path(copies[key]))
    round.words += tuple(f"{key}={file}" for key, file in copies.items())
    round.interrupt(signal.SIGKILL, spec=spec)
    if not round.has_checkpoint():
        expect(place.finish(round.start(spec=spec)), (0,), "an undisturbed run")
    changed = place.path(random.choice(sorted(copies.values())))
    round.done.append(change_a_digit(changed, random))
    place.count("resumes with other data")
    ended = place.finish(round.start("--resume", spec=spec))
    for file in copies.values():
        os.unlink(place.path(file))
    if ended.code != 2 or "data" not in ended.err:
        raise Finding(f"a run went on with other data: {ended}")
    return REFUSED


def change_a_digit(path, random):
    """The file stays of its kind, and as long."""
    with open(path, "rb") as file:
        content = bytearray(file.read())
    at = random.choice([i for i, byte in enumerate(content) if byte in b"0123456789"])
    content[at] = ord("0") + (content[at] - ord("0") + random.randint(1, 9)) % 10
    with open(path, "wb") as file:
        file.write(content)
    return f"{path}: another digit at {at}"


CALLS = ["write", "read", "close", "fsync", "fstat", "stat", "rename", "mkdir", "unlink", "flock", "mmap", "open"]


def failing_call(round):
    """One system call of a run fails. It goes on, or ends and says why; what was saved is whole."""
    call, number = round.random.choice(CALLS), int(1.01 ** round.random.uniform(0, 450))
    error = round.random.choice([errno.EIO, errno.ENOSPC, errno.EACCES, errno.ENOMEM, errno.EMFILE, errno.EINTR])
    environment = {"LD_PRELOAD": round.place.failing_calls(), "FAILING_CALL": f"{call} {number} {error}"}
    environment["OMP_WAIT_POLICY"] = "passive"  # without it hydrac sets it and starts itself again
    ended = round.place.finish(round.start(environment=environment))
    round.done.append(f"{call} number {number} failed with {errno.errorcode[error]}: {ended}")
    expect(ended, (0, 2, 3), "a run of which a system call failed")
    if ended.code != 0 and not ended.err.strip():
        raise Finding("a run of which a system call failed does not say why it ended")
    round.place.count("failing calls", ended.code != 0)
    return round.resume()


KINDS = {
    "kill": kill,
    "stop": stop,
    "full disk": full_disk,
    "small tmpfs": small_tmpfs,
    "damaged cache": damaged_cache,
    "damaged checkpoint": damaged_checkpoint,
    "fresh choices": fresh_choices,
    "fresh cache": fresh_cache,
    "other data": other_data,
    "failing call": failing_call,
    **rank_rounds.KINDS,
}


def play(kind, place, random, name):
    """One round. Returns how the run ended; raises Finding, with what was done, when it must not end so."""
    round = Round(place, random, name.replace(" ", "-"))
    try:
        how = KINDS[kind](round)
    except Finding as finding:
        raise Finding(f"{finding}\n  " + "\n  ".join(round.done)) from None
    round.clean()
    return how
