# SPDX-License-Identifier: Apache-2.0
#
# Whole models through the command line, against what PyTorch gave: the model
# that ships with the project, and the exports of ../shared where they lie.
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
LLMC = Path(os.environ["LLMC_PROGRAM"])
AUSTEN = ROOT / "models" / "austen"
SHARED = ROOT.parent / "shared" / "models"

# Exports of the families that the op table serves. Others must be refused with a list of what is missing.
SUPPORTED = ["bert-ts", "clip-optimum", "gpt2-optimum-past", "gpt2-ts-nocache", "gptneox-optimum-past", "llama-dynamo18",
             "llama-dynamo23", "llama-f16-ts", "llama-genai-fp32", "llama-genai-int4", "llama-optimum-past", "minilm", "mistral-optimum-swa",
             "qwen2-optimum-past"]


def llmc(*arguments, code=0, **options):
    done = subprocess.run([LLMC, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == code, f"{done.args}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module", params=["-O0", "-O2"])
def austen(request, tmp_path_factory):
    bundle = tmp_path_factory.mktemp("austen") / f"austen{request.param}.llmc"
    llmc("compile", AUSTEN, "-o", bundle, request.param)
    return bundle


def cases_of(folder, tolerance):
    """(graph, case file, tolerance) of a folder as ../shared/models describes them."""
    for case in json.loads((folder / "io.json").read_text())["cases"]:
        yield case.get("graph") or "model.onnx", folder / case["file"], tolerance


def compare(case: Path, got: Path, atol: float, rtol: float):
    """A comparison passes when |got - want| <= atol + rtol * max|want| over the elements that count."""
    with np.load(case) as want, np.load(got) as have:
        for key in (key for key in want.files if key.startswith("out:")):
            name, expected = key[4:], want[key]
            result = have[name]
            assert result.shape == expected.shape, name
            counted = np.broadcast_to(want["mask:" + name], expected.shape) if "mask:" + name in want.files else np.ones(expected.shape, bool)
            expected, result = expected[counted].astype(np.float64), result[counted].astype(np.float64)
            if expected.size:
                assert np.abs(result - expected).max() <= atol + rtol * np.abs(expected).max(), name


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", ["case_0.npz", "case_1.npz"])
def test_austen_outputs_equal_pytorch(austen, tmp_path, case, threads):
    llmc("run", austen, "--inputs", AUSTEN / case, "--outputs", tmp_path / "out.npz", "--threads", threads)
    compare(AUSTEN / case, tmp_path / "out.npz", atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("threads", [1, 2])
def test_austen_continues_as_pytorch_does(austen, threads):
    for expected in prompts():
        shown = llmc("generate", austen, "--prompt-ids", ",".join(map(str, expected["prompt_ids"])), "-n", len(expected["ids"]),
                     "--greedy", "--ids", "--threads", threads).stdout
        assert [int(word) for word in shown.split()] == until_end(expected["ids"])


def prompts():
    return json.loads((AUSTEN / "expected.json").read_text())["cases"]


def until_end(ids):
    """What generation gives of PyTorch's ids, which go on behind the end of text (id 0)."""
    return ids[:ids.index(0)] if 0 in ids else ids


@pytest.mark.parametrize("stored", ["f16", "bf16"])
def test_narrower_caches_continue_alike(stored, tmp_path):
    bundle = tmp_path / "austen.llmc"
    llmc("compile", AUSTEN, "-o", bundle, "--kv-cache", stored)
    assert f" {stored} " in llmc("inspect", bundle, "--program").stdout
    same = total = 0
    for expected in prompts():
        want = until_end(expected["ids"])
        shown = llmc("generate", bundle, "--prompt-ids", ",".join(map(str, expected["prompt_ids"])), "-n", len(expected["ids"]),
                     "--greedy", "--ids").stdout
        have = [int(word) for word in shown.split()]
        agree = next((i for i, (a, b) in enumerate(zip(have, want)) if a != b), len(want))
        same, total = same + agree, total + len(want)
    # Rounding may turn a close choice, after which the texts differ.
    assert same >= total * (0.9 if stored == "f16" else 0.5)


def test_outputs_do_not_depend_on_threads(austen, tmp_path):
    results = []
    for threads in (1, 2, 3, 16):
        llmc("run", austen, "--inputs", AUSTEN / "case_1.npz", "--outputs", tmp_path / f"{threads}.npz", "--threads", threads)
        with np.load(tmp_path / f"{threads}.npz") as file:
            results.append({name: file[name].tobytes() for name in file.files})
    assert all(result == results[0] for result in results)


def test_prompt_text_is_tokenized_as_expected(austen):
    expected = prompts()[0]
    by_text = llmc("generate", austen, "--prompt", expected["prompt"], "-n", 8, "--greedy", "--ids").stdout.split()
    by_ids = llmc("generate", austen, "--prompt-ids", ",".join(map(str, expected["prompt_ids"])), "-n", 8, "--greedy", "--ids").stdout.split()
    assert by_text == by_ids


def test_context_overflow_is_refused(austen):
    done = llmc("generate", austen, "--prompt-ids", ",".join(["5"] * 30), "-n", 10, "--context", 24, "--greedy", "--ids", code=1)
    assert "24" in done.stderr


@pytest.mark.parametrize("rules", ["*=cpu1", "layers[0-1]=cpu0; *=cpu1", "layers[1]=cpu1", "*MatMul*=cpu1", "*=cpu2; layers[3]=cpu1"])
def test_device_maps_give_the_same_bits(rules, tmp_path):
    results = []
    for name, flags in (("plain", []), ("mapped", ["--device-map", rules])):
        llmc("compile", AUSTEN, "-o", tmp_path / f"{name}.llmc", *flags)
        llmc("run", tmp_path / f"{name}.llmc", "--inputs", AUSTEN / "case_1.npz", "--outputs", tmp_path / f"{name}.npz")
        with np.load(tmp_path / f"{name}.npz") as file:
            results.append({key: file[key].tobytes() for key in file.files})
    assert results[0] == results[1]


def test_device_rules_that_match_nothing_are_errors(tmp_path):
    for rules, text in (("layers[9]=cpu1", "matches no node"), ("layers[2-1]=cpu1", "layers[FIRST-LAST]"), ("cpu1", "PATTERN=DEVICE")):
        assert text in llmc("compile", AUSTEN, "-o", tmp_path / "x.llmc", "--device-map", rules, code=1).stderr


def test_compiles_are_reproducible(tmp_path):
    bundles = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        bundle = tmp_path / folder / "austen.llmc"
        llmc("compile", AUSTEN, "-o", bundle, "--target=avx2,avx512", cwd=tmp_path / folder)
        bundles.append(bundle.read_bytes())
    assert bundles[0] == bundles[1]


def test_killed_compile_leaves_the_old_file(tmp_path):
    bundle = tmp_path / "austen.llmc"
    bundle.write_bytes(b"old")
    for delay in (0.05, 0.2, 0.4, 0.6):
        process = subprocess.Popen([LLMC, "compile", AUSTEN, "-o", bundle, "-q"], stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        if process.wait() == 0:
            break
        assert bundle.read_bytes() == b"old"
        assert [path.name for path in tmp_path.iterdir()] == ["austen.llmc"]


def test_wrong_inputs_give_one_clear_error(tmp_path, austen):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes((AUSTEN / "model.onnx").read_bytes()[:100_000])
    assert "LLMC" in llmc("compile", broken, "-o", tmp_path / "x.llmc", code=1).stderr
    assert "does not exist" in llmc("compile", tmp_path / "none.onnx", "-o", tmp_path / "x.llmc", code=3).stderr
    assert "did you mean '--target'" in llmc("compile", AUSTEN, "-o", tmp_path / "x.llmc", "--targte=avx2", code=2).stderr
    assert "known are" in llmc("compile", AUSTEN, "-o", tmp_path / "x.llmc", "--target=mmx", code=1).stderr
    np.savez(tmp_path / "in.npz", input_ids=np.zeros((1, 3), np.int64))
    assert "attention_mask" in llmc("run", austen, "--inputs", tmp_path / "in.npz", code=1).stderr


def test_token_outside_the_vocabulary_is_an_error_of_its_node(austen, tmp_path):
    with np.load(AUSTEN / "case_0.npz") as file:
        feeds = {key[3:]: file[key] for key in file.files if key.startswith("in:")}
    feeds["input_ids"] = np.full_like(feeds["input_ids"], 10**6)
    np.savez(tmp_path / "in.npz", **feeds)
    error = llmc("run", austen, "--inputs", tmp_path / "in.npz", code=1).stderr
    assert "out of range" in error and "Gather" in error


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("name", SUPPORTED)
def test_shared_model(name, level, tmp_path):
    folder = SHARED / name
    if not (folder / "model.onnx").exists():
        pytest.skip(f"../shared/models/{name}/model.onnx is not there")
    io = json.loads((folder / "io.json").read_text())
    tolerance = {"atol": 1e-4, "rtol": 1e-3} | io.get("tolerance", {})
    bundle = tmp_path / "model.llmc"
    llmc("compile", folder / "model.onnx", "-o", bundle, level)
    for case in (case for case in io["cases"] if case.get("graph") in (None, "model.onnx")):
        llmc("run", bundle, "--inputs", folder / case["file"], "--outputs", tmp_path / "out.npz")
        compare(folder / case["file"], tmp_path / "out.npz", tolerance["atol"], tolerance["rtol"])
    if (folder / "generate.json").exists():
        expected = json.loads((folder / "generate.json").read_text())
        for threads in (1, 2):
            shown = llmc("generate", bundle, "--prompt-ids", ",".join(map(str, expected["prompt_ids"])), "-n", len(expected["ids"]),
                         "--greedy", "--ids", "--threads", threads).stdout
            assert [int(word) for word in re.findall(r"-?\d+", shown)] == expected["ids"]


def test_other_shared_models_compile_or_are_refused_by_name():
    if not SHARED.exists():
        pytest.skip("../shared/models is not there")
    for folder in sorted(path.parent for path in SHARED.glob("*/io.json")):
        for model in sorted(folder.glob("*.onnx")):
            done = subprocess.run([LLMC, "compile", model, "--stop-after=graph"], capture_output=True, text=True, timeout=300)
            assert done.returncode in (0, 1), f"{model}: {done.stderr[-500:]}"
            if done.returncode:
                assert "error[LLMC12" in done.stderr, f"{model}: {done.stderr[-500:]}"
