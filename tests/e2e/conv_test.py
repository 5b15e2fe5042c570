# SPDX-License-Identifier: Apache-2.0
#
# Convolution and pooling against ONNX Runtime: one to three dimensions, all
# paddings, groups, weights that are constants and ones that are inputs.
import numpy as np
import pytest

from node_cases import MS, Suite

suite = Suite(opset=22)


def conv(c, shape, outputs, kernel, op="Conv", bias=True, group=1, dims=None, **attributes):
    """The same convolution with a constant weight and with one that is an input."""
    x, w = c.input(c.normal(*shape), dims), c.normal(outputs, shape[1] // group, *kernel, scale=0.3)
    b = [c.constant(c.normal(outputs))] if bias else []
    for make in c.constant, c.input:
        c.node("Conv", [x, make(w), *b], group=group, tolerance=1e-4, **attributes)


@suite.case
def conv_1d(c):
    conv(c, (1, 8, 50), 12, (3,), pads=[1, 1])
    conv(c, (2, 8, 50), 12, (3,), pads=[1, 1], strides=[2], dims=["b", 8, "l"])
    conv(c, (1, 5, 33), 7, (4,), dilations=[3], pads=[2, 5], bias=False)
    conv(c, (1, 3, 64), 7, (8,), strides=[8])
    conv(c, (1, 3, 67), 7, (8,), strides=[8])
    conv(c, (1, 80, 100), 64, (3,), pads=[1, 1], dims=[1, 80, "frames"])


@suite.case
def conv_2d(c):
    conv(c, (2, 3, 32, 32), 16, (8, 8), strides=[8, 8], dims=["b", 3, 32, 32])  # patches
    conv(c, (1, 3, 30, 35), 16, (8, 8), strides=[8, 8])
    conv(c, (2, 4, 13, 11), 6, (3, 3), pads=[1, 1, 1, 1])
    conv(c, (2, 4, 13, 11), 6, (3, 2), pads=[0, 1, 2, 0], strides=[2, 3])
    conv(c, (1, 4, 13, 11), 6, (3, 3), dilations=[2, 3], pads=[2, 3, 2, 3])
    conv(c, (1, 4, 13, 11), 6, (1, 1))
    conv(c, (1, 4, 13, 11), 6, (1, 1), strides=[2, 2])
    conv(c, (1, 2, 40, 40), 3, (9, 9), pads=[4, 4, 4, 4])  # many taps


@suite.case
def conv_3d(c):
    conv(c, (1, 3, 7, 8, 9), 5, (2, 3, 3), pads=[0, 1, 1, 1, 1, 1], strides=[1, 2, 1])
    conv(c, (2, 3, 4, 14, 14), 6, (2, 7, 7), strides=[2, 7, 7], bias=False)


@suite.case
def conv_groups(c):
    conv(c, (2, 8, 20), 8, (3,), group=8, pads=[1, 1])
    conv(c, (1, 6, 9, 9), 12, (3, 3), group=6, strides=[2, 2], pads=[1, 1, 1, 1])
    conv(c, (1, 6, 9, 9), 4, (3, 3), group=2, dilations=[2, 1])


@suite.case
def conv_auto_pad(c):
    for mode in "SAME_UPPER", "SAME_LOWER", "VALID":
        conv(c, (1, 3, 14, 15), 4, (3, 4), auto_pad=mode, strides=[2, 3])
        conv(c, (1, 3, 17), 4, (4,), auto_pad=mode, dims=[1, 3, f"l{mode}"])


@suite.case
def conv_fused(c):
    x, w, z = c.input(c.normal(1, 4, 9, 9)), c.constant(c.normal(6, 4, 3, 3)), c.input(c.normal(1, 6, 9, 9))
    c.node("FusedConv", [x, w, c.constant(c.normal(6))], domain=MS, activation="Relu", pads=[1] * 4, tolerance=1e-4)
    c.node("FusedConv", [x, w, c.constant(c.normal(6)), z], domain=MS, activation="Relu", pads=[1] * 4, tolerance=1e-4)


@suite.case
def conv_integer(c):
    x = c.input(c.integers(0, 256, (1, 4, 9, 9), np.uint8))
    for make in c.constant, c.input:
        w = make(c.integers(0, 256, (6, 4, 3, 3), np.uint8))
        c.node("ConvInteger", [x, w], pads=[1] * 4)
        c.node("ConvInteger", [x, w, c.constant(np.uint8(7)), c.constant(np.uint8(9))], pads=[1] * 4, strides=[2, 2])
    single = lambda value: c.constant(np.float32(value))
    w = c.constant(c.integers(-64, 64, (6, 4, 3, 3), np.int8))
    zero = c.constant(np.uint8(120))
    c.node("QLinearConv", [x, single(0.02), zero, w, single(0.01), c.constant(np.int8(0)), single(0.1), zero], pads=[1] * 4, tolerance=1)
    c.node("QLinearConv", [x, single(0.02), zero, w, c.constant(np.abs(c.normal(6)) * 0.01), c.constant(np.zeros(6, np.int8)), single(0.1), zero,
                           c.constant(c.integers(-999, 999, 6, np.int32))], tolerance=1)


@suite.case
def conv_transpose(c):
    def node(shape, outputs, kernel, group=1, **attributes):
        x, w = c.input(c.normal(*shape)), c.constant(c.normal(shape[1], outputs // group, *kernel))
        c.node("ConvTranspose", [x, w, c.constant(c.normal(outputs))], group=group, tolerance=1e-4, **attributes)
    node((1, 4, 9), 6, (3,))
    node((2, 4, 9), 6, (4,), strides=[3], pads=[1, 2], output_padding=[1])
    node((1, 4, 6, 5), 6, (3, 3), strides=[2, 2], pads=[1, 1, 1, 1])
    node((1, 4, 6, 5), 6, (3, 3), strides=[2, 2], dilations=[2, 2])
    node((1, 4, 6, 5), 6, (3, 3), group=2, strides=[2, 1])
    node((1, 4, 6, 5), 6, (3, 3), strides=[3, 2], output_shape=[20, 12])
    node((1, 4, 6, 5), 6, (3, 3), strides=[2, 2], auto_pad="SAME_UPPER")


@suite.case
def pools(c):
    x, line = c.input(c.normal(2, 3, 14, 13)), c.input(c.normal(2, 3, 31), ["b", 3, "l"])
    for op in "MaxPool", "AveragePool", "LpPool":
        c.node(op, [x], kernel_shape=[3, 2])
        c.node(op, [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        c.node(op, [x], kernel_shape=[3, 2], strides=[2, 3], ceil_mode=1)
        c.node(op, [x], kernel_shape=[4, 3], auto_pad="SAME_UPPER", strides=[3, 2])
        c.node(op, [line], kernel_shape=[5], strides=[2])
    c.node("MaxPool", [x], kernel_shape=[2, 2], dilations=[3, 2])
    c.node("MaxPool", [c.input(c.integers(-128, 128, (1, 2, 6, 6), np.int8))], kernel_shape=[3, 3], pads=[1] * 4)
    c.node("AveragePool", [x], kernel_shape=[3, 3], pads=[1, 0, 1, 2], count_include_pad=1)
    c.node("AveragePool", [x], kernel_shape=[2, 3], dilations=[2, 1], pads=[1, 1, 1, 1])
    c.node("GlobalAveragePool", [x])
    c.node("GlobalMaxPool", [x])


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("name", suite.names())
def test_equals_onnxruntime(name, level, tmp_path_factory):
    assert not suite.differences(name, level, tmp_path_factory.getbasetemp() / f"conv{level}")
