"""Linear algebra, convolution, pooling, normalisation, attention, losses, images."""

import math
import warnings

import numpy as np
import torch
import torch.nn.functional as F

from .store import FLOATS, INTS, Group, distinct, integers, truth, uniform, whole, wrap

SUMS = (2e-5, 4e-6)


def linalg():
    g = Group("linalg")
    for a, b in [((3, 4), (4, 5)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)),
                 ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((1, 1), (1, 1)),
                 ((3, 0), (0, 5)), ((0, 3), (3, 2)), ((17, 33), (33, 19)), ((1, 65), (65, 1))]:
        g.case("matmul", [uniform(a), uniform(b, k=1)], torch.matmul, tol=SUMS,
               name="x".join("_".join(map(str, s)) for s in (a, b)))
    for t in FLOATS:
        if t != "f32":
            lo = 0.0 if t[:2] == "f8" else -1.0
            g.case("matmul", [uniform((5, 7), t, lo, 1), uniform((7, 3), t, lo, 1, k=1)],
                   torch.matmul)
    for t in ("i32", "i64", "u8", "i8"):
        a, b = whole((3, 5), t, 0, 9), whole((5, 4), t, 0, 2, k=1)
        want = torch.from_numpy(a.numpy() @ b.numpy())
        if t in ("i32", "i64"):
            g.case("matmul", [a, b], lambda *_: want, exact=True)
    g.case("dot", [uniform((3, 4)), uniform((4, 2), k=1)], torch.matmul, tol=SUMS)
    g.case("outer", [uniform((3,)), uniform((5,), k=1)], torch.outer)
    g.case("matmul_in", [uniform((3, 4), "f16"), uniform((4, 2), "f16", k=1)], torch.matmul,
           {"dtype": "f32"}, out="f32", grad_tol=(4e-3, 1e-3))
    g.case("matmul", [uniform((70, 130)), uniform((130, 90), k=1)], torch.matmul, grad=False,
           tol=(1e-4, 1e-4), name="blocks")
    for equation, shapes in [
        ("ij,jk->ik", [(3, 4), (4, 5)]), ("ij->ji", [(3, 4)]), ("ij->", [(3, 4)]),
        ("ij->j", [(3, 4)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]), ("i,j->ij", [(3,), (4,)]),
        ("ii->i", [(4, 4)]), ("ii", [(4, 4)]), ("ij,ij->", [(3, 4), (3, 4)]),
        ("ij,jk", [(3, 4), (4, 2)]), ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]), ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)]),
    ]:
        xs = [uniform(s, k=k) for k, s in enumerate(shapes)]
        g.case("einsum", xs, lambda *t: torch.einsum(equation, *t), {"equation": equation},
               tol=SUMS)
    for bias in (False, True):
        for t in ("f32", "f16", "f64"):
            xs = [uniform((2, 3, 5), t), uniform((4, 5), t, k=1)] + [uniform((4,), t)] * bias
            g.case("linear", xs, F.linear, name="bias" if bias else "", tol=SUMS if t == "f32" else None)
    for t in ("f32", "f64"):
        tol = (1e-4, 1e-5) if t == "f32" else (1e-10, 1e-11)
        # The first pivot is not in the first row.
        a = uniform((2, 4, 4), t)
        a[:, 0, 0] = 0
        b = uniform((4, 3), t, k=1)
        g.case("solve", [a, b], torch.linalg.solve, tol=tol)
        g.case("solve", [uniform((1, 1), t, 1, 2), uniform((1, 1), t, k=2)], torch.linalg.solve,
               tol=tol, name="one")
        g.case("inv", [a], torch.linalg.inv, tol=tol)
        even = a @ a.mT + 2 * torch.eye(4, dtype=a.dtype)
        g.case("cholesky", [even], torch.linalg.cholesky, tol=tol)
        three = uniform((3, 3), t, 0.5, 2)
        for upper in (False, True):
            g.case("solve_triangular", [three, uniform((2, 3, 2), t)],
                   lambda a, b: torch.linalg.solve_triangular(a.triu() if upper else a.tril(), b, upper=upper),
                   {"upper": upper}, tol=tol, name="upper" if upper else "lower")
    return g


