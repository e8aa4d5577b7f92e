"""Cases of the operator suite: what one is, how its expectation is computed, how it is stored.

A case is an operation, its attributes, its inputs, the outputs that are expected, and (where the
operation has a derivative) one upstream gradient per output and the gradient that is expected for
every float input.

Expectations of float types are computed in binary64 and rounded once to the type of the result,
so that they are the mathematical answer and not the habits of another library's kernels.
"""

import json
import math
import struct
import zlib

import numpy as np
import torch

TORCH = {
    "bool": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
    "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}
NAME = {v: k for k, v in TORCH.items()}
SAFETENSORS = {
    "bool": "BOOL",
    "f8e4m3": "F8_E4M3",
    "f8e5m2": "F8_E5M2",
} | {n: n.upper() for n in TORCH if n not in ("bool", "f8e4m3", "f8e5m2")}
INTS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
FLOATS = ["f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64"]

# Significand bits, exponent of the smallest normal number, largest finite number, has infinities.
FORMAT = {
    "f8e4m3": (4, -6, 448.0, False),
    "f8e5m2": (3, -14, 57344.0, True),
    "f16": (11, -14, 65504.0, True),
    "bf16": (8, -126, float.fromhex("0x1.fep127"), True),
}

# Relative and absolute tolerance of a result that is computed in several roundings.
TOLERANCE = {
    "f8e4m3": (0.13, 2e-2),
    "f8e5m2": (0.26, 3e-2),
    "f16": (3e-3, 1e-3),
    "bf16": (2e-2, 8e-3),
    "f32": (1e-5, 1e-6),
    "f64": (1e-11, 1e-13),
}


def is_float(t):
    return t.dtype.is_floating_point


def bounds(name):
    """Smallest and largest value of an integer type."""
    bits = int(name[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if name[0] == "i" else (0, (1 << bits) - 1)


def wrap(value, name):
    """The low bits of a Python integer, read as the type."""
    bits = int(name[1:])
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if name[0] == "i" and low >> (bits - 1) else low


def quantize(wide, name):
    """A binary64 tensor rounded once, to nearest even, to a float type."""
    wide = wide.detach().to(torch.float64)
    if name == "f64":
        return wide.clone()
    if name == "f32":
        return wide.to(torch.float32)
    bits, least, largest, infinities = FORMAT[name]
    a = wide.numpy()
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.frexp(a)[1] - 1, least)
        ulp = np.ldexp(1.0, exponent - (bits - 1))
        r = np.rint(a / ulp) * ulp
        r = np.where(np.abs(r) > largest, np.copysign(np.inf if infinities else np.nan, a), r)
    return torch.from_numpy(np.asarray(r)).to(TORCH[name])


def integers(values, name, shape=None):
    """A tensor of an integer type from Python integers that fit."""
    a = np.array(values, dtype=np.dtype({"i": "int", "u": "uint"}[name[0]] + name[1:]))
    return torch.from_numpy(a if shape is None else a.reshape(shape))


def rng(*key):
    """A generator whose stream depends on the key alone, not on what was generated before."""
    return np.random.Generator(np.random.PCG64(zlib.crc32(repr(key).encode())))


def uniform(shape, name="f32", lo=-2.0, hi=2.0, k=0):
    """Random numbers of a float type. `k` tells inputs of one case apart."""
    a = rng("uniform", tuple(shape), lo, hi, k).uniform(lo, hi, shape)
    return quantize(torch.from_numpy(np.asarray(a)), name)


def whole(shape, name="i32", lo=-9, hi=9, k=0):
    """Random integers, both ends included."""
    lo = max(lo, bounds(name)[0])
    return integers(rng("whole", tuple(shape), lo, hi, k).integers(lo, hi + 1, shape), name)


def truth(shape, k=0):
    """Random booleans."""
    return torch.from_numpy(rng("truth", tuple(shape), k).integers(0, 2, shape) == 1)


def distinct(shape, name="f32", k=0):
    """A shuffled ladder: no two elements are equal, none is at a kink, neighbours are far apart."""
    n = math.prod(shape)
    a = (rng("distinct", tuple(shape), k).permutation(n) - n / 2 + 0.27) * (4.0 / max(n, 1))
    return quantize(torch.from_numpy(a.reshape(shape)), name)


def bytes_of(t):
    t = t.detach().contiguous()
    if t.dtype in (torch.float16, torch.bfloat16):
        t = t.view(torch.int16)
    elif t.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        t = t.view(torch.uint8)
    return t.numpy().tobytes()


def plain(value):
    """An attribute as JSON has it: infinities and NaN as strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


class Group:
    """The cases of one file."""

    def __init__(self, name):
        self.name = name
        self.cases = []
        self.tensors = {}
        self.names = set()

    def put(self, t):
        """Stores a tensor once, whatever the number of cases that use it; gives its name."""
        key = (NAME[t.dtype], tuple(t.shape), bytes_of(t))
        return self.tensors.setdefault(key, str(len(self.tensors)))

    def case(self, op, inputs, ref, attrs=None, *, name="", out=None, grad=True, exact=False,
             tol=None, grad_tol=None, kind=None):
        """Adds a case; `ref` maps the inputs (floats widened to binary64) to the expectation.

        `out` is the float type of the results (by default that of the first float input); results
        that are not floats are taken as they are. `tol` is (relative, absolute), `grad_tol` the
        same for gradients.
        """
        attrs = {k: plain(v) for k, v in (attrs or {}).items()}
        first = next((NAME[t.dtype] for t in inputs if is_float(t)), "f32")
        out = out or first
        wide = [t.double().requires_grad_(grad) if is_float(t) else t for t in inputs]
        y = ref(*wide)
        ys = list(y) if isinstance(y, (list, tuple)) else [y]
        expected = [quantize(v, out) if is_float(v) else v.detach() for v in ys]
        label = "/".join(x for x in (kind or (NAME[inputs[0].dtype] if inputs else ""), name) if x)
        full = f"{op}/{label}" if label else op
        stem, n = full, 1
        while full in self.names:
            n += 1
            full = f"{stem}#{n}"
        self.names.add(full)
        record = {
            "case": full,
            "op": op,
            "attrs": attrs,
            "inputs": [self.put(t) for t in inputs],
            "outputs": [self.put(t) for t in expected],
        }
        if not exact:
            record["tol"] = list(tol or TOLERANCE[out])
        smooth = [(i, v) for i, v in enumerate(ys) if is_float(v) and v.requires_grad]
        if grad and smooth:
            upstream = [uniform(v.shape, out, -1, 1, k=("up", i)) for i, v in smooth]
            leaves = [w for w in wide if is_float(w)]
            grads = torch.autograd.grad(
                [v for _, v in smooth], leaves, [u.double() for u in upstream], allow_unused=True)
            back = iter(grads)
            record["upstream"] = [None] * len(ys)
            for (i, _), u in zip(smooth, upstream):
                record["upstream"][i] = self.put(u)
            record["grads"] = []
            for t in inputs:
                g = next(back) if is_float(t) else None
                record["grads"].append(
                    None if g is None else self.put(quantize(g, NAME[t.dtype])))
            if grad_tol or not exact:
                record["grad_tol"] = list(grad_tol or tol or TOLERANCE[first])
            else:
                record["grad_tol"] = list(TOLERANCE[first])
        self.cases.append(record)

    def write(self, folder):
        """Writes the tensors as one safetensors file; gives its size in bytes."""
        header, data = {}, bytearray()
        # Widest elements first, so that every tensor is aligned to its element.
        order = sorted(self.tensors.items(), key=lambda kv: -TORCH[kv[0][0]].itemsize)
        for (dtype, shape, raw), name in order:
            header[name] = {
                "dtype": SAFETENSORS[dtype],
                "shape": list(shape),
                "data_offsets": [len(data), len(data) + len(raw)],
            }
            data += raw
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        blob = struct.pack("<Q", len(text)) + text + bytes(data)
        (folder / f"{self.name}.safetensors").write_bytes(blob)
        return len(blob)
