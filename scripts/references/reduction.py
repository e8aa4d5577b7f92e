"""Reductions, scans, and the normalisations over axes that are made of them."""

import math

import numpy as np
import torch

from .store import INTS, Group, bounds, distinct, integers, quantize, truth, uniform, whole, wrap

INF, NAN = math.inf, math.nan
# The type of sums and products of integers: PyTorch's, but that u64 stays what it is, as in NumPy.
SUM = {t: "i64" for t in ["bool"] + INTS} | {"u64": "u64"}
# Axes, keep the reduced axes; for a tensor of shape (2, 3, 4).
AXES = [([], False), ([0], False), ([-1], True), ([1], False), ([0, 2], False), ([0, 1, 2], True)]


def dims(x, axes):
    return tuple(a % x.ndim for a in axes) if axes else tuple(range(x.ndim))


def prod(x, axes, keep):
    for a in sorted(dims(x, axes), reverse=True):
        x = x.prod(a, keepdim=keep)
    return x


def logsumexp(x, axes, keep):
    return torch.logsumexp(x, dims(x, axes), keep)


REDUCE = [
    ("sum", lambda x, a, k: x.sum(dims(x, a), k), False),
    ("mean", lambda x, a, k: x.mean(dims(x, a), k), False),
    ("prod", prod, False),
    ("max", lambda x, a, k: x.amax(dims(x, a), k), True),
    ("min", lambda x, a, k: x.amin(dims(x, a), k), True),
    ("logsumexp", logsumexp, False),
]


def reduce():
    g = Group("reduce")
    for op, f, exact in REDUCE:
        for axes, keep in AXES:
            g.case(op, [distinct((2, 3, 4))], lambda x: f(x, axes, keep),
                   {"axes": axes, "keep": keep}, exact=exact)
        for t in ["f8e4m3", "f8e5m2", "f16", "bf16", "f64"]:
            x = uniform((3, 5), t, 0.5, 1.5) if t[:2] == "f8" else distinct((3, 5), t)
            g.case(op, [x], lambda x: f(x, [1], False), {"axes": [1], "keep": False}, exact=exact)
        g.case(op, [uniform((), "f32")], lambda x: f(x, [], False), {"axes": [], "keep": False},
               exact=exact, name="scalar")
        g.case(op, [uniform((1, 5, 1))], lambda x: f(x, [0, 2], False),
               {"axes": [0, 2], "keep": False}, exact=exact, name="ones")
        g.case(op, [uniform((0, 3))], lambda x: f(x, [1], False), {"axes": [1], "keep": False},
               exact=exact, name="empty_result")
        g.case(op, [quantize(torch.tensor([[1.0, NAN, 2.0], [INF, 1.0, 3.0], [-INF, 0.0, 1.0]]),
                             "f32")],
               lambda x: f(x, [1], False), {"axes": [1], "keep": False}, exact=exact, grad=False,
               name="special")
        if op != "prod":
            g.case(op, [uniform((3, 1037), "f32", 0, 1)], lambda x: f(x, [1], False),
                   {"axes": [1], "keep": False}, exact=exact, name="long", grad=False)
            g.case(op, [uniform((517, 3), "f32", 0, 1)], lambda x: f(x, [0], False),
                   {"axes": [0], "keep": False}, exact=exact, name="tall", grad=False)
    empty = uniform((3, 0))
    for op, value in [("sum", 0.0), ("prod", 1.0), ("mean", NAN), ("logsumexp", -INF),
                      ("max", -INF), ("min", INF)]:
        g.case(op, [empty], lambda x, v=value: torch.full((3,), v, dtype=torch.float64),
               {"axes": [1], "keep": False}, exact=True, grad=False, name="over_nothing")
    tied = quantize(torch.tensor([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0]]), "f32")
    for op, f in [("max", torch.amax), ("min", torch.amin)]:
        g.case(op, [tied], lambda x: f(x, 1), {"axes": [1], "keep": False}, exact=True, name="ties")
    for t in ["f32", "f16", "f64"]:
        some = distinct((2, 3, 4), t)
        some[0, 1] = NAN
        some[1, :, 2] = NAN
        for axes, keep in [([2], False), ([0, 1], True), ([], False)]:
            at = {"axes": axes, "keep": keep}
            g.case("nansum", [some], lambda x: x.nansum(dims(x, axes), keep), at)
            g.case("nanmean", [some], lambda x: x.nanmean(dims(x, axes), keep), at, grad=axes != [2])
    zeros = quantize(torch.tensor([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0], [1.0, 2.0, 3.0]]), "f32")
    g.case("prod", [zeros], lambda x: x.prod(1), {"axes": [1], "keep": False}, grad=False,
           name="zeros")
    for t in INTS + ["bool"]:
        x = truth((3, 5)) if t == "bool" else whole((3, 5), t, -100, 100)
        v = [[int(e) for e in row] for row in x.numpy()]
        s = SUM.get(t, t)
        at = {"axes": [1], "keep": False}
        for op, f in [("sum", sum), ("prod", math.prod)]:
            g.case(op, [x], lambda *_: integers([wrap(f(r), s) for r in v], s), at, exact=True)
        for op, f in [("max", max), ("min", min)]:
            r = [f(row) for row in v]
            want = torch.tensor(r) == 1 if t == "bool" else integers(r, t)
            g.case(op, [x], lambda *_: want, at, exact=True)
        if t != "bool":
            lo, hi = bounds(t)
            ends = integers([[hi, hi, 1], [lo, lo, 3]], t)
            total = [wrap(hi + hi + 1, s), wrap(lo + lo + 3, s)]
            g.case("sum", [ends], lambda *_: integers(total, s), at, exact=True, name="wraps")
            none = integers(np.zeros((2, 0), dtype=np.int64), t)
            for op, f in [("sum", (0, s)), ("prod", (1, s)), ("max", (lo, t)), ("min", (hi, t))]:
                g.case(op, [none], lambda *_: integers([f[0]] * 2, f[1]), at, exact=True,
                       name="over_nothing")
    for x in (truth((3, 4)), whole((3, 4), "i32", -1, 1)):
        g.case("count_nonzero", [x], lambda x: torch.count_nonzero(x, 1),
               {"axes": [1], "keep": False}, exact=True)
    for a, b in [("f16", "f32"), ("f32", "f64"), ("u8", "i64"), ("bool", "i32")]:
        x = truth((3, 4)) if a == "bool" else whole((3, 4), a, 0, 255) if a == "u8" else \
            uniform((3, 4), a)
        want = x.double().sum(1)
        g.case("sum_in", [x], lambda x: x.sum(1) if x.dtype == torch.float64 else want.to(
            {"i64": torch.int64, "i32": torch.int32}[b]), {"axes": [1], "keep": False, "dtype": b},
            out=b if b[0] == "f" else None, grad_tol=(1e-3, 1e-6))
    for op, f in [("any", torch.any), ("all", torch.all)]:
        for axes, keep in [([], False), ([1], False), ([0], True)]:
            g.case(op, [truth((3, 2))], lambda x: f(x, dims(x, axes), keep),
                   {"axes": axes, "keep": keep}, exact=True)
        g.case(op, [quantize(torch.tensor([[0.0, -0.0], [NAN, 0.0], [1.0, 2.0]]), "f32")],
               lambda x: f(x != 0, 1), {"axes": [1], "keep": False}, exact=True, grad=False)
        g.case(op, [whole((4, 2), "i32", -1, 1)], lambda x: f(x != 0, 1),
               {"axes": [1], "keep": False}, exact=True)
        g.case(op, [torch.zeros((2, 0), dtype=torch.bool)], lambda x: f(x, 1),
               {"axes": [1], "keep": False}, exact=True, name="over_nothing")
    return g


