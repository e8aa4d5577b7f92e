"""Optimizers over several steps, and the counter-based random numbers under everything random."""

import numpy as np
import torch

from .store import Group, integers, quantize, rng, uniform

STEPS = 5


def run(make, start, grads):
    """The parameter after each step of a PyTorch optimizer, in binary64."""
    p = start.double().clone().requires_grad_()
    optimizer, trace = make([p]), []
    for g in grads:
        p.grad = g.double()
        optimizer.step()
        trace.append(p.detach().clone())
    return trace


def lamb(start, grads, lr, b1, b2, eps, decay):
    """LAMB (You et al., arXiv 1904.00962, algorithm 2), with bias correction and phi = identity."""
    p = start.double().numpy().copy()
    m, v, trace = np.zeros_like(p), np.zeros_like(p), []
    for t, g in enumerate(grads, 1):
        g = g.double().numpy()
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        r = (m / (1 - b1 ** t)) / (np.sqrt(v / (1 - b2 ** t)) + eps) + decay * p
        weight, update = np.linalg.norm(p), np.linalg.norm(r)
        trust = weight / update if weight > 0 and update > 0 else 1.0
        p = p - lr * trust * r
        trace.append(torch.from_numpy(p.copy()))
    return trace


def optim():
    """Inputs: the parameter, then the gradient of each step. Outputs: the parameter after each."""
    g = Group("optim")
    for t in ("f32", "f64"):
        for shape in [(3, 4), (5,)]:
            start = uniform(shape, t)
            grads = [uniform(shape, t, k=("step", i)) for i in range(STEPS)]
            for momentum, nesterov, decay in [(0.0, False, 0.0), (0.9, False, 0.0), (0.9, True, 0.0),
                                              (0.9, False, 0.1), (0.0, False, 0.1),
                                              (0.8, True, 0.05)]:
                at = {"lr": 0.125, "momentum": momentum, "nesterov": nesterov, "weight_decay": decay}
                g.case("sgd", [start] + grads, lambda p, *_: run(
                    lambda q: torch.optim.SGD(q, **at), p.detach(), grads), at, grad=False)
            for eps, decay in [(1e-8, 0.0), (1e-6, 0.1)]:
                at = {"lr": 0.0625, "b1": 0.9, "b2": 0.98, "eps": eps, "weight_decay": decay}
                # The powers of the betas are kept in binary32, whatever the parameter's type.
                near = (1e-6, 1e-6) if t == "f64" else (2e-5, 2e-6)
                kw = {"lr": 0.0625, "betas": (0.9, 0.98), "eps": eps, "weight_decay": decay}
                for op, kind in [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)]:
                    g.case(op, [start] + grads, lambda p, *_: run(
                        lambda q: kind(q, **kw), p.detach(), grads), at, grad=False, tol=near)
                g.case("lamb", [start] + grads, lambda p, *_: lamb(
                    p.detach(), grads, 0.0625, 0.9, 0.98, eps, decay), at, grad=False, tol=near)
    return g


def threefry(key, counter, rounds=20):
    """Threefry-2x32 (Salmon et al., SC'11) over Python integers."""
    mask = 0xFFFFFFFF
    keys = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA]
    x0, x1 = (counter[0] + keys[0]) & mask, (counter[1] + keys[1]) & mask
    turns = [13, 15, 26, 6, 17, 29, 16, 24]
    for i in range(rounds):
        r = turns[i % 8]
        x0 = (x0 + x1) & mask
        x1 = ((x1 << r | x1 >> (32 - r)) & mask) ^ x0
        if i % 4 == 3:
            n = i // 4 + 1
            x0 = (x0 + keys[n % 3]) & mask
            x1 = (x1 + keys[(n + 1) % 3] + n) & mask
    return x0, x1


# Known answers that Random123 publishes for threefry2x32 with 20 rounds (its file kat_vectors):
# counter, key, result.
KNOWN = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


def bits(seed, n):
    """The first `n` words of a seed: counters 0.. and, behind them, those of the second half."""
    half = (n + 1) // 2
    pairs = [threefry((seed >> 32, seed & 0xFFFFFFFF), (i, i + half)) for i in range(half)]
    return [a for a, _ in pairs] + [b for _, b in pairs][:n - half]


