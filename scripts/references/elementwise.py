"""Elementwise operations: unary, activations, binary, comparison, bits, choice."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from .store import FLOATS, INTS, Group, bounds, distinct, integers, quantize, truth, uniform
from .store import whole, wrap

INF, NAN = math.inf, math.nan
SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -1.5, -2.5, 1e-40, -1e-40,
           1e-20, -3.0, 7.75, -7.75, 30.0, -30.0, 87.0, -87.0, 1000.0, -1000.0, 3e38, -3e38]

# name, reference, lowest and highest input, exact (one correctly rounded step)
UNARY = [
    ("neg", torch.neg, -3, 3, True),
    ("abs", torch.abs, -3, 3, True),
    ("sign", lambda x: torch.where(x.isnan() | (x == 0), x.detach(), torch.sign(x)), -3, 3, True),
    ("reciprocal", torch.reciprocal, 0.3, 4, False),
    ("sqrt", torch.sqrt, 0.1, 9, False),
    ("rsqrt", torch.rsqrt, 0.1, 9, False),
    ("square", torch.square, -3, 3, False),
    ("exp", torch.exp, -4, 4, False),
    ("exp2", torch.exp2, -4, 4, False),
    ("exp10", lambda x: 10 ** x, -2, 2, False),
    ("expm1", torch.expm1, -4, 4, False),
    ("log1p", torch.log1p, -0.8, 9, False),
    ("log", torch.log, 0.1, 9, False),
    ("log2", torch.log2, 0.1, 9, False),
    ("log10", torch.log10, 0.1, 9, False),
    ("sin", torch.sin, -7, 7, False),
    ("cos", torch.cos, -7, 7, False),
    ("tan", torch.tan, -1.2, 1.2, False),
    ("asin", torch.asin, -0.9, 0.9, False),
    ("acos", torch.acos, -0.9, 0.9, False),
    ("atan", torch.atan, -5, 5, False),
    ("sinh", torch.sinh, -3, 3, False),
    ("cosh", torch.cosh, -3, 3, False),
    ("tanh", torch.tanh, -3, 3, False),
    ("asinh", torch.asinh, -5, 5, False),
    ("acosh", torch.acosh, 1.2, 6, False),
    ("atanh", torch.atanh, -0.9, 0.9, False),
    ("erf", torch.erf, -3, 3, False),
    ("ceil", torch.ceil, -5, 5, True),
    ("floor", torch.floor, -5, 5, True),
    ("round", torch.round, -5, 5, True),
    ("trunc", torch.trunc, -5, 5, True),
]
PREDICATES = [("isnan", torch.isnan), ("isinf", torch.isinf), ("isfinite", torch.isfinite)]

# name, reference, attributes
ACTIVATIONS = [
    ("relu", F.relu, {}),
    ("relu6", F.relu6, {}),
    ("leaky_relu", lambda x: F.leaky_relu(x, 0.01), {"slope": 0.01}),
    ("leaky_relu", lambda x: F.leaky_relu(x, 0.42), {"slope": 0.42}),
    ("elu", lambda x: F.elu(x, 1.0), {"alpha": 1.0}),
    ("elu", lambda x: F.elu(x, 0.3), {"alpha": 0.3}),
    ("celu", lambda x: F.celu(x, 1.5), {"alpha": 1.5}),
    ("selu", F.selu, {}),
    ("gelu", lambda x: F.gelu(x), {}),
    ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), {}),
    ("quick_gelu", lambda x: x * torch.sigmoid(1.702 * x), {}),
    ("silu", F.silu, {}),
    ("mish", F.mish, {}),
    ("sigmoid", torch.sigmoid, {}),
    ("logsigmoid", F.logsigmoid, {}),
    ("hardsigmoid", lambda x: torch.clip(x / 6 + 0.5, 0, 1), {"alpha": 1 / 6, "beta": 0.5}),
    ("hardsigmoid", lambda x: torch.clip(x * 0.2 + 0.5, 0, 1), {"alpha": 0.2, "beta": 0.5}),
    ("thresholded_relu", lambda x: torch.where(x > 0.7, x, 0.0), {"alpha": 0.7}),
    ("shrinkage", lambda x: torch.where(x > 0.5, x - 0.3, torch.where(x < -0.5, x + 0.3, 0.0)),
     {"lambda": 0.5, "bias": 0.3}),
    ("hardswish", F.hardswish, {}),
    ("hardtanh", lambda x: F.hardtanh(x, -1.0, 1.0), {"lo": -1.0, "hi": 1.0}),
    ("hardtanh", lambda x: F.hardtanh(x, -0.5, 2.0), {"lo": -0.5, "hi": 2.0}),
    ("softplus", lambda x: F.softplus(x, 1.0, threshold=1e9), {"beta": 1.0}),
    ("softplus", lambda x: F.softplus(x, 2.0, threshold=1e9), {"beta": 2.0}),
    ("softsign", F.softsign, {}),
]

# name, reference, low/high of a, low/high of b
BINARY = [
    ("add", torch.add, (-2, 2), (-2, 2)),
    ("sub", torch.sub, (-2, 2), (-2, 2)),
    ("mul", torch.mul, (-2, 2), (-2, 2)),
    ("div", torch.div, (-2, 2), (0.4, 3)),
    ("maximum", torch.maximum, (-2, 2), (-2, 2)),
    ("minimum", torch.minimum, (-2, 2), (-2, 2)),
    ("pow", torch.pow, (0.3, 3), (-2, 2)),
    ("copysign", torch.copysign, (-2, 2), (-2, 2)),
    ("logaddexp", torch.logaddexp, (-2, 2), (-2, 2)),
    ("atan2", torch.atan2, (-2, 2), (-2, 2)),
    ("hypot", torch.hypot, (-2, 2), (-2, 2)),
]
COMPARE = [("eq", torch.eq), ("ne", torch.ne), ("lt", torch.lt), ("le", torch.le),
           ("gt", torch.gt), ("ge", torch.ge)]

# Shapes that broadcast against each other.
SHAPES = [((3, 5), (3, 5)), ((3, 1, 5), (4, 1)), ((), (2, 3)), ((7,), ()), ((1, 1), (1,)),
          ((0, 3), (1, 3)), ((2, 0), (2, 1)), ((17, 33), (33,))]


def special(name):
    return quantize(torch.tensor(SPECIAL, dtype=torch.float64), name)


def pairs(name):
    """Every pair of special values of a float type, as two flat tensors."""
    s = quantize(torch.tensor(SPECIAL[:12] + [3e38, -3e38], dtype=torch.float64), name)
    n = len(s)
    return s.repeat_interleave(n), s.repeat(n)


def extremes(name):
    """Every pair of the integers at which arithmetic goes wrong, as two lists."""
    lo, hi = bounds(name)
    some = sorted({lo, lo + 1, -7, -2, -1, 0, 1, 2, 3, 7, hi // 2 + 1, hi - 1, hi})
    some = [v for v in some if lo <= v <= hi]
    return [a for a in some for _ in some], [b for _ in some for b in some]


def trunc_div(a, b):
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def shift_left(a, b, bits):
    return a << b if 0 <= b < bits else 0


def shift_right(a, b, bits):
    return a >> min(b, bits - 1) if b >= 0 and (b < bits or a < 0) else (-1 if a < 0 else 0)


def power(a, b, bits):
    """As PyTorch has it: what a negative power leaves of an integer is 0, but for 1 and -1."""
    if b < 0:
        return a ** (b & 1) if abs(a) == 1 else 0
    return pow(a, b, 1 << bits)


INTEGER = [
    ("add", lambda a, b, n: a + b),
    ("sub", lambda a, b, n: a - b),
    ("mul", lambda a, b, n: a * b),
    ("floor_div", lambda a, b, n: 0 if b == 0 else a // b),
    ("trunc_div", lambda a, b, n: trunc_div(a, b)),
    ("modulo", lambda a, b, n: 0 if b == 0 else a % b),
    ("fmod", lambda a, b, n: 0 if b == 0 else a - trunc_div(a, b) * b),
    ("maximum", lambda a, b, n: max(a, b)),
    ("minimum", lambda a, b, n: min(a, b)),
    ("pow", power),
    ("bitand", lambda a, b, n: a & b),
    ("bitor", lambda a, b, n: a | b),
    ("bitxor", lambda a, b, n: a ^ b),
]
INTEGER_COMPARE = [
    ("eq", lambda a, b: a == b), ("ne", lambda a, b: a != b), ("lt", lambda a, b: a < b),
    ("le", lambda a, b: a <= b), ("gt", lambda a, b: a > b), ("ge", lambda a, b: a >= b),
]


def const(value):
    """A reference that was computed beforehand."""
    return lambda *_: value


def unary():
    g = Group("unary")
    for op, f, lo, hi, exact in UNARY:
        for t in FLOATS:
            shape = (3, 5) if t != "f32" else (2, 3, 7)
            g.case(op, [uniform(shape, t, lo, hi)], f, exact=exact)
        g.case(op, [special("f32")], f, grad=False, exact=exact, name="special")
        g.case(op, [special("f64")], f, grad=False, exact=exact, name="special")
        g.case(op, [uniform((0, 4), "f32")], f, name="empty", exact=exact)
        g.case(op, [uniform((), "f32", lo, hi)], f, name="scalar", exact=exact)
        g.case(op, [uniform((1, 1, 1), "f32", lo, hi)], f, name="ones", exact=exact)
        g.case(op, [uniform((1031,), "f32", lo, hi)], f, name="long", exact=exact, grad=False)
    # What these two are for: digits near 0.
    for op, f in [("expm1", torch.expm1), ("log1p", torch.log1p)]:
        for t, near in [("f32", (2e-6, 0.0)), ("f64", (1e-14, 0.0))]:
            x = quantize(torch.tensor([1e-30, -1e-30, 1e-9, -1e-9, 1e-5, -1e-5, 3e-3, -0.02, 0.3,
                                       -0.3, 0.49, 0.51, -0.49, 0.0]).double(), t)
            g.case(op, [x], f, name="near_zero", tol=near, grad_tol=(1e-5, 1e-6))
    for op, f in PREDICATES:
        for t in FLOATS:
            g.case(op, [special(t)], f, exact=True, grad=False)
    for t in INTS:
        a = extremes(t)[0]
        x = integers(sorted(set(a)), t)
        some = [int(v) for v in x.numpy()]
        g.case("neg", [x], const(integers([wrap(-v, t) for v in some], t)), exact=True)
        g.case("abs", [x], const(integers([wrap(abs(v), t) for v in some], t)), exact=True)
        g.case("sign", [x], const(integers([(v > 0) - (v < 0) for v in some], t)), exact=True)
        g.case("square", [x], const(integers([wrap(v * v, t) for v in some], t)), exact=True)
        g.case("not", [x], const(integers([wrap(~v, t) for v in some], t)), exact=True)
        g.case("logical_not", [x], const(torch.tensor([v == 0 for v in some])), exact=True)
    g.case("logical_not", [truth((3, 4))], torch.logical_not, exact=True)
    g.case("not", [truth((3, 4))], torch.logical_not, exact=True)
    g.case("logical_not", [special("f32")], torch.logical_not, exact=True, grad=False)
    for op, f in [("exp", torch.exp), ("sqrt", torch.sqrt), ("sin", torch.sin)]:
        g.case(op, [whole((2, 3), "i32", 0, 9)], lambda x, f=f: f(x.double()), out="f32")
    return g


def activation():
    g = Group("activation")
    for op, f, attrs in ACTIVATIONS:
        for t in ["f16", "bf16", "f32", "f64"]:
            g.case(op, [distinct((3, 7), t)], f, attrs)
        wide = uniform((5, 9), "f32", -9, 9, k=1)
        g.case(op, [wide], f, attrs, name="wide")
        g.case(op, [quantize(torch.tensor([INF, 0.0, 40.0, -40.0, 100.0, -100.0]), "f32")],
               f, attrs, name="saturated", grad=False)
        g.case(op, [uniform((0,), "f32")], f, attrs, name="empty")
    for t in ["f16", "f32", "f64"]:
        g.case("prelu", [distinct((3, 4, 2), t), uniform((4, 1), t, 0.1, 0.6)],
               lambda x, w: torch.where(x > 0, x, w * x))
    return g


def binary():
    g = Group("binary")
    for op, f, (alo, ahi), (blo, bhi) in BINARY:
        exact = op in ("maximum", "minimum", "copysign")
        for i, (sa, sb) in enumerate(SHAPES):
            a, b = uniform(sa, "f32", alo, ahi, k=0), uniform(sb, "f32", blo, bhi, k=1)
            g.case(op, [a, b], f, exact=exact, name="x".join("_".join(map(str, s)) or "s"
                                                             for s in (sa, sb)))
        for t in FLOATS:
            if t != "f32":
                a, b = uniform((3, 5), t, alo, ahi, k=0), uniform((3, 5), t, blo, bhi, k=1)
                g.case(op, [a, b], f, exact=exact)
        for t in ["f32", "f64"]:
            if op in ("logaddexp",):
                continue
            a, b = pairs(t)
            ref = f
            if op in ("maximum", "minimum"):
                # IEEE 754-2019: -0 is below +0, which PyTorch leaves open.
                def ref(x, y, op=op):
                    m = f(x, y)
                    zero = (x == 0) & (y == 0)
                    negative = torch.signbit(x) & torch.signbit(y) if op == "maximum" else \
                        torch.signbit(x) | torch.signbit(y)
                    return torch.where(zero, torch.where(negative, -0.0, 0.0).double(), m)
            g.case(op, [a, b], ref, exact=exact, grad=False, name="special")
    a, b = torch.tensor([1.0, 2.0, -1.0, 3.0]), torch.tensor([1.0, -2.0, -1.0, 4.0])
    for op, f in [("maximum", torch.maximum), ("minimum", torch.minimum)]:
        g.case(op, [a, b], f, name="ties", exact=True)
    for t in ["f16", "f32", "f64"]:
        a, b = uniform((3, 5), t, -9, 9, k=2), uniform((3, 5), t, 0.7, 4, k=3)
        for sign, suffix in [(1, "positive"), (-1, "negative")]:
            g.case("modulo", [a, b * sign], torch.remainder, name=suffix)
            g.case("fmod", [a, b * sign], torch.fmod, name=suffix)
    x, y = uniform((2, 9), "f32", 0.5, 2), uniform((2, 9), "f32", -2, 2, k=1)
    g.case("logaddexp", [x * 400, y * 400], torch.logaddexp, name="large")
    for t in ["f32", "f64", "f16", "bf16"]:
        ends = uniform((3, 4), t, k=0), uniform((3, 4), t, k=1), uniform((3, 4), t, 0, 1, k=2)
        g.case("lerp", ends, lambda a, b, w: a + (b - a) * w)
        g.case("lerp", [uniform((3, 1), t, k=0), uniform((4,), t, k=1), uniform((), t, 0, 1, k=2)],
               lambda a, b, w: a + (b - a) * w, name="broadcast")
    close = torch.tensor([1.0, 1.0, 1.0, NAN, INF, INF, -INF, 0.0, 100.0])
    near = torch.tensor([1.0, 1.0 + 5e-6, 1.1, NAN, INF, 1.0, -INF, 1e-9, 100.0009])
    for equal_nan in (False, True):
        attrs = {"rtol": 1e-5, "atol": 1e-8, "equal_nan": equal_nan}
        g.case("isclose", [close, near], lambda a, b: torch.isclose(a, b, **attrs), attrs,
               exact=True, grad=False)
    for op, f in [("sum_of", lambda a, b, c: a + b + c), ("product_of", lambda a, b, c: a * b * c)]:
        g.case(op, [uniform((3, 1)), uniform((4,), k=1), uniform((), k=2)], f)
    for op, f in [("logical_and", torch.logical_and), ("logical_or", torch.logical_or),
                  ("logical_xor", torch.logical_xor)]:
        g.case(op, [truth((3, 1)), truth((4,), 1)], f, exact=True)
        g.case(op, [whole((3, 4), "i32", -1, 1), whole((3, 4), "i32", -1, 1, k=1)], f, exact=True)
        g.case(op, pairs("f32"), f, exact=True, grad=False)
    for same in (True, False):
        other = close[:3] if same else near[:3]
        g.case("allclose", [close[:3].clone(), other.clone()],
               lambda a, b: torch.tensor(torch.allclose(a, b)),
               {"rtol": 1e-5, "atol": 1e-8}, exact=True, grad=False)
    return g


def integer():
    g = Group("integer")
    for t in INTS:
        a, b = extremes(t)
        bits = int(t[1:])
        ta, tb = integers(a, t), integers(b, t)
        for op, f in INTEGER:
            r = integers([wrap(f(x, y, bits), t) for x, y in zip(a, b)], t)
            g.case(op, [ta, tb], const(r), exact=True)
        for op, f in INTEGER_COMPARE:
            g.case(op, [ta, tb], const(torch.tensor([f(x, y) for x, y in zip(a, b)])), exact=True)
        counts = [c % (2 * bits) for c in range(len(a))]
        for op, f in [("shl", shift_left), ("shr", shift_right)]:
            r = integers([wrap(f(x, c, bits), t) for x, c in zip(a, counts)], t)
            g.case(op, [ta, integers(counts, t)], const(r), exact=True)
        x, y = whole((3, 1, 4), t, 0, 9, k=0), whole((2, 1), t, 0, 9, k=1)
        total = x.numpy() + y.numpy()
        g.case("add", [x, y], const(torch.from_numpy(total)), name="broadcast", exact=True)
        a, b = whole((3, 4), t, 0, 100, k=0), whole((3, 4), t, 1, 9, k=1)
        quotient = torch.from_numpy(a.numpy().astype(np.float64) / b.numpy())
        g.case("div", [a, b], const(quotient), out="f32", tol=(1e-6, 1e-6))
        for op in ("floor", "ceil", "round", "trunc"):
            g.case(op, [a], const(a), exact=True)
    a, b = truth((4, 5), 0), truth((4, 5), 1)
    for op, f in [("bitand", torch.bitwise_and), ("bitor", torch.bitwise_or),
                  ("bitxor", torch.bitwise_xor), ("eq", torch.eq), ("ne", torch.ne),
                  ("lt", torch.lt), ("le", torch.le), ("gt", torch.gt), ("ge", torch.ge),
                  ("maximum", torch.logical_or), ("minimum", torch.logical_and),
                  ("mul", torch.logical_and)]:
        g.case(op, [a, b], f, exact=True)
    return g


def choice():
    g = Group("choice")
    for t in FLOATS:
        a, b = pairs(t)
        for op, f in COMPARE:
            g.case(op, [a, b], f, exact=True, grad=False, name="special")
    for op, f in COMPARE:
        g.case(op, [uniform((3, 1)), uniform((4,))], f, exact=True, grad=False, name="broadcast")
    for t in FLOATS:
        g.case("where_", [truth((3, 4)), uniform((3, 4), t, k=0), uniform((3, 4), t, k=1)],
               torch.where, exact=True)
    g.case("where_", [truth((3, 1)), uniform((4,), "f32", k=0), uniform((), "f32", k=1)],
           torch.where, exact=True, name="broadcast", kind="f32",
           grad_tol=(1e-6, 1e-6))
    g.case("where_", [truth((0, 2)), uniform((0, 2)), uniform((0, 2), k=1)], torch.where,
           exact=True, name="empty")
    for t in INTS:
        a, b = whole((3, 4), t, 0, 100, k=0), whole((3, 4), t, 0, 100, k=1)
        m = truth((3, 4)).numpy()
        g.case("where_", [truth((3, 4)), a, b],
               const(torch.from_numpy(np.where(m, a.numpy(), b.numpy()))), exact=True, kind=t)
    g.case("where_", [truth((3, 4)), truth((3, 4), 1), truth((3, 4), 2)], torch.where, exact=True)
    for value in (-1.5, INF, NAN, 0.0):
        g.case("masked_fill", [uniform((3, 4)), truth((3, 4))],
               lambda x, m, v=value: x.masked_fill(m, v), {"value": value}, exact=True)
    g.case("masked_fill", [uniform((2, 3, 4)), truth((3, 1))], lambda x, m: x.masked_fill(m, 7.0),
           {"value": 7.0}, exact=True, name="broadcast")
    for lo, hi in [(-0.5, 0.8), (-INF, 0.3), (0.1, INF)]:
        for t in ["f16", "bf16", "f32", "f64"]:
            qlo, qhi = (float(quantize(torch.tensor(v), t).double()) for v in (lo, hi))
            g.case("clip", [distinct((4, 6), t)], lambda x: torch.clip(x, qlo, qhi),
                   {"lo": qlo, "hi": qhi}, exact=True)
    for lo, hi in [(None, 0.25), (-0.25, None), (-0.25, 0.25)]:
        g.case("clamp", [distinct((4, 6))], lambda x: torch.clamp(x, lo, hi), {"lo": lo, "hi": hi},
               exact=True)
    g.case("clip", [special("f32")], lambda x: torch.clip(x, -2.0, 2.0), {"lo": -2.0, "hi": 2.0},
           exact=True, grad=False, name="special")
    return g


GROUPS = [unary, activation, binary, integer, choice]
