# SPDX-License-Identifier: Apache-2.0
#
# Control flow that is decided while compiling, against ONNX Runtime.
import numpy as np
import pytest
from onnx import TensorProto, helper

from node_cases import Suite

suite = Suite(opset=21)


@suite.case
def loop(c):
    """Carried values, outputs gathered over the repetitions, values from outside."""
    x, step = c.input(c.normal(3, 4)), c.constant(c.normal(4))
    value = lambda name, kind, shape: helper.make_tensor_value_info(name, kind, shape)
    body = helper.make_graph(
        [helper.make_node("Add", ["l_sum", step], ["l_next"]), helper.make_node("Cast", ["l_i"], ["l_f"], to=TensorProto.FLOAT),
         helper.make_node("Mul", ["l_next", "l_f"], ["l_scaled"]), helper.make_node("Identity", ["l_cond"], ["l_goes"])],
        "body", [value("l_i", TensorProto.INT64, []), value("l_cond", TensorProto.BOOL, []), value("l_sum", TensorProto.FLOAT, [3, 4])],
        [value("l_goes", TensorProto.BOOL, []), value("l_next", TensorProto.FLOAT, [3, 4]), value("l_scaled", TensorProto.FLOAT, [3, 4])])
    c.node("Loop", [c.constant(np.array(5, np.int64)), c.constant(np.array(True)), x], 2, body=body)


@suite.case
def branch(c):
    x = c.input(c.normal(3, 4))
    for condition in True, False:
        graphs = {name: helper.make_graph([helper.make_node(op, [x], [f"{op}{condition}"])], name, [],
                                          [helper.make_tensor_value_info(f"{op}{condition}", TensorProto.FLOAT, [3, 4])])
                  for name, op in (("then_branch", "Neg"), ("else_branch", "Abs"))}
        c.node("If", [c.constant(np.array(condition))], **graphs)


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("name", suite.names())
def test_equals_onnxruntime(name, level, tmp_path_factory):
    assert not suite.differences(name, level, tmp_path_factory.getbasetemp() / f"control{level}")
