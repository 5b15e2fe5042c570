# SPDX-License-Identifier: Apache-2.0
#
# Stored formats of weights through the command line: the values in a bundle
# against numpy's own rounding, what is computed from them against f32, and the
# same bytes however a compile runs.
import json
import os
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
LLMC = Path(os.environ["LLMC_PROGRAM"])
AUSTEN = ROOT / "models" / "austen"
# The least cosine that logits may have with those of f32.
FORMATS = {"f16": 0.999999, "bf16": 0.99999, "int8": 0.99998, "int4:g32": 0.998, "int4": 0.998, "int4:g128": 0.997,
           "int4:g64:asym": 0.998, "int4x2:g32": 0.997, "int4; lm_head=int8; *.c_proj=bf16": 0.999}


def llmc(*arguments, code=0, prefix=(), **options):
    done = subprocess.run([*prefix, LLMC, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == code, f"{done.args}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def logits_of(bundle, folder):
    llmc("run", bundle, "--inputs", AUSTEN / "case_1.npz", "--outputs", folder / "out.npz")
    with np.load(folder / "out.npz") as file:
        return file["logits"].astype(np.float64)


def weights_of(bundle):
    """name -> entry of the manifest."""
    listed = json.loads(llmc("inspect", bundle, "--json").stdout)["manifest"]["weights"]
    return {weight["name"]: weight for weight in listed}


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    folder = tmp_path_factory.mktemp("f32")
    llmc("compile", AUSTEN, "-o", folder / "austen.llmc")
    return logits_of(folder / "austen.llmc", folder)


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("rules", FORMATS)
def test_logits_stay_near_f32(rules, level, exact, tmp_path):
    llmc("compile", AUSTEN, "-o", tmp_path / "austen.llmc", "--weights", rules, level)
    got = logits_of(tmp_path / "austen.llmc", tmp_path)
    cosine = (got * exact).sum() / np.sqrt((got * got).sum() * (exact * exact).sum())
    assert FORMATS[rules] <= cosine


def test_a_shared_embedding_is_stored_once(tmp_path):
    llmc("compile", AUSTEN, "-o", tmp_path / "austen.llmc", "--weights", "int4; lm_head=int8")
    tables = [weight for weight in json.loads(llmc("inspect", tmp_path / "austen.llmc", "--json").stdout)["manifest"]["weights"]
              if weight["name"] == "transformer.wte.weight"]
    assert [table["format"] for table in tables] == ["int8"]
    assert tables[0]["bytes"] == 2048 // 16 * (256 * 16 + 64)


def test_bytes_do_not_depend_on_threads(tmp_path):
    bundles = []
    for name, prefix in (("a", []), ("b", []), ("c", ["taskset", "-c", str(min(os.sched_getaffinity(0)))])):
        (tmp_path / name).mkdir()
        llmc("compile", AUSTEN, "-o", tmp_path / name / "austen.llmc", "--weights", "int4:asym; layers[1]=int4x2; lm_head=int8", prefix=prefix)
        bundles.append((tmp_path / name / "austen.llmc").read_bytes())
    assert bundles[0] == bundles[1] == bundles[2]


def model_of(weight, path):
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "fc.weight"], ["y"], name="/fc/MatMul")], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", weight.shape[0]])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", weight.shape[1]])],
                              [numpy_helper.from_array(weight, "fc.weight")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def best_error(group, low, high):
    """The least squared error of rounding a group to low..high times a scale, by trying many."""
    most = np.abs(group).max()
    if most == 0:
        return 0.0
    scales = np.concatenate([sign * most / high * np.linspace(0.3, 1.3, 400) for sign in (1, -1)])[:, None]
    return (((group - np.clip(np.rint(group / scales), low, high) * scales) ** 2).sum(1)).min()


# How much more squared error than the best of 800 scales is allowed. With the fine steps of int8, so many tries fit the
# rounding of a short column by chance (measured: 1.057), which 8 tries can't.
@pytest.mark.parametrize("format,group,low,high,most", [("int8", 0, -127, 127, 1.08), ("int4:g32", 32, -8, 7, 1.04),
                                                        ("int4:g64", 64, -8, 7, 1.04), ("int4:g128", 128, -8, 7, 1.04)])
def test_products_use_weights_nearly_as_good_as_numpy_finds(format, group, low, high, most, tmp_path):
    weight = np.random.default_rng(4).standard_t(5, (150, 37)).astype(np.float32)
    model_of(weight, tmp_path / "m.onnx")
    llmc("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.llmc", "--weights", format, "-O0")
    # Products with unit rows give the weight that the bundle means.
    np.savez(tmp_path / "in.npz", x=np.eye(150, dtype=np.float32))
    llmc("run", tmp_path / "m.llmc", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as file:
        meant = file["y"].astype(np.float64)
    exact = weight.astype(np.float64)
    error = ((meant - exact) ** 2).sum()
    step = group or 150
    best = sum(best_error(exact[k:k + step, n], low, high) for n in range(37) for k in range(0, 150, step))
    assert error <= best * most
    listed = weights_of(tmp_path / "m.llmc")["fc.weight"]
    assert listed["format"] == format and listed["node"] == "/fc/MatMul"
    assert listed["relative_error"] == pytest.approx(np.sqrt(error / (exact ** 2).sum()), rel=1e-3)


@pytest.mark.parametrize("value,format,reason", [(np.nan, "int8", "NaN"), (np.inf, "int4", "infinity"), (1e7, "int4:asym", "too large")])
def test_weights_that_do_not_fit_are_refused_by_name(value, format, reason, tmp_path):
    weight = np.ones((40, 20), np.float32)
    weight[39, 19] = value
    model_of(weight, tmp_path / "m.onnx")
    shown = llmc("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.llmc", "--weights", format, code=1).stderr
    assert "LLMC1406" in shown and "fc.weight" in shown and reason in shown
    assert not (tmp_path / "m.llmc").exists()


@pytest.mark.parametrize("rules,text", [("int5", "int4:g128"), ("int4; lm_heed=int8", "/lm_head/MatMul"), ("int4; =int8", "PATTERN=FORMAT"),
                                        ("layers[7]=int8", "matches no weight"), ("layers[2-1]=int8", "layers[FIRST-LAST]")])
def test_wrong_rules_say_what_is_right(rules, text, tmp_path):
    assert text in llmc("compile", AUSTEN, "-o", tmp_path / "x.llmc", "--weights", rules, code=1).stderr


def test_the_archive_lists_every_format_that_was_asked_for(tmp_path):
    llmc("compile", AUSTEN, "-o", tmp_path / "austen.llmc", "--weights", "int4; layers[0]=f16; *.wte=bf16")
    assert {weight["format"] for weight in weights_of(tmp_path / "austen.llmc").values()} == {"f32", "f16", "bf16", "int4:g64"}
    shown = llmc("inspect", tmp_path / "austen.llmc", "--weights").stdout
    assert "transformer.h.1.mlp.c_fc.weight" in shown and "%" in shown
    assert zipfile.ZipFile(tmp_path / "austen.llmc").getinfo("weights.bin").file_size < 6_000_000
