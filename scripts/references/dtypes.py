"""Conversions between all types, bit casts, promotion, creation."""

import math

import numpy as np
import torch

from .store import (FLOATS, FORMAT, INTS, TORCH, Group, bounds, integers, is_float, quantize,
                    uniform, whole, wrap)

INF, NAN = math.inf, math.nan
ALL = ["bool"] + INTS + FLOATS
BITS = {"bool": 1, "f32": 24, "f64": 53} | {k: v[0] for k, v in FORMAT.items()}


def const(value):
    return lambda *_: value


def nearest(n, bits):
    """The integer nearest to `n` whose binary form has at most `bits` significant digits."""
    excess = abs(n).bit_length() - bits
    if excess <= 0:
        return n
    step, rest = 1 << excess, abs(n) % (1 << excess)
    m = abs(n) - rest
    if 2 * rest > step or (2 * rest == step and (m >> excess) & 1):
        m += step
    return m if n >= 0 else -m


def samples(t):
    """Values of a type at which conversions go wrong."""
    if t == "bool":
        return torch.tensor([False, True])
    if t in INTS:
        lo, hi = bounds(t)
        some = {lo, lo + 1, -129, -128, -1, 0, 1, 2, 17, 127, 128, 255, 256, 2049, 2051, 4097,
                65519, 65520, 65535, 65536, (1 << 24) + 1, (1 << 24) + 3, (1 << 31) - 1, 1 << 31,
                (1 << 32) - 1, (1 << 53) + 1, (1 << 53) + 3, (1 << 62) + (1 << 38) + 1, hi - 1, hi}
        return integers(sorted(v for v in some if lo <= v <= hi), t)
    some = [0.0, -0.0, 0.4, 0.5, 0.9, 1.0, -0.5, -1.0, -1.5, 2.5, 126.5, 127.0, 128.0, -128.0,
            -129.0, 254.9, 255.5, 256.0, 447.0, 448.0, 464.0, 465.0, 480.0, 32767.5, 57344.0,
            61439.0, 61440.0, 65504.0, 65519.0, 65520.0, 65535.0, 65536.0, -65537.0, 2147483520.0,
            2147483647.0, 2147483648.0, 4294967295.0, 4294967296.0, 9.2233720368547e18, 2.0 ** 63,
            1.8446744073709e19, 2.0 ** 64, 1e30, -1e30, 3.3895e38, 3.4028235e38, 3.5e38, 1e300,
            INF, -INF, NAN, 2.0 ** -9, 2.0 ** -10, 3 * 2.0 ** -11, 2.0 ** -16, 2.0 ** -17,
            2.0 ** -24, 2.0 ** -25, 1e-40, 2.0 ** -149, 2.0 ** -150, 1e-320,
            # Just above a tie: rounding twice gets these wrong.
            1 + 2.0 ** -11 + 2.0 ** -40, 1 + 2.0 ** -8 + 2.0 ** -40, 1 + 2.0 ** -24 + 2.0 ** -50,
            1 + 2.0 ** -11, 1 + 3 * 2.0 ** -11, 1 + 2.0 ** -8, 1 + 3 * 2.0 ** -8,
            1.0625 + 2.0 ** -30, 1.125 + 2.0 ** -30]
    q = quantize(torch.tensor(some, dtype=torch.float64), t)
    # One of each, so that narrow types do not repeat themselves.
    seen, keep = set(), []
    for i, v in enumerate(q.double().tolist()):
        key = (v, math.copysign(1, v)) if v == v else "nan"
        if key not in seen:
            seen.add(key)
            keep.append(i)
    wide = q.double()[keep]
    return quantize(wide, t)


def convert(x, a, b):
    """The conversion law, by value."""
    if is_float(x):
        values = x.double().tolist()
        if b in FLOATS:
            return quantize(x.double(), b)
        if b == "bool":
            return torch.tensor([v != 0 for v in values])
        lo, hi = bounds(b)
        return integers([0 if v != v else lo if v <= lo else hi if v >= hi else int(v)
                         for v in values], b)
    values = [int(v) for v in x.numpy()]
    if b == "bool":
        return torch.tensor([v != 0 for v in values])
    if b in INTS:
        return integers([wrap(v, b) for v in values], b)
    return quantize(torch.tensor([float(nearest(v, BITS[b])) for v in values],
                                 dtype=torch.float64), b)


