#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs llmc-run as a user does, on bundles whose answers are known, with NumPy as the oracle for files.

    cli_cases.py LLMC_RUN WRITE_BUNDLES

Exit code 77 says that NumPy is not there.
"""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("skipped: this Python has no numpy")
    sys.exit(77)

PROGRAM, WRITER = sys.argv[1:3]
FOLDER = tempfile.TemporaryDirectory()
ROOT = Path(FOLDER.name)
VOCABULARY = 128
NUMPY_TYPES = {"f32": "f4", "f64": "f8", "f16": "f2", "bf16": "u2", "i8": "i1", "i16": "i2", "i32": "i4",
               "i64": "i8", "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8", "bool": "?"}


def run(*arguments, stdin=None):
    done = subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def continue_(tokens, count):
    tokens = list(tokens)
    for _ in range(count):
        tokens.append((sum(tokens) + len(tokens) - 1) % VOCABULARY)
    return tokens[-count:]


def identity_arrays(rows=3, seed=0):
    random = np.random.default_rng(seed)
    arrays = {}
    for name, dtype in NUMPY_TYPES.items():
        if dtype == "?":
            arrays[name] = random.random((rows, 2)) > 0.5
        elif dtype[0] == "f":
            arrays[name] = random.standard_normal((rows, 2)).astype(dtype)
        else:
            info = np.iinfo(dtype)
            arrays[name] = random.integers(info.min, info.max, (rows, 2), dtype=dtype, endpoint=True)
    return arrays


class Run(unittest.TestCase):
    def same(self, arrays, got):
        for name, want in arrays.items():
            self.assertEqual(got["y/" + name].dtype, want.dtype, name)
            self.assertEqual(got["y/" + name].tobytes(), np.ascontiguousarray(want).tobytes(), name)

    def test_npz_of_every_kind(self):
        for rows in (0, 1, 3):
            arrays = identity_arrays(rows)
            for save in (np.savez, np.savez_compressed):
                for prefix in ("", "in:"):
                    extra = {"other": np.array(["text"]), "more": np.arange(3) + 1j}
                    save(ROOT / "in.npz", **{prefix + "x/" + k: v for k, v in arrays.items()}, **extra)
                    code, _, error = run("run", ROOT / "identity.llmc", "--inputs", ROOT / "in.npz", "--outputs",
                                         ROOT / "out.npz")
                    self.assertEqual(code, 0, error)
                    with np.load(ROOT / "out.npz", allow_pickle=False) as got:
                        self.same(arrays, got)

    def test_folders_of_npy(self):
        arrays = identity_arrays()
        folder = ROOT / "npy"
        folder.mkdir(exist_ok=True)
        for name, array in arrays.items():
            big = array.astype(array.dtype.newbyteorder(">")) if array.dtype.itemsize > 1 else array
            np.save(folder / f"x_{name}.npy", np.asfortranarray(big))
        out = ROOT / "npy_out"
        code, _, error = run("run", ROOT / "identity.llmc", "--inputs", folder, "--outputs", out)
        self.assertEqual(code, 0, error)
        self.same(arrays, {"y/" + name: np.load(out / f"y_{name}.npy") for name in arrays})

    def test_bf16_as_ml_dtypes_saves_it(self):
        arrays = identity_arrays()
        inputs = {"x/" + name: array for name, array in arrays.items()}
        inputs["x/bf16"] = arrays["bf16"].view("V2")
        np.savez(ROOT / "in.npz", **inputs)
        code, _, error = run("run", ROOT / "identity.llmc", "--inputs", ROOT / "in.npz", "--outputs", ROOT / "out.npz")
        self.assertEqual(code, 0, error)
        with np.load(ROOT / "out.npz") as got:
            self.same(arrays, got)

    def case(self, change=None, mask=None, *flags):
        """One file with inputs and expected outputs, of which `change` alters some."""
        arrays = identity_arrays()
        arrays["f32"] = np.array([[1, 2], [3, 100], [np.nan, np.inf]], "f4")
        outputs = {name: array.copy() for name, array in arrays.items()}
        if change:
            change(outputs)
        keys = {"in:x/" + k: v for k, v in arrays.items()} | {"out:y/" + k: v for k, v in outputs.items()}
        if mask is not None:
            keys["mask:y/f32"] = mask
        np.savez(ROOT / "case.npz", **keys)
        return run("run", ROOT / "identity.llmc", "--inputs", ROOT / "case.npz", "--expect", ROOT / "case.npz",
                   "--threads", 1, *flags)

    def test_expect_says_equal(self):
        code, out, error = self.case()
        self.assertEqual((code, error), (0, ""))
        self.assertEqual(out.count("equal"), len(NUMPY_TYPES))

    def test_expect_finds_the_worst_element(self):
        def change(outputs):
            outputs["f32"][1, 1] = 90
            outputs["f32"][0, 0] = 2
        code, out, _ = self.case(change)
        self.assertEqual(code, 4)
        line = next(text for text in out.splitlines() if text.startswith("y/f32"))
        self.assertIn("2 of 6", line)
        self.assertIn("max abs error 10 at (1, 1): got 100, expected 90", line)
        self.assertIn("max rel error 0.5 at (0, 0)", line)

    def test_tolerance_is_elementwise_as_in_numpy(self):
        random = np.random.default_rng(1)
        for _ in range(20):
            factor, shift = random.choice([1e-3, 1e-2, 0.3], 2)
            rtol, atol = random.choice([0, 1e-3, 1e-2, 0.5], 2)
            def change(outputs):
                outputs["f32"] = (outputs["f32"] * np.float32(1 + factor) + np.float32(shift)).astype("f4")
                self.want = np.allclose(identity, outputs["f32"], rtol=rtol, atol=atol, equal_nan=True)
            identity = np.array([[1, 2], [3, 100], [np.nan, np.inf]], "f4")
            code, out, _ = self.case(change, None, "--rtol", rtol, "--atol", atol)
            self.assertEqual(code, 0 if self.want else 4, (factor, shift, rtol, atol, out))

    def test_mask_hides_elements(self):
        def change(outputs):
            outputs["f32"][1] = 7
        self.assertEqual(self.case(change)[0], 4)
        self.assertEqual(self.case(change, np.array([[True], [False], [True]]))[0], 0)

    def test_other_types_shapes_and_nothing_at_all_differ(self):
        def shape(outputs): outputs["f32"] = outputs["f32"].reshape(2, 3)
        def kind(outputs): outputs["f32"] = outputs["i32"]
        def integer(outputs): outputs["i32"][0, 0] ^= 1
        for change in (shape, kind, integer):
            self.assertEqual(self.case(change)[0], 4)
        np.savez(ROOT / "empty.npz", other=np.zeros(1))
        code, _, error = run("run", ROOT / "identity.llmc", "--random", 1, "--expect", ROOT / "empty.npz")
        self.assertEqual(code, 1)
        self.assertIn("none of the model's outputs", error)

    def test_missing_inputs_are_all_named(self):
        np.savez(ROOT / "few.npz", **{"x/f32": np.zeros((1, 2), "f4")})
        code, _, error = run("run", ROOT / "identity.llmc", "--inputs", ROOT / "few.npz")
        self.assertEqual(code, 1)
        self.assertIn("'x/f64'", error)
        self.assertIn("'x/bool'", error)

    def test_random_inputs_repeat(self):
        texts = [run("run", ROOT / "identity.llmc", "--random", seed, "--shape", "x/f32=5x2")[1] for seed in (1, 1, 2)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        self.assertIn("y/f16: f16 (5, 2)", texts[0])

    def test_random_inputs_of_a_decoder_fit_each_other(self):
        code, out, error = run("run", ROOT / "cache.llmc", "--random", 1)
        self.assertEqual(code, 0, error)
        self.assertIn("logits: f32 (1, 8, 128)", out)
        code, out, error = run("run", ROOT / "cache.llmc", "--random", 1, "--shape", "input_ids=1x3")
        self.assertEqual(code, 0, error)
        self.assertIn("present.0.key: f32 (1, 3, 3, 2)", out)


class Generate(unittest.TestCase):
    PROMPT = [72, 105]

    def test_ids_in_every_way(self):
        for name in ("recompute", "cache", "blocks"):
            code, out, error = run("generate", ROOT / f"{name}.llmc", "--prompt-ids", "72,105", "-n", 9, "--ids")
            self.assertEqual(code, 0, error)
            self.assertEqual(out, " ".join(map(str, continue_(self.PROMPT, 9))) + "\n", name)

    def test_text_from_flag_file_and_stdin(self):
        (ROOT / "prompt.txt").write_text("Hi")
        want = "".join(map(chr, continue_(self.PROMPT, 9))) + "\n"
        for arguments, stdin in ((["--prompt", "Hi"], None), (["--prompt-file", ROOT / "prompt.txt"], None),
                                 (["--prompt", "-"], "Hi"), (["--prompt-file", "-"], "Hi")):
            code, out, error = run("generate", ROOT / "blocks.llmc", *arguments, "-n", 9, stdin=stdin)
            self.assertEqual((code, out), (0, want), error)

    def test_stats_context_and_stop(self):
        code, out, error = run("generate", ROOT / "blocks.llmc", "--prompt", "Hi", "-n", 0, "--ids", "--stats")
        self.assertEqual(code, 0)
        self.assertEqual(len(out.split()), 64 - 2 + 1)
        self.assertIn("context of 64 tokens is full", error)
        self.assertIn("prompt 2 tokens", error)
        code, out, _ = run("generate", ROOT / "blocks.llmc", "--prompt", "Hi", "-n", 0, "--ids", "--context", 10)
        self.assertEqual(len(out.split()), 10 - 2 + 1)
        text = "".join(map(chr, continue_(self.PROMPT, 9)))
        code, out, _ = run("generate", ROOT / "blocks.llmc", "--prompt", "Hi", "--stop", text[3:5])
        self.assertEqual((code, out), (0, text[:text.find(text[3:5])] + "\n"))

    def test_seeds(self):
        def sample(*flags):
            return run("generate", ROOT / "blocks.llmc", "--prompt", "Hi", "--ids", "--temperature", 4, *flags)[1]
        self.assertEqual(sample("--seed", 5), sample("--seed", 5))
        self.assertNotEqual(sample("--seed", 5), sample("--seed", 6))
        greedy = " ".join(map(str, continue_(self.PROMPT, 40))) + "\n"
        self.assertEqual(sample("--greedy", "-n", 40), greedy)

    def test_refusals(self):
        cases = [
            (["blocks.llmc", "--prompt-ids", "1,x"], 1, "'x' is none"),
            (["blocks.llmc", "--prompt-ids", "1,-2"], 1, "'-2' is none"),
            (["recompute.llmc", "--prompt", "Hi"], 1, "no tokenizer"),
            (["recompute.llmc", "--prompt-ids", "1"], 1, "no tokenizer"),
            (["foreign.llmc", "--prompt-ids", "1", "--ids"], 1, "'pixel_values', 'encoder_states'"),
            (["blocks.llmc", "--prompt-ids", ",".join(["1"] * 65)], 1, "at most 64"),
            (["blocks.llmc", "--prompt", ""], 1, "no tokens"),
            (["blocks.llmc", "--prompt-ids", "1", "--top-p", "2"], 1, "top"),
            (["blocks.llmc"], 2, "prompt"),
            (["blocks.llmc", "--prompt", "a", "--prompt-ids", "1"], 2, "prompt"),
            (["absent.llmc", "--prompt", "a"], 3, "absent.llmc"),
            (["blocks.llmc", "--prompt-file", ROOT / "absent.txt"], 3, "absent.txt"),
        ]
        for arguments, want, text in cases:
            code, _, error = run("generate", ROOT / arguments[0], *arguments[1:])
            self.assertEqual(code, want, (arguments, error))
            self.assertIn(text, error)


class BenchAndInspect(unittest.TestCase):
    def test_bench_speaks_the_protocol(self):
        for name in ("cache", "blocks", "recompute"):
            code, out, error = run("bench", ROOT / f"{name}.llmc", "--prompt", 20, "--generate", 5, "--threads", 2, "--json")
            self.assertEqual(code, 0, error)
            self.assertEqual(len(out.splitlines()), 1)
            got = json.loads(out)
            for key in ("prefill_tokens_per_s", "decode_ms_per_token", "load_ms", "first_token_ms", "peak_rss_bytes"):
                self.assertGreater(got[key], 0, key)
                self.assertLessEqual(got[key + "_min"], got[key])
                self.assertLessEqual(got[key], got[key + "_max"])
            self.assertGreaterEqual(got["first_token_ms"], got["load_ms"])

    def test_bench_of_single_runs_and_profile(self):
        code, out, error = run("bench", ROOT / "recompute.llmc", "--input-shape", "input_ids=2x16", "--repeat", 1,
                               "--profile", "--json")
        self.assertEqual(code, 0, error)
        got = json.loads(out)
        self.assertGreater(got["latency_ms"], 0)
        self.assertEqual([row["kernel"] for row in got["profile"]["run"]], ["label of count_all"])
        self.assertEqual(got["profile"]["run"][0]["calls"], 5)
        code, out, _ = run("bench", ROOT / "blocks.llmc", "--prompt", 4, "--generate", 3, "--profile")
        self.assertEqual(code, 0)
        self.assertIn("label of count_blocks", out)

    def test_machine(self):
        code, out, error = run("machine", "--threads", 1, "--json")
        self.assertEqual(code, 0, error)
        shown = json.loads(out)
        self.assertEqual(shown["threads"], 1)
        for key in ("read_bandwidth_bytes_per_s", "large_page_read_bandwidth_bytes_per_s", "f32_flops_per_s"):
            self.assertGreater(shown[key], 1e6, key)
        self.assertIn(shown["isa"], run("machine")[1])

    def test_inspect(self):
        code, out, error = run("inspect", ROOT / "cache.llmc", "--json", "--symbols", "--kernels", "--program")
        self.assertEqual(code, 0, error)
        got = json.loads(out)
        self.assertEqual(got["manifest"]["format"], "0.1")
        ids = got["entries"][0]["inputs"][0]
        self.assertEqual(ids, {"name": "input_ids", "dtype": "i64", "dims": ["batch_size", "sequence_length"],
                               "role": "ids"})
        present = got["entries"][0]["outputs"][1]
        self.assertEqual((present["dims"][1], present["role"]), (3, "present"))
        self.assertIn("past_sequence_length", got["symbols"])
        self.assertEqual(got["kernels"][0]["name"], "count_cached")
        code, out, _ = run("inspect", ROOT / "cache.llmc", "--verify")
        self.assertEqual(code, 0)
        self.assertIn("attention_mask", out)

    def test_damage_and_absence(self):
        whole = (ROOT / "cache.llmc").read_bytes()
        (ROOT / "cut.llmc").write_bytes(whole[:len(whole) // 2])
        for command in (["inspect"], ["run", "--random", 1], ["generate", "--prompt-ids", "1"], ["bench"]):
            code, _, error = run(command[0], ROOT / "cut.llmc", *command[1:])
            self.assertEqual(code, 1, error)
            self.assertIn("cut.llmc", error)
            code, _, error = run(command[0], ROOT / "absent.llmc", *command[1:])
            self.assertEqual(code, 3, error)
            self.assertIn("absent.llmc", error)


class CommandLine(unittest.TestCase):
    def test_unknown_words_suggest_the_nearest(self):
        for arguments, text in ((["generat"], "'generate'"), (["run", "x", "--inptus", "y"], "'--inputs'"),
                                (["bench", "x", "--jsn"], "'--json'"), (["run", "x", "y"], "unexpected argument 'y'")):
            code, out, error = run(*arguments)
            self.assertEqual((code, out), (2, ""), error)
            self.assertIn(text, error)
        self.assertEqual(run()[0], 2)
        self.assertNotIn("did you mean", run("run", "x", "--zzzzzzzzzz")[2])

    def test_help_has_examples(self):
        for command in ("generate", "run", "bench", "inspect"):
            code, out, error = run(command, "--help")
            self.assertEqual((code, error), (0, ""))
            self.assertIn("Examples:\n  llmc-run " + command, out)
        self.assertEqual(run("--version")[1], "0.1.0\n")
        self.assertEqual(run("--help")[0], 0)


if __name__ == "__main__":
    subprocess.run([WRITER, str(ROOT)], check=True)
    unittest.main(argv=sys.argv[:1])
