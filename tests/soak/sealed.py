"""The sealed files of a cache (runtime/cache/sealed_file.h), for forcing a measured choice."""
import os

MASK = (1 << 64) - 1
SEAL = b"\nhydrac-seal 1 "


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def hash64(*fields):
    """Hash64 of runtime/data/hash.h."""
    state = 0x243F6A8885A308D3
    for field in fields:
        for at in range(0, len(field), 8):
            state = ((state ^ int.from_bytes(field[at:at + 8], "little")) * 0x9FB21C651E98DF25) & MASK
            state ^= state >> 32
        state = mix(state ^ len(field))
    return mix(state)


def seal(path, content):
    name = os.path.basename(path).encode()
    with open(path, "wb") as out:
        out.write(content + SEAL + b"%d %016x\n" % (len(content), hash64(name, content)))


def force_choice(path, word, words):
    """Makes every choice of the file `word`, whichever of `words` it was. False when there is no such file."""
    if not os.path.exists(path):
        return False
    with open(path, "rb") as file:
        content = file.read()
    lines = content[:content.rindex(SEAL)].decode().splitlines()
    forced = [key + "\t" + (word if value in words else value) for key, value in (line.split("\t") for line in lines)]
    seal(path, "".join(line + "\n" for line in forced).encode())
    return True
