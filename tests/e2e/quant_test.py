# SPDX-License-Identifier: Apache-2.0
#
# Quantization against ONNX Runtime: integers exactly, weights in every form
# that a file may hold them in.
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from node_cases import MS, Suite, difference, run

suite = Suite(opset=21)
U4, I4 = TensorProto.UINT4, TensorProto.INT4


def packed(array, kind):
    """A tensor of 4-bit values."""
    flat = np.asarray(array).reshape(-1).astype(np.uint8) & 15
    flat = np.append(flat, [0] * (flat.size % 2)).astype(np.uint8)
    return helper.make_tensor("t", kind, np.shape(array), (flat[0::2] | flat[1::2] << 4).tobytes(), raw=True)


@suite.case
def quantize(c):
    x = c.input(c.normal(3, 5, 4, scale=40))
    for dtype in np.uint8, np.int8, np.uint16, np.int16:
        c.node("QuantizeLinear", [x, c.constant(np.float32(0.37)), c.constant(dtype(7))])
    c.node("QuantizeLinear", [x, c.constant(np.float32(0.37))])
    c.node("QuantizeLinear", [x, c.constant(np.abs(c.normal(5)) + 0.1), c.constant(c.integers(-5, 5, 5, np.int8))], axis=1)
    c.node("QuantizeLinear", [x, c.constant(np.abs(c.normal(4)) + 0.1)], axis=-1)
    c.node("QuantizeLinear", [x, c.constant(np.abs(c.normal(3, 3, 4)) + 0.1), c.constant(c.integers(0, 9, (3, 3, 4), np.uint8))], axis=1, block_size=2)
    half = c.input(np.array([0.5, 1.5, 2.5, -0.5, -1.5, 300, -300], np.float32))  # ties, and beyond the range
    c.node("QuantizeLinear", [half, c.constant(np.float32(1)), c.constant(np.int8(0))])
    c.node("QuantizeLinear", [c.input(c.normal(3, 5, dtype=np.float16)), c.constant(np.float16(0.25)), c.constant(np.uint8(3))])


@suite.case
def dequantize(c):
    for dtype in np.uint8, np.int8, np.uint16, np.int16:
        x = c.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (3, 5, 4), dtype)
        for make in c.input, c.constant:
            c.node("DequantizeLinear", [make(x), c.constant(np.float32(0.37)), c.constant(dtype(7))])
            c.node("DequantizeLinear", [make(x), c.constant(c.normal(5)), c.constant(c.integers(0, 9, 5, dtype))], axis=1)
            c.node("DequantizeLinear", [make(x), c.constant(c.normal(3, 3, 4)), c.constant(c.integers(0, 9, (3, 3, 4), dtype))], axis=1, block_size=2)
            c.node("DequantizeLinear", [make(x), c.constant(c.normal(3, 5, 2))], axis=2, block_size=3)
    c.node("DequantizeLinear", [c.input(c.integers(-9999, 9999, (3, 4), np.int32)), c.constant(np.float32(0.01))])
    c.node("DequantizeLinear", [c.constant(c.integers(-9999, 9999, (3, 4), np.int32)), c.constant(c.normal(4))])
    c.node("DequantizeLinear", [c.constant(c.integers(-9, 9, (60, 70), np.int8)), c.constant(np.array([0.5], np.float32)), c.constant(np.array([3], np.int8))])
    c.node("DequantizeLinear", [c.input(c.integers(-9, 9, (6, 7), np.int8)), c.input(np.float32(0.5)), c.input(np.int8(3))])


@suite.case
def dequantize_4_bits(c):
    for kind, low in (U4, 0), (I4, -8):
        x = c.constant(packed(c.integers(low, low + 16, (6, 10)), kind))
        c.node("DequantizeLinear", [x, c.constant(np.float32(0.37))])
        c.node("DequantizeLinear", [x, c.constant(c.normal(6)), c.constant(packed(c.integers(low, low + 16, 6), kind))], axis=0)
        c.node("DequantizeLinear", [x, c.constant(c.normal(10))], axis=1)
        c.node("DequantizeLinear", [x, c.constant(c.normal(2, 10)), c.constant(packed(c.integers(low, low + 16, (2, 10)), kind))], axis=0, block_size=4)
        c.node("DequantizeLinear", [x, c.constant(c.normal(6, 3)), c.constant(packed(c.integers(low, low + 16, (6, 3)), kind))], axis=1, block_size=4)
    odd = c.constant(packed(c.integers(0, 16, (3, 5, 7)), U4))
    c.node("DequantizeLinear", [odd, c.constant(c.normal(3, 2, 7))], axis=1, block_size=3)
    c.node("DequantizeLinear", [odd, c.constant(c.normal(5))], axis=-2)


