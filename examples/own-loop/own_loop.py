"""A training loop of one's own around a program that hydrac built, through its C interface (train.h):

    hydrac build spec.yaml -o program
    python3 own_loop.py program/build/libtrain.so text.txt 100 runs/own

The bytes of the file are the tokens, one window behind the other. Arrays are array.array here; numpy's of type int32
and float32 go in and out the same way.
"""
import array
import ctypes
import sys


class Sizes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("sequences", "positions", "micro_batches", "vocabulary", "features", "outputs",
                                                 "ranks", "rank")]


class Batch(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p)
                for name in ("tokens", "targets", "features", "float_targets", "documents", "positions")]


class Result(ctypes.Structure):
    _fields_ = [("loss", ctypes.c_float), ("grad_norm", ctypes.c_float), ("learning_rate", ctypes.c_float),
                ("skipped", ctypes.c_int32)]


def address(values):
    """Of the elements of a writable array."""
    return ctypes.addressof(ctypes.c_char.from_buffer(values))


class Program:
    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        self.library.train_error.restype = ctypes.c_char_p
        self.library.train_create.restype = ctypes.c_void_p
        self.library.train_tensor_name.restype = ctypes.c_char_p
        for name in ("train_tensor_count", "train_tensor_elements"):
            getattr(self.library, name).restype = ctypes.c_int64
        self.handle = ctypes.c_void_p(self.library.train_create())
        self.require(self.handle)
        self.sizes = Sizes()
        self.require(self.library.train_get_sizes(self.handle, ctypes.byref(self.sizes)) == 0)

    def require(self, fine):
        if not fine:
            raise RuntimeError(self.library.train_error().decode())

    def step(self, tokens, targets):
        batch, result = Batch(address(tokens), address(targets)), Result()
        self.require(self.library.train_step(self.handle, ctypes.byref(batch), ctypes.byref(result)) == 0)
        return result

    def names(self):
        for i in range(self.library.train_tensor_count(self.handle)):
            yield self.library.train_tensor_name(self.handle, ctypes.c_int64(i)).decode()

    def tensor(self, name):
        count = self.library.train_tensor_elements(self.handle, name.encode())
        self.require(count >= 0)
        values = array.array("f", bytes(4 * count))
        self.require(self.library.train_read_tensor(self.handle, name.encode(), ctypes.c_void_p(address(values)),
                                                    ctypes.c_int64(count)) == 0)
        return values

    def save(self, folder):
        self.require(self.library.train_save(self.handle, folder.encode()) == 0)

    def close(self):
        self.library.train_destroy(self.handle)


def main(library, text, steps, folder):
    with open(text, "rb") as file:
        text = file.read()
    program = Program(library)
    sizes = program.sizes
    tokens = sizes.micro_batches * sizes.sequences * sizes.positions  # of this rank
    steps_of_text = (len(text) - 1) // (sizes.ranks * tokens)
    if steps_of_text == 0:
        raise SystemExit(f"own_loop: the text has fewer than the {sizes.ranks * tokens + 1} bytes of a step")
    for step in range(int(steps)):
        first = (step % steps_of_text * sizes.ranks + sizes.rank) * tokens
        window = [array.array("i", list(text[first + i:first + i + tokens])) for i in (0, 1)]
        result = program.step(*window)
        print(f"step {step + 1} loss {result.loss:.9g} grad_norm {result.grad_norm:.9g}")
    for name in program.names():
        values = program.tensor(name)
        squares = 0.0
        for value in values:
            squares += value * value
        print(f"{name} {len(values)} elements, sum of squares {squares:.9g}")
    program.save(folder)
    program.close()


if __name__ == "__main__":
    if len(sys.argv) != 5:
        raise SystemExit("usage: own_loop.py LIBRARY TEXT STEPS FOLDER")
    main(*sys.argv[1:])
