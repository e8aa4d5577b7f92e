"""Random cases of ONNX Runtime's own operators; see scripts/onnx-cases.

Where ONNX Runtime has an operator for GPUs only, what it should give is computed here, from its
documentation.
"""

import pathlib
import sys

import numpy as np
from onnx import TensorProto

import operators
from operators import Case, floats, ints, pick

CASES = {}
F = TensorProto.FLOAT


def case(function):
    CASES[function.__name__] = function
    return function


def ms(op, inputs, attrs=None, outputs=1, constant=(), kinds=None, results=None, domain="com.microsoft"):
    kinds = kinds or [F] * outputs
    return Case(op, inputs, attrs, outputs, domain=domain, constant=constant, kinds=kinds, results=results)


def int32(values):
    return np.array(values, dtype=np.int32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    erf = np.vectorize(__import__("math").erf)
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@case
def gelus(r):
    x = floats(r, 2, 3, 8) * 2
    op = pick(r, "Gelu", "BiasGelu", "FastGelu", "QuickGelu")
    bias = [floats(r, 8)] if op == "BiasGelu" or op == "FastGelu" and r.random() < 0.5 else []
    attrs = {"alpha": float(r.uniform(0.5, 2))} if op == "QuickGelu" else {}
    return ms(op, [x, *bias], attrs)


@case
def fused_conv(r):
    op = pick(r, *ACTIVATIONS)
    group = pick(r, 1, 2)
    x, w = floats(r, 2, 2 * group, 7, 6), floats(r, 4, 2, 3, 3)
    z = floats(r, 2, 4, 7, 6) if r.random() < 0.4 else None
    bias = floats(r, 4) if z is not None or r.random() < 0.7 else None
    attrs = {"group": group, "pads": [1, 1, 1, 1], "activation": op}
    if ACTIVATIONS[op]:
        attrs["activation_params"] = ACTIVATIONS[op]
    return ms("FusedConv", [x, w, bias, z], attrs, constant=pick(r, (), (1,)))


ACTIVATIONS = {"Relu": None, "Tanh": None, "Sigmoid": None, "LeakyRelu": [0.2], "Clip": [-0.5, 0.9],
               "HardSigmoid": [0.3, 0.4]}


@case
def fused_gemm(r):
    op = pick(r, "Relu", "Tanh", "Sigmoid", "LeakyRelu", "Elu", "HardSigmoid", "Softplus", "Softsign",
              "ThresholdedRelu")
    ta, tb = pick(r, 0, 1), pick(r, 0, 1)
    attrs = {"transA": ta, "transB": tb, "alpha": 0.7, "beta": 1.3, "activation": op}
    if op in ("LeakyRelu", "Elu", "HardSigmoid", "ThresholdedRelu"):
        attrs["activation_alpha"] = 0.3
    if op == "HardSigmoid":
        attrs["activation_beta"] = 0.4
    return ms("FusedGemm", [floats(r, *((5, 4) if ta else (4, 5))), floats(r, *((6, 5) if tb else (5, 6))),
                            floats(r, 6)], attrs)


@case
def fused_matmul(r):
    ta, tb = pick(r, 0, 1), pick(r, 0, 1)
    attrs = {"transA": ta, "transB": tb, "alpha": 0.5}
    if r.random() < 0.5:
        attrs |= {"transBatchA": 1, "transBatchB": 1}
        return ms("FusedMatMul", [floats(r, 3, 3, 3, 3), floats(r, 3, 3, 3, 3)], attrs)
    a, b = floats(r, 3, 2, 4, 5), floats(r, 3, 2, 5, 6)
    a, b = (np.ascontiguousarray(np.swapaxes(x, -1, -2)) if t else x for x, t in ((a, ta), (b, tb)))
    return ms(pick(r, "FusedMatMul", "TransposeMatMul"), [a, b], attrs)


@case
def fused_matmul_activation(r):
    a, b = floats(r, 2, 4, 5), floats(r, 5, 6)
    y = 0.5 * a @ b
    op, f = pick(r, ("Relu", lambda y: np.maximum(y, 0)), ("Tanh", np.tanh), ("Sigmoid", sigmoid),
                 ("LeakyRelu", lambda y: np.where(y < 0, 0.2 * y, y)), ("Softmax", softmax))
    attrs = {"alpha": 0.5, "activation": op, "activation_alpha": 0.2, "activation_axis": -1}
    return ms("FusedMatMulActivation", [a, b], attrs, results=[f(y)])


@case
def skip_norm(r):
    simple = r.random() < 0.5
    h = 16
    x = floats(r, 2, 3, h)
    skip = floats(r, *(pick(r, (2, 3, h), (2, 3, h) if simple else (3, h), (2, 3, h) if simple else (1, 3, h))))
    inputs = [x, skip, floats(r, h)]
    if not simple:
        inputs.append(floats(r, h) if r.random() < 0.7 else None)
    inputs.append(floats(r, h) if r.random() < 0.5 else None)
    op = "SkipSimplifiedLayerNormalization" if simple else "SkipLayerNormalization"
    made = ms(op, inputs, {"epsilon": 1e-5}, outputs=pick(r, 1, 4))
    if made.outputs == 4:
        # The two in the middle are for training.
        made.names = ["y0", "", "", "y3"]
    return made


@case
def embed_norm(r):
    b, s, h = 2, 5, 8
    ids = int32(r.integers(0, 11, (b, s)))
    segments = int32(r.integers(0, 2, (b, s))) if r.random() < 0.6 else None
    mask = np.sort(int32(r.integers(0, 2, (b, s))))[:, ::-1].copy() if r.random() < 0.6 else None
    inputs = [ids, segments, floats(r, 11, h), floats(r, 7, h), None if segments is None else floats(r, 2, h),
              floats(r, h), floats(r, h), mask]
    if r.random() < 0.3:
        inputs.append(int32(r.integers(0, 7, (b, s))))
    return ms("EmbedLayerNormalization", inputs, {"epsilon": 1e-6}, outputs=pick(r, 2, 3),
              kinds=[F, TensorProto.INT32, F])


@case
def attention(r):
    b, s, n, d = int(r.integers(1, 4)), int(r.integers(1, 6)), pick(r, 1, 2, 4), 4
    h, past = n * d, pick(r, 0, 0, 3)
    # Without a bias the runtime does not live to tell.
    inputs = [floats(r, b, s, 6), floats(r, 6, 3 * h), floats(r, 3 * h)]
    kind = pick(r, "none", "2d", "3d", "ends", "span")
    total = s + past
    mask = {"none": None, "2d": int32(r.random((b, total)) < 0.8), "3d": int32(r.random((b, s, total)) < 0.8),
            "ends": int32(r.integers(1, total + 1, b)),
            "span": int32([*[total] * b, *r.integers(0, total, b)])}[kind]
    inputs.append(mask)
    inputs.append(floats(r, 2, b, n, past, d) if past else None)
    if r.random() < 0.3:
        inputs.append(floats(r, pick(r, 1, b), pick(r, 1, n), s, total))
    attrs = {"num_heads": n, "unidirectional": pick(r, 0, 1)}
    if r.random() < 0.3:
        attrs["scale"] = 0.3
    return ms("Attention", inputs, attrs, outputs=2 if past else pick(r, 1, 2), constant=pick(r, (), (1, 2)))


@case
def multi_head(r):
    b, s, n, d, v = int(r.integers(1, 4)), int(r.integers(1, 6)), pick(r, 1, 2), 4, pick(r, 4, 6)
    form = pick(r, "plain", "plain", "past", "cross", "packed_kv", "packed")
    v = d if form == "past" else v
    keys = pick(r, s, 7) if form in ("plain", "packed_kv") else s
    past = 0
    bias = floats(r, n * (2 * d + v)) if r.random() < 0.5 else None
    k2 = v2 = None
    if form == "packed":
        v, inputs, bias = d, [floats(r, b, s, n, 3, d), None, None], None
    elif form == "packed_kv":
        v, inputs, bias = d, [floats(r, b, s, n * d), floats(r, b, keys, n, 2, d), None], None
    elif form == "cross":
        keys = 6
        inputs = [floats(r, b, s, n * d), floats(r, b, n, keys, d), floats(r, b, n, keys, v)]
    else:
        inputs = [floats(r, b, s, n * d), floats(r, b, keys, n * d), floats(r, b, keys, n * v)]
    if form == "past":
        past = 3
        k2, v2 = floats(r, b, n, past, d), floats(r, b, n, past, v)
    total = keys + past
    mask = pick(r, None, int32(r.random((b, total)) < 0.8), int32(r.integers(1, total + 1, b)),
                int32(r.random((b, s, total)) < 0.8))
    scores = floats(r, pick(r, 1, b), pick(r, 1, n), s, total) if r.random() < 0.3 else None
    # With other keys than queries the runtime lets the last query see all of them.
    attrs = {"num_heads": n, "unidirectional": pick(r, 0, 1) if keys == s else 0}
    return ms("MultiHeadAttention", [*inputs, bias, mask, scores, k2, v2], attrs,
              outputs=3 if form == "past" else 1)


@case
def one_query(r):
    b, n, d, past = 2, 2, 4, 3
    room = past + int(r.integers(1, 4))
    inputs = [*(floats(r, b, 1, n * d) for _ in range(3)),
              int32(r.random((b, past + 1)) < 0.8) if r.random() < 0.5 else None, None,
              floats(r, b, n, room, d), floats(r, b, n, room, d), int32([past])]
    attrs = {"num_heads": n, "past_present_share_buffer": 1}
    return ms("DecoderMaskedMultiHeadAttention", inputs, attrs, outputs=3, constant=pick(r, (), (7,)))


@case
def group_query(r):
    n, g, d = pick(r, 2, 4), pick(r, 1, 2), 16
    first = r.random() < 0.5
    b = int(r.integers(1, 3))
    s = int(r.integers(2, 6)) if first else 1
    past = 0 if first else int(r.integers(1, 5))
    room = past + pick(r, 0, 0, 8)
    total = s + past
    if r.random() < 0.3:
        inputs = [floats(r, b, s, (n + 2 * g) * d), None, None]
    else:
        inputs = [floats(r, b, s, n * d), floats(r, b, s, g * d), floats(r, b, s, g * d)]
    room = max(room, total) if room > past else past
    cache = room > 0
    lens = [total - 1] * b
    if not first and b > 1 and past > 1:
        lens[1] -= 1
    inputs += [floats(r, b, g, room, d) if cache else None, floats(r, b, g, room, d) if cache else None,
               int32(lens), int32(total)]
    attrs = {"num_heads": n, "kv_num_heads": g}
    if r.random() < 0.6:
        attrs |= {"do_rotary": 1, "rotary_interleaved": pick(r, 0, 1)}
        angle = r.uniform(0, 3, (16, d // 2))
        inputs += [np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)]
    if r.random() < 0.3:
        attrs["softcap"] = 5.0
    if r.random() < 0.3:
        attrs["local_window_size"] = 3
    extra = pick(r, "", "", "bias", "sink", "smooth")
    if extra == "smooth":
        attrs["smooth_softmax"] = 1
    elif extra:
        inputs += [None] * (10 - len(inputs))
        if extra == "bias":
            inputs.append(floats(r, pick(r, 1, b), pick(r, 1, n), s, total))
        else:
            inputs += [None, floats(r, n)]
    made = ms("GroupQueryAttention", inputs, attrs, outputs=3)
    if len(set(lens)) > 1 or room > total:
        # What is behind the end of a sequence is not said.
        made.names = ["y0", "y1", "y2"]
        made.shown = 1
    return made


@case
def rotary(r):
    b, s, n, d = 2, int(r.integers(1, 5)), 2, 8
    turned = pick(r, 0, 4)
    angle = r.uniform(0, 3, (9, (turned or d) // 2))
    x = floats(r, b, n, s, d) if turned == 0 and r.random() < 0.5 else floats(r, b, s, n * d)
    places = pick(r, ints([2]), ints(r.integers(0, 9, (b, s))))
    attrs = {"interleaved": pick(r, 0, 1), "scale": 1.0}
    if turned:
        attrs |= {"num_heads": n, "rotary_embedding_dim": turned}
    return ms("RotaryEmbedding", [x, places, np.cos(angle).astype(np.float32),
                                  np.sin(angle).astype(np.float32)], attrs)


@case
def gemma_rotary(r):
    angle, shape = floats(r, 2, 3, 4), (2, 2, 3, 4)
    q, q2, k, k2 = (floats(r, *shape).astype(np.float16) for _ in range(4))
    c, s = (f(angle).astype(np.float16)[:, None] for f in (np.cos, np.sin))
    results = [q * c + q2 * s, k * c + k2 * s]
    return ms("GemmaRotaryEmbedding", [angle, q, q2, k, k2], outputs=2, kinds=[TensorProto.FLOAT16] * 2,
              results=results)


@case
def bits_matmul(r):
    bits, block = pick(r, 2, 4, 4, 8), pick(r, 16, 32)
    k, n = pick(r, 32, 48, 40), int(r.integers(1, 9))
    blocks = -(-k // block)
    w = r.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
    scales = np.abs(floats(r, n, blocks)) / 10
    zero = pick(r, None, r.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8),
                r.uniform(0, 2**bits, (n, blocks)).astype(np.float32))
    inputs = [floats(r, 2, 3, k), w, scales, zero]
    if r.random() < 0.3:
        inputs += [None, floats(r, n)]
    return ms("MatMulNBits", inputs, {"K": k, "N": n, "bits": bits, "block_size": block},
              constant=(1, 2, 3, 4, 5))


@case
def bnb4_matmul(r):
    k, n, block = pick(r, 32, 48), int(r.integers(1, 9)), pick(r, 16, 32)
    w = r.integers(0, 256, (n * k + 1) // 2).astype(np.uint8)
    return ms("MatMulBnb4", [floats(r, 3, k), w, np.abs(floats(r, -(-n * k // block)))],
              {"K": k, "N": n, "block_size": block, "quant_type": pick(r, 0, 1)}, constant=(1, 2))


@case
def block_gather(r):
    rows, width, block, bits = 7, 64, pick(r, 16, 32), pick(r, 2, 4, 8)
    blocks = width // block
    data = r.integers(0, 256, (rows, width * bits // 8)).astype(np.uint8)
    zero = r.integers(0, 256, (rows, -(-blocks * bits // 8))).astype(np.uint8) if r.random() < 0.5 else None
    at = ints(r.integers(-rows, rows, pick(r, (3,), (2, 2))))
    return ms("GatherBlockQuantized", [data, at, np.abs(floats(r, rows, blocks)), zero],
              {"block_size": block, "bits": bits, "gather_axis": 0, "quantize_axis": 1}, constant=(0, 2, 3))


@case
def lstm(r):
    t, b, i, h = (int(r.integers(1, 6)) for _ in range(4))
    kind = pick(r, np.int8, np.uint8)
    d, per = pick(r, 1, 2), r.random() < 0.5
    low, high = (-128, 128) if kind == np.int8 else (0, 256)
    shape = (d, 4 * h) if per else (d,)

    def weight(rows):
        zero = np.zeros(shape) if per else r.integers(low // 4, high // 4, shape)
        return (r.integers(low, high, (d, rows, 4 * h)).astype(kind), np.abs(floats(r, *shape)) / 99 + 1e-3,
                zero.astype(kind))
    w, r_ = weight(i), weight(h)
    inputs = [floats(r, t, b, i), w[0], r_[0], floats(r, d, 8 * h) if r.random() < 0.7 else None,
              int32(r.integers(1, t + 1, b)) if r.random() < 0.3 else None]
    start = r.random() < 0.4
    inputs += [floats(r, d, b, h) if start else None, floats(r, d, b, h) if start else None,
               floats(r, d, 3 * h) if r.random() < 0.3 else None, w[1], w[2], r_[1], r_[2]]
    attrs = {"hidden_size": h, "direction": "bidirectional" if d == 2 else pick(r, "forward", "reverse")}
    return ms("DynamicQuantizeLSTM", inputs, attrs, outputs=3, constant=(1, 2, 3, 8, 9, 10, 11))


@case
def bias_add(r):
    x, bias, skip = floats(r, 2, 3, 8), floats(r, 8), floats(r, 2, 3, 8)
    left, right = np.split(x + bias, 2, -1)
    weight = floats(r, 8, 4)
    y = x @ weight
    fast = 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))
    return pick(r, ms("BiasAdd", [x, bias, skip], results=[x + bias + skip]),
                ms("BiasSplitGelu", [x, bias], results=[(left * gelu(right)).astype(np.float32)]),
                ms("GemmFastGelu", [x, weight, floats(r, 4) * 0], results=[fast.astype(np.float32)]))


@case
def bias_dropout(r):
    x, bias, skip = floats(r, 2, 3, 8), floats(r, 8), floats(r, 2, 3, 8)
    return ms("BiasDropout", [x, bias, skip], results=[x + bias + skip])


@case
def bias_softmax(r):
    x = floats(r, 2, 3, 4, 5)
    inner = pick(r, 0, 1)
    bias = floats(r, *((2, 1, 1, 5) if inner else (1, 3, 4, 5)))
    return ms("BiasSoftmax", [x, bias], {"axis": 3, "is_inner_broadcast": inner},
              results=[softmax(x + bias).astype(np.float32)])


@case
def group_norm(r):
    groups, c, last, act = 2, 6, pick(r, 0, 1), pick(r, 0, 1)
    skip, x = r.random() < 0.5, floats(r, 2, c, 3, 4)
    gamma, beta = floats(r, c), floats(r, c)
    inputs, s = [gamma, beta], x
    if skip:
        other, bias = pick(r, floats(r, 2, c, 3, 4), floats(r, 2, c)), floats(r, c)
        line = other if other.ndim == 4 else other[:, :, None, None]
        s = x + line + bias[:, None, None]
        inputs += [np.moveaxis(other, 1, -1) if last and other.ndim == 4 else other, bias]
    parts = s.reshape(2, groups, -1)
    y = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-5)
    y = y.reshape(s.shape) * gamma[:, None, None] + beta[:, None, None]
    y = y * sigmoid(y) if act else y
    place = (lambda t: np.moveaxis(t, 1, -1)) if last else (lambda t: t)
    results = [place(t).astype(np.float32) for t in ((y, s) if skip else (y,))]
    attrs = {"groups": groups, "activation": act, "channels_last": last, "epsilon": 1e-5}
    return ms("SkipGroupNorm" if skip else "GroupNorm", [np.ascontiguousarray(place(x)), *inputs], attrs,
              outputs=len(results), results=results)


@case
def packing(r):
    b, s, h = 3, 4, 8
    counts = r.integers(1, s + 1, b)
    x = floats(r, b, s, h)
    inside = np.arange(s) < counts[:, None]
    places = np.concatenate([np.flatnonzero(inside), np.flatnonzero(~inside)])
    tokens = x.reshape(-1, h)[places[: counts.sum()]]
    ends = int32([0, *np.cumsum(counts)])
    table = int32(places).reshape(b, s)
    kind = pick(r, "remove", "restore", "attention", "heads")
    i32 = TensorProto.INT32
    if kind == "remove":
        return ms("RemovePadding", [x, int32(counts)], outputs=4, kinds=[F, i32, i32, i32],
                  results=[tokens, table, ends, int32([counts.max()])], constant=(1,))
    if kind == "restore":
        return ms("RestorePadding", [tokens, table], results=[np.where(inside[..., None], x, 0)])
    n, w, bias = 2, floats(r, h, 3 * h), floats(r, 3 * h)
    qkv = tokens @ w + bias if kind == "attention" else floats(r, len(tokens), 3 * h)
    y = np.zeros((len(tokens), h), np.float32)
    for first, end in zip(ends, ends[1:]):
        q, k, v = (t.reshape(-1, n, h // n).swapaxes(0, 1) for t in np.split(qkv[first:end], 3, -1))
        part = softmax(q @ k.swapaxes(1, 2) / np.sqrt(h // n)) @ v
        y[first:end] = part.swapaxes(0, 1).reshape(-1, h)
    if kind == "attention":
        return ms("PackedAttention", [tokens, w, bias, table, ends], {"num_heads": n}, results=[y])
    q, k, v = np.split(qkv, 3, -1)
    return ms("PackedMultiHeadAttention", [q, k, v, None, table, ends], {"num_heads": n}, results=[y])


@case
def position_bias(r):
    buckets, n, q, k, most, both = 8, 2, 6, 6, 5, pick(r, 0, 1)
    table = floats(r, n, buckets)
    distance = np.arange(q)[:, None] - np.arange(k)
    half = buckets // 2 if both else buckets
    first = np.where(distance < 0, half, 0) if both else 0
    distance = np.abs(distance) if both else np.maximum(distance, 0)
    exact = half // 2
    with np.errstate(divide="ignore"):
        far = np.log(np.float32(distance) / np.float32(exact)) / np.log(np.float32(most) / np.float32(exact))
    far = np.minimum(exact + np.where(distance > 0, far * (half - exact), 0).astype(int), half - 1)
    at = first + np.where(distance < exact, distance, far)
    return ms("RelativePositionBias", [table.reshape(buckets, n), ints(q).reshape(1), ints(k).reshape(1)],
              {"max_distance": most, "is_bidirectional": both}, constant=(1, 2),
              results=[table[:, at][None]])


@case
def gated_bias(r):
    b, n, s, d, w = 2, 2, 3, 4, 6
    q, bias, rel = floats(r, b, s, n * d), floats(r, n * d), floats(r, 1, n, s, s)
    weight, ub, a = floats(r, d, w), floats(r, w), floats(r, 1, n, 1, 1)
    heads = (q + bias).reshape(b, s, n, d).swapaxes(1, 2)
    gates = sigmoid((heads @ weight + ub).reshape(b, n, s, 2, w // 2).sum(-1))
    u, g = gates[..., :1], gates[..., 1:]
    return ms("GatedRelativePositionBias", [q, bias, rel, weight, ub, a], {"num_heads": n},
              results=[(u * (g * a - 1) + 2) * rel])


@case
def finite(r):
    x = floats(r, 4)
    x[0] = pick(r, 1, np.nan, np.inf)
    attrs = pick(r, {}, {"isinf_only": 1}, {"isnan_only": 1})
    bad = np.isinf(x) if "isinf_only" in attrs else np.isnan(x) if "isnan_only" in attrs else ~np.isfinite(x)
    return ms("IsAllFinite", [x, floats(r, 3)], attrs, kinds=[TensorProto.BOOL], results=[np.array(not bad.any())])


@case
def silu(r):
    x = floats(r, 3, 4)
    z = x * np.float32(0.7)
    return ms("ScaledSiLU", [x], {"alpha": 0.7}, results=[z * sigmoid(z)])


@case
def linear_attention(r):
    b, t, n, g, d = 2, int(r.integers(1, 5)), 4, pick(r, 2, 4), 4
    rule = pick(r, "linear", "gated", "delta", "gated_delta")
    decay = beta = None
    if "gated" in rule:
        decay = -np.abs(floats(r, b, t, pick(r, g, g * d)))
    if "delta" in rule:
        beta = sigmoid(floats(r, b, t, pick(r, 1, g)))
    past = floats(r, b, g, d, d) if r.random() < 0.5 else None
    inputs = [floats(r, b, t, n * d), floats(r, b, t, g * d), floats(r, b, t, g * d), past, decay, beta]
    return ms("LinearAttention", inputs, {"q_num_heads": n, "kv_num_heads": g, "update_rule": rule}, outputs=2)


@case
def causal_conv(r):
    c, k = 3, int(r.integers(1, 5))
    past = floats(r, 2, c, k - 1) if k > 1 and r.random() < 0.5 else None
    inputs = [floats(r, 2, c, int(r.integers(1, 7))), floats(r, c, 1, k),
              floats(r, c) if r.random() < 0.5 else None, past]
    return ms("CausalConvWithState", inputs, {"activation": pick(r, "none", "silu")}, outputs=2)


@case
def exported(r):
    x, y = floats(r, 4, 6), floats(r, 5, 6)
    kind = int(r.integers(0, 13))
    if kind == 0:
        return ms("CDist", [x, y], {"metric": pick(r, "euclidean", "sqeuclidean")})
    if kind == 1:
        return ms(pick(r, "ComplexMul", "ComplexMulConj"), [floats(r, 3, 4, 2), floats(r, 3, 4, 2)])
    if kind == 2:
        return ms("ExpandDims", [x, int32(pick(r, 0, 1, -1))], constant=(1,))
    if kind == 3:
        return ms("GatherND", [x, ints(r.integers(0, 4, (3, 1)))])
    if kind == 4:
        return ms("GridSample", [floats(r, 1, 2, 4, 5), r.uniform(-1.2, 1.2, (1, 3, 3, 2)).astype(np.float32)],
                  {"mode": pick(r, "bilinear", "nearest", "bicubic"), "padding_mode": pick(r, "zeros", "border"),
                   "align_corners": pick(r, 0, 1)})
    if kind == 5:
        return ms("Pad", [x, ints([1, 0, 2, 1]), np.float32([1.5])], {"mode": pick(r, "constant", "edge")},
                  constant=(1, 2))
    if kind == 6:
        return ms("Range", [np.float32(1), np.float32(6), *pick(r, [], [np.float32(1.5)])], constant=(0, 1, 2))
    if kind == 7:
        return ms("Trilu", [x, ints(pick(r, -1, 0, 2))], {"upper": pick(r, 0, 1)}, constant=(1,))
    if kind == 8:
        return ms("Unique", [np.round(floats(r, 9))], outputs=3,
                  kinds=[F, TensorProto.INT64, TensorProto.INT64])
    if kind == 9:
        return ms("UnfoldTensor", [x], {"dim": pick(r, 0, -1), "size": 3, "step": pick(r, 1, 2)})
    if kind == 10:
        return ms("ConvTransposeWithDynamicPads", [floats(r, 1, 2, 5, 5), floats(r, 2, 3, 3, 3),
                                                   ints([1, 0, 1, 1]), floats(r, 3)],
                  {"strides": [2, 2]}, constant=(2,))
    if kind == 11:
        at = ints(r.integers(0, 5, (2, 3)))
        return ms("TorchEmbedding", [y, at], results=[y[at]])
    return ms("TransposeMatMul", [x, y], {"transB": 1})


def moved(x):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


@case
def channels_last(r):
    """The plain operator, its images turned."""
    plain = pick(r, operators.conv, operators.conv_transpose, operators.pool, operators.global_pool,
                 operators.grid_sample, operators.depth_space, operators.resize)(r)
    plain.outputs = 1
    model, inputs, outputs = operators.model_of(plain)
    y = operators.answers(plain, model, inputs, outputs)[0]
    made = Case(plain.op, plain.inputs, plain.attrs, domain="com.ms.internal.nhwc", constant=plain.constant,
                kinds=[F], results=[moved(y)], version=plain.opset)
    made.inputs[0] = moved(made.inputs[0])
    if plain.op == "Resize":
        for i, x in enumerate(made.inputs[1:], 1):
            if x is not None and x.size:
                made.inputs[i] = x[[0, 2, 3, 1]]
    return made


@case
def nhwc_conv(r):
    plain = operators.conv(r)
    model, inputs, outputs = operators.model_of(plain)
    y = operators.answers(plain, model, inputs, outputs)[0]
    inputs = [moved(plain.inputs[0]), moved(plain.inputs[1]), *plain.inputs[2:]]
    if r.random() < 0.5:
        attrs = {k: v for k, v in plain.attrs.items() if k != "kernel_shape"}
        return ms("NhwcConv", inputs, attrs, results=[moved(y)])
    z = floats(r, *y.shape)
    inputs = [inputs[0], plain.inputs[1], plain.inputs[2] if len(plain.inputs) > 2 else None, moved(z)]
    return ms("NhwcFusedConv", inputs, plain.attrs | {"activation": "Relu"}, results=[moved(np.maximum(y + z, 0))])


if __name__ == "__main__":
    operators.make(CASES, int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], pathlib.Path(sys.argv[4]))
