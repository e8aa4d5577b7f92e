"""Random cases of quantised operators; see scripts/onnx-cases.

Their outputs are whole numbers, or real ones of which a whole number of steps is known: where a sum
lies half-way between two of them, implementations differ by one.
"""

import pathlib
import sys

import numpy as np
from onnx import TensorProto

import operators
from microsoft import floats, int32, moved, ms, pick

CASES = {}
KINDS = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}


def case(function):
    CASES[function.__name__] = function
    return function


def codes(r, kind, *shape):
    info = np.iinfo(kind)
    return r.integers(info.min, info.max + 1, shape).astype(kind)


def unit(r, kind, low=0.01, high=0.05):
    """A scale and a zero point."""
    info = np.iinfo(kind)
    middle = (info.max + info.min) // 2
    return np.float32(r.uniform(low, high)), kind(r.integers(middle - 40, middle + 40))


def kind(r):
    return pick(r, np.uint8, np.int8)


@case
def arithmetic(r):
    k = kind(r)
    a, b = codes(r, k, 3, 4, 5), codes(r, k, *pick(r, (3, 4, 5), (5,), (4, 1)))
    return ms(pick(r, "QLinearAdd", "QLinearMul"), [a, *unit(r, k), b, *unit(r, k), *unit(r, k, 0.03, 0.1)],
              kinds=[KINDS[k]])


@case
def activation(r):
    k = kind(r)
    op = pick(r, "QLinearLeakyRelu", "QLinearSigmoid")
    attrs = {"alpha": 0.2} if op == "QLinearLeakyRelu" else {}
    return ms(op, [codes(r, k, 3, 7), *unit(r, k), *unit(r, k, 0.01, 0.02)], attrs, kinds=[KINDS[k]],
              constant=(1, 2, 3, 4))


@case
def softmax(r):
    k = kind(r)
    zero = np.iinfo(k).min
    return ms("QLinearSoftmax", [codes(r, k, 2, 3, 4), *unit(r, k), np.float32(1 / 256), k(zero)],
              {"axis": pick(r, -1, 2), "opset": 13}, kinds=[KINDS[k]], constant=(1, 2, 3, 4))


@case
def concat(r):
    k = kind(r)
    parts = [x for n in r.integers(1, 4, 3) for x in (codes(r, k, 2, n, 3), *unit(r, k))]
    return ms("QLinearConcat", [*unit(r, k), *parts], {"axis": pick(r, 1, -2)}, kinds=[KINDS[k]],
              constant=(0, 1, 3, 4, 6, 7, 9, 10))


@case
def where(r):
    k = kind(r)
    return ms("QLinearWhere", [r.random((3, 4)) < 0.5, codes(r, k, 3, 4), *unit(r, k), codes(r, k, 4),
                               *unit(r, k), *unit(r, k)], kinds=[KINDS[k]], constant=(2, 3, 5, 6, 7, 8))


@case
def mean(r):
    k = kind(r)
    x, a, b, keep = codes(r, k, 3, 4, 5), unit(r, k), unit(r, k), pick(r, 0, 1)
    real = ((x.astype(np.float32) - a[1]) * a[0]).mean(1, keepdims=bool(keep))
    y = np.clip(np.rint(real / b[0]) + b[1], np.iinfo(k).min, np.iinfo(k).max).astype(k)
    return ms("QLinearReduceMean", [x, *a, *b], {"axes": [1], "keepdims": keep}, kinds=[KINDS[k]], results=[y])


@case
def pool(r):
    k, last = kind(r), pick(r, 0, 1)
    x = codes(r, k, 2, 3, 6, 7)
    x = moved(x) if last else x
    if r.random() < 0.4:
        return ms("QLinearGlobalAveragePool", [x, *unit(r, k), *unit(r, k)], {"channels_last": last},
                  kinds=[KINDS[k]])
    attrs = {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 1, 0, 1], "channels_last": last,
             "count_include_pad": pick(r, 0, 1)}
    return ms("QLinearAveragePool", [x, *unit(r, k), *unit(r, k)], attrs, kinds=[KINDS[k]],
              constant=(1, 2, 3, 4))



@case
def max_pool(r):
    k = kind(r)
    return ms("NhwcMaxPool", [codes(r, k, 2, 6, 7, 3)],
              {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 1, 0, 1]}, kinds=[KINDS[k]])


