#!/usr/bin/env python3
"""Prints the licenses of what hydrac's packages contain of others, as Debian's packages state them.

usage: notices.py PACKAGE_OR_FILE ...

A file stands for the package that installed it. Exit 1 where a license cannot be found: then there is nothing to ship.
"""
import os
import subprocess
import sys

# What the binary links statically: of these Debian has archives or headers.
LINKED = ["libclang-19-dev", "llvm-19-dev", "libyaml-cpp-dev", "libfmt-dev", "nlohmann-json3-dev", "libpcre2-dev",
          "libutf8proc-dev", "libzstd-dev", "zlib1g-dev"]


def package_of(path: str) -> str:
    """The Debian package that installed a file; dpkg may know it by its name before /usr was merged."""
    real = os.path.realpath(path)
    for name in (real, real.removeprefix("/usr")):
        found = subprocess.run(["dpkg", "-S", name], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    sys.exit(f"notices: no package installed {path}, so its license is not known")


def main() -> None:
    packages = list(LINKED)
    # libstdc++ and libgcc: of the compiler that linked hydrac.
    libstdcxx = subprocess.run(["g++", "-print-file-name=libstdc++.a"], capture_output=True, text=True, check=True)
    packages.append(package_of(libstdcxx.stdout.strip()))
    for name in sys.argv[1:]:
        package = package_of(name) if "/" in name else name
        if package not in packages:
            packages.append(package)
    print("hydrac contains parts of the packages below, under these licenses.")
    for package in packages:
        path = f"/usr/share/doc/{package}/copyright"
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError as error:
            sys.exit(f"notices: {path}: {error.strerror}; this machine's dpkg may leave documentation out")
        print(f"\n{'=' * 120}\n{package}\n{'=' * 120}\n\n{text}")


main()
