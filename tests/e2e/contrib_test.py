# SPDX-License-Identifier: Apache-2.0
#
# ONNX Runtime's own operators against ONNX Runtime: optional inputs there and
# absent, odd sizes, sequences of different lengths.
import numpy as np
import pytest

from node_cases import MS, Suite

suite = Suite(opset=17)


# --- norms and activations --------------------------------------------------

@suite.case
def simplified_norm(c):
    c.node("SimplifiedLayerNormalization", [c.input(c.normal(2, 5, 33), ["b", "s", 33]), c.constant(c.normal(33))], axis=-1, epsilon=1e-6)


@suite.case
def skip_simplified_norm(c):
    x, skip, w = c.input(c.normal(2, 5, 24), ["b", "s", 24]), c.input(c.normal(2, 5, 24), ["b", "s", 24]), c.constant(c.normal(24))
    c.node("SkipSimplifiedLayerNormalization", [x, skip, w], domain=MS, epsilon=1e-5)
    c.node("SkipSimplifiedLayerNormalization", [x, skip, w], ["y", "", "", "y"], domain=MS, epsilon=1e-5)
    c.node("SkipSimplifiedLayerNormalization", [x, skip, w, c.constant(c.normal(24))], ["y", "", "", "y"], domain=MS, epsilon=1e-5)


@suite.case
def skip_norm(c):
    x, skip = c.input(c.normal(2, 3, 17)), c.input(c.normal(2, 3, 17))
    w, beta, bias = c.constant(c.normal(17)), c.constant(c.normal(17)), c.constant(c.normal(17))
    c.node("SkipLayerNormalization", [x, skip, w], domain=MS)
    c.node("SkipLayerNormalization", [x, skip, w, beta], domain=MS, epsilon=1e-3)
    c.node("SkipLayerNormalization", [x, skip, w, beta, bias], ["y", "", "", "y"], domain=MS)
    c.node("SkipLayerNormalization", [x, skip, w, "", bias], domain=MS)
    c.node("SkipLayerNormalization", [x, c.input(c.normal(3, 17)), w, beta], domain=MS)
    c.node("SkipLayerNormalization", [x, c.input(c.normal(1, 3, 17)), w, beta, bias], ["y", "", "", "y"], domain=MS)


@suite.case
def embed_norm(c):
    ids, segments = c.input(c.integers(0, 30, (2, 5), np.int32)), c.input(c.integers(0, 2, (2, 5), np.int32))
    words, places, kinds = c.constant(c.normal(30, 16)), c.constant(c.normal(9, 16)), c.constant(c.normal(2, 16))
    w, beta = c.constant(c.normal(16)), c.constant(c.normal(16))
    mask = c.input(np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32))
    c.node("EmbedLayerNormalization", [ids, segments, words, places, kinds, w, beta, mask], 2, domain=MS)
    c.node("EmbedLayerNormalization", [ids, "", words, places, "", w, beta], 2, domain=MS, epsilon=1e-5)
    c.node("EmbedLayerNormalization", [ids, "", words, places, "", w, beta, "", c.input(c.integers(0, 9, (2, 5), np.int32))],
           ["y", "y", "y"], domain=MS)


@suite.case
def activations(c):
    x, bias = c.input(c.normal(3, 7, 19, scale=3)), c.constant(c.normal(19))
    c.node("Gelu", [x], domain=MS)
    c.node("BiasGelu", [x, bias], domain=MS)
    c.node("FastGelu", [x], domain=MS)
    c.node("FastGelu", [x, bias], domain=MS)
    c.node("QuickGelu", [x], domain=MS)
    c.node("QuickGelu", [x], domain=MS, alpha=0.7)


