#!/usr/bin/env python3
"""Makes a wheel of hydrac: the binary, and the shared libraries that a bare container lacks.

usage: make-wheel.py --program HYDRAC --license FILE --notices FILE --output FOLDER
       make-wheel.py --program HYDRAC --list-libraries    (for packaging/notices.py)

pip installs the binary into bin/ and the libraries into lib/hydrac/, where the binary's RPATH looks for them. Python
itself runs nothing of it, so any Python 3 will do.
"""
import argparse
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

# glibc's own, and what every C++ compiler brings: a compiler must be there, and its kernels want its own libraries.
OF_THE_SYSTEM = {"linux-vdso.so.1", "ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2",
                 "librt.so.1", "libstdc++.so.6", "libgcc_s.so.1"}
# What the binary itself may link; another one means that HYDRAC_STATIC missed a library.
OF_THE_BINARY = OF_THE_SYSTEM - {"libstdc++.so.6", "libgcc_s.so.1"} | {"libgomp.so.1"}
BLAS = ["libdnnl.so.3", "libdnnl.so.2"]


def output_of(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def dependencies(path: str) -> dict[str, str]:
    """Every shared library that a file needs, directly or not: name to path."""
    found = {}
    for line in output_of("ldd", path).splitlines():
        match = re.match(r"\s*(\S+)(?: => (\S+))?", line)
        name = os.path.basename(match[1])
        if match[2] == "not":
            sys.exit(f"make-wheel: {path} needs {name}, which is not installed")
        found[name] = match[2] or match[1]
    return found


def libraries_for(program: str) -> dict[str, str]:
    """What goes into lib/hydrac: OpenMP, a library for matmuls, and what that needs."""
    libraries = dependencies(program)
    if extra := set(libraries) - OF_THE_BINARY:
        sys.exit(f"make-wheel: {program} needs {', '.join(sorted(extra))}; was it built by the preset \"package\"?")
    cache = dict(re.findall(r"^\s*(\S+) .*x86-64.*=> (\S+)$", output_of("/sbin/ldconfig", "-p"), re.MULTILINE))
    blas = next((name for name in BLAS if name in cache), None)
    if blas is None:
        sys.exit(f"make-wheel: none of {', '.join(BLAS)} is installed (Debian 12: libdnnl2, Ubuntu 24.04: libdnnl3)")
    libraries |= {blas: cache[blas]} | dependencies(cache[blas])
    return {name: path for name, path in sorted(libraries.items()) if name not in OF_THE_SYSTEM}


def platform_of(files: list[str]) -> str:
    """The tag of the oldest glibc that has every symbol the files need."""
    needed = [(int(major), int(minor)) for file in files
              for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", output_of("readelf", "-V", "--wide", file))]
    major, minor = max(needed)
    return f"manylinux_{major}_{minor}_x86_64"


def stripped(program: str, folder: str) -> str:
    copy = os.path.join(folder, "hydrac")
    subprocess.run(["strip", "-o", copy, program], check=True)
    return copy


METADATA = """Metadata-Version: 2.1
Name: hydrac
Version: {version}
Summary: Compiles a YAML spec of a model into its training program, and trains it
License: Apache-2.0
Requires-External: g++
Description-Content-Type: text/markdown

`hydrac quickstart` trains a small model, `hydrac --help` lists the rest. A C++ compiler must be installed: kernels are
compiled for each spec. Libraries of others that are inside, and their licenses: licenses/THIRD-PARTY-NOTICES beside this file.
"""


class Wheel:
    def __init__(self, path: pathlib.Path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self.records = []

    def add(self, name: str, content: bytes, mode: int = 0o644) -> None:
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same bytes from the same files
        info.external_attr = (0o100000 | mode) << 16
        self.zip.writestr(info, content, zipfile.ZIP_DEFLATED)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.records.append(f"{name},sha256={digest},{len(content)}")

    def close(self, record: str) -> None:
        self.records.append(f"{record},,")
        self.add(record, ("\n".join(self.records) + "\n").encode())
        self.zip.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes a wheel of hydrac.")
    parser.add_argument("--program", required=True)
    parser.add_argument("--license", type=pathlib.Path)
    parser.add_argument("--notices", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--list-libraries", action="store_true")
    arguments = parser.parse_args()
    libraries = libraries_for(arguments.program)
    if arguments.list_libraries:
        print("\n".join(libraries.values()))
        return
    version = re.match(r"hydrac (\S+)", output_of(arguments.program, "--version"))[1]
    tag = f"py3-none-{platform_of([arguments.program, *libraries.values()])}"
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / f"hydrac-{version}-{tag}.whl"
    data, info = f"hydrac-{version}.data", f"hydrac-{version}.dist-info"
    wheel = Wheel(path)
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(stripped(arguments.program, folder)).read_bytes()
    wheel.add(f"{data}/scripts/hydrac", program, 0o755)
    for name, library in libraries.items():
        wheel.add(f"{data}/data/lib/hydrac/{name}", pathlib.Path(library).read_bytes(), 0o755)
    wheel.add(f"{info}/METADATA", METADATA.format(version=version).encode())
    wheel.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: hydrac\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    wheel.add(f"{info}/licenses/LICENSE", arguments.license.read_bytes())
    wheel.add(f"{info}/licenses/THIRD-PARTY-NOTICES", arguments.notices.read_bytes())
    wheel.close(f"{info}/RECORD")
    print(path)


main()
