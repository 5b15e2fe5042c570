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