def conv():
    g = Group("conv")

    def one(nd, x, w, bias, stride, padding, dilation, groups, transposed=False, extra=0, t="f32"):
        f = getattr(F, f"conv{'_transpose' if transposed else ''}{nd}d")
        out = w[1] * groups if transposed else w[0]
        xs = [uniform(x, t), uniform(w, t, k=1)] + [uniform((out,), t, k=2)] * bias
        kw = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        at = {k: ([v] * nd if isinstance(v, int) and k != "groups" else v) for k, v in kw.items()}
        if transposed:
            kw["output_padding"] = extra
            at["output_padding"] = [extra] * nd if isinstance(extra, int) else extra
        g.case("conv_transpose" if transposed else "conv", xs,
               lambda x, w, b=None: f(x, w, b, **kw), at, name=f"{nd}d",
               tol=SUMS if t == "f32" else None)

    for kw in [dict(), dict(stride=2), dict(padding=1), dict(dilation=2), dict(stride=[2, 1], padding=[0, 2]),
               dict(stride=3, padding=2, dilation=2)]:
        a = dict(stride=1, padding=0, dilation=1) | kw
        one(2, (2, 3, 7, 6), (4, 3, 3, 2), True, groups=1, **a)
    one(2, (1, 4, 5, 5), (6, 2, 3, 3), True, 1, 1, 1, 2)
    one(2, (2, 4, 5, 5), (4, 1, 3, 3), False, 1, 1, 1, 4)
    one(2, (2, 5, 4, 4), (3, 5, 1, 1), False, 1, 0, 1, 1)
    one(2, (1, 1, 3, 3), (1, 1, 3, 3), False, 1, 0, 1, 1)
    one(2, (2, 3, 6, 6), (4, 3, 3, 3), True, 1, 1, 1, 1, t="f16")
    one(2, (2, 3, 6, 6), (4, 3, 3, 3), True, 1, 1, 1, 1, t="f64")
    one(1, (2, 3, 9), (4, 3, 3), True, 2, 1, 1, 1)
    one(1, (2, 4, 9), (4, 2, 2), False, 1, 0, 2, 2)
    one(3, (1, 2, 4, 5, 3), (3, 2, 2, 3, 2), True, 1, 1, 1, 1)
    one(3, (1, 2, 5, 5, 5), (2, 1, 2, 2, 2), False, 2, 0, 1, 2)
    for kw in [dict(), dict(stride=2), dict(padding=1), dict(dilation=2), dict(stride=2, padding=1, extra=1),
               dict(stride=[2, 3], padding=[1, 0], extra=[1, 2])]:
        a = dict(stride=1, padding=0, dilation=1, extra=0) | kw
        one(2, (2, 3, 4, 5), (3, 4, 3, 2), True, groups=1, transposed=True, **a)
    one(2, (1, 4, 4, 4), (4, 3, 2, 2), True, 2, 0, 1, 2, transposed=True)
    one(1, (2, 3, 5), (3, 2, 3), True, 2, 1, 1, 1, transposed=True, extra=1)
    one(3, (1, 2, 3, 2, 3), (2, 3, 2, 2, 2), False, 2, 0, 1, 1, transposed=True)
    return g