@suite.case
def fused_products(c):
    a, b = c.input(c.normal(2, 3, 5, 7)), c.input(c.normal(2, 3, 7, 4))
    c.node("FusedMatMul", [a, b], domain=MS)
    c.node("FusedMatMul", [a, b], domain=MS, alpha=0.25)
    c.node("FusedMatMul", [c.input(c.normal(2, 3, 7, 5)), c.input(c.normal(2, 3, 4, 7))], domain=MS, transA=1, transB=1)
    c.node("FusedMatMul", [c.input(c.normal(5, 2, 3, 7)), c.input(c.normal(7, 2, 3, 4))], domain=MS, transBatchA=1, transBatchB=1)
    c.node("FusedMatMul", [c.input(c.normal(7, 2, 5)), c.input(c.normal(4, 2, 7))], domain=MS, transBatchA=1, transBatchB=1, transA=1, transB=1)
    x, w = c.input(c.normal(5, 6)), c.constant(c.normal(6, 4))
    c.node("FusedGemm", [x, w, c.constant(c.normal(4))], domain=MS, activation="Relu", alpha=0.5, beta=2.0)
    c.node("FusedGemm", [x, w], domain=MS, activation="LeakyRelu", activation_alpha=0.2)
    c.node("FusedGemm", [x, w, c.constant(c.normal(5, 4))], domain=MS, activation="Tanh")


# --- rotary embedding -------------------------------------------------------

@suite.case
def rotary(c):
    angles = c.normal(32, 4)
    cos, sin = c.constant(np.cos(angles)), c.constant(np.sin(angles))
    offset, places = c.input(np.array([3], np.int64)), c.input(c.integers(0, 32, (2, 5)))
    packed, apart = c.input(c.normal(2, 5, 24), ["b", "s", 24]), c.input(c.normal(2, 3, 5, 8), ["b", 3, "s", 8])
    for interleaved in 0, 1:
        c.node("RotaryEmbedding", [packed, offset, cos, sin], domain=MS, interleaved=interleaved)
        c.node("RotaryEmbedding", [packed, places, cos, sin], domain=MS, interleaved=interleaved)
        c.node("RotaryEmbedding", [apart, places, cos, sin], domain=MS, interleaved=interleaved)
        c.node("RotaryEmbedding", [c.input(c.normal(2, 5, 36)), places, cos, sin], domain=MS, interleaved=interleaved,
               num_heads=3, rotary_embedding_dim=8)


# --- attention --------------------------------------------------------------

def group_query(c, lengths, tokens, heads=4, kv_heads=2, size=16, room=None, packed=False, extra=(), **attributes):
    """A call with `lengths` tokens per sequence in all, `tokens` of them new (fewer in a sequence that is padded)."""
    batch, total = len(lengths), max(lengths)
    past = max(total - tokens, 0) if room is None else room
    q, k, v = (c.normal(batch, tokens, n * size) for n in (heads, kv_heads, kv_heads))
    inputs = [c.input(np.concatenate([q, k, v], -1)), "", ""] if packed else [c.input(q), c.input(k), c.input(v)]
    shape = (f"b{len(c.nodes)}", kv_heads, f"p{len(c.nodes)}", size) if room is None else None
    inputs += [c.input(c.normal(batch, kv_heads, past, size), shape), c.input(c.normal(batch, kv_heads, past, size), shape)]
    inputs += [c.input(np.array(lengths, np.int32) - 1), c.constant(np.array(total, np.int32))]
    inputs += [c.constant(x) for x in extra]
    results = c.node("GroupQueryAttention", inputs, 3, show=False, domain=MS, num_heads=heads, kv_num_heads=kv_heads, **attributes)
    # What belongs to padding is undefined.
    before = np.array([max(length - tokens, 0) for length in lengths])
    own = (np.arange(tokens) < (np.array(lengths) - before)[:, None])[:, :, None]
    cached = (np.arange(max(past, total)) < np.array(lengths)[:, None])[:, None, :, None]
    for result, counts in zip(results, (own, cached, cached)):
        c.node("Where", [c.constant(counts), result, c.constant(np.float32(0))], tolerance=1e-4)


