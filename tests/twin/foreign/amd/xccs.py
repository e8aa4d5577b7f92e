#!/usr/bin/env python3
"""tinygrad 0.11.0, unmodified, on several XCCs by PM4: its last release that drives MI300X that way, with one
queue for each XCC on one ring. Then with one mistake at a time, which the twin must name.

usage: xccs.py NAME       nothing: no mistake; all: nothing, then each mistake in a process of its own
"""
import os
import subprocess
import sys
import tempfile

import headers

# What each mistake takes away, and the rules that may name it.
MISTAKES = {
    "no barrier": "PM4-XCC-RACE PM4-XCC-EARLY",
    "no share": "PM4-XCC-SHARE",
    "one share": "PM4-XCC-SHARE",
    "signal of all": "PM4-XCC-SIGNAL",
    "mask of none": "PM4-PRED-MASK",
    "no release": "CACHE-L2-NOT-WRITTEN-BACK CACHE-L2-HOST-STALE",
    "no acquire": "CACHE-L2-STALE",
    "no buffer": "PM4-PRED-EXEC-RING",
}


def mistake(name):
    import contextlib

    from tinygrad.runtime import ops_amd
    queue = ops_amd.AMDComputeQueue
    release, acquire, pred = queue.release_mem, queue.acquire_mem, queue.pred_exec
    if name == "no barrier":
        queue.xcc_barrier = lambda self: self
    elif name == "no share":
        def nothing(self):
            acquire(self)
            return self
        queue.xcc_config = nothing
    elif name == "one share":
        def config(self):
            self.wreg(self.gc.regCOMPUTE_TG_CHUNK_SIZE, 1)
            self.wreg(self.dev.regCOMPUTE_CURRENT_LOGIC_XCC_ID, 0)
            return self
        queue.xcc_config = config
    elif name == "signal of all":
        signal = queue.signal

        def loud(self, *args, **kwargs):
            queue.pred_exec = lambda self, xcc_mask: pred(self, 0xFF)
            try:
                return signal(self, *args, **kwargs)
            finally:
                queue.pred_exec = pred
        queue.signal = loud
    elif name == "mask of none":
        @contextlib.contextmanager
        def none(self, xcc_mask):
            with pred(self, 0 if xcc_mask == 2 else xcc_mask):
                yield
        queue.pred_exec = none
    elif name == "no release":
        def dirty(self, address=0x0, *args, **kwargs):
            return release(self, address, *args, **{**kwargs, "cache_flush": False})
        queue.release_mem = dirty
        queue.acquire_mem = lambda self, *a, **k: acquire(self, *a, **{**k, "gl2": 0})
    elif name == "no acquire":
        queue.acquire_mem = lambda self, *a, **k: acquire(self, *a, **{**k, "gl2": 0})
    elif name == "no buffer":
        queue._submit = bare


def bare(self, dev):
    ring, commands = dev.compute_queue.ring, self._q
    for i, value in enumerate(commands):
        ring[(dev.compute_queue.put_value + i) % len(ring)] = value
    dev.compute_queue.put_value += len(commands)
    dev.compute_queue.signal_doorbell(dev)


def work():
    import numpy as np
    from tinygrad import Device, Tensor, TinyJit
    rng = np.random.default_rng(1)

    def close(got, want, what):
        assert np.allclose(got, want, rtol=1e-3, atol=1e-4), f"{what}: {got} is not {want}"

    x = rng.uniform(-1, 1, (64, 64)).astype(np.float32)
    for _ in range(3):
        y = (Tensor(x) @ Tensor(x)).relu().contiguous().realize()
        # Every XCC reads what all have written.
        z = (y.flip(0).contiguous().realize() + y.sum(0)).contiguous().realize()
        want = np.maximum(x @ x, 0)
        close(z.numpy(), want[::-1] + want.sum(0), "a chain of kernels")

    @TinyJit
    def step(t):
        return ((t @ t).relu().contiguous().flip(1).sum(1) + t.max(1)).realize()

    for k in range(5):
        t = rng.uniform(-1, 1, (32, 32)).astype(np.float32)
        close(step(Tensor(t)).numpy(), np.maximum(t @ t, 0).sum(1) + t.max(1), f"replay {k}")
    return Device["AMD"].xccs


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "all"
    if name == "all":
        failed = [n for n in ["nothing", *MISTAKES] if subprocess.run([sys.executable, __file__, n]).returncode]
        sys.exit(f"xccs: wrong: {', '.join(failed)}" if failed else 0)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        headers.write(cache)
        from tinygrad.runtime.support import hcq  # noqa: F401: it imports the adapter, and must be the first to
        from test.mockgpu import mockgpu
        hcq.HCQSignal.wait.__defaults__ = (5_000,)
        mistake(name)
        try:
            found = f"{work()} XCCs"
        except Exception as error:  # noqa: BLE001: a mistake may end in anything
            found = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        reports = mockgpu.reports()
        rules = {line.split()[1] for line in reports.splitlines() if line.startswith("rule ")}
        if name == "nothing":
            right = found == "8 XCCs" and not rules
        else:
            right = bool(rules & set(MISTAKES[name].split()))
        print(f"{name}: {found}; {' '.join(sorted(rules)) or 'no rule'}{'' if right else '  WRONG'}", flush=True)
        if not right:
            print(reports[:4000], flush=True)
    # What tinygrad would do at its end needs a twin that is still there.
    os._exit(not right)


if __name__ == "__main__":
    main()
