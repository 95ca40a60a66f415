"""No room includes a header of a room that comes after it in CMake's lists. Prints each one that does."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What there is still against the order. It may only shrink: a line that is no longer true is an error too.
KNOWN = {
    "compiler/emit includes compiler/targets/executable/call_table.h",
    "compiler/emit includes compiler/targets/executable/checkpoint_tensors.h",
    "compiler/emit includes compiler/targets/executable/executable.h",
    "compiler/emit includes compiler/targets/executable/program_layout.h",
}


def order(folder: str) -> list:
    """The rooms that folder/CMakeLists.txt adds."""
    text = re.sub("#.*", "", (ROOT / folder / "CMakeLists.txt").read_text())
    lists = re.findall(r"(?:foreach\(room|add_subdirectory\()([^()$]+)\)", text)
    return [f"{folder}/{room}" for rooms in lists for room in rooms.split()]


# The oracle stands before the compiler, of which it must know nothing.
ROOMS = ["templates", "runtime", *order("runtime"), *order("oracle"), "oracle", *order("compiler"), "compiler"]


def place(path: str) -> int:
    """Of the innermost room with this file."""
    return ROOMS.index(max((room for room in ROOMS if path.startswith(room + "/")), key=len))


def included_by(file: pathlib.Path) -> set:
    """The project's own headers, as paths from the repository."""
    folders = [ROOT, ROOT / "compiler", ROOT / "templates", ROOT / "templates/include", file.parent]
    names = re.findall(r'^\s*#\s*include "([^"]+)"', file.read_text(), re.M)
    found = {folder / name for name in names for folder in folders if (folder / name).exists()}
    return {str(path.relative_to(ROOT)) for path in found}


found = set()
for file in [path for folder in ("templates", "runtime", "oracle", "compiler") for path in (ROOT / folder).rglob("*")]:
    if file.suffix in (".h", ".cpp", ".cuh", ".cu"):
        here = place(str(file.relative_to(ROOT)))
        found |= {f"{ROOMS[here]} includes {path}" for path in included_by(file) if place(path) > here}
for line in sorted(found - KNOWN):
    print(f"{line}, which comes later")
for line in sorted(KNOWN - found):
    print(f"no longer true, so take it from the list: {line}")
sys.exit(found != KNOWN)
