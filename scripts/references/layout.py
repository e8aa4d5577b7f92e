"""Movement, indexing, sorting: operations that place elements and compute none."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from .store import FLOATS, INTS, TORCH, Group, distinct, integers, quantize, truth, uniform, whole

INF, NAN = math.inf, math.nan
TIGHT = (1e-6, 1e-6)


def put(g, op, inputs, ref, attrs=None, name="", **kw):
    g.case(op, inputs, ref, attrs, name=name, **({"grad_tol": TIGHT, "exact": True} | kw))


def movement():
    g = Group("movement")
    x, y = uniform((2, 3, 4)), uniform((3, 5))
    for shape in [[24], [4, 6], [2, 3, 4, 1], [1, 24], [3, 2, 4]]:
        put(g, "reshape", [x], lambda x: x.reshape(shape), {"shape": shape})
    put(g, "reshape", [uniform((0, 3))], lambda x: x.reshape(3, 0, 2), {"shape": [3, 0, 2]}, "empty")
    put(g, "reshape", [uniform((1,))], lambda x: x.reshape(()), {"shape": []}, "scalar")
    for order in [[0, 1, 2], [2, 0, 1], [1, 0, 2], [2, 1, 0]]:
        put(g, "permute", [x], lambda x: x.permute(order), {"order": order})
    for a, b in [(0, 1), (-1, 0), (1, 2), (1, 1)]:
        put(g, "transpose", [x], lambda x: x.transpose(a, b), {"a": a, "b": b})
    for shape, to in [((3, 1), [3, 4]), ((1, 3, 1), [2, 3, 5]), ((1,), [0]), ((3,), [3]),
                      ((), [2, 2]), ((3, 1), [2, 3, 4])]:
        put(g, "expand", [uniform(shape)], lambda x: x.expand(to), {"shape": to})
    for axes in [[0], [1, 2], [-1], [0, 1, 2], []]:
        put(g, "flip", [x], lambda x: x.flip(axes or [0, 1, 2]), {"axes": axes})
    put(g, "reverse", [x], lambda x: x.flip([0, 2]), {"axes": [0, 2]})
    for shape in [[-1], [4, -1], [2, 3, 4, -1]]:
        put(g, "view", [x], lambda x: x.reshape(shape), {"shape": shape})
    for a, b in [(0, 2), (-1, 0), (1, 1)]:
        put(g, "move_axis", [x], lambda x: x.movedim(a, b), {"from": a, "to": b})
    put(g, "t", [x], lambda x: x.mT)
    for axis, at in [(0, 1), (1, -1), (-1, 2)]:
        put(g, "index", [x], lambda x: x.select(axis, at), {"axis": axis, "at": at})
    for axis, size, step, apart in [(0, 2, 1, 1), (2, 2, 1, 2), (2, 3, 2, 1), (1, 1, 2, 1)]:
        def windows(x):
            n = (x.shape[axis] - apart * (size - 1) - 1) // step + 1
            parts = [x.narrow(axis, k * apart, (n - 1) * step + 1) for k in range(size)]
            take = torch.arange(0, (n - 1) * step + 1, step)
            return torch.stack([p.index_select(axis, take) for p in parts], -1)
        put(g, "windows", [x], windows,
            {"axis": axis, "size": size, "stride": step, "dilation": apart})
    for lo, part in [([0, 1, 2], (2, 1, 2)), ([1, 0, 0], (1, 3, 4)), ([0, 0, 4], (2, 3, 0))]:
        def assign(x, p):
            mask = torch.zeros(x.shape, dtype=torch.bool)
            span = tuple(slice(l, l + n) for l, n in zip(lo, p.shape))
            mask[span] = True
            flat = [v for l, n, m in reversed(list(zip(lo, p.shape, x.shape)))
                    for v in (l, m - l - n)]
            return torch.where(mask, F.pad(p, flat), x)
        put(g, "slice_assign", [x, uniform(part, k=1)], assign, {"lo": lo})
    for lo, to in [([0, 1, 0], [2, 4, 5]), ([1, 0, 2], [3, 3, 6])]:
        def around(x, value):
            flat = [v for l, n, m in reversed(list(zip(lo, x.shape, to))) for v in (l, m - l - n)]
            return F.pad(x, flat, value=value)
        put(g, "pad_to", [x], lambda x: around(x, 2.5), {"lo": lo, "shape": to, "value": 2.5})
    for spans in [[[0, 1], [1, 3], [0, 4]], [[0, 2], [0, 3], [2, 3]], [[1, 1], [0, 3], [0, 4]]]:
        put(g, "shrink", [x], lambda x: x[tuple(slice(a, b) for a, b in spans)],
            {"lo": [a for a, _ in spans], "shape": [b - a for a, b in spans]})
    for axis, start, length in [(0, 1, 1), (1, 0, 2), (-1, 1, 3), (2, 4, 0)]:
        put(g, "narrow", [x], lambda x: x.narrow(axis, start, length),
            {"axis": axis, "start": start, "len": length})
    for widths in [[[0, 0], [1, 2]], [[2, 1], [0, 3]], [[0, 0], [0, 0]]]:
        flat = [v for pair in reversed(widths) for v in pair]
        for value in (0.0, 1.5, -INF):
            put(g, "pad", [y], lambda x: F.pad(x, flat, value=value),
                {"pads": widths, "mode": "constant", "value": value})
    put(g, "pad", [y], lambda x: F.pad(x, (-1, 2, 1, -2), value=4.0),
        {"pads": [[1, -2], [-1, 2]], "mode": "constant", "value": 4.0}, "cut")
    put(g, "pad", [uniform((0, 2))], lambda x: F.pad(x, (0, 0, 1, 1), value=2.0),
        {"pads": [[1, 1], [0, 0]], "mode": "constant", "value": 2.0}, "empty")
    for mode in ("reflect", "replicate", "circular"):
        z = uniform((1, 2, 4, 5))
        put(g, "pad", [z], lambda x: F.pad(x, (1, 2, 2, 1), mode=mode),
            {"pads": [[0, 0], [0, 0], [2, 1], [1, 2]], "mode": mode, "value": 0.0})
    for shape, axis in [((2, 1, 3), 1), ((2, 1, 3), -2), ((1, 4), 0)]:
        put(g, "squeeze", [uniform(shape)], lambda x: x.squeeze(axis), {"axes": [axis]})
    put(g, "squeeze", [uniform((1, 3, 1))], lambda x: x.squeeze(), {"axes": []})
    for axis in (0, 1, -1, 2):
        put(g, "unsqueeze", [y], lambda x: x.unsqueeze(axis), {"axis": axis})
    for a, b in [(0, -1), (1, 2), (0, 1), (1, 1)]:
        put(g, "flatten", [x], lambda x: x.flatten(a, b), {"start": a, "end": b})
    put(g, "flatten", [uniform(())], lambda x: x.flatten(), {"start": 0, "end": -1}, "scalar")
    for axis, sizes in [(1, [3, 1]), (-1, [2, 2]), (0, [2, 1])]:
        put(g, "unflatten", [x], lambda x: x.unflatten(axis, sizes), {"axis": axis, "sizes": sizes})
    z = uniform((7, 3))
    put(g, "split", [z], lambda x: x.split([2, 4, 1], 0), {"sizes": [2, 4, 1], "axis": 0})
    put(g, "split", [z], lambda x: x.split([1, 2], -1), {"sizes": [1, 2], "axis": -1})
    put(g, "chunk", [z], lambda x: x.chunk(3, 0), {"n": 3, "axis": 0})
    put(g, "chunk", [z], lambda x: x.chunk(3, 1), {"n": 3, "axis": 1})
    put(g, "chunk", [z], lambda x: x.chunk(2, -1), {"n": 2, "axis": -1})
    parts = [uniform((2, 3), k=k) for k in range(3)]
    for axis in (0, 1, -1):
        put(g, "stack", parts, lambda *t: torch.stack(t, axis), {"axis": axis})
        put(g, "cat", parts, lambda *t: torch.cat(t, axis), {"axis": axis})
    put(g, "cat", [uniform((2, 1)), uniform((2, 0), k=1), uniform((2, 4), k=2)],
        lambda *t: torch.cat(t, 1), {"axis": 1}, "uneven")
    put(g, "cat", [uniform((5,))], lambda *t: torch.cat(t, 0), {"axis": 0}, "one")
    for times in [[2, 1], [1, 3], [2, 1, 3], [0, 1]]:
        put(g, "repeat", [y], lambda x: x.repeat(times), {"times": times})
    for n, axis in [(2, 0), (3, 1), (1, -1)]:
        put(g, "repeat_interleave", [y], lambda x: x.repeat_interleave(n, axis),
            {"n": n, "axis": axis})
    for amount, axis in [(1, 0), (-2, 1), (13, 2), (0, 1), (-3, -1)]:
        put(g, "roll", [x], lambda x: x.roll(amount, axis), {"amount": amount, "axis": axis})
    for axis, size, step in [(0, 3, 1), (0, 2, 2), (1, 2, 1), (0, 3, 5)]:
        put(g, "unfold", [z], lambda x: x.unfold(axis, size, step),
            {"axis": axis, "size": size, "step": step})
    for offset in (0, 1, -2):
        put(g, "tril", [y], lambda x: x.tril(offset), {"k": offset})
        put(g, "triu", [y], lambda x: x.triu(offset), {"k": offset})
        put(g, "tril", [uniform((2, 4, 4))], lambda x: x.tril(offset), {"k": offset}, "batched")
        put(g, "triu", [uniform((2, 4, 4))], lambda x: x.triu(offset), {"k": offset}, "batched")
    for n in (1, 4):
        put(g, "diag", [uniform((n,))], torch.diag)
    for a, b in [(0, 2), (1, 0), (-1, -2)]:
        put(g, "diagonal", [x], lambda x: x.diagonal(0, a, b), {"a": a, "b": b})
    put(g, "meshgrid", [uniform((3,)), uniform((4,), k=1), uniform((2,), k=2)],
        lambda *v: torch.meshgrid(*v, indexing="ij"))
    for t in FLOATS + INTS + ["bool"]:
        v = truth((3, 4)) if t == "bool" else (
            uniform((3, 4), t) if t in FLOATS else whole((3, 4), t, 0, 100))
        n = v if t == "bool" else v
        raw = n.view(torch.uint8) if t.startswith("f8") else n

        def move(f):
            if t.startswith("f8"):
                return lambda *_: f(raw).contiguous().view(TORCH[t])
            if t in ("u16", "u32", "u64"):
                return lambda *_: torch.from_numpy(np.ascontiguousarray(f(Np(v.numpy())).a))
            return lambda x: f(x)
        put(g, "transpose", [v], move(lambda x: x.transpose(0, 1)), {"a": 0, "b": 1}, "type",
            grad=False)
        put(g, "flip", [v], move(lambda x: x.flip([1])), {"axes": [1]}, "type", grad=False)
    for op, f in [("contiguous", lambda x: x), ("detach", lambda x: x.detach())]:
        put(g, op, [x], lambda x: f(x * 1))
    return g


class Np:
    """The two movements that are checked on every type, for the types PyTorch cannot move."""

    def __init__(self, a):
        self.a = a

    def transpose(self, a, b):
        return Np(self.a.swapaxes(a, b))

    def flip(self, axes):
        return Np(np.flip(self.a, axes))


def index():
    g = Group("index")
    x = uniform((4, 5))
    for axis, shape in [(0, (2, 5)), (1, (4, 7)), (-1, (3, 2)), (0, (9, 1))]:
        i = whole(shape, "i64", 0, x.shape[axis] - 1)
        put(g, "gather", [x, i], lambda x, i: x.gather(axis, i), {"axis": axis})
    i32 = whole((2, 5), "i32", 0, 3)
    put(g, "gather", [x, i32], lambda x, i: x.gather(0, i.long()), {"axis": 0}, "i32_index")
    put(g, "gather", [whole((4, 5), "i32"), whole((4, 2), "i64", 0, 4)],
        lambda x, i: x.gather(1, i), {"axis": 1})
    for axis, shape in [(0, (3, 5)), (1, (4, 3))]:
        n = x.shape[axis]
        order = np.argsort(np.random.default_rng(7).random((shape[0], shape[1], n)), axis=2)
        # No index twice along the axis: the result does not depend on the order of the writes.
        i = np.stack([np.random.default_rng(k).permutation(n)[:shape[axis]]
                      for k in range(shape[1 - axis])], axis=1 - axis)
        i = torch.from_numpy(i.astype(np.int64))
        put(g, "scatter", [x, i, uniform(shape, k=3)], lambda x, i, s: x.scatter(axis, i, s),
            {"axis": axis})
    i = whole((6, 5), "i64", 0, 3)
    for op, mode in [("Add", "sum"), ("Mul", "prod"), ("Max", "amax"), ("Min", "amin")]:
        for include in (True, False):
            g.case("scatter_reduce", [x, i, distinct((6, 5), k=4)],
                   lambda x, i, s: x.scatter_reduce(0, i, s, mode, include_self=include),
                   {"axis": 0, "combine": op, "include_self": include})
    for include in (True, False):
        g.case("scatter_mean", [x, i, distinct((6, 5), k=4)],
               lambda x, i, s: x.scatter_reduce(0, i, s, "mean", include_self=include),
               {"axis": 0, "include_self": include})
    g.case("scatter_add", [x, i, distinct((6, 5), k=4)], lambda x, i, s: x.scatter_add(0, i, s),
           {"axis": 0})
    g.case("scatter_add", [x, whole((4, 9), "i64", 0, 4), uniform((4, 9), k=4)],
           lambda x, i, s: x.scatter_add(1, i, s), {"axis": 1})
    g.case("index_add", [x, torch.tensor([3, 0, 3, 1]), uniform((4, x.shape[1]), k=5)],
           lambda x, i, s: x.index_add(0, i, s), {"axis": 0})
    # The last write wins; a negative index counts from the end.
    twice = torch.tensor([[0, 0, 2, -1, -4, -3, 2]]).expand(3, 7).contiguous()
    base, source = uniform((3, 4)), uniform((3, 7), k=1)

    def write(b, i, s):
        rows = [[b[r, c] for c in range(4)] for r in range(3)]
        for r in range(3):
            for k, at in enumerate([0, 0, 2, 3, 0, 1, 2]):
                rows[r][at] = s[r, k]
        return torch.stack([torch.stack(r) for r in rows])
    put(g, "scatter", [base, twice, source], write, {"axis": 1}, "twice")
    negative = torch.tensor([[0, -1, 3, -4]]).expand(3, 4).contiguous()
    put(g, "gather", [base, negative], lambda b, i: torch.stack(
        [b[:, 0], b[:, 3], b[:, 3], b[:, 0]], 1), {"axis": 1}, "negative")
    for shape, n, t in [((5,), 4, "f32"), ((2, 3), 7, "i32"), ((0,), 3, "f32"), ((3,), 2, "bool")]:
        i = whole(shape, "i64", 0, n - 1)
        put(g, "one_hot", [i], lambda i: F.one_hot(i, n).to(TORCH[t]), {"classes": n, "dtype": t})
    for axis, shape in [(0, (3,)), (1, (6,)), (-1, (2, 2))]:
        i = whole(shape, "i64", 0, 3)
        put(g, "index_select", [x, i], lambda x, i: torch.index_select(x, axis, i.flatten()).unflatten(
            axis, i.shape), {"axis": axis})
    put(g, "take", [x, whole((2, 4), "i64", 0, 19)], torch.take)
    put(g, "embedding", [uniform((7, 3)), whole((2, 4), "i64", 0, 6)],
        lambda w, i: F.embedding(i, w))
    deep = uniform((3, 4, 5))
    put(g, "gather_nd", [deep, torch.tensor([[0, 1], [2, 3], [1, 0]])],
        lambda x, i: x[i[:, 0], i[:, 1]], {"batch": 0})
    put(g, "gather_nd", [deep, torch.tensor([[[0, 1, 4]], [[2, -1, 0]]])],
        lambda x, i: x[i[..., 0], i[..., 1], i[..., 2]], {"batch": 0})
    put(g, "gather_nd", [deep, torch.tensor([[[1], [0]], [[3], [3]], [[2], [1]]])],
        lambda x, i: torch.stack([x[b][i[b, :, 0]] for b in range(3)]), {"batch": 1})
    at = torch.tensor([[0, 1], [2, 3], [1, 0]])
    put(g, "scatter_nd", [deep, at, uniform((3, 5), k=1)],
        lambda x, i, u: x.index_put((i[:, 0], i[:, 1]), u), {"combine": "Set"})
    again = torch.tensor([[0, 1], [0, 1], [1, 0]])
    put(g, "scatter_nd", [deep, again, uniform((3, 5), k=1)],
        lambda x, i, u: x.index_put((i[:, 0], i[:, 1]), u, accumulate=True), {"combine": "Add"},
        exact=False)
    z = uniform((6, 7))
    for spec in [[[-4, -1, 1]], [[None, None, -2], [-99, 99, 1]], [[0, 6, 2], [1, 7, 3]], [[5, None, -1], [0, 7, 1]], [[4, 0, -2], [6, 1, -3]],
                 [[3, 3, 1], [0, 7, 1]]]:
        def cut(x, spec=spec):
            out = x
            for axis, (a, b, s) in enumerate(spec):
                where = list(range(*slice(a, b, s).indices(x.shape[axis])))
                out = out.index_select(axis, torch.tensor(where, dtype=torch.int64))
            return out
        put(g, "slice", [z], cut, {"spans": spec})
    return g


def sort(x, axis, down):
    """Sorted elements and where they came from; NaN counts as the largest, equals keep order."""
    y, i = torch.sort(x, dim=axis, descending=down, stable=True)
    return y, i.int()


def topk(x, k, axis, largest):
    y, i = sort(x, axis, largest)
    return y.narrow(axis, 0, k), i.narrow(axis, 0, k)


def order():
    g = Group("order")
    for op_axis in (0, 1, -1):
        for down in (False, True):
            x = distinct((4, 6))
            put(g, "sort", [x], lambda x: sort(x, op_axis, down),
                {"axis": op_axis, "descending": down})
            put(g, "argsort", [x], lambda x: sort(x, op_axis, down)[1],
                {"axis": op_axis, "descending": down}, grad=False)
            put(g, "ranks", [x], lambda x: sort(x, op_axis, down)[1].argsort(op_axis).int(),
                {"axis": op_axis, "descending": down}, grad=False)
    edges = quantize(torch.tensor([-1.0, 0.0, 0.0, 2.0, 5.0]), "f32")
    for right in (False, True):
        # NumPy's order: NaN comes last.
        some, values = torch.tensor([1.0, 2.0, NAN, NAN]), torch.tensor([NAN, 2.0, -INF, INF])
        want = np.searchsorted(some.numpy(), values.numpy(), "right" if right else "left")
        put(g, "searchsorted", [some, values], lambda *_: torch.from_numpy(want).int(),
            {"right": right}, "nan", grad=False)
        put(g, "searchsorted", [edges, quantize(torch.tensor([[0.0, -2.0, 5.0], [6.0, 1.0, 2.0]]),
                                                "f32")],
            lambda e, v: torch.searchsorted(e, v, right=right).int(), {"right": right}, grad=False)
    tied = quantize(torch.tensor([[3.0, 1.0, 3.0, 1.0, 2.0, 0.0, -0.0], [5.0] * 7]), "f32")
    special = quantize(torch.tensor([[INF, 1.0, -INF, 3.0, NAN]]), "f32")
    for down in (False, True):
        at = {"axis": 1, "descending": down}
        put(g, "sort", [tied[:, :5].contiguous()],
            lambda x: sort(x, 1, down), at, "ties")
        # NaN counts as the largest.
        put(g, "sort", [special], lambda x: sort(x, 1, down), at, "special",
            grad=False)
        for n in (1, 2, 3, 37, 128, 200):
            put(g, "sort", [distinct((2, n))], lambda x: sort(x, 1, down), at,
                f"n{n}", grad=False)
        for t in ("i8", "u8", "i32", "i64"):
            put(g, "sort", [whole((3, 9), t, -120, 100)],
                lambda x: sort(x, 1, down), at)
        for t in ("f16", "bf16", "f64"):
            put(g, "sort", [distinct((3, 9), t)], lambda x: sort(x, 1, down), at)
    for k in (1, 3, 6):
        for largest in (True, False):
            for axis in (1, 0):
                if k > 4 and axis == 0:
                    continue
                put(g, "topk", [distinct((4, 6))], lambda x: topk(x, k, axis, largest),
                    {"k": k, "axis": axis, "largest": largest})
    for axis, shape in [(1, (4, 6)), (0, (5, 3)), (-1, (2, 301))]:
        put(g, "median", [distinct(shape)], lambda x: (x.median(axis)[0], x.median(axis)[1].int()),
            {"axis": axis, "keep": False}, grad=shape[1] < 100)
    for x in (special, tied):
        # The first of what sorts there is meant, which PyTorch leaves open.
        def median(x):
            y, i = sort(x, 1, False)
            n = int((~x.isnan()).sum())
            k = n if n < x.numel() and x.shape[0] == 1 else (x.shape[1] - 1) // 2
            return y.narrow(1, k, 1), i.narrow(1, k, 1)
        put(g, "median", [x], median, {"axis": 1, "keep": True}, grad=False)
    put(g, "sort", [uniform((2, 0))], lambda x: sort(x, 1, False), {"axis": 1, "descending": False},
        "empty", grad=False)
    return g


GROUPS = [movement, index, order]
