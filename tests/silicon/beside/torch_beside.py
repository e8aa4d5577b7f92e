"""What torch takes for what `trial bench` measures, in lines of the same form: sums and products, attention, and ten
expressions that torch.compile fuses (by Triton), beside them as they are.

    torch_beside.py [small]

What one of them lacks is told in a line, and the next one has its turn.
"""

import statistics
import sys
import time

import torch
import torch.nn.functional as F

SMALL = "small" in sys.argv[1:]
BYTES = 64 << 10 if SMALL else 256 << 20
SIDES = (64,) if SMALL else (4096, 8192)
ATTENTION = (1, 2, 32, 16) if SMALL else (4, 16, 4096, 128)
TIMES = 2 if SMALL else 10
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

# The expressions of expressions.rs, by the same names: of two matrices and two rows.
EXPRESSIONS = {
    "x y + x": lambda x, y, w, b: x * y + x,
    "gelu(x + y)": lambda x, y, w, b: F.gelu(x + y),
    "silu(x) y": lambda x, y, w, b: F.silu(x) * y,
    "exp(-|x - y|)": lambda x, y, w, b: torch.exp(-(x - y).abs()),
    "clamp(3 x - 1, -1, 1) as bf16": lambda x, y, w, b: (3 * x - 1).clamp(-1, 1).to(torch.bfloat16),
    "sum((x - y)^2) of rows": lambda x, y, w, b: (x - y).square().sum(1),
    "softmax of rows": lambda x, y, w, b: torch.softmax(x, 1),
    "softmax(x + y) of rows": lambda x, y, w, b: torch.softmax(x + y, 1),
    "layer norm of rows": lambda x, y, w, b: F.layer_norm(x, (x.shape[1],), w, b, 1e-5),
    "gelu(rms norm of rows)": lambda x, y, w, b: F.gelu(x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6) * w),
}


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def seconds(call):
    """The middle time of a call, after two that warm up."""
    for _ in range(2):
        call()
    synchronize()
    taken = []
    for _ in range(TIMES):
        start = time.perf_counter()
        call()
        synchronize()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def row(name, unit, value):
    """Prints what a function gives, or why it gives nothing."""
    try:
        print(f"{name}: {value():.3f} {unit}", flush=True)
    except Exception as error:  # Whatever torch lacks here.
        text = str(error).strip().splitlines() or [""]
        print(f"{name}: not there, {type(error).__name__}, {text[0][:200]}", flush=True)


def rand(*shape, dtype=torch.float32):
    return torch.rand(*shape, device=DEVICE, dtype=dtype)


def sums():
    for name, dtype in [("f32", torch.float32), ("bf16", torch.bfloat16)]:
        x = rand(BYTES // 4 // 1024, 1024, dtype=dtype)
        size = x.numel() * x.element_size()
        row(f"x + 1 of {name}, one way", "GB/s", lambda: size / seconds(lambda: x + 1) / 1e9)
        row(f"sum of rows of {name}", "GB/s", lambda: size / seconds(lambda: x.sum(1)) / 1e9)


def products():
    for side in SIDES:
        a, b = (rand(side, side, dtype=torch.bfloat16) for _ in range(2))
        row(f"product of bf16, {side}", "TFLOP/s", lambda: 2 * side**3 / seconds(lambda: a @ b) / 1e12)
    q, k, v = (rand(*ATTENTION, dtype=torch.bfloat16) for _ in range(3))
    images, heads, length, width = ATTENTION
    work = 4 * images * heads * length**2 * width
    row("attention of bf16, " + " ".join(map(str, ATTENTION)), "TFLOP/s",
        lambda: work / seconds(lambda: F.scaled_dot_product_attention(q, k, v)) / 1e12)


def expressions():
    inputs = [rand(BYTES // 4 // 1024, 1024) for _ in range(2)] + [rand(1024) for _ in range(2)]
    for name, function in EXPRESSIONS.items():
        compiled = []

        def fused():
            if not compiled:
                compiled.append(torch.compile(function))
            return seconds(lambda: compiled[0](*inputs)) * 1e6
        row(name, "us", fused)
        row(f"{name}, not compiled", "us", lambda: seconds(lambda: function(*inputs)) * 1e6)


def main():
    name = torch.cuda.get_device_name(0) if DEVICE == "cuda" else "no card: the processor"
    print(f"{name}, torch {torch.__version__}", flush=True)
    with torch.no_grad():
        sums()
        products()
        expressions()


if __name__ == "__main__":
    main()
