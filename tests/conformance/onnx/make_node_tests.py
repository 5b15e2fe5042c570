#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# usage: make_node_tests.py FOLDER
#
# Writes the node tests that come with the installed onnx package below FOLDER,
# for llmc_onnx_conformance, which reads no Python. A FOLDER written by the same
# version of onnx and of this script is left as it is; one is never half written.
#
# Many tests feed what models hold as constants, such as axes and shapes, as inputs.
# Each of those is written a second time, as NAME.constant, with them as constants.
import hashlib
import os
import shutil
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

STAMP = "made-by.txt"

# Operator -> its inputs that decide shapes or loops.
SHAPING = {
    "ConstantOfShape": [0], "CumSum": [1], "Expand": [1], "OneHot": [1], "Pad": [1, 3], "Range": [0, 1, 2],
    "Reshape": [1], "Slice": [1, 2, 3, 4], "Split": [1], "Squeeze": [1], "Tile": [1], "TopK": [1], "Trilu": [1],
    "Unsqueeze": [1],
} | {f"Reduce{kind}": [1] for kind in
     ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")}


def stamp() -> str:
    return f"onnx {onnx.__version__}, script {hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]}\n"


def message_of(value, declared: onnx.ValueInfoProto):
    """The protobuf message for a value, of the kind that the graph declares."""
    if isinstance(value, (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)):
        return value
    convert = {"sequence_type": numpy_helper.from_list, "optional_type": numpy_helper.from_optional}
    kind = declared.type.WhichOneof("value")
    if kind in convert:
        return convert[kind](value, declared.name)
    return numpy_helper.from_array(numpy.asarray(value), declared.name)


def write_test(test, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(test.model.SerializeToString(deterministic=True))
    graph = test.model.graph
    for number, (inputs, outputs) in enumerate(test.data_sets):
        data = folder / f"test_data_set_{number}"
        data.mkdir()
        for kind, values, declared in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            # A data set may leave out inputs at the end.
            for position, (value, info) in enumerate(zip(values, declared)):
                message = message_of(value, info)
                (data / f"{kind}_{position}.pb").write_bytes(message.SerializeToString(deterministic=True))


def shaping_inputs(graph: onnx.GraphProto) -> set[str]:
    used = {node.input[i] for node in graph.node for i in SHAPING.get(node.op_type, []) if i < len(node.input)}
    return used & {info.name for info in graph.input}


def write_constant_test(test, names: set[str], folder: Path) -> None:
    """The test with the inputs of these names as constants."""
    for number, (inputs, outputs) in enumerate(test.data_sets):
        model = onnx.ModelProto()
        model.CopyFrom(test.model)
        given = list(zip(inputs, test.model.graph.input))
        model.graph.initializer.extend(message_of(value, info) for value, info in given if info.name in names)
        kept = [(value, info) for value, info in given if info.name not in names]
        del model.graph.input[:]
        model.graph.input.extend(info for _, info in kept)
        part = SimpleNamespace(model=model, data_sets=[([value for value, _ in kept], outputs)])
        write_test(part, folder.with_name(folder.name + (f".{number}" if number else "")))


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: make_node_tests.py FOLDER", file=sys.stderr)
        return 2
    target = Path(sys.argv[1])
    if (target / STAMP).is_file() and (target / STAMP).read_text() == stamp():
        print(f"{target} is up to date")
        return 0
    warnings.simplefilter("ignore")
    numpy.random.seed(0)  # some tests draw their inputs while they are loaded
    tests = load_model_tests(kind="node")
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        for test in tests:
            write_test(test, partial / test.name)
            if names := shaping_inputs(test.model.graph):
                write_constant_test(test, names, partial / f"{test.name}.constant")
        (partial / STAMP).write_text(stamp())
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    print(f"{len(tests)} node tests of onnx {onnx.__version__} written to {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
