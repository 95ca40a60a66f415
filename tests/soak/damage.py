"""Damage to a file, as failing disks, full ones and careless hands do it."""
import os
import shutil


def files_below(folder):
    return sorted(os.path.join(where, name) for where, _, names in os.walk(folder) for name in names)


def flip(path, random):
    with open(path, "r+b") as file:
        at = random.randrange(os.path.getsize(path))
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ (1 << random.randrange(8))]))
    return f"flipped a bit of byte {at}"


def truncate(path, random):
    size = random.randrange(os.path.getsize(path))
    os.truncate(path, size)
    return f"truncated to {size} bytes"


def zero(path, random):
    size = os.path.getsize(path)
    begin = random.randrange(size)
    end = min(size, begin + random.choice([16, 512, 4096]))
    with open(path, "r+b") as file:
        file.seek(begin)
        file.write(bytes(end - begin))
    return f"zeroed bytes {begin} to {end}"


def remove(path, random):
    os.unlink(path)
    return "removed"


def become_folder(path, random):
    os.unlink(path)
    os.mkdir(path)
    return "became a folder"


def become_loop(path, random):
    os.unlink(path)
    os.symlink(os.path.basename(path), path)
    return "became a link to itself"


def damage_file(path, random, kinds=(flip, flip, truncate, truncate, zero, remove, become_loop)):
    how = random.choice(kinds)
    try:
        if os.path.islink(path) or not os.path.isfile(path):
            return f"{path} is no file any more"
        return f"{path} " + (how if os.path.getsize(path) > 0 else remove)(path, random)
    except (OSError, ValueError) as error:  # a run that goes on has renamed, removed or emptied it
        return f"{path} is in use: {error}"


def damage_folder(folder, random, most=3):
    """Damages up to `most` files below it; returns a line of what was done to each."""
    # What a compiler is just writing nobody could check.
    files = [path for path in files_below(folder) if not path.endswith("/kernels.so")]
    return [damage_file(path, random) for path in random.sample(files, min(len(files), random.randint(1, most)))]


def copy(folder, to):
    shutil.copytree(folder, to, symlinks=True)
    return to
