#!/usr/bin/env python3
"""tinygrad, unmodified, on the twin: its operations, a product, training, captured graphs, queues.

usage: checks.py [--short] [NAME...]      e.g. checks.py queues graph

Exits with 1 where a result is wrong or a rule of the twin was broken; prints what and the reports. On QCOM the twin is in
another process, which reports by itself.
"""
import sys
import time

import numpy as np
from operations import OPERATIONS, SHORT
from tinygrad import Context, Device, Tensor, TinyJit, nn
from tinygrad.device import Buffer
from tinygrad.dtype import dtypes
from tinygrad.helpers import FLOAT16, IMAGE, ProfileRangeEvent

from tinygrad.runtime.support import hcq  # noqa: F401: it imports the adapter, and must be the first to

QCOM = Device.DEFAULT == "QCOM"
if not QCOM:
    from test.mockgpu import mockgpu  # isort: skip

if Device.DEFAULT == "NV":
    import nvk  # noqa: F401

# Rules that tinygrad breaks, and why its results are right all the same. Everything else fails.
KNOWN = {
    "AQL-KERNARG-ALIGN": "tinygrad packs arguments at 8 bytes where HSA asks for 16; the code asks for 8, and runs",
}

# How far from numpy a result may be, by type: half keeps 11 bits, transcendentals a few units.
CLOSE = {"float16": (1e-2, 2e-3)}


def close(got, want, what, halves=False):
    want = np.asarray(want)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    # Images of halves round what is multiplied; an Adreno multiplies halves as such.
    usual = (2e-2, 5e-2) if IMAGE and FLOAT16 or QCOM and halves else (2e-4, 1e-5)
    relative, absolute = CLOSE.get(str(got.dtype), usual)
    bad = ~np.isclose(got, want, rtol=relative, atol=absolute, equal_nan=True)
    assert not bad.any(), f"{what}: {bad.sum()} of {bad.size} wrong, first at {np.argwhere(bad)[0]}: " \
        f"{got[bad][0]}, expected {want[bad][0]}"


def operations(short):
    names = SHORT if short else list(OPERATIONS)
    if QCOM:
        # It has no double precision, and tinygrad does not round there to bfloat16 what stays in registers.
        names = [name for name in names if not name.startswith(("double", "bfloat16"))]
    if IMAGE:
        # tinygrad's product of images takes no vectors.
        names = [name for name in names if name != "dot"]
    wrong = []
    for name in names:
        inputs, ours, numpy = OPERATIONS[name]
        halves = any(x.dtype == np.float16 for x in inputs)
        try:
            close(ours(*[Tensor(x) for x in inputs]).numpy(), numpy(*inputs), name, halves)
        except Exception as error:  # the others still run
            wrong.append(f"{type(error).__name__}: {error}")
    assert not wrong, "; ".join(wrong)
    return f"{len(names)} operations"


def product(short):
    n = 64 if short else 256
    rng = np.random.default_rng(1)
    for kind in (np.float32, np.float16):
        x, y = (rng.uniform(-1, 1, (n, n)).astype(kind) for _ in range(2))
        got = Tensor(x).matmul(Tensor(y), dtype=dtypes.float32).numpy()
        close(got, x.astype(np.float32) @ y.astype(np.float32), f"{n}x{n} product of {kind.__name__}", kind == np.float16)
    return f"{n}x{n} products"


def training(short):
    """Steps of a small convolutional net on the twin, beside the same steps on tinygrad's CPU."""
    rng = np.random.default_rng(2)
    x, y = rng.uniform(0, 1, (16, 1, 12, 12)).astype(np.float32), rng.integers(0, 10, 16)
    weights = [rng.uniform(-0.3, 0.3, s).astype(np.float32) for s in [(4, 1, 3, 3), (100, 10), (10,)]]

    def losses(device, steps):
        w = [Tensor(v, device=device) for v in weights]
        optimizer = nn.optim.Adam(w, lr=0.02)
        out = []
        with Context(TRAINING=1):
            for _ in range(steps):
                optimizer.zero_grad()
                hidden = Tensor(x, device=device).conv2d(w[0]).relu().max_pool2d(2).flatten(1)
                loss = hidden.linear(w[1], w[2]).sparse_categorical_crossentropy(Tensor(y, device=device))
                loss.backward()
                optimizer.step()
                out.append(loss.item())
        return out

    steps = 2 if short else 6
    got, want = losses(Device.DEFAULT, steps), losses("CPU", steps)
    np.testing.assert_allclose(got, want, rtol=2e-3)
    assert got[-1] < got[0], f"the loss does not fall: {got}"
    return f"{steps} steps of training"


def graph(short):
    """A captured graph, replayed with other inputs."""
    weight = Tensor.rand(32, 32).realize()
    w = weight.numpy()

    @TinyJit
    def step(x):
        return (((x @ weight).relu() + 1).sum(1) * x.max(1)).realize()

    for k in range(4 if short else 12):
        x = np.random.default_rng(k).uniform(-1, 1, (16, 32)).astype(np.float32)
        close(step(Tensor(x)).numpy(), (np.maximum(x @ w, 0) + 1).sum(1) * x.max(1), f"replay {k}")
    return "a captured graph"


