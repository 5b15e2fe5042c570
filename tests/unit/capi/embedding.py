#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the programs of docs/embedding.md against an installed prefix, as a reader would.

    embedding.py BUILD_FOLDER C_COMPILER WRITE_BUNDLES
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "embedding.md"
FILE = re.compile(r"<!-- (\S+) -->\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)
VOCABULARY = 128


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def main():
    build, compiler, writer = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prefix = folder / "prefix"
        run("cmake", "--install", build, "--prefix", prefix)
        library = next(prefix.rglob("libllmc.so")).parent
        run(writer, folder)
        files = dict(FILE.findall(PAGE.read_text()))
        assert set(files) == {"generate.c", "run.c", "CMakeLists.txt"}, files.keys()
        for file, text in files.items():
            (folder / file).write_text(text)

        tokens = list(b"Hi")
        for _ in range(20):
            tokens.append((sum(tokens) + len(tokens) - 1) % VOCABULARY)
        want = bytes(tokens[2:]).decode() + "\n"

        def check(binaries):
            environment = os.environ | {"LD_LIBRARY_PATH": str(library)}
            got = run(binaries / "generate", folder / "blocks.llmc", "Hi", env=environment)
            assert got == want, (got, want)
            got = run(binaries / "run", folder / "recompute.llmc", env=environment)
            assert got == "logits: f32 (1, 1, 128)\n", got

        run("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
            f"-DCMAKE_C_COMPILER={compiler}", "-DCMAKE_C_FLAGS=-std=c11 -Wall -Wextra -Wpedantic -Werror")
        run("cmake", "--build", folder / "build")
        check(folder / "build")

        environment = os.environ | {"PKG_CONFIG_PATH": str(library / "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "llmc", env=environment).split()
        for program in ("generate", "run"):
            run(compiler, folder / f"{program}.c", "-o", folder / program, *flags)
        check(folder)
    print("the programs of docs/embedding.md work against the installed prefix")


main()