def pool():
    g = Group("pool")
    x = distinct((2, 3, 7, 8))
    for kernel, stride, padding, dilation, ceil in [
        ([2, 2], [2, 2], [0, 0], [1, 1], False), ([3, 2], [1, 2], [1, 0], [1, 1], False),
        ([3, 3], [2, 2], [1, 1], [1, 1], True), ([2, 3], [2, 2], [0, 1], [2, 1], False),
        ([7, 8], [1, 1], [0, 0], [1, 1], False), ([3, 3], [2, 3], [0, 0], [1, 1], True),
    ]:
        at = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation,
              "ceil": ceil}
        g.case("max_pool", [x], lambda x: F.max_pool2d(
            x, kernel, stride, padding, dilation, ceil), at, exact=True, grad_tol=(1e-6, 1e-6))
        if dilation != [1, 1]:
            continue
        for count in (True, False):
            g.case("avg_pool", [x], lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil, count),
                   at | {"count_padding": count})
    one = {"kernel": [3], "stride": [2], "padding": [1], "dilation": [1], "ceil": False}
    g.case("max_pool", [distinct((2, 3, 9))], lambda x: F.max_pool1d(x, 3, 2, 1), one, name="1d",
           exact=True)
    g.case("avg_pool", [distinct((2, 3, 9))], lambda x: F.avg_pool1d(x, 3, 2, 1),
           one | {"count_padding": True}, name="1d")
    three = {"kernel": [2, 2, 2], "stride": [2, 1, 2], "padding": [0, 0, 0], "dilation": [1, 1, 1],
             "ceil": False}
    g.case("max_pool", [distinct((1, 2, 4, 3, 4))], lambda x: F.max_pool3d(x, 2, [2, 1, 2]), three,
           name="3d", exact=True)
    for t in ("f16", "f64"):
        at = {"kernel": [2, 2], "stride": [2, 2], "padding": [0, 0], "dilation": [1, 1],
              "ceil": False}
        y = distinct((1, 2, 4, 6), t)
        g.case("max_pool", [y], lambda x: F.max_pool2d(x, 2), at, exact=True)
        g.case("avg_pool", [y], lambda x: F.avg_pool2d(x, 2), at | {"count_padding": True})
    at = {"kernel": [3, 2], "stride": [2, 2], "padding": [1, 0], "dilation": [1, 1], "ceil": False}

    def indices(x):
        y, i = F.max_pool2d(x, [3, 2], [2, 2], [1, 0], return_indices=True)
        return y, i.int()
    g.case("max_pool_indices", [x], indices, at, exact=True)
    for p in (1.0, 2.0, 3.0):
        g.case("lp_pool", [uniform((2, 3, 7, 8), "f32", 0.2, 2)],
               lambda x: F.lp_pool2d(x, p, [3, 2], [2, 2]), at | {"p": p, "padding": [0, 0]})
    for sizes in ([2, 3], [3, 2], [6, 9], [1, 1]):
        g.case("adaptive_avg_pool", [uniform((2, 2, 5, 7))],
               lambda x: F.adaptive_avg_pool2d(x, sizes), {"sizes": sizes})
    g.case("adaptive_avg_pool", [uniform((2, 3, 8), "f16")],
           lambda x: F.adaptive_avg_pool1d(x, 3), {"sizes": [3]})
    g.case("global_avg_pool", [x], lambda x: x.mean((2, 3), True))
    g.case("global_max_pool", [x], lambda x: x.amax((2, 3), True), exact=True)
    y = distinct((2, 2, 6, 4))
    values, where = F.max_pool2d(y.double(), 2, return_indices=True)
    at = {"kernel": [2, 2], "stride": [2, 2], "padding": [0, 0]}
    g.case("max_unpool", [values.float(), where.int()],
           lambda v, i: F.max_unpool2d(v, i.long(), 2), at | {"size": [6, 4]}, exact=True)
    for size in ([5, 9], [14, 16], [3, 4], [1, 1]):
        g.case("interpolate", [uniform((1, 2, 7, 8))],
               lambda x: F.interpolate(x, size=size, mode="nearest"),
               {"size": size, "mode": "nearest", "align_corners": False})
        for align in (False, True):
            g.case("interpolate", [uniform((1, 2, 7, 8))],
                   lambda x: F.interpolate(x, size=size, mode="bilinear", align_corners=align),
                   {"size": size, "mode": "linear", "align_corners": align})
        g.case("interpolate", [uniform((1, 2, 7, 8))],
               lambda x: F.interpolate(x, size=size, mode="nearest-exact"),
               {"size": size, "mode": "nearest_exact", "align_corners": False})
    g.case("interpolate", [uniform((1, 2, 7))], lambda x: F.interpolate(x, size=11, mode="linear"),
           {"size": [11], "mode": "linear", "align_corners": False}, name="1d")
    x = uniform((2, 8, 2, 3))
    g.case("depth_to_space", [x], lambda x: F.pixel_shuffle(x, 2), {"r": 2, "block_first": False},
           exact=True)
    g.case("space_to_depth", [uniform((2, 3, 4, 6))], lambda x: F.pixel_unshuffle(x, 2),
           {"r": 2, "block_first": False}, exact=True)
    g.case("depth_to_space", [x], lambda x: x.reshape(2, 2, 2, 2, 2, 3).permute(
        0, 3, 4, 1, 5, 2).reshape(2, 2, 4, 6), {"r": 2, "block_first": True}, exact=True)
    g.case("space_to_depth", [uniform((2, 3, 4, 6))], lambda x: x.reshape(2, 3, 2, 2, 3, 2).permute(
        0, 3, 5, 1, 2, 4).reshape(2, 12, 2, 3), {"r": 2, "block_first": True}, exact=True)
    return g