def queues(short):
    """What tinygrad's own tests of hardware queues look at."""
    device = Device[Device.DEFAULT]
    kinds = [device.hw_compute_queue_t] + ([device.hw_copy_queue_t] if device.hw_copy_queue_t else [])
    count = 0

    def submit(queue, timeout=10_000):
        nonlocal count
        value = device.next_timeline()
        queue.signal(device.timeline_signal, value).submit(device)
        device.timeline_signal.wait(value, timeout=timeout)
        count += 1

    for kind in kinds:
        submit(kind())
        # A wait that is true already, and one that becomes true while the queue waits.
        signal = device.new_signal(value=1)
        submit(kind().wait(signal, 1))
        late = device.new_signal()
        value = device.next_timeline()
        kind().wait(late, 1).signal(device.timeline_signal, value).submit(device)
        time.sleep(0.05)
        assert device.timeline_signal.value == value - 1, "a queue went on before its signal"
        late.value = 1
        device.timeline_signal.wait(value, timeout=10_000)
        # Time goes on, in both kinds of queue.
        first, second = device.new_signal(), device.new_signal()
        submit(kind().timestamp(first))
        submit(kind().timestamp(second))
        assert second.timestamp > first.timestamp > 0, (first.timestamp, second.timestamp)
        # Many submissions, and one that waits for another queue.
        for _ in range(20 if short else 300):
            submit(kind())
    if len(kinds) == 2:
        signal = device.new_signal()
        kinds[0]().wait(signal, 5).signal(signal, 6).submit(device)
        submit(kinds[1]().signal(signal, 5).wait(signal, 6))
        device.synchronize()
        # Copies of sizes that are not round.
        for size in [1, 3, 4096, 70_001] + ([] if short else [(4 << 20) + 5]):
            a, b = (Buffer(Device.DEFAULT, size, dtypes.uint8).allocate() for _ in range(2))
            data = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8).tobytes()
            a.copy_from(Buffer("PYTHON", size, dtypes.uint8, opaque=memoryview(bytearray(data))))
            device.synchronize()
            submit(kinds[1]().copy(b._buf, a._buf, size))
            assert bytes(b.as_memoryview()) == data, f"a copy of {size} bytes"
    # The timeline starts again when it nears the end of its 32 bits.
    device.synchronize()
    device.timeline_value = (1 << 31) + 1 if hasattr(device, "_shadow_timeline_signal") else device.timeline_value
    device.timeline_signal.value = device.timeline_value - 1
    close((Tensor([1.0, 2.0]) + 1).numpy(), [2, 3], "after the timeline started again")
    return f"{count} submissions"


def profile(short):
    """Times of kernels by the clock of an Adreno, which is kept from sleeping meanwhile."""
    def timer():
        with open("/sys/class/kgsl/kgsl-3d0/idle_timer") as file:
            return file.read().strip()

    device = Device[Device.DEFAULT]
    assert timer() == "4294967276", f"the GPU sleeps after {timer()} ms"
    for _ in range(3):
        close((Tensor([1.0, 2.0]) + 1).numpy(), [2, 3], "a sum")
    device.synchronize()
    ranges = [e for e in device.profile_events if isinstance(e, ProfileRangeEvent) and e.device == Device.DEFAULT]
    assert len(ranges) >= 3 and all(e.st < e.en for e in ranges), ranges
    device._at_profile_finalize()
    assert timer() == "10", f"the GPU sleeps after {timer()} ms"
    return f"{len(ranges)} kernels with times"


CHECKS = {c.__name__: c for c in (operations, product, training, graph, queues)}
# Those of one driver.
OTHERS = {c.__name__: c for c in (profile,)}


def main(arguments):
    short = "--short" in arguments
    names = [a for a in arguments if a != "--short"] or list(CHECKS)
    failed = 0
    for name in names:
        start, before = time.time(), broken()
        try:
            did = {**CHECKS, **OTHERS}[name](short)
        except Exception as error:  # each check is reported, the others still run
            did, failed = f"FAILED: {type(error).__name__}: {error}", failed + 1
        print(f"{name}: {did}, {time.time() - start:.1f} s", flush=True)
        failed += findings(before)
    return failed


def broken():
    return None if QCOM else mockgpu.broken()


def findings(before):
    """Prints the rules that were broken since; how many of them are not known."""
    if QCOM:
        return 0
    reports = [r for r in mockgpu.reports(before).split("\n\n") if r.strip()]
    unknown = [r for r in reports if r.split()[1] not in KNOWN]
    if len(unknown) < len(reports):
        print(f"  and {len(reports) - len(unknown)} times what is known: {', '.join(KNOWN)}")
    for report in unknown:
        print(report + "\n")
    return len(unknown)


if __name__ == "__main__":
    failed = main(sys.argv[1:])
    before = broken()
    if not QCOM:
        mockgpu.detach()
    failed += findings(before)
    sys.stdout.flush()
    # tinygrad's finalizers would talk to a device that is gone.
    __import__("os")._exit(1 if failed else 0)
