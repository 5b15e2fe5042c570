# SPDX-License-Identifier: Apache-2.0
#
# The rounds of a benchmark. Every engine is a command that prints one JSON
# object per prompt length (docs/benchmarks.md has the protocol); a round runs
# each once, A B C, A B C, so that the machine's drift hits all alike, and
# measures the machine itself at its start.
import argparse
import fcntl
import json
import os
import shlex
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import charts
import report

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 600


class Engine(NamedTuple):
    label: str
    command: list[str]
    bundle: bool  # one of ours: compared with the best of the others


@contextmanager
def quiet_machine():
    """With LLMC_BENCH_LOCK=FILE each timed process holds that file's lock alone."""
    path = os.environ.get("LLMC_BENCH_LOCK")
    if not path:
        yield
        return
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run(command: list[str]) -> list[dict]:
    """The JSON objects that a command prints; raises RuntimeError with the reason when it fails."""
    with quiet_machine():
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        except FileNotFoundError:
            raise RuntimeError(f"there is no program {command[0]}") from None
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"it took longer than {TIMEOUT_SECONDS} s") from None
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()[-400:]}")
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not rows:
        raise RuntimeError("it printed no JSON object")
    return rows


def labelled(text: str) -> tuple[str, str]:
    label, sign, value = text.partition("=")
    if not sign or not label or not value:
        raise argparse.ArgumentTypeError(f"'{text}' is not LABEL=VALUE")
    return label, value


def counts(text: str) -> list[int]:
    values = [int(word) for word in text.split(",")]
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of positive numbers")
    return values


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/bench",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measures bundles beside other engines: rounds of all in turn, medians, ratios.",
        epilog="""examples:
  tools/bench --bundle "llmc f32=gpt2.llmc" --peer "onnxruntime=models/gpt2" --prompt 16,512
  tools/bench --bundle llmc=bert.llmc --peer onnxruntime=models/bert --input-shape "input_ids=1x128 attention_mask=1x128"
  tools/bench --bundle llmc=gpt2.llmc --engine "other=/opt/other/driver gpt2.gguf" --json r.json --svg r.svg

A peer is a folder with a model.onnx, run by the named package; an engine is any command that
speaks the protocol of docs/benchmarks.md.""",
    )
    parser.add_argument("--bundle", type=labelled, action="append", default=[], metavar="LABEL=FILE", help="a compiled model (repeat)")
    parser.add_argument("--peer", type=labelled, action="append", default=[], metavar="onnxruntime=FOLDER", help="an exported model run by ONNX Runtime (repeat)")
    parser.add_argument("--engine", type=labelled, action="append", default=[], metavar="LABEL=COMMAND", help="another engine (repeat)")
    parser.add_argument("--prompt", type=counts, default=[16, 512], metavar="N,N", help="prompt lengths (default: 16,512); decoding is timed right after each")
    parser.add_argument("--generate", type=int, default=16, metavar="N", help="tokens to time after each prompt (default: 16)")
    parser.add_argument("--input-shape", default="", metavar="SHAPES", help='measure single runs instead: "name=1x128 name=1x128"')
    parser.add_argument("--threads", type=int, default=os.cpu_count(), metavar="N", help="of every engine (default: one per core)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default: 5")
    parser.add_argument("--llmc", default=str(ROOT / "build/bin/llmc"), metavar="PROGRAM", help="default: build/bin/llmc")
    parser.add_argument("--title", default="", help="what is measured, for the heading")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all values and medians")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the bars; with a bundle also FILE-roofline.svg")
    options = parser.parse_args(arguments)
    if not options.bundle and not options.engine and not options.peer:
        parser.error("nothing to measure: give a --bundle, --peer or --engine")
    for label, _ in options.peer:
        if label.split()[0] != "onnxruntime":
            parser.error(f"the peer '{label}' is unknown: 'onnxruntime' is the one that has a driver here; use --engine for others")
    return options


def engines(options: argparse.Namespace) -> list[Engine]:
    shapes = options.input_shape.split()
    threads = ["--threads", str(options.threads)]
    own = [word for shape in shapes for word in ("--input-shape", shape)]
    result = []
    for label, path in options.bundle:
        command = [options.llmc, "bench", path, *threads, "--repeat", "1", "--json"]
        result.append(Engine(label, command + own, True))
    tail = threads + (["--input-shape", *shapes] if shapes else ["--generate", str(options.generate)])
    driver = str(ROOT / "tools/benchmark/onnxruntime_peer.py")
    for label, path in options.peer:
        result.append(Engine(label, [sys.executable, driver, path, *tail], False))
    for label, command in options.engine:
        result.append(Engine(label, [*shlex.split(command), *tail], False))
    return result


def measure(engine: Engine, options: argparse.Namespace) -> list[dict]:
    """One object per prompt length, or one for single runs."""
    if options.input_shape:
        return run(engine.command)
    if not engine.bundle:
        return run([*engine.command, "--prompt", ",".join(map(str, options.prompt))])
    rows = []
    for prompt in options.prompt:
        (row,) = run([*engine.command, "--prompt", str(prompt), "--generate", str(options.generate)])
        rows.append({"prompt": prompt, **row})
    return rows


def profile(engine: Engine, options: argparse.Namespace) -> dict:
    """What the kernels of a bundle do, from a run of its own."""
    extra = [] if options.input_shape else ["--prompt", str(max(options.prompt)), "--generate", str(options.generate)]
    (row,) = run([*engine.command, *extra, "--profile"])
    return {"machine": row["machine"], "profile": row["profile"]}


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    results = report.Results(options.threads)
    every = engines(options)
    failed: dict[str, str] = {}
    for number in range(options.rounds):
        (machine,) = run([options.llmc, "machine", "--threads", str(options.threads), "--json"])
        results.add_machine(machine)
        for engine in every:
            if engine.label in failed:
                continue
            print(f"round {number + 1} of {options.rounds}: {engine.label}", file=sys.stderr, flush=True)
            try:
                for row in measure(engine, options):
                    results.add(engine.label, engine.bundle, row)
            except RuntimeError as error:
                failed[engine.label] = str(error)
                print(f"{engine.label} is left out: {error}", file=sys.stderr, flush=True)
    for engine in every:
        if engine.bundle and engine.label not in failed:
            results.profiles[engine.label] = profile(engine, options)
            results.generated = options.generate
    print(results.table(options.title))
    if options.json:
        report.write_beside(options.json, json.dumps(results.document(options.title), indent=1))
    if options.svg:
        report.write_beside(options.svg, charts.bars(results, options.title))
        if results.profiles:
            path = options.svg.with_name(f"{options.svg.stem}-roofline.svg")
            report.write_beside(path, charts.roofline(results, options.title))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
