"""Random cases, one function per family of operators; see scripts/onnx-cases.

A function gets a numpy generator and gives a Case: operator, inputs, attributes. What it leaves to
chance is what models differ in: ranks, sizes, axes, strides, pads, modes, optional inputs.
"""

import os
import pathlib
import re
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper


class Case:
    def __init__(self, op, inputs, attrs=None, outputs=1, opset=17, domain="", constant=(), kinds=None,
                 results=None, version=1):
        inputs = [None if x is None else np.asarray(x) for x in inputs]
        self.op, self.inputs, self.attrs = op, inputs, attrs or {}
        self.outputs, self.opset, self.domain = outputs, opset, domain
        # Inputs by position that are initializers: weights, axes, shapes.
        self.constant = constant
        # Types of the outputs, where inference does not know the operator.
        self.kinds = kinds
        # What comes out, where ONNX Runtime has the operator for other devices only.
        self.results = results
        # Of the set of a domain other than the default one.
        self.version = version
        # Names of the outputs, "" for one that is not wanted, and how many of them are compared.
        self.names, self.shown = None, None


CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def floats(r, *shape):
    return r.standard_normal(shape).astype(np.float32)


def shape(r, low=1, high=4, most=6):
    return [int(r.integers(1, most + 1)) for _ in range(r.integers(low, high + 1))]


def pick(r, *options):
    return options[r.integers(len(options))]


def ints(values):
    return np.array(values, dtype=np.int64)


@case
def unary(r):
    op = pick(r, "Abs Neg Exp Log Sqrt Sin Cos Tan Tanh Sigmoid Erf Floor Ceil Round Sign Softplus "
              "Softsign Relu Elu Selu LeakyRelu HardSigmoid HardSwish Reciprocal Asin Acos Atan "
              "Sinh Cosh Asinh Atanh Mish ThresholdedRelu Celu Shrink Not IsNaN Identity".split())
    op = pick(r, *op) if isinstance(op, list) else op
    x = floats(r, *shape(r))
    if op in ("Log", "Sqrt"):
        x = np.abs(x) + 0.01
    if op in ("Asin", "Acos", "Atanh"):
        x = np.tanh(x) * 0.99
    if op == "Not":
        x = x > 0
    attrs = {"alpha": float(r.uniform(0.1, 2))} if op in ("Elu", "LeakyRelu", "Celu",
                                                          "ThresholdedRelu") else {}
    return Case(op, [x], attrs, opset=18 if op == "Mish" else 17)


@case
def binary(r):
    op = pick(r, "Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Less", "Greater", "Equal", "Max", "Min",
              "Mod", "LessOrEqual", "GreaterOrEqual")
    a = shape(r, 1, 4)
    b = [pick(r, 1, n) for n in a][int(r.integers(0, len(a))):] or [1]
    kind = pick(r, np.float32, np.int32, np.int64)
    if op in ("PRelu", "Pow"):
        kind = np.float32
    x, y = (r.standard_normal(s) * 10 for s in (a, b))
    if kind != np.float32:
        y = np.where(np.abs(y) < 1, 3, y)
    x, y = x.astype(kind), y.astype(kind)
    if op == "Pow":
        x = np.abs(x)
        y = y / 5
    if op not in ("PRelu", "Pow") and r.random() < 0.3:
        x, y = y, x
    attrs = {"fmod": 1} if op == "Mod" and kind == np.float32 else {}
    return Case(op, [x, y], attrs)


@case
def where(r):
    s = shape(r)
    return Case("Where", [r.random(s) > 0.5, floats(r, *s), floats(r, *s[-1:])])