def spread():
    g = Group("spread")
    for correction in (0, 1):
        for axes, keep in AXES:
            at = {"axes": axes, "keep": keep, "correction": correction}
            one = {"dim": None, "correction": correction, "keepdim": keep}

            def args(x):
                return one | {"dim": dims(x, axes)}
            for op, f in [("var", torch.var), ("std", torch.std), ("var_mean", torch.var_mean),
                          ("std_mean", torch.std_mean)]:
                g.case(op, [distinct((2, 3, 4))], lambda x: f(x, **args(x)), at)
    for op, f in [("var", torch.var), ("std", torch.std), ("var_mean", torch.var_mean),
                  ("std_mean", torch.std_mean)]:
        at = {"axes": [1], "keep": False, "correction": 1}
        for t in ["f16", "bf16", "f64"]:
            g.case(op, [distinct((3, 7), t)], lambda x: f(x, 1), at)
        # A large mean: the two-pass formula holds, the difference of squares does not.
        g.case(op, [uniform((2, 50), "f32", 0, 1) + 1000], lambda x: f(x, 1), at, name="offset",
               grad=False, tol=(1e-4, 1e-5))
    return g


def scan():
    g = Group("scan")
    table = [
        ("cumsum", torch.cumsum), ("cumprod", torch.cumprod),
        ("cummax", lambda x, d: torch.cummax(x, d)), ("cummin", lambda x, d: torch.cummin(x, d)),
        ("logcumsumexp", torch.logcumsumexp),
    ]
    for op, f in table:
        exact = op in ("cummax", "cummin")
        pick = (lambda r: r.values) if exact else (lambda r: r)
        for axis in (0, 1, -1):
            g.case(op, [distinct((2, 5, 3))], lambda x: pick(f(x, axis)), {"axis": axis},
                   exact=exact)
        for t in ["f16", "bf16", "f64"]:
            g.case(op, [distinct((2, 6), t)], lambda x: pick(f(x, 1)), {"axis": 1}, exact=exact)
        g.case(op, [uniform((3, 1))], lambda x: pick(f(x, 1)), {"axis": 1}, exact=exact,
               name="ones")
        if op != "logcumsumexp":
            g.case(op, [uniform((2, 0))], lambda x: x + 0, {"axis": 1}, exact=exact, name="empty",
                   grad=False)
        g.case(op, [uniform((2, 700), "f32", 0.9, 1.1)], lambda x: pick(f(x, 1)), {"axis": 1},
               exact=exact, name="long", grad=False, tol=(1e-4, 1e-5))
    x = whole((3, 5), "i32", -9, 9)
    for op, f in [("cumsum", np.cumsum), ("cumprod", np.cumprod),
                  ("cummax", np.maximum.accumulate), ("cummin", np.minimum.accumulate)]:
        want = torch.from_numpy(f(x.numpy(), axis=1).astype(np.int32))
        if op in ("cumsum", "cumprod"):
            want = getattr(torch, op)(x, 1)
        g.case(op, [x], lambda *_: want, {"axis": 1}, exact=True)
    # What does not fit into the type of the elements.
    wide = [truth((2, 4)), whole((2, 4), "i8", 40, 100), whole((2, 4), "u8", 200, 255),
            integers([[2**31 - 1, 2**31 - 1, -5], [-2**31, -2**31, -2**31]], "i32")]
    for x in wide:
        for op, f in [("cumsum", torch.cumsum), ("cumprod", torch.cumprod)]:
            g.case(op, [x], lambda x: f(x, 1), {"axis": 1}, exact=True, name="wide")
    special = quantize(torch.tensor([[1.0, INF, 2.0, NAN, 3.0]]), "f32")
    for op, f in [("cumsum", np.cumsum), ("cummax", np.maximum.accumulate)]:
        want = torch.from_numpy(f(special.numpy().astype(np.float64), axis=1))
        g.case(op, [special], lambda *_: want, {"axis": 1}, grad=False, name="special",
               exact=op == "cummax")
    return g


