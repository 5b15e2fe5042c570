# SPDX-License-Identifier: Apache-2.0
#
# Compares operators with ONNX Runtime, many at once: the nodes of all cases of a test file
# become one model per optimization level, which costs one compilation. A case is a function
# that adds nodes to a Case; its name is the test's.
import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

LLMC = Path(os.environ["LLMC_PROGRAM"])
MS = "com.microsoft"


class Case:
    """Nodes with their own inputs and constants. Names get the case's as a prefix."""

    def __init__(self, name: str):
        self.name = name
        self.random = np.random.default_rng(sum(map(ord, name)))
        self.nodes, self.inputs, self.dims, self.constants, self.outputs = [], {}, {}, {}, {}
        self.foreign, self.equals = [], {}  # nodes that ONNX Runtime lacks, and what their outputs must equal

    def normal(self, *shape, dtype=np.float32, scale=1.0):
        return (self.random.standard_normal(shape) * scale).astype(dtype)

    def integers(self, low, high, shape, dtype=np.int64):
        return self.random.integers(low, high, shape).astype(dtype)

    def _add(self, table, value):
        name = f"{self.name}_{len(self.inputs) + len(self.constants)}"
        table[name] = value
        return name

    def input(self, array, dims=None):
        """A run-time input; `dims` names sizes that vary."""
        name = self._add(self.inputs, np.asarray(array))
        if dims:
            self.dims[name] = [f"{self.name}_{d}" if isinstance(d, str) else d for d in dims]
        return name

    def constant(self, value, dtype=None):
        """An initializer: an array, or a TensorProto for types that numpy lacks."""
        return self._add(self.constants, value if isinstance(value, TensorProto) else np.asarray(value, dtype))

    def node(self, op, inputs, outputs=1, domain="", show=True, tolerance=None, **attributes):
        """Adds a node and returns the names of its outputs; `outputs` may be a list with "" for absent ones.
        Those shown are compared with a relative (and, times the largest element, absolute) tolerance."""
        kinds = ["y"] * outputs if isinstance(outputs, int) else outputs
        names = [f"{self.name}_n{len(self.nodes) + len(self.foreign)}_{i}" if kind else "" for i, kind in enumerate(kinds)]
        self.nodes.append(helper.make_node(op, inputs, names, name=f"{self.name}/{op}_{len(self.nodes) + len(self.foreign)}", domain=domain, **attributes))
        if show:
            for name in names:
                if name:
                    self.outputs[name] = 2e-5 if tolerance is None else tolerance
        return names[0] if len(names) == 1 else names

    def same(self, op, inputs, output, **attributes):
        """A node that ONNX Runtime can't run, whose output must equal `output`."""
        name = self.node(op, inputs, show=False, **attributes)
        self.foreign.append(self.nodes.pop())
        self.equals[name] = output


def model_of(cases, opset, foreign):
    """Without types of outputs: ONNX Runtime infers them, and llmc needs none."""
    value = lambda name, array, dims: helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), dims if dims else list(array.shape))
    inputs, initializers, nodes, outputs = [], [], [], []
    for case in cases:
        inputs += [value(name, array, case.dims.get(name)) for name, array in case.inputs.items()]
        for name, constant in case.constants.items():
            if isinstance(constant, TensorProto):
                constant.name = name
            initializers.append(constant if isinstance(constant, TensorProto) else numpy_helper.from_array(constant, name))
        nodes += case.nodes + (case.foreign if foreign else [])
        outputs += [onnx.ValueInfoProto(name=name) for name in [*case.outputs, *(case.equals if foreign else [])]]
    graph = helper.make_graph(nodes, "cases", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(MS, 1)], ir_version=10)


def onnxruntime_outputs(cases, opset):
    model = model_of(cases, opset, foreign=False)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {name: array for case in cases for name, array in case.inputs.items()}
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, feeds)))


def run(*arguments):
    return subprocess.run([LLMC, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def llmc_outputs(cases, opset, folder: Path, level: str):
    model = model_of(cases, opset, foreign=True)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "in.npz", **{f"in:{name}": array for case in cases for name, array in case.inputs.items()})
    for step in (["compile", folder / "model.onnx", "-o", folder / "model.llmc", level],
                 ["run", folder / "model.llmc", "--inputs", folder / "in.npz", "--outputs", folder / "out.npz"]):
        done = run(*step)
        assert done.returncode == 0, f"{step[0]} {level}: exit {done.returncode}\n{done.stderr[-4000:]}"
    with np.load(folder / "out.npz") as outputs:
        return {name: outputs[name] for name in outputs.files}


def difference(got, want, tolerance):
    """What differs, or an empty string."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}"
    if not want.size:
        return ""
    if want.dtype.kind not in "f":
        apart = np.abs(got.astype(np.int64) - want.astype(np.int64)).max()
        return f"integers differ by {apart}" if apart > (tolerance if tolerance >= 1 else 0) else ""
    got, want = got.astype(np.float64), want.astype(np.float64)
    if (np.isnan(got) != np.isnan(want)).any():
        return "NaN in other places"
    same = np.isnan(want) | (got == want)
    apart = np.abs(np.where(same, 0.0, got - np.where(same, 0.0, want)))
    finite = np.abs(want[np.isfinite(want)])
    bound = tolerance * (1 + (finite.max() if finite.size else 0))
    return f"differ by {apart.max():.3g}, allowed {bound:.3g}" if not (apart <= bound).all() else ""


class Suite:
    """The cases of a test file, run together when the first result is asked for."""

    def __init__(self, opset=21):
        self.opset, self.functions, self.results = opset, {}, {}

    def case(self, function):
        self.functions[function.__name__] = function
        return function

    def names(self):
        return list(self.functions)

    def differences(self, name, level, folder: Path):
        """What differs between llmc and ONNX Runtime in the case of this name."""
        if level not in self.results:
            cases = []
            for each, function in self.functions.items():
                cases.append(Case(each))
                function(cases[-1])
            self.results[level] = None  # where the whole model fails, say so once
            self.results[level] = (cases, onnxruntime_outputs(cases, self.opset), llmc_outputs(cases, self.opset, folder, level))
        assert self.results[level], "the model of all cases failed: see the first test"
        cases, want, got = self.results[level]
        case = next(c for c in cases if c.name == name)
        pairs = {output: (want[output], tolerance) for output, tolerance in case.outputs.items()}
        pairs |= {output: (want[equal], case.outputs[equal]) for output, equal in case.equals.items()}
        found = {output: difference(got[output], *pair) for output, pair in pairs.items()}
        return {output: text for output, text in found.items() if text}