def batch_norm(x, mean, var, weight=None, bias=None):
    """Written out, because PyTorch's has no gradient for the statistics."""
    wide = [t if t is None else t.reshape(1, -1, 1, 1) for t in (mean, var, weight, bias)]
    y = (x - wide[0]) / torch.sqrt(wide[1] + 1e-5)
    return y if weight is None else y * wide[2] + wide[3]


def norm():
    g = Group("norm")
    for t in ("f32", "f16", "bf16", "f64"):
        x = uniform((2, 3, 8), t)
        for affine in (False, True):
            more = [uniform((8,), t, 0.5, 1.5, k=1), uniform((8,), t, k=2)] * affine
            suffix = "affine" if affine else ""
            g.case("layer_norm", [x] + more, lambda x, w=None, b=None: F.layer_norm(x, (8,), w, b, 1e-5),
                   {"axes": 1, "eps": 1e-5}, name=suffix)
            g.case("rms_norm", [x] + more[:1], lambda x, w=None: F.rms_norm(x, (8,), w, 1e-5),
                   {"eps": 1e-5}, name=suffix)
    g.case("layer_norm", [uniform((2, 3, 5))], lambda x: F.layer_norm(x, (3, 5), None, None, 1e-5),
           {"axes": 2, "eps": 1e-5}, name="two_axes")
    g.case("layer_norm", [uniform((3, 1100))], lambda x: F.layer_norm(x, (1100,)),
           {"axes": 1, "eps": 1e-5}, name="long", grad=False)
    x = uniform((3, 4, 5, 2))
    w, b = uniform((4,), "f32", 0.5, 1.5), uniform((4,), k=1)
    mean, var = uniform((4,), k=2), uniform((4,), "f32", 0.5, 1.5, k=3)
    g.case("batch_norm", [x, mean, var, w, b],
           batch_norm, {"eps": 1e-5}, name="affine")
    g.case("batch_norm", [x, mean, var], batch_norm, {"eps": 1e-5})
    for groups in (1, 2, 4):
        g.case("group_norm", [x, w, b], lambda x, w, b: F.group_norm(x, groups, w, b, 1e-5),
               {"groups": groups, "eps": 1e-5}, name="affine")
    g.case("group_norm", [x], lambda x: F.group_norm(x, 2), {"groups": 2, "eps": 1e-5})
    g.case("instance_norm", [x, w, b], lambda x, w, b: F.instance_norm(x, None, None, w, b),
           {"eps": 1e-5}, name="affine")
    g.case("instance_norm", [x], lambda x: F.instance_norm(x), {"eps": 1e-5})
    for axes in ([2], [1, 2], [0, 3]):
        def standardize(x):
            var, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
            return (x - mean) / torch.sqrt(var + 1e-5)
        g.case("standardize", [x], standardize, {"axes": axes, "eps": 1e-5})
    for size, alpha, beta, k in [(3, 1e-2, 0.75, 1.0), (2, 1e-1, 0.5, 2.0), (5, 1.0, 0.75, 1.0)]:
        def response(x):
            # ONNX's window: for an even size the longer half lies after the channel.
            before = (size - 1) // 2
            square = F.pad(x.square(), (0, 0, 0, 0, before, size - 1 - before))
            total = sum(square.narrow(1, i, x.shape[1]) for i in range(size))
            return x / (k + alpha / size * total) ** beta
        g.case("local_response_norm", [x], response,
               {"size": size, "alpha": alpha, "beta": beta, "k": k})
    return g