@suite.case
def product_with_blocked_weight(c):
    x = c.input(c.normal(2, 5, 64), ["b", "s", 64])
    w = c.node("DequantizeLinear", [c.constant(packed(c.integers(-8, 8, (64, 24)), I4)), c.constant(c.normal(2, 24, scale=0.1))],
               axis=0, block_size=32, show=False)
    c.node("MatMul", [x, w])
    w = c.node("DequantizeLinear", [c.constant(packed(c.integers(0, 16, (24, 64)), U4)), c.constant(c.normal(24, 2, scale=0.1)),
                                    c.constant(packed(c.integers(0, 16, (24, 2)), U4))], axis=-1, block_size=32, show=False)
    c.node("MatMul", [x, c.node("Transpose", [w], perm=[1, 0], show=False)])
    w = c.node("DequantizeLinear", [c.constant(c.integers(-127, 128, (64, 24), np.int8)), c.constant(np.abs(c.normal(24, scale=0.1)))], axis=1, show=False)
    c.node("MatMul", [x, w])


@suite.case
def dynamic_quantize(c):
    for x in c.normal(3, 40), np.abs(c.normal(3, 4)) + 2, -np.abs(c.normal(7)) - 1, np.zeros((2, 3), np.float32), np.array([1e-9], np.float32):
        c.node("DynamicQuantizeLinear", [c.input(x)], 3, tolerance=1e-6)


@suite.case
def integer_products(c):
    for left, right in (np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8):
        # On machines without VNNI, ONNX Runtime's products with int8 saturate at 16 bits; these don't get there.
        low, high = (0, 256) if right == np.uint8 else (-64, 64)
        a, b = c.integers(np.iinfo(left).min, np.iinfo(left).max, (3, 37), left), c.integers(low, high, (37, 19), right)
        for make in c.input, c.constant:
            c.node("MatMulInteger", [c.input(a), make(b)])
            c.node("MatMulInteger", [c.input(a), make(b), c.constant(left(5)), c.constant(right(9))])
            c.node("MatMulInteger", [c.input(a), make(b), c.constant(left(5)), c.constant(c.integers(0, 9, 19, right))])
    wide, table = c.input(c.integers(0, 256, (2, 5, 700), np.uint8), ["b", "s", 700]), c.constant(c.integers(-64, 64, (700, 33), np.int8))
    c.node("MatMulInteger", [wide, table, c.input(np.uint8(128)), c.constant(np.int8(0))])
    c.node("MatMulInteger", [c.input(c.integers(0, 256, (2, 3, 4), np.uint8)), c.input(c.integers(0, 256, (2, 4, 5), np.uint8))])


@suite.case
def quantized_products(c):
    single = lambda value: c.constant(np.float32(value))
    for dtype in np.uint8, np.int8:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        a, b = c.input(c.integers(low, high, (4, 23), dtype)), c.constant(c.integers(low, high, (23, 9), dtype))
        c.node("QLinearMatMul", [a, single(0.02), c.constant(dtype(3)), b, single(0.01), c.constant(dtype(5)), single(0.1), c.constant(dtype(1))], tolerance=1)
        c.node("QLinearMatMul", [a, single(0.02), c.constant(dtype(3)), b, c.constant(np.abs(c.normal(9)) * 0.01), c.constant(c.integers(0, 5, 9, dtype)),
                                 single(0.1), c.constant(dtype(1))], tolerance=1)
    a, b = c.input(c.integers(0, 256, (4, 23), np.uint8)), c.constant(c.integers(-64, 64, (23, 9), np.int8))
    c.node("MatMulIntegerToFloat", [a, b, c.input(np.float32(0.02)), c.constant(np.abs(c.normal(9)) * 0.01), c.input(np.uint8(100)), "", c.constant(c.normal(9))], domain=MS)


