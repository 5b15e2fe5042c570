# SPDX-License-Identifier: Apache-2.0
#
# ONNX Runtime behind the protocol of docs/benchmarks.md, for models with an
# exporter's usual inputs. Needs the packages onnxruntime and numpy.
import argparse
import json
import resource
import time
from pathlib import Path

import numpy
import onnxruntime

FIRST_PROMPT = 16
WARM_DECODES = 2
WARM_RUNS = 3
LEAST_RUNS = 5


def milliseconds() -> float:
    return time.perf_counter() * 1e3


def emit(**values) -> None:
    values["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(values), flush=True)


def open_session(folder: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    path = folder if folder.suffix == ".onnx" else folder / "model.onnx"
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class Decoder:
    """A decoder with past_key_values.* inputs and present.* outputs; values stay in its memory."""

    def __init__(self, session: onnxruntime.InferenceSession):
        self.session = session
        self.inputs = {value.name: value for value in session.get_inputs()}
        self.outputs = [value.name for value in session.get_outputs()]
        self.reset()

    def reset(self) -> None:
        self.position = 0
        self.cache = {}
        for name, value in self.inputs.items():
            if name.startswith("past_key_values"):
                heads, size = value.shape[1], value.shape[3]
                empty = numpy.zeros((1, heads, 0, size), numpy.float32)
                self.cache[name] = onnxruntime.OrtValue.ortvalue_from_numpy(empty)

    def step(self, tokens: numpy.ndarray) -> int:
        """Feeds tokens; returns the likeliest next one."""
        end = self.position + len(tokens)
        feeds = {
            "input_ids": tokens[None].astype(numpy.int64),
            "attention_mask": numpy.ones((1, end), numpy.int64),
            "position_ids": numpy.arange(self.position, end, dtype=numpy.int64)[None],
        }
        values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(feeds[name]) for name in feeds if name in self.inputs}
        results = self.session.run_with_ort_values(self.outputs, values | self.cache)
        for name, value in zip(self.outputs, results):
            if name.startswith("present"):
                self.cache[name.replace("present", "past_key_values")] = value
        self.position = end
        return int(results[self.outputs.index("logits")].numpy()[0, -1].argmax())


def bench_decoder(options: argparse.Namespace) -> None:
    start = milliseconds()
    decoder = Decoder(open_session(options.model, options.threads))
    load = milliseconds() - start
    random = numpy.random.default_rng(1)
    token = decoder.step(random.integers(0, 97, FIRST_PROMPT))
    first = milliseconds() - start
    for _ in range(WARM_DECODES):
        token = decoder.step(numpy.array([token]))
    for prompt in (int(word) for word in options.prompt.split(",")):
        decoder.reset()
        begin = milliseconds()
        token = decoder.step(random.integers(0, 97, prompt))
        prefill = milliseconds() - begin
        begin = milliseconds()
        for _ in range(options.generate):
            token = decoder.step(numpy.array([token]))
        emit(
            prompt=prompt,
            prefill_tokens_per_s=prompt / prefill * 1e3,
            decode_ms_per_token=(milliseconds() - begin) / options.generate,
            load_ms=load,
            first_token_ms=first,
        )


def bench_runs(options: argparse.Namespace) -> None:
    start = milliseconds()
    session = open_session(options.model, options.threads)
    load = milliseconds() - start
    types = {value.name: value.type for value in session.get_inputs()}
    random = numpy.random.default_rng(1)
    feeds = {}
    for shape in options.input_shape:
        name, _, sizes = shape.partition("=")
        dims = [int(word) for word in sizes.split("x")]
        if types[name] == "tensor(float)":
            feeds[name] = random.standard_normal(dims).astype(numpy.float32)
        else:
            feeds[name] = numpy.ones(dims, numpy.int64)
    begin = milliseconds()
    session.run(None, feeds)
    first = load + milliseconds() - begin
    for _ in range(WARM_RUNS):
        session.run(None, feeds)
    times = []
    for _ in range(LEAST_RUNS):
        begin = milliseconds()
        session.run(None, feeds)
        times.append(milliseconds() - begin)
    emit(latency_ms=float(numpy.median(times)), load_ms=load, first_token_ms=first)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--prompt", default="16")
    parser.add_argument("--generate", type=int, default=16)
    parser.add_argument("--input-shape", nargs="*", default=[])
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.input_shape:
        bench_runs(options)
    else:
        bench_decoder(options)


if __name__ == "__main__":
    main()
