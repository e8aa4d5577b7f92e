"""What torch takes for what `trial bench` measures, in lines of the same form; then attention, and fused expressions."""

import statistics
import time

import torch

BYTES = 256 << 20


def seconds(call, times=10):
    call()
    torch.cuda.synchronize()
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def row(name, value, unit):
    print(f"{name}: {value:.3f} {unit}", flush=True)


print(torch.cuda.get_device_name(0), "torch", torch.__version__)
for name, dtype in [("f32", torch.float32), ("bf16", torch.bfloat16)]:
    x = torch.rand(BYTES // 4 // 1024, 1024, device="cuda", dtype=dtype)
    size = x.numel() * x.element_size()
    row(f"x + 1 of {name}, one way", size / seconds(lambda: x + 1) / 1e9, "GB/s")
    row(f"sum of rows of {name}", size / seconds(lambda: x.sum(1)) / 1e9, "GB/s")
for side in (4096, 8192):
    a, b = (torch.rand(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    row(f"product of bf16, {side}", 2 * side**3 / seconds(lambda: a @ b) / 1e12, "TFLOP/s")
q, k, v = (torch.rand(4, 16, 4096, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
attention = torch.nn.functional.scaled_dot_product_attention
row("attention of bf16, 4 16 4096 128", 4 * 4 * 16 * 4096**2 * 128 / seconds(lambda: attention(q, k, v)) / 1e12, "TFLOP/s")