def cast():
    g = Group("cast")
    for a in ALL:
        x = samples(a)
        for b in ALL:
            g.case("cast", [x], const(convert(x, a, b)), {"dtype": b}, exact=True, grad=False,
                   out=b if b in FLOATS else None, kind=f"{a}_to_{b}")
    for a in FLOATS:
        for b in FLOATS:
            if a != b:
                g.case("cast", [uniform((3, 4), a, k=3)], lambda x: x * 1, {"dtype": b}, out=b,
                       kind=f"{a}_to_{b}", name="grad", tol=(0.13 if "e4m3" in a + b else
                       0.26 if "f8" in a + b else 1e-2, 1e-6))
    for a, b in [("f32", "i32"), ("f32", "u32"), ("i32", "f32"), ("f16", "i16"), ("bf16", "u16"),
                 ("f64", "i64"), ("u64", "f64"), ("i8", "f8e4m3"), ("f8e5m2", "u8"), ("i16", "u16"),
                 ("f16", "bf16")]:
        x = samples(a)
        if a in FLOATS:  # The payload of a NaN is not part of the law.
            x = quantize(x.double()[~x.double().isnan()], a)
        as_bytes = x.view(torch.uint8) if a.startswith("f8") else x
        g.case("bitcast", [x], const(as_bytes.view(TORCH[b])), {"dtype": b}, exact=True,
               grad=False, out=b if b in FLOATS else None, kind=f"{a}_to_{b}")
    return g


# The lattice that JAX documents, as the type that two types meet in.
def meet(a, b):
    if a == b:
        return a
    if "bool" in (a, b):
        return b if a == "bool" else a
    fa, fb = a in FLOATS, b in FLOATS
    if fa and fb:
        order = {"f8e4m3": 0, "f8e5m2": 0, "f16": 1, "bf16": 1, "f32": 2, "f64": 3}
        if order[a] != order[b]:
            return a if order[a] > order[b] else b
        return "f16" if order[a] == 0 else "f32"
    if fa or fb:
        return a if fa else b
    (ka, na), (kb, nb) = (a[0], int(a[1:])), (b[0], int(b[1:]))
    if ka == kb:
        return f"{ka}{max(na, nb)}"
    signed, unsigned = (na, nb) if ka == "i" else (nb, na)
    need = signed if signed > unsigned else 2 * unsigned
    return f"i{need}" if need <= 64 else "f32"


def promote():
    g = Group("promote")
    for a in ALL:
        for b in ALL:
            if a == b == "bool":
                continue
            t = meet(a, b)
            x = torch.tensor([False, True]) if a == "bool" else (
                quantize(torch.tensor([1.0, 2.0]), a) if a in FLOATS else integers([1, 2], a))
            y = torch.tensor([True, True]) if b == "bool" else (
                quantize(torch.tensor([3.0, 1.0]), b) if b in FLOATS else integers([3, 1], b))
            total = [float(u) + float(v) for u, v in zip(x.tolist() if a != "bool" else [0, 1],
                                                         y.tolist() if b != "bool" else [1, 1])] \
                if True else []
            want = quantize(torch.tensor(total, dtype=torch.float64), t) if t in FLOATS \
                else integers([int(v) for v in total], t)
            g.case("add", [x, y], const(want), exact=True, grad=False, kind=f"{a}_{b}",
                   out=t if t in FLOATS else None)
    return g


def create():
    g = Group("create")
    for t in ALL:
        for value in (0.0, 1.0, 3.0):
            x = torch.tensor([value], dtype=torch.float64)
            v = convert(x, "f64", t)
            want = torch.from_numpy(np.tile(v.numpy(), (2, 3))) if not t.startswith(("bf", "f8")) \
                else quantize(torch.full((2, 3), value, dtype=torch.float64), t)
            g.case("full", [], const(want), {"shape": [2, 3], "value": value, "dtype": t},
                   exact=True, grad=False, out=t if t in FLOATS else None, kind=t)
            for op, v in [("zeros", 0.0), ("ones", 1.0)]:
                if v == value:
                    g.case(op, [], const(want), {"shape": [2, 3], "dtype": t}, exact=True,
                           grad=False, out=t if t in FLOATS else None, kind=t)
    for start, stop, step in [(0, 5, 1), (2, 11, 3), (5, -4, -2), (3, 3, 1)]:
        for t in ("i32", "i64", "f32"):
            want = np.arange(start, stop, step).astype(
                {"i32": np.int32, "i64": np.int64, "f32": np.float32}[t])
            g.case("arange", [], const(torch.from_numpy(want)),
                   {"start": float(start), "stop": float(stop), "step": float(step), "dtype": t},
                   exact=True, grad=False, kind=t)
    want = torch.arange(0, 1, 0.3, dtype=torch.float64)
    g.case("arange", [], const(want), {"start": 0.0, "stop": 1.0, "step": 0.3, "dtype": "f32"},
           grad=False, kind="f32", name="fraction")
    for start, stop, n in [(0.0, 1.0, 5), (-2.0, 3.0, 7), (1.0, 1.0, 3), (0.5, 9.0, 1), (0.0, 1.0, 0)]:
        g.case("linspace", [], const(torch.from_numpy(np.linspace(start, stop, n))),
               {"start": start, "stop": stop, "n": n, "dtype": "f32"}, grad=False, kind="f32")
    for n, m in [(3, 3), (2, 5), (4, 1)]:
        for t in ("f32", "i32"):
            g.case("eye", [], const(torch.from_numpy(np.eye(n, m)).to(TORCH[t])),
                   {"n": n, "m": m, "dtype": t}, exact=True, grad=False, kind=t)
    return g


GROUPS = [cast, promote, create]