def blocks(c, n, k, bits, block, zeros=None):
    """Inputs 1 to 3 of MatMulNBits."""
    count = -(-k // block)
    inputs = [c.constant(c.integers(0, 256, (n, count, block * bits // 8), np.uint8)), c.constant(c.normal(n * count, scale=0.1))]
    if zeros == "packed":
        inputs.append(c.constant(c.integers(0, 256, n * -(-count * bits // 8), np.uint8)))
    elif zeros == "float":
        inputs.append(c.constant((c.normal(n * count) * 2 + 2 ** (bits - 1)).astype(np.float32)))
    return inputs


@suite.case
def matmul_n_bits(c):
    for bits in 4, 8:
        for n, k, block in (24, 64, 32), (7, 48, 16), (33, 129, 32), (16, 256, 128):
            x = c.input(c.normal(2, 3, k), ["b", f"s{len(c.nodes)}", k])
            for zeros in (None, "packed") + (("float",) if bits == 4 else ()):
                c.node("MatMulNBits", [x, *blocks(c, n, k, bits, block, zeros)], domain=MS, N=n, K=k, bits=bits, block_size=block, tolerance=1e-4)
    x = c.input(c.normal(5, 64))
    c.node("MatMulNBits", [x, *blocks(c, 24, 64, 4, 32), "", "", c.constant(c.normal(24))], domain=MS, N=24, K=64, bits=4, block_size=32, tolerance=1e-4)
    c.node("MatMulNBits", [x, *blocks(c, 24, 64, 4, 32)], domain=MS, N=24, K=64, bits=4, block_size=32, accuracy_level=4, tolerance=2e-2)


@suite.case
def gather_block_quantized(c):
    ids = c.input(c.integers(0, 20, (2, 5)))
    c.node("GatherBlockQuantized", [c.constant(packed(c.integers(-8, 8, (20, 64)), I4)), ids, c.constant(c.normal(20, 2))],
           domain=MS, block_size=32, quantize_axis=1, gather_axis=0)
    c.node("GatherBlockQuantized", [c.constant(packed(c.integers(0, 16, (20, 64)), U4)), ids, c.constant(c.normal(20, 2)), c.constant(packed(c.integers(0, 16, (20, 2)), U4))],
           domain=MS, block_size=32, quantize_axis=1, gather_axis=0)
    c.node("GatherBlockQuantized", [c.constant(c.integers(0, 256, (20, 32), np.uint8)), ids, c.constant(c.normal(20, 2))],
           domain=MS, block_size=32, quantize_axis=1, gather_axis=0, bits=4)


SHARED = Path(__file__).resolve().parents[3] / "shared" / "models"


@pytest.mark.parametrize("name", ["bert-int8-dynamic", "bert-int8-qdq"])
def test_int8_model_equals_the_reference(name, tmp_path):
    """ONNX's own evaluator is exact where ONNX Runtime saturates."""
    path = SHARED / name / "model.onnx"
    if not path.exists():
        pytest.skip(f"../shared/models/{name} is not there")
    model = onnx.load(path)
    model.opset_import[0].version = 21  # the evaluator lacks older, equal versions
    assert run("compile", path, "-o", tmp_path / "model.llmc").returncode == 0
    for case in sorted(path.parent.glob("case_*.npz")):
        with np.load(case) as file:
            feeds = {key[3:]: file[key] for key in file.files if key.startswith("in:")}
        want = ReferenceEvaluator(model).run(None, feeds)
        done = run("run", tmp_path / "model.llmc", "--inputs", case, "--outputs", tmp_path / "out.npz")
        assert done.returncode == 0, done.stderr
        with np.load(tmp_path / "out.npz") as got:
            for output, expected in zip(model.graph.output, want):
                assert not difference(got[output.name], expected, 1e-3), output.name


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("name", suite.names())
def test_equals_onnxruntime(name, level, tmp_path_factory):
    assert not suite.differences(name, level, tmp_path_factory.getbasetemp() / f"quant{level}")
