# SPDX-License-Identifier: Apache-2.0
#
# tools/bench with a real bundle and a made-up engine whose figures are known.
# What is fast is not tested; what is counted and how it is shown is.
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LLMC = Path(os.environ["LLMC_PROGRAM"])
AUSTEN = ROOT / "models" / "austen"

FAKE_ENGINE = """
import json, sys
prompts = sys.argv[sys.argv.index("--prompt") + 1].split(",")
assert sys.argv[sys.argv.index("--threads") + 1] == "2"
for prompt in map(int, prompts):
    print(json.dumps({"prompt": prompt, "decode_ms_per_token": 1e6, "prefill_tokens_per_s": 0.5, "load_ms": 3,
                      "first_token_ms": 4, "peak_rss_bytes": 5e6}))
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "austen.llmc"
    subprocess.run([LLMC, "compile", AUSTEN, "-o", path, "-q"], check=True)
    return path


def bench(*arguments):
    command = [sys.executable, ROOT / "tools/benchmark/main.py", "--llmc", LLMC, "--threads", "2", *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)


def test_a_bundle_beside_another_engine(bundle, tmp_path):
    (tmp_path / "engine.py").write_text(FAKE_ENGINE)
    engine = f"snail={sys.executable} {tmp_path / 'engine.py'}"
    done = bench("--bundle", f"ours={bundle}", "--engine", engine, "--prompt", "4,9", "--generate", 3, "--rounds", 2,
                 "--json", tmp_path / "r.json", "--svg", tmp_path / "r.svg")
    assert done.returncode == 0, done.stderr
    assert "| snail | **1000000" in done.stdout and "of bandwidth" in done.stdout
    document = json.loads((tmp_path / "r.json").read_text())
    rows = {(row["engine"], row["metric"], row["prompt"]): row for row in document["results"]}
    for prompt in (4, 9):
        ours = rows["ours", "decode_ms_per_token", prompt]
        assert len(ours["values"]) == 2 and ours["median"] == sum(ours["values"]) / 2
        assert ours["times_better_than_best_peer"] == pytest.approx(1e6 / ours["median"])
        faster = rows["ours", "prefill_tokens_per_s", prompt]
        assert faster["times_better_than_best_peer"] == pytest.approx(faster["median"] / 0.5)
    assert rows["snail", "peak_rss_bytes", 9]["median"] == pytest.approx(5e6)
    assert rows["snail", "load_ms", 9]["times_better_than_best_peer"] is None
    # A decoded token reads every weight once: 3.7 M parameters, of which the embedding's rows are only looked up.
    assert 10e6 < document["bounds"]["ours"]["bytes_per_token"] < 40e6
    for picture in ("r.svg", "r-roofline.svg"):
        assert ElementTree.parse(tmp_path / picture).getroot().tag.endswith("svg")


def test_an_engine_that_fails_is_left_out_and_said(bundle):
    done = bench("--bundle", f"ours={bundle}", "--engine", "broken=false", "--prompt", 4, "--generate", 1, "--rounds", 1)
    assert done.returncode == 1
    assert "broken is left out: exit code 1" in done.stderr and "| ours |" in done.stdout
    assert "no program /nowhere" in bench("--engine", "x=/nowhere", "--rounds", 1).stderr


def test_onnxruntime_speaks_the_protocol():
    driver = [sys.executable, ROOT / "tools/benchmark/onnxruntime_peer.py", AUSTEN, "--threads", "2"]
    done = subprocess.run([*driver, "--prompt", "3,5", "--generate", "2"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["prompt"] for row in rows] == [3, 5]
    assert all(row["decode_ms_per_token"] > 0 and row["prefill_tokens_per_s"] > 0 for row in rows)


def test_wrong_use_is_explained():
    assert "nothing to measure" in bench().stderr
    assert "is not LABEL=VALUE" in bench("--bundle", "x").stderr
    assert "the peer 'torch' is unknown" in bench("--peer", "torch=x").stderr


def test_a_trace_holds_every_step_in_order(bundle, tmp_path):
    done = subprocess.run([LLMC, "bench", bundle, "--prompt", "8", "--generate", "2", "--repeat", "1", "--trace", tmp_path / "t.json", "--json"],
                          capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert [event["args"]["name"] for event in events if event["ph"] == "M"] == ["cpu0"]
    steps = [event for event in events if event["ph"] == "X"]
    assert len(steps) == sum(row["calls"] for rows in report["profile"].values() for row in rows)
    for before, after in zip(steps, steps[1:]):
        assert before["ts"] + before["dur"] <= after["ts"] + 1e-3
    assert any("attention" in event["name"] for event in steps) and all(event["args"]["node"] for event in steps)
    refused = subprocess.run([LLMC, "bench", bundle, "--repeat", "1", "--trace", tmp_path / "no" / "t.json"], capture_output=True, text=True)
    assert refused.returncode == 3 and "can't write" in refused.stderr


def test_profiles_count_the_arithmetic_of_products(bundle):
    text = subprocess.run([LLMC, "bench", bundle, "--prompt", "8", "--generate", "2", "--repeat", "1", "--profile", "--json"],
                          capture_output=True, text=True, check=True).stdout
    report = json.loads(text)
    prefill = sum(row["flops_per_call"] * row["calls"] for row in report["profile"]["prefill"])
    # 4 layers of (256 x 768 + 256 x 256 + 2 x 256 x 1024), 8 tokens; the head 256 x 2048 for the last one;
    # attention: 4 heads of 64, every pair of 8 queries and 8 keys, scores and values.
    matmuls = 2 * (8 * 4 * (256 * 768 + 256 * 256 + 2 * 256 * 1024) + 256 * 2048)
    assert prefill == matmuls + 4 * (2 * 4 * 8 * 8 * 128)
    assert all(row["of_peak"] >= 0 and row["of_bandwidth"] > 0 for row in report["profile"]["prefill"])
    assert report["machine"]["f32_flops_per_s"] > 1e9
