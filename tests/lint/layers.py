#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Checks every include of the project's own files against the table of layers
# (docs/architecture.md). What may include what is written down here only.
import re
import subprocess
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

# Layer (a folder; the longest match counts) -> the other layers it may include.
RUNTIME_BELOW_EXEC = {"runtime/abi", "runtime/core", "runtime/bundle", "runtime/device"}
RUNTIME_BELOW_LLM = RUNTIME_BELOW_EXEC | {"runtime/drivers", "runtime/exec"}
RUNTIME = RUNTIME_BELOW_LLM | {"runtime/llm", "runtime/capi", "runtime/include"}
COMPILER_BASE = {"runtime/abi", "compiler/ir", "compiler/target"}
COMPILER = COMPILER_BASE | {"compiler/onnx", "compiler/bundle", "compiler/driver"}
EVERYTHING = RUNTIME | COMPILER | {"passes", "codegen", "tools"}

MAY_INCLUDE = {
    "runtime/abi": set(),
    "runtime/core": {"runtime/abi"},
    "runtime/bundle": {"runtime/abi", "runtime/core"},
    "runtime/device": {"runtime/abi", "runtime/core"},
    "runtime/drivers": RUNTIME_BELOW_EXEC,
    "runtime/exec": RUNTIME_BELOW_EXEC,
    "runtime/llm": RUNTIME_BELOW_LLM,
    "runtime/capi": RUNTIME_BELOW_LLM | {"runtime/llm", "runtime/include"},
    "runtime/include": set(),
    "compiler/ir": {"runtime/abi"},
    "compiler/target": {"runtime/abi", "compiler/ir"},
    "compiler/onnx": COMPILER_BASE,
    "compiler/bundle": COMPILER_BASE,
    "compiler/driver": COMPILER_BASE | {"compiler/onnx", "compiler/bundle"},
    "passes": {"compiler/ir", "compiler/target"},
    "codegen": COMPILER_BASE,
    "tools/llmc-run": RUNTIME | {"tools"},
    "tools": EVERYTHING,
    "tests": EVERYTHING,
    "models": set(),
}

# Prefix of an outside header -> the layers that may see it.
LLVM_USERS = {"compiler/ir", "compiler/target", "compiler/onnx", "compiler/bundle", "compiler/driver",
              "passes", "codegen", "tools", "tests"}
OUTSIDE = {
    "llvm/": LLVM_USERS,
    "llvm-c/": set(),
    "mlir/": LLVM_USERS,
    "mlir-c/": set(),
    "lld/": {"codegen"},
    "onnx/": {"compiler/onnx", "tests"},
    "google/protobuf/": {"compiler/onnx", "tests"},
}

# The folder of the installed header is on the include path under its own name.
INSTALLED = ("llmc/", "runtime/include/llmc/")
SUFFIXES = {".c", ".h", ".cpp", ".def", ".inc", ".td"}
INCLUDE = re.compile(r'^\s*#?\s*include\s*(["<])([^">]+)[">]')


class Problem(NamedTuple):
    file: str
    line: int
    text: str

    def __str__(self):
        return f"{self.file}:{self.line}: {self.text}"


def layer_of(path: str):
    """The layer that a root-relative path lies in, or None."""
    found = [name for name in MAY_INCLUDE if path.startswith(name + "/")]
    return max(found, key=len, default=None)


def check_include(file: str, target: str, quoted: bool, exists) -> str | None:
    """What is wrong with `file` including `target`, or None."""
    source = layer_of(file)
    if source is None:
        return "this file lies in no layer; see MAY_INCLUDE in tests/lint/layers.py"
    for prefix, users in OUTSIDE.items():
        if target.startswith(prefix):
            return None if source in users else f"{source} may not include {target}: only {named(users)} may see {prefix}"
    if target.startswith(INSTALLED[0]):
        target = INSTALLED[1] + target[len(INSTALLED[0]):]
    layer = layer_of(target)
    if layer is None:
        if not quoted:
            return None
        return f'"{target}" is not an include relative to the project\'s root'
    # Generated files lie in the build folder under the same path.
    if not exists(target) and not target.endswith(".inc"):
        return f"{target} does not exist"
    if layer != source and layer not in MAY_INCLUDE[source]:
        return f"{source} may not include {layer} ({target}); it may include {named(MAY_INCLUDE[source])}"
    return None


def named(layers) -> str:
    return ", ".join(sorted(layers)) or "no other layer"


def check_text(file: str, text: str, exists) -> Iterator[Problem]:
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        wrong = check_include(file, match[2], match[1] == '"', exists)
        if wrong:
            yield Problem(file, number, wrong)


def main() -> int:
    root = Path(__file__).resolve().parents[2]
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True)
    files = [f for f in listed.stdout.split("\0") if Path(f).suffix in SUFFIXES and (root / f).is_file()]
    problems = [p for f in files for p in check_text(f, (root / f).read_text(), lambda t: (root / t).is_file())]
    for problem in problems:
        print(problem)
    print(f"layers: {len(files)} files, {len(problems)} problems")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