def attention():
    g = Group("attention")

    def sdpa(q, k, v, mask=None, causal=False, scale=None, cap=None):
        if k.shape[-3] != q.shape[-3]:
            n = q.shape[-3] // k.shape[-3]
            k, v = k.repeat_interleave(n, -3), v.repeat_interleave(n, -3)
        scores = q @ k.mT * (scale or 1 / math.sqrt(q.shape[-1]))
        if cap:
            scores = cap * torch.tanh(scores / cap)
        if causal:
            # Aligned at the end: the last query sees every key.
            n, m = scores.shape[-2:]
            keep = torch.ones((n, m), dtype=torch.bool).tril(m - n)
            scores = scores.masked_fill(~keep, -math.inf)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
        return scores.softmax(-1) @ v

    def add(q, k, v, mask=(), name="", t="f32", causal=False, scale=None, cap=None):
        xs = [uniform(q, t), uniform(k, t, k=1), uniform(v, t, k=2), *mask]
        g.case("attention", xs, lambda q, k, v, m=None: sdpa(q, k, v, m, causal, scale, cap),
               {"causal": causal, "scale": scale, "softcap": cap}, name=name, tol=SUMS if t == "f32" else None)

    add((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8))
    add((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4), name="wide")
    add((1, 2, 6, 4), (1, 2, 6, 4), (1, 2, 6, 4), causal=True, name="causal")
    add((1, 2, 6, 4), (1, 2, 6, 4), (1, 2, 6, 4), scale=0.3, name="scale")
    add((1, 4, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4), name="grouped")
    add((1, 4, 5, 4), (1, 1, 5, 4), (1, 1, 5, 4), causal=True, name="multi_query")
    add((1, 2, 3, 4), (1, 2, 6, 4), (1, 2, 6, 4), causal=True, name="causal_later")
    add((1, 2, 5, 4), (1, 2, 6, 4), (1, 2, 6, 4), cap=0.5, name="softcap")
    blind = truth((5, 7))
    blind[2] = False

    def none_seen(q, k, v, m):
        p = (q @ k.mT / math.sqrt(8)).masked_fill(~m, -1e30).softmax(-1)
        return torch.where(m.any(-1, keepdim=True), p @ v, 0.0)
    g.case("attention", [uniform((1, 1, 5, 8)), uniform((1, 1, 7, 8), k=1),
                         uniform((1, 1, 7, 8), k=2), blind], none_seen,
           {"causal": False, "scale": None, "softcap": None}, name="blind", tol=SUMS)
    for interleaved in (False, True):
        angle = torch.from_numpy(np.outer(np.arange(5), 10000.0 ** (-np.arange(3) / 3.0)))

        def turn(x, c, s):
            a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :3], x[..., 3:])
            y, z = a * c - b * s, a * s + b * c
            return torch.stack([y, z], -1).flatten(-2) if interleaved else torch.cat([y, z], -1)
        g.case("rotary", [uniform((2, 5, 6)), angle.cos().float(), angle.sin().float()], turn,
               {"interleaved": interleaved})
    g.case("rotary_angles", [integers([0, 1, 2, 7, 40], "i32")], lambda p: tuple(
        f(torch.outer(p.double(), 10000.0 ** (-torch.arange(4, dtype=torch.float64) / 4)))
        for f in (torch.cos, torch.sin)), {"width": 8, "base": 10000.0}, out="f32",
        tol=(1e-5, 5e-6))
    keep = truth((5, 7))
    keep[:, 0] = True
    add((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), [keep], name="mask")
    add((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), [uniform((2, 1, 5, 7), k=4)], name="bias")
    for t in ("f16", "bf16", "f64"):
        add((1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 8), t=t)
    return g


