# SPDX-License-Identifier: Apache-2.0
#
# Runs the commands that the documents show, as they stand there.
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LLMC = Path(os.environ["LLMC_PROGRAM"])


def commands(document: str, language: str = "sh") -> list[str]:
    """The lines of a document's code blocks in `language` that call llmc."""
    blocks = re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), re.S)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [re.sub(r"^\s*(?:- run: |run: |- |\$ )", "", line) for line in lines if re.search(r"(?:^|\s|/)llmc (?:compile|run|inspect|check|generate)", line)]


@pytest.fixture
def folder(tmp_path):
    """What a pipeline finds: an exporter's folder and a case with expected outputs."""
    shutil.copytree(ROOT / "models" / "austen", tmp_path / "exported")
    shutil.copy(ROOT / "models" / "austen" / "case_1.npz", tmp_path / "case.npz")
    return tmp_path


def shell(line: str, folder: Path):
    environment = {**os.environ, "PATH": f"{LLMC.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("language", ["sh", "yaml"])
def test_ci_commands(folder, language):
    found = commands("docs/ci.md", language)
    assert len(found) >= 2
    for line in found:
        shell(line, folder)
    assert (folder / "model.llmc").exists()


def test_readme_example(folder):
    shutil.copytree(ROOT / "models" / "austen", folder / "models" / "austen")
    found = re.findall(r"^\$ (.*llmc .*)$", (ROOT / "README.md").read_text(), re.M)
    assert len(found) >= 2
    outputs = [shell(line.replace("build/bin/llmc", "llmc"), folder) for line in found]
    assert len(outputs[1].split()) > 20


def test_table_of_operators():
    """docs/onnx-support.md is what `llmc check --operators` prints."""
    printed = subprocess.run([LLMC, "check", "--operators"], capture_output=True, text=True, check=True).stdout
    assert (ROOT / "docs" / "onnx-support.md").read_text() == printed, "write it again with: llmc check --operators > docs/onnx-support.md"


def op_examples():
    """The examples in the descriptions of ops and passes."""
    for document in ("compiler/ir/llm/LlmOps.td", "compiler/ir/rt/RtOps.td", "passes/Passes.td"):
        for block in re.findall(r"```mlir\n(.*?)```", (ROOT / document).read_text(), re.S):
            yield pytest.param(block, id=f"{Path(document).stem}: {block.split('=')[-1].split('(')[0].strip()[:40]}")


@pytest.mark.parametrize("block", op_examples())
def test_examples_in_descriptions_parse(block, tmp_path):
    """Their operands come from nowhere: that may be the only thing that is wrong with them."""
    whole = re.match(r"\s*(func\.func|rt\.kernel)", block)
    (tmp_path / "example.mlir").write_text(block if whole else "func.func @f() {\n" + block + "\nreturn\n}\n")
    done = subprocess.run([LLMC.with_name("llmc-opt"), tmp_path / "example.mlir"], capture_output=True, text=True, timeout=60)
    errors = [line for line in done.stderr.splitlines() if " error: " in line]
    assert all("use of undeclared SSA value name" in line or "does not reference a valid" in line for line in errors), done.stderr
    assert done.returncode == 0 or errors