def unit(seed, n, t="f32"):
    """Numbers in 0..1 from the upper bits of words; binary64 takes two words each."""
    if t == "f64":
        w = bits(seed, 2 * n)
        return [((w[i] << 32 | w[n + i]) >> 11) * 2.0 ** -53 for i in range(n)]
    kept = {"f32": 23, "f16": 11, "bf16": 8, "f8e4m3": 4, "f8e5m2": 3}[t]
    return [(w >> (32 - kept)) * 2.0 ** -kept for w in bits(seed, n)]


def wide(values, shape):
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def random():
    """`threefry_tensors`: both key words, both counter words. The others: what a seed draws."""
    g = Group("random")
    for counter, key, result in KNOWN:
        assert threefry(key, counter) == result, "the published answers are not reproduced"
    draw = rng("threefry").integers(0, 1 << 32, (61, 4), dtype=np.uint64)
    rows = [(c, k, r) for c, k, r in KNOWN]
    rows += [((int(a), int(b)), (int(c), int(d)), threefry((int(c), int(d)), (int(a), int(b))))
             for a, b, c, d in draw]

    def column(f):
        return integers([f(r) for r in rows], "u32")
    inputs = [column(lambda r: r[1][0]), column(lambda r: r[1][1]), column(lambda r: r[0][0]),
              column(lambda r: r[0][1])]
    want = [column(lambda r: r[2][0]), column(lambda r: r[2][1])]
    g.case("threefry_tensors", inputs, lambda *_: want, exact=True, grad=False)
    for seed, shape in [(0, (6,)), (42, (3, 4)), (1 << 40 | 7, (5,)), (3, (0,)), (9, (1,))]:
        n, at = int(np.prod(shape)), {"seed": seed, "shape": list(shape)}
        words = integers(bits(seed, n), "u32", shape)
        g.case("bits", [], lambda: words, at, exact=True)
        for t in ("f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2"):
            u = wide(unit(seed, n, t), shape)
            g.case("rand", [], lambda: u, at | {"dtype": t}, exact=True, grad=False, out=t, kind=t)
        u = wide(unit(seed, n), shape)
        g.case("uniform", [], lambda: u * 5.0 - 2.0, at | {"low": -2.0, "high": 3.0, "dtype": "f32"},
               grad=False)
        for t in ("f32", "f64"):
            pair = wide(unit(seed, 2 * n, t), (2,) + shape)
            z = torch.cos(2 * np.pi * pair[0]) * torch.sqrt(-2 * torch.log(1 - pair[1]))
            near = (1e-4, 1e-5) if t == "f32" else (1e-10, 1e-10)
            g.case("randn", [], lambda: z, at | {"dtype": t}, grad=False, out=t, kind=t, tol=near)
            g.case("normal", [], lambda: z * 2 - 1, at | {"mean": -1.0, "std": 2.0, "dtype": t},
                   grad=False, out=t, kind=t, tol=near)
        for low, high, t in [(-5, 17, "i32"), (0, 256, "u8"), (-(1 << 31), 1 << 31, "i64")]:
            k = integers([low + (w * (high - low) >> 32) for w in bits(seed, n)], t, shape)
            g.case("randint", [], lambda: k, at | {"low": low, "high": high, "dtype": t},
                   exact=True, kind=t)
        p = uniform(shape, "f32", 0, 1)
        g.case("bernoulli", [p], lambda p: (u < p).double(), {"seed": seed}, exact=True, grad=False)
        x = uniform(shape)
        g.case("dropout", [x], lambda x: torch.where(u >= 0.25, x / 0.75, 0.0),
               {"seed": seed, "p": 0.25})
    for n in (0, 1, 9):
        order = np.argsort(np.array(bits(5, n), dtype=np.uint32), kind="stable")
        g.case("randperm", [], lambda: torch.from_numpy(order.astype(np.int32)),
               {"seed": 5, "n": n}, exact=True)
    weights = uniform((2, 5), "f32", 0.1, 1)
    weights[0, 2] = 0
    edges = torch.cumsum(weights.double(), 1)
    draws = wide(unit(11, 14), (2, 7)) * edges[:, -1:]
    g.case("multinomial", [weights], lambda w: torch.searchsorted(
        edges, draws, right=True).int(), {"seed": 11, "samples": 7, "replacement": True},
        exact=True, grad=False)
    times = -torch.log(1 - wide(unit(11, 10), (2, 5))) / weights.double()
    g.case("multinomial", [weights], lambda w: torch.argsort(times, 1)[:, :3].int(),
           {"seed": 11, "samples": 3, "replacement": False}, exact=True, grad=False)
    return g


GROUPS = [optim, random]