@case
def conv(r):
    k, last, per = kind(r), pick(r, 0, 1), r.random() < 0.5
    wk = pick(r, np.int8, k)
    group = pick(r, 1, 2)
    x, w = codes(r, k, 2, 2 * group, 7, 6), codes(r, wk, 4, 2, 3, 3)
    ws = np.abs(floats(r, 4)) / 99 + 1e-3 if per else np.float32(0.01)
    wz = np.zeros(4, wk) if per else wk(3)
    bias = int32(r.integers(-500, 500, 4)) if r.random() < 0.6 else None
    inputs = [moved(x) if last else x, *unit(r, k), w, ws, wz, *unit(r, k, 0.1, 0.3), bias]
    return ms("QLinearConv", inputs, {"group": group, "pads": [1, 1, 1, 1], "channels_last": last},
              kinds=[KINDS[k]], constant=(3, 4, 5, 8))


@case
def gemm(r):
    k, tb = kind(r), pick(r, 0, 1)
    a, b = codes(r, k, 3, 8), codes(r, np.int8, 8, 5)
    bias = int32(r.integers(-500, 500, 5)) if r.random() < 0.6 else None
    inputs = [a, *unit(r, k), np.ascontiguousarray(b.T) if tb else b, np.float32(0.02), np.int8(2), bias]
    if r.random() < 0.5:
        return ms("QGemm", [*inputs, *unit(r, k, 0.1, 0.3)], {"transB": tb, "alpha": 1.0}, kinds=[KINDS[k]])
    return ms("QGemm", inputs, {"transB": tb, "alpha": 1.0})


@case
def integer_matmul(r):
    a, b = codes(r, np.uint8, 2, 3, 8), codes(r, np.int8, 8, 5)
    if r.random() < 0.5:
        inputs = [floats(r, 2, 3, 8), b, np.abs(floats(r, 5)) / 50, None, floats(r, 5)]
        return ms("DynamicQuantizeMatMul", inputs, constant=(1, 2, 4))
    inputs = [a, b, np.float32(0.02), np.abs(floats(r, 5)) / 50, np.uint8(120), np.zeros(5, np.int8), floats(r, 5)]
    return ms("MatMulIntegerToFloat", inputs, constant=(1, 3, 5, 6))


@case
def integers(r):
    k = kind(r)
    a, b = codes(r, k, 3, 4), codes(r, k, 4)
    za, zb = k(3), k(5)
    i = TensorProto.INT32
    product = (a.astype(np.int32) - za) * (b.astype(np.int32) - zb)
    x, y = (r.integers(-900, 900, s).astype(np.int16) for s in ((3, 4), (4, 5)))
    return pick(r, ms("MulInteger", [a, za, b, zb], kinds=[i], results=[product]),
                ms("MatMulInteger16", [x, y], kinds=[i], results=[x.astype(np.int32) @ y.astype(np.int32)]),
                ms("ReduceSumInteger", [a], {"axes": [1], "keepdims": 1},
                   kinds=[i if k == np.int8 else TensorProto.UINT32],
                   results=[a.astype(np.int32 if k == np.int8 else np.uint32).sum(1, keepdims=True)
                            .astype(np.int32 if k == np.int8 else np.uint32)]))


@case
def attention(r):
    b, s, n, d, h = 2, 3, 2, 4, 6
    x, w = codes(r, np.uint8, b, s, h), codes(r, np.int8, h, 3 * n * d)
    past = 2 if r.random() < 0.5 else 0
    mask = int32(r.integers(1, s + 1, b)) if not past and r.random() < 0.5 else None
    inputs = [x, w, floats(r, 3 * n * d), np.float32(0.02), np.float32(0.01), mask, np.uint8(120), np.int8(0),
              floats(r, 2, b, n, past, d) if past else None]
    attrs = {"num_heads": n, "unidirectional": 1 if past else pick(r, 0, 1)}
    return ms("QAttention", inputs, attrs, outputs=2 if past else 1, constant=(1, 2, 3, 4, 6, 7))


@case
def embed_norm(r):
    b, s, h, k = 2, 4, 8, kind(r)
    segments = r.random() < 0.5
    ids, second = int32(r.integers(0, 9, (b, s))), int32(r.integers(0, 2, (b, s)))
    tables = [codes(r, k, 9, h), codes(r, k, 6, h), codes(r, k, 2, h) if segments else None, codes(r, k, h),
              codes(r, k, h)]
    scales = [None if t is None else np.float32(r.uniform(0.01, 0.03)) for t in tables]
    zeros = [None if t is None else k(5) for t in tables]
    mask = np.sort(int32(r.integers(0, 2, (b, s))))[:, ::-1].copy() if r.random() < 0.5 else None
    inputs = [ids, second if segments else None, *tables, mask, *scales, *zeros]
    return ms("QEmbedLayerNormalization", inputs, {"epsilon": 1e-6}, outputs=2,
              kinds=[TensorProto.FLOAT, TensorProto.INT32], constant=tuple(range(2, 7)) + tuple(range(8, 18)))


if __name__ == "__main__":
    operators.make(CASES, int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], pathlib.Path(sys.argv[4]))