@case
def conv(r):
    n = int(r.integers(1, 4))
    groups = pick(r, 1, 1, 2, 4)
    c_in, c_out = groups * int(r.integers(1, 6)), groups * int(r.integers(1, 9))
    kernel = [int(r.integers(1, 5)) for _ in range(n)]
    dilation = [int(r.integers(1, 3)) for _ in range(n)]
    space = [d * (k - 1) + int(r.integers(1, 20 if n < 3 else 6)) for k, d in zip(kernel, dilation)]
    attrs = {"group": groups, "dilations": dilation, "strides": [int(r.integers(1, 4)) for _ in kernel]}
    auto = pick(r, None, None, "SAME_UPPER", "SAME_LOWER", "VALID")
    if auto and (auto == "VALID" or max(dilation) == 1):
        attrs["auto_pad"] = auto
    else:
        attrs["pads"] = [int(r.integers(0, 3)) for _ in range(2 * n)]
    if r.random() < 0.5:
        attrs["kernel_shape"] = kernel
    inputs = [floats(r, int(r.integers(1, 4)), c_in, *space), floats(r, c_out, c_in // groups, *kernel)]
    if r.random() < 0.6:
        inputs.append(floats(r, c_out))
    return Case("Conv", inputs, attrs, constant=pick(r, (), (1, 2)))


@case
def conv_transpose(r):
    n = int(r.integers(1, 3))
    groups = pick(r, 1, 1, 2)
    c_in, c_out = groups * int(r.integers(1, 4)), int(r.integers(1, 5))
    kernel = [int(r.integers(1, 4)) for _ in range(n)]
    stride = [int(r.integers(1, 4)) for _ in range(n)]
    attrs = {"group": groups, "strides": stride, "dilations": [int(r.integers(1, 3)) for _ in kernel]}
    if r.random() < 0.5:
        attrs["pads"] = [int(r.integers(0, 2)) for _ in range(2 * n)]
        attrs["output_padding"] = [int(r.integers(0, s)) for s in stride]
    inputs = [floats(r, 2, c_in, *[int(r.integers(3, 8)) for _ in kernel]),
              floats(r, c_in, c_out, *kernel)]
    if r.random() < 0.5:
        inputs.append(floats(r, c_out * groups))
    return Case("ConvTranspose", inputs, attrs)


@case
def pool(r):
    op = pick(r, "MaxPool", "AveragePool", "LpPool", "MaxPool", "AveragePool")
    n = int(r.integers(1, 4))
    kernel = [int(r.integers(1, 4)) for _ in range(n)]
    attrs = {"kernel_shape": kernel, "strides": [int(r.integers(1, 4)) for _ in kernel]}
    auto = pick(r, None, None, "SAME_UPPER", "SAME_LOWER", "VALID")
    if auto:
        attrs["auto_pad"] = auto
        # A stride beyond the kernel would make the padding negative, which no two implementations
        # take for the same.
        attrs["strides"] = [min(s, k) for s, k in zip(attrs["strides"], kernel)]
    else:
        attrs["pads"] = [int(r.integers(0, (k + 1) // 2)) for k in kernel * 2]
    if op != "LpPool" and not auto:
        attrs["ceil_mode"] = pick(r, 0, 1)
    if op == "AveragePool":
        attrs["count_include_pad"] = pick(r, 0, 1)
    if op == "MaxPool" and not auto:
        attrs["dilations"] = [int(r.integers(1, 3)) for _ in kernel]
    x = floats(r, 2, int(r.integers(1, 4)), *[int(r.integers(6, 12)) for _ in kernel])
    return Case(op, [x], attrs, outputs=pick(r, 1, 2) if op == "MaxPool" else 1)


@case
def global_pool(r):
    return Case(pick(r, "GlobalAveragePool", "GlobalMaxPool"), [floats(r, 2, 3, *shape(r, 1, 3))])


@case
def matmul(r):
    m, k, n = (int(r.integers(1, 40)) for _ in range(3))
    lead = shape(r, 0, 2, 3)
    a, b = pick(r, ([*lead, m, k], [*lead, k, n]), ([*lead, m, k], [k, n]), ([k], [k, n]),
                ([m, k], [k]), ([m, k], [*lead, k, n]))
    return Case("MatMul", [floats(r, *a), floats(r, *b)], constant=pick(r, (), (1,)))


@case
def gemm(r):
    m, k, n = (int(r.integers(1, 50)) for _ in range(3))
    ta, tb = pick(r, 0, 1), pick(r, 0, 1)
    inputs = [floats(r, *((k, m) if ta else (m, k))), floats(r, *((n, k) if tb else (k, n)))]
    if r.random() < 0.7:
        inputs.append(floats(r, *pick(r, (n,), (m, n), (1, n), (m, 1), (1,))))
    attrs = {"transA": ta, "transB": tb, "alpha": float(r.uniform(0.1, 2)),
             "beta": float(r.uniform(0.1, 2))}
    return Case("Gemm", inputs, attrs, constant=pick(r, (), (1, 2)))


@case
def norm(r):
    op = pick(r, "BatchNormalization", "InstanceNormalization", "LayerNormalization", "LRN",
              "LpNormalization")
    x = floats(r, 2, int(r.integers(2, 6)), *shape(r, 2, 2, 7))
    c = x.shape[1]
    if op == "BatchNormalization":
        return Case(op, [x, floats(r, c), floats(r, c), floats(r, c), np.abs(floats(r, c)) + 0.1],
                    {"epsilon": 1e-3}, constant=pick(r, (), (1, 2, 3, 4)))
    if op == "InstanceNormalization":
        return Case(op, [x, floats(r, c), floats(r, c)])
    if op == "LayerNormalization":
        axis = int(r.integers(1, x.ndim))
        s = x.shape[axis:]
        inputs = [x, floats(r, *s)] + ([floats(r, *s)] if r.random() < 0.5 else [])
        return Case(op, inputs, {"axis": pick(r, axis, axis - x.ndim)})
    if op == "LRN":
        return Case(op, [x], {"size": pick(r, 1, 3, 5), "alpha": 0.1, "beta": 0.6, "bias": 1.5})
    return Case(op, [x], {"axis": pick(r, 1, -1), "p": pick(r, 1, 2)})


@case
def softmax(r):
    x = floats(r, *shape(r, 1, 4, 9)) * 3
    return Case(pick(r, "Softmax", "LogSoftmax", "Hardmax"), [x],
                {"axis": int(r.integers(-x.ndim, x.ndim))}, opset=pick(r, 12, 17))


@case
def reduce(r):
    op = pick(r, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
              "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")
    x = floats(r, *shape(r, 1, 4, 7))
    if op == "ReduceMax" and r.random() < 0.4:
        x = (x * 10).astype(np.int32)
    axes = sorted(set(int(a) for a in r.integers(0, x.ndim, r.integers(1, x.ndim + 1))))
    axes = [pick(r, a, a - x.ndim) for a in axes]
    attrs = {"keepdims": pick(r, 0, 1)}
    opset = pick(r, 17, 18)
    if opset == 18 or op == "ReduceSum":
        return Case(op, [x, ints(axes)], attrs, opset=opset, constant=(1,))
    return Case(op, [x], attrs | {"axes": axes}, opset=opset)


@case
def arg(r):
    x = (r.standard_normal(shape(r, 1, 3, 9)) * 4).astype(pick(r, np.float32, np.int32))
    return Case(pick(r, "ArgMax", "ArgMin"), [x],
                {"axis": int(r.integers(-x.ndim, x.ndim)), "keepdims": pick(r, 0, 1),
                 "select_last_index": pick(r, 0, 1)})


@case
def top_k(r):
    x = floats(r, *shape(r, 1, 3, 30))
    axis = int(r.integers(-x.ndim, x.ndim))
    k = int(r.integers(1, x.shape[axis] + 1))
    return Case("TopK", [x, ints([k])], {"axis": axis, "largest": pick(r, 0, 1)}, outputs=2,
                constant=(1,))


@case
def cumsum(r):
    x = floats(r, *shape(r, 1, 3, 9))
    return Case("CumSum", [x, np.array(int(r.integers(-x.ndim, x.ndim)), dtype=np.int64)],
                {"exclusive": pick(r, 0, 1), "reverse": pick(r, 0, 1)}, constant=(1,))


@case
def slices(r):
    x = floats(r, *shape(r, 1, 4, 9))
    axes = [int(a) for a in r.permutation(x.ndim)[: r.integers(1, x.ndim + 1)]]
    starts, ends = ([int(r.integers(-12, 13)) for _ in axes] for _ in range(2))
    steps = [pick(r, 1, 1, 2, 3, -1, -2) for _ in axes]
    inputs = [x, ints(starts), ints(ends), ints(axes), ints(steps)]
    return Case("Slice", inputs, constant=(1, 2, 3, 4))


@case
def pad(r):
    x = floats(r, *shape(r, 1, 4, 6))
    mode = pick(r, "constant", "reflect", "edge")
    low = [0 if mode == "reflect" else -1] * x.ndim
    amounts = [int(r.integers(lo, max(1, min(4, n)))) if n > 1 else 0
               for lo, n in zip(low * 2, x.shape * 2)]
    if mode != "constant":
        amounts = [max(a, 0) for a in amounts]
    inputs = [x, ints(amounts)] + ([np.float32(1.5).reshape(())] if mode == "constant" else [])
    return Case("Pad", inputs, {"mode": mode}, opset=18, constant=(1, 2))


@case
def concat(r):
    s = shape(r, 1, 4)
    axis = int(r.integers(0, len(s)))
    parts = []
    for _ in range(r.integers(1, 6)):
        s[axis] = int(r.integers(1, 7))
        parts.append(floats(r, *s))
    return Case("Concat", parts, {"axis": pick(r, axis, axis - len(s))})


@case
def split(r):
    s = shape(r, 1, 3, 8)
    axis = int(r.integers(0, len(s)))
    sizes = [int(n) for n in r.integers(1, 5, r.integers(1, 5))]
    s[axis] = sum(sizes)
    return Case("Split", [floats(r, *s), ints(sizes)], {"axis": axis}, outputs=len(sizes),
                constant=(1,))


@case
def transpose(r):
    x = floats(r, *shape(r, 1, 5, 9))
    return Case("Transpose", [x], {"perm": [int(a) for a in r.permutation(x.ndim)]})


@case
def tile_expand(r):
    x = floats(r, *shape(r, 1, 3))
    if r.random() < 0.5:
        return Case("Tile", [x, ints(r.integers(1, 4, x.ndim))], constant=(1,))
    s = [1 if r.random() < 0.5 else n for n in x.shape]
    return Case("Expand", [x[tuple(slice(n) for n in s)], ints([2, *x.shape])], constant=(1,))


@case
def gather(r):
    x = floats(r, *shape(r, 1, 4, 7))
    axis = int(r.integers(0, x.ndim))
    op = pick(r, "Gather", "GatherElements", "GatherND")
    n = x.shape[axis]
    if op == "Gather":
        at = r.integers(-n, n, shape(r, 0, 2, 4))
        return Case(op, [x, np.array(at, dtype=pick(r, np.int32, np.int64))],
                    {"axis": pick(r, axis, axis - x.ndim)}, constant=pick(r, (), (1,)))
    if op == "GatherElements":
        s = list(x.shape)
        s[axis] = int(r.integers(1, 6))
        return Case(op, [x, ints(r.integers(-n, n, s))], {"axis": axis})
    k = int(r.integers(1, x.ndim + 1))
    at = np.stack([r.integers(-m, m, (3, 2)) for m in x.shape[:k]], axis=-1)
    return Case(op, [x, ints(at)])


@case
def scatter(r):
    x = floats(r, *shape(r, 1, 3, 6))
    if r.random() < 0.5:
        axis = int(r.integers(0, x.ndim))
        s = list(x.shape)
        s[axis] = int(r.integers(1, s[axis] + 1))
        kind = pick(r, "none", "add", "mul", "max", "min")
        at = np.argsort(r.random(x.shape), axis=axis).take(range(s[axis]), axis=axis)
        return Case("ScatterElements", [x, ints(at), floats(r, *s)],
                    {"axis": axis, "reduction": kind}, opset=18)
    k = int(r.integers(1, x.ndim + 1))
    count = int(np.prod(x.shape[:k]))
    flat = r.permutation(count)[: r.integers(1, count + 1)]
    at = np.stack(np.unravel_index(flat, x.shape[:k]), axis=-1)
    return Case("ScatterND", [x, ints(at), floats(r, len(flat), *x.shape[k:])],
                {"reduction": pick(r, "none", "add", "mul", "max", "min")}, opset=18)


@case
def resize(r):
    x = floats(r, 1, 2, *[int(r.integers(2, 9)) for _ in range(2)])
    mode = pick(r, "nearest", "linear", "cubic")
    attrs = {"mode": mode, "coordinate_transformation_mode": pick(
        r, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")}
    if mode == "nearest":
        attrs["nearest_mode"] = pick(r, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        attrs["cubic_coeff_a"] = pick(r, -0.75, -0.5)
        attrs["exclude_outside"] = pick(r, 0, 1)
    if mode != "nearest" and r.random() < 0.3:
        attrs["antialias"] = 1
    empty = np.array([], dtype=np.float32)
    # Where a scale gives no whole size, the runtime and the format's reference align other corners.
    if r.random() < 0.5 and attrs["coordinate_transformation_mode"] != "align_corners":
        scales = np.array([1, 1, *r.choice([0.5, 0.6, 1.5, 2, 3], 2)], dtype=np.float32)
        return Case("Resize", [x, empty, scales], attrs, opset=18, constant=(1, 2))
    sizes = ints([1, 2, *r.integers(1, 14, 2)])
    return Case("Resize", [x, empty, empty, sizes], attrs, opset=18, constant=(1, 2, 3))


@case
def grid_sample(r):
    x = floats(r, 2, 3, int(r.integers(2, 7)), int(r.integers(2, 7)))
    grid = (r.uniform(-1.3, 1.3, (2, 4, 5, 2))).astype(np.float32)
    mode, padding = pick(r, "linear", "nearest", "cubic"), pick(r, "zeros", "border", "reflection")
    if mode == "cubic" and padding == "border":
        # The runtime moves the point to the border, the format's reference each of its neighbours.
        padding = "zeros"
    attrs = {"mode": mode, "padding_mode": padding, "align_corners": pick(r, 0, 1)}
    return Case("GridSample", [x, grid], attrs, opset=20)


@case
def depth_space(r):
    b = pick(r, 2, 3)
    if r.random() < 0.5:
        return Case("DepthToSpace", [floats(r, 1, 2 * b * b, 3, 2)],
                    {"blocksize": b, "mode": pick(r, "DCR", "CRD")})
    return Case("SpaceToDepth", [floats(r, 1, 3, 2 * b, 3 * b)], {"blocksize": b})


@case
def recurrent(r):
    op = pick(r, "LSTM", "GRU", "RNN")
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    t, b, i, h = (int(r.integers(1, 6)) for _ in range(4))
    direction = pick(r, "forward", "reverse", "bidirectional")
    d = 2 if direction == "bidirectional" else 1
    inputs = [floats(r, t, b, i), floats(r, d, gates * h, i), floats(r, d, gates * h, h)]
    inputs.append(floats(r, d, 2 * gates * h) if r.random() < 0.7 else None)
    inputs.append(np.array(r.integers(1, t + 1, b), dtype=np.int32) if r.random() < 0.4 else None)
    inputs.append(floats(r, d, b, h) if r.random() < 0.5 else None)
    if op == "LSTM":
        inputs.append(floats(r, d, b, h) if inputs[-1] is not None else None)
        if r.random() < 0.3:
            inputs.append(floats(r, d, 3 * h))
    attrs = {"hidden_size": h, "direction": direction}
    if op == "GRU":
        attrs["linear_before_reset"] = pick(r, 0, 1)
    # For the LSTM the runtime leaves out the activation of the cell, which the format includes.
    if r.random() < 0.3 and op != "LSTM":
        attrs["clip"] = 0.8
    return Case(op, inputs, attrs, outputs=3 if op == "LSTM" else 2, constant=pick(r, (), (1, 2, 3)))


@case
def einsum(r):
    i, j, k, n = (int(r.integers(1, 6)) for _ in range(4))
    text, shapes = pick(r, ("ij,jk->ik", [(i, j), (j, k)]), ("bij,bjk->bik", [(n, i, j), (n, j, k)]),
                        ("bhid,bhjd->bhij", [(n, 2, i, k), (n, 2, j, k)]), ("ii->i", [(i, i)]),
                        ("ij->ji", [(i, j)]), ("...ij,...jk->...ik", [(n, i, j), (n, j, k)]),
                        ("ij->", [(i, j)]), ("i,j->ij", [(i,), (j,)]))
    return Case("Einsum", [floats(r, *s) for s in shapes], {"equation": text})


@case
def quantized(r):
    axis = int(r.integers(0, 3))
    s = [3, 4, 5]
    kind = pick(r, np.uint8, np.int8)
    per = r.random() < 0.5
    scale = np.abs(floats(r, s[axis])) / 20 + 0.01 if per else np.float32(0.05).reshape(())
    zero = r.integers(*((0, 255) if kind == np.uint8 else (-128, 127)), scale.shape).astype(kind)
    zero = np.array(zero, dtype=kind).reshape(scale.shape)
    attrs = {"axis": axis} if per else {}
    if r.random() < 0.5:
        return Case("QuantizeLinear", [floats(r, *s) * 3, scale, zero], attrs, constant=(1, 2))
    x = r.integers(np.iinfo(kind).min, np.iinfo(kind).max, s).astype(kind)
    return Case("DequantizeLinear", [x, scale, zero], attrs, constant=(1, 2))


@case
def integer_products(r):
    a = r.integers(0, 255, (5, 7)).astype(np.uint8)
    b = r.integers(-128, 127, (7, 6)).astype(np.int8)
    if r.random() < 0.5:
        return Case("MatMulInteger", [a, b, np.uint8(r.integers(0, 255)).reshape(())])
    x = r.integers(0, 255, (1, 3, 7, 6)).astype(np.uint8)
    w = r.integers(0, 255, (4, 3, 3, 2)).astype(np.uint8)
    return Case("ConvInteger", [x, w, np.uint8(r.integers(0, 255)).reshape(()),
                                np.uint8(r.integers(0, 255)).reshape(())],
                {"pads": [1, 0, 1, 1], "strides": [pick(r, 1, 2), 1]})


@case
def cast(r):
    kinds = {np.float32: TensorProto.FLOAT, np.float16: TensorProto.FLOAT16, np.int32: TensorProto.INT32,
             np.int64: TensorProto.INT64, np.uint8: TensorProto.UINT8, np.bool_: TensorProto.BOOL,
             np.float64: TensorProto.DOUBLE, np.int8: TensorProto.INT8}
    a, b = (list(kinds)[r.integers(len(kinds))] for _ in range(2))
    x = (r.standard_normal(shape(r)) * 20).clip(0, 100).astype(a)
    return Case("Cast", [x], {"to": kinds[b]})


@case
def one_hot(r):
    at = ints(r.integers(-5, 5, shape(r, 1, 2, 4)))
    return Case("OneHot", [at, ints(6).reshape(()), np.array([0.5, 2.0], dtype=np.float32)],
                {"axis": pick(r, -1, 0, 1)}, constant=(1,))


@case
def loss(r):
    c = int(r.integers(2, 6))
    s = shape(r, 0, 2, 4)
    x, t = floats(r, 3, c, *s), ints(r.integers(0, c, (3, *s)))
    inputs = [x, t] + ([np.abs(floats(r, c))] if r.random() < 0.5 else [])
    return Case("SoftmaxCrossEntropyLoss", inputs, {"reduction": pick(r, "none", "sum", "mean")})


@case
def nonzero_unique(r):
    x = (r.integers(0, 3, shape(r, 1, 3))).astype(np.float32)
    if r.random() < 0.5:
        return Case("NonZero", [x])
    return Case("Unique", [x], {"sorted": pick(r, 0, 1)}, outputs=4)


@case
def nms(r):
    n = int(r.integers(3, 12))
    low = r.uniform(0, 5, (1, n, 2))
    boxes = np.concatenate([low, low + r.uniform(0.5, 3, (1, n, 2))], axis=-1).astype(np.float32)
    scores = r.permutation(2 * n).reshape(1, 2, n).astype(np.float32) / (2 * n)
    inputs = [boxes, scores, ints([int(r.integers(1, 6))]), np.array([r.uniform(0.1, 0.7)], np.float32)]
    if r.random() < 0.5:
        inputs.append(np.array([0.3], np.float32))
    return Case("NonMaxSuppression", inputs, {"center_point_box": 0})


@case
def roi_align(r):
    boxes = np.sort(r.uniform(0, 7, (4, 2, 2)), axis=1).reshape(4, 4).astype(np.float32)
    return Case("RoiAlign", [floats(r, 2, 3, 8, 8), boxes, ints(r.integers(0, 2, 4))],
                {"output_height": 3, "output_width": 2, "sampling_ratio": pick(r, 0, 2),
                 "spatial_scale": pick(r, 1.0, 0.5), "mode": pick(r, "avg", "max"),
                 "coordinate_transformation_mode": pick(r, "half_pixel", "output_half_pixel")})


@case
def reshapes(r):
    x = floats(r, 2, 3, 4)
    return pick(r, Case("Reshape", [x, ints(pick(r, [6, 4], [-1], [0, -1], [2, 1, 12], [0, 0, -1]))],
                        constant=(1,)),
                Case("Flatten", [x], {"axis": int(r.integers(-2, 4))}),
                Case("Squeeze", [x[:1], ints([0])], constant=(1,)),
                Case("Unsqueeze", [x, ints([0, -1])], constant=(1,)),
                Case("Trilu", [x, ints(int(r.integers(-2, 3))).reshape(())], {"upper": pick(r, 0, 1)}))


@case
def clips(r):
    low, high = np.float32(-0.5).reshape(()), np.float32(0.8).reshape(())
    return Case("Clip", [floats(r, *shape(r)), pick(r, low, None), high])


@case
def dft(r):
    x = floats(r, 2, int(r.integers(2, 20)), pick(r, 1, 2))
    attrs = {"axis": 1, "onesided": 1 if x.shape[2] == 1 and r.random() < 0.5 else 0}
    if x.shape[2] == 2:
        attrs["inverse"] = pick(r, 0, 1)
    return Case("DFT", [x], attrs)


def model_of(made):
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(made.inputs)]
    while names and not names[-1]:
        names.pop()
    results = made.names or [f"y{i}" for i in range(made.outputs)]
    node = helper.make_node(made.op, names, results, domain=made.domain, **made.attrs)
    outputs = [name for name in results if name][: made.shown]
    given = [(i, x) for i, x in enumerate(made.inputs) if x is not None]
    inputs = [helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
              for i, x in given if i not in made.constant]
    weights = [numpy_helper.from_array(np.ascontiguousarray(x).reshape(x.shape), f"x{i}")
               for i, x in given if i in made.constant]
    graph = helper.make_graph([node], made.op, inputs,
                              [onnx.ValueInfoProto(name=o) for o in outputs], weights)
    opsets = [helper.make_opsetid("", made.opset)]
    if made.domain:
        opsets.append(helper.make_opsetid(made.domain, made.version))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    # The runtime wants types of outputs: inference finds them.
    if made.kinds is not None:
        kinds = [kind for name, kind in zip(results, made.kinds) if name]
        for output, kind in zip(model.graph.output, kinds):
            output.type.tensor_type.elem_type = kind
        return model, [(f"x{i}", x) for i, x in given if i not in made.constant], outputs
    inferred = onnx.shape_inference.infer_shapes(model)
    found = {v.name: v for v in inferred.graph.output}
    for output in model.graph.output:
        kind = found[output.name].type.tensor_type.elem_type
        output.type.tensor_type.elem_type = kind
    return model, [(f"x{i}", x) for i, x in given if i not in made.constant], outputs


def answers(made, model, inputs, outputs):
    if made.results is not None:
        return made.results
    options = ort.SessionOptions()
    # Some kernels work on each thread's part alone, which shows in the result.
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(outputs, dict(inputs))


def write(folder, model, inputs, outputs, results):
    """A case in the layout of the ONNX backend suite."""
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for i, (name, x) in enumerate(inputs):
        (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(x, name).SerializeToString())
    for i, (name, y) in enumerate(zip(outputs, results)):
        (data / f"output_{i}.pb").write_bytes(
            numpy_helper.from_array(np.asarray(y), name).SerializeToString())


def make(cases, seed, count, only, into):
    """Cases from each maker in turn until there are so many; says how many the runtime refused."""
    ort.set_default_logger_severity(4)
    r = np.random.default_rng(seed)
    makers = list(cases.values())
    done, refused = 0, {}
    for number in range(100 * count):
        if done == count:
            break
        made = makers[number % len(makers)](r)
        if not re.search(only, made.op):
            continue
        try:
            model, inputs, outputs = model_of(made)
            results = answers(made, model, inputs, outputs)
        except Exception as error:  # The runtime's own limits are not our cases.
            refused[made.op] = refused.get(made.op, 0) + 1
            if os.environ.get("VERBOSE"):
                print(made.op, str(error)[:300], file=sys.stderr)
            continue
        write(into / f"{done:04}_{made.op}", model, inputs, outputs, results)
        done += 1
    few = ", ".join(f"{op} {n}" for op, n in sorted(refused.items()))
    print(f"scripts/onnx-cases: {done} made in {into}, refused by ONNX Runtime: {few or 'none'}",
          file=sys.stderr)


if __name__ == "__main__":
    make(CASES, int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], pathlib.Path(sys.argv[4]))