def tables(c, size=16, count=40):
    angles = c.normal(count, size // 2)
    return np.cos(angles), np.sin(angles)


@suite.case
def gqa_prompt(c):
    group_query(c, [6, 6], 6)
    group_query(c, [6, 6], 6, packed=True)


@suite.case
def gqa_decode(c):
    group_query(c, [9, 9], 1)
    group_query(c, [9], 4, heads=6, kv_heads=3)


@suite.case
def gqa_rotary(c):
    for interleaved in 0, 1:
        group_query(c, [7, 7], 7, extra=tables(c), do_rotary=1, rotary_interleaved=interleaved)
        group_query(c, [11, 11], 1, packed=True, extra=tables(c), do_rotary=1, rotary_interleaved=interleaved)


@suite.case
def gqa_window_and_cap(c):
    group_query(c, [9], 9, local_window_size=4)
    group_query(c, [12], 1, local_window_size=5)
    group_query(c, [7], 7, softcap=3.0, scale=0.7)


@suite.case
def gqa_sequences_of_different_lengths(c):
    group_query(c, [7, 4, 6], 7, extra=tables(c), do_rotary=1)
    group_query(c, [12, 7, 9], 1, extra=tables(c), do_rotary=1)
    group_query(c, [12, 7], 1, local_window_size=5)


@suite.case
def gqa_shared_buffer(c):
    group_query(c, [5], 5, room=16)
    group_query(c, [9], 1, room=16, extra=tables(c), do_rotary=1)


@suite.case
def gqa_sinks(c):
    group_query(c, [6, 6], 6, smooth_softmax=1)
    group_query(c, [9], 1, extra=[], smooth_softmax=1, local_window_size=4)


@suite.case
def multi_head(c):
    q, k, v = c.input(c.normal(2, 5, 24)), c.input(c.normal(2, 7, 24)), c.input(c.normal(2, 7, 24))
    bias = c.constant(c.normal(72))
    node = lambda inputs, outputs=1, **attributes: c.node("MultiHeadAttention", inputs, outputs, domain=MS, num_heads=3, tolerance=1e-4, **attributes)
    node([q, k, v])
    node([q, k, v, bias])
    node([q, k, v, "", c.input(np.array([[1] * 7, [1] * 4 + [0] * 3], np.int32))])
    node([q, k, v, "", c.input(np.array([7, 4], np.int32))])
    node([q, k, v, bias, "", c.input(c.normal(1, 3, 5, 7))], scale=0.5)
    attributes = dict(domain=MS, num_heads=3)
    packed = c.normal(2, 5, 3, 3, 8)
    apart = node([c.input(packed[:, :, :, i].reshape(2, 5, 24)) for i in range(3)] + [bias])
    c.same("MultiHeadAttention", [c.input(packed), "", "", bias], apart, **attributes)
    packed = c.normal(2, 7, 3, 2, 8)
    apart = node([q] + [c.input(packed[:, :, :, i].reshape(2, 7, 24)) for i in range(2)])
    c.same("MultiHeadAttention", [q, c.input(packed)], apart, **attributes)
    node([q, c.input(c.normal(2, 3, 7, 8)), c.input(c.normal(2, 3, 7, 8)), ""])
    own = c.input(c.normal(2, 5, 24)), c.input(c.normal(2, 5, 24))
    node([q, *own, bias], unidirectional=1)
    node([q, *own, "", "", "", c.input(c.normal(2, 3, 6, 8)), c.input(c.normal(2, 3, 6, 8))], 3)
    node([q, *own, bias, "", "", c.input(c.normal(2, 3, 6, 8)), c.input(c.normal(2, 3, 6, 8))], 3, unidirectional=1)


@suite.case
def packed_attention(c):
    x, w, bias = c.input(c.normal(2, 5, 12)), c.constant(c.normal(12, 72)), c.constant(c.normal(72))
    node = lambda inputs, outputs=1, **attributes: c.node("Attention", inputs, outputs, domain=MS, num_heads=3, tolerance=1e-4, **attributes)
    node([x, w, bias])
    node([x, w])
    node([x, w, bias], unidirectional=1)
    node([x, w, bias, c.input(np.array([[1] * 5, [1] * 3 + [0] * 2], np.int32))])
    node([x, w, bias, c.input(np.array([5, 3], np.int32))])
    node([x, w, bias, c.input(np.array([5, 4, 0, 1], np.int32))])
    node([x, w, bias, c.input(c.integers(0, 2, (2, 5, 5), np.int32))])
    node([x, w, bias, "", c.input(c.normal(2, 2, 3, 4, 8))], 2, unidirectional=1)
    node([x, w, bias, "", "", c.input(c.normal(2, 3, 5, 5))], scale=0.3)
    node([x, c.constant(c.normal(12, 60)), c.constant(c.normal(60))], qkv_hidden_sizes=[24, 24, 12])


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("name", suite.names())
def test_equals_onnxruntime(name, level, tmp_path_factory):
    assert not suite.differences(name, level, tmp_path_factory.getbasetemp() / f"contrib{level}")