def soft():
    g = Group("softmax")
    for op, f in [("softmax", torch.softmax), ("log_softmax", torch.log_softmax),
                  ("softmin", lambda x, d: torch.softmax(-x, d))]:
        for axis in (0, 1, -1):
            g.case(op, [uniform((3, 4, 5), "f32", -4, 4)], lambda x: f(x, axis), {"axis": axis})
        for t in ["f16", "bf16", "f64"]:
            g.case(op, [uniform((3, 7), t, -4, 4)], lambda x: f(x, 1), {"axis": 1})
        g.case(op, [uniform((3, 9), "f32", -300, 300)], lambda x: f(x, 1), {"axis": 1},
               name="large", tol=(1e-5, 1e-5))
        g.case(op, [quantize(torch.tensor([[-INF, 1.0, 2.0], [3.0, -INF, 3.0]]), "f32")
                    * (-1 if op == "softmin" else 1)],
               lambda x: f(x, 1), {"axis": 1}, name="masked", grad=False)
        g.case(op, [uniform((3, 1))], lambda x: f(x, 1), {"axis": 1}, name="ones")
        g.case(op, [uniform((0, 3))], lambda x: f(x, 1), {"axis": 1}, name="empty")
        g.case(op, [uniform((2, 1500), "f32", -4, 4)], lambda x: f(x, 1), {"axis": 1},
               name="long", grad=False)
        g.case("hardmax", [distinct((3, 5))], lambda x: torch.nn.functional.one_hot(
            x.argmax(1), 5).double(), {"axis": 1}, exact=True, grad=False, kind="f32") \
            if op == "softmax" else None
    for p in (1.0, 2.0, 3.0, INF):
        for axes, keep in [([], False), ([1], True), ([0], False)]:
            g.case("norm", [distinct((3, 5))],
                   lambda x: torch.linalg.vector_norm(x, p, dims(x, axes), keep),
                   {"p": p, "axes": axes, "keep": keep})
    for p in (1.0, 2.0, 3.0):
        for axis in (0, 1):
            g.case("normalize", [distinct((3, 5))],
                   lambda x: torch.nn.functional.normalize(x, p, axis, 1e-12),
                   {"p": p, "axis": axis, "eps": 1e-12})
    return g


def position():
    g = Group("position")
    tied = quantize(torch.tensor([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0]]), "f32")
    for op, f in [("argmax", np.argmax), ("argmin", np.argmin)]:
        for axis in (0, 1, -1):
            for keep in (False, True):
                x = distinct((2, 5, 3))
                want = torch.from_numpy(f(x.numpy(), axis=axis, keepdims=keep).astype(np.int32))
                g.case(op, [x], lambda *_: want, {"axis": axis, "keep": keep}, exact=True,
                       grad=False)
        for name, x in [("ties", tied), ("i32", whole((3, 6), "i32")),
                        ("u8", whole((3, 6), "u8", 0, 255)), ("f16", distinct((2, 9), "f16")),
                        ("long", uniform((2, 999)))]:
            want = torch.from_numpy(f(x.numpy(), axis=1).astype(np.int32))
            g.case(op, [x], lambda *_: want, {"axis": 1, "keep": False}, exact=True, grad=False,
                   name=name)
        x = quantize(torch.tensor([[1.0, NAN, 3.0], [INF, 2.0, -INF]]), "f32")
        want = torch.from_numpy(f(x.numpy(), axis=1).astype(np.int32))
        g.case(op, [x], lambda *_: want, {"axis": 1, "keep": False}, exact=True, grad=False,
               name="special")
    return g


GROUPS = [reduce, spread, scan, soft, position]