def loss():
    g = Group("loss")
    labels = torch.tensor([2, 0, 4, 1])
    some = torch.tensor([2, -100, 4, 1])
    x = uniform((4, 5), "f32", -3, 3)
    deep = uniform((2, 5, 3), "f32", -3, 3)
    classes = whole((2, 3), "i64", 0, 4)
    weight = uniform((5,), "f32", 0.5, 2)
    chance = torch.softmax(uniform((4, 5), k=1), 1)
    for how in ("mean", "sum", "none"):
        at = {"reduction": how, "smoothing": 0.0, "ignore": None}
        for smooth in (0.0, 0.1):
            with_smooth = at | {"smoothing": smooth}
            g.case("cross_entropy", [x, chance], lambda x, t: F.cross_entropy(
                x, t.detach(), reduction=how, label_smoothing=smooth), with_smooth, name="chances")
            for logits, y, skip in [(x, labels, None), (x, some, -100), (deep, classes, None)]:
                name = "ignored" if skip else "planes" if logits is deep else ""
                g.case("cross_entropy", [logits, y], lambda x, y: F.cross_entropy(
                    x, y, reduction=how, label_smoothing=smooth), with_smooth | {"ignore": skip},
                    name=name)
                g.case("cross_entropy", [logits, y, weight], lambda x, y, w: F.cross_entropy(
                    x, y, w.detach(), reduction=how, label_smoothing=smooth),
                    with_smooth | {"ignore": skip}, name="weight" + name)
        logs = torch.log_softmax(x, 1)
        for y, skip in [(labels, None), (some, -100)]:
            name = "ignored" if skip else ""
            g.case("nll_loss", [logs, y], lambda x, y: F.nll_loss(x, y, reduction=how),
                   at | {"ignore": skip}, name=name)
            g.case("nll_loss", [logs, y, weight], lambda x, y, w: F.nll_loss(
                x, y, w.detach(), reduction=how), at | {"ignore": skip}, name="weight" + name)
        at = {"reduction": how}
        p, y = uniform((3, 4), "f32", 0.05, 0.95), truth((3, 4)).float()
        g.case("binary_cross_entropy", [p, y],
               lambda p, y: F.binary_cross_entropy(p, y.detach(), reduction=how), at)
        g.case("binary_cross_entropy", [torch.tensor([0.0, 1.0, 1.0]), torch.tensor([1.0, 0.0, 1.0])],
               lambda p, y: F.binary_cross_entropy(p, y, reduction=how), at, name="certain",
               grad=False)
        logits = uniform((3, 4), "f32", -5, 5)
        g.case("binary_cross_entropy_logits", [logits, y],
               lambda p, y: F.binary_cross_entropy_with_logits(p, y.detach(), reduction=how), at)
        g.case("binary_cross_entropy_logits", [logits, y, uniform((4,), "f32", 0.5, 2)],
               lambda p, y, w: F.binary_cross_entropy_with_logits(
                   p, y.detach(), reduction=how, pos_weight=w.detach()), at, name="positive")
        g.case("binary_cross_entropy_logits", [logits * 40, y],
               lambda p, y: F.binary_cross_entropy_with_logits(p, y.detach(), reduction=how), at,
               name="large")
        a, b = distinct((3, 4)), distinct((3, 4), k=1)
        g.case("mse_loss", [a, b], lambda a, b: F.mse_loss(a, b, reduction=how), at)
        g.case("l1_loss", [a, b], lambda a, b: F.l1_loss(a, b, reduction=how), at)
        g.case("huber_loss", [a, b], lambda a, b: F.huber_loss(a, b, reduction=how, delta=0.7),
               at | {"delta": 0.7})
        for beta in (0.7, 0.0):
            g.case("smooth_l1_loss", [a, b], lambda a, b: F.smooth_l1_loss(a, b, reduction=how, beta=beta),
                   at | {"beta": beta})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's `mean` is what is meant here.
            g.case("kl_div", [logs, chance], lambda a, b: F.kl_div(a, b.detach(), reduction=how), at)
            g.case("kl_div", [logs[:1], torch.tensor([[0.5, 0.0, 0.25, 0.25, 0.0]])],
                   lambda a, b: F.kl_div(a, b.detach(), reduction=how), at, name="zeros")
    g.case("sparse_categorical_crossentropy", [x, labels], F.cross_entropy)
    g.case("sparse_categorical_crossentropy", [uniform((2, 3, 5)), classes],
           lambda x, y: F.cross_entropy(x.reshape(6, 5), y.reshape(6)))
    return g


GROUPS = [linalg, conv, pool, norm, attention, loss]
