"""Measures NumPy, tinygrad, ONNX Runtime or OpenVINO and prints one JSON object per row.

    python peers.py numpy|tinygrad [--only REGEX]
    python peers.py onnxruntime|openvino|tinygrad --model NAME     one of cases.py, in this process

Rows have the form of `doorbell bench --json`: name, threads, unit, whether higher or lower is better, and
minimum, median and maximum of the samples; `value` is the median. A row that could not be measured
has `missing` with the reason. OPENBLAS_NUM_THREADS sets the number of BLAS threads; the library reads
it when it is loaded, so each number of threads needs a process.

A model has a process of its own: its rows are the seconds from opening the file to
the first result (without the import of the peer), the milliseconds of each later run, and the peak memory
of the process. tinygrad caches compiled kernels in XDG_CACHE_HOME, which decides whether its first run is
cold; the other peers have no cache, so their first run counts as both.
"""

import argparse
import json
import os
import re
import statistics
import sys
import time

import cases

THREADS = int(os.environ.get("OPENBLAS_NUM_THREADS", "1"))
MB = 1 << 20
# Sampling of a row ends after this many samples or seconds, whichever comes first.
SAMPLES, SECONDS = 25, 1.0
# Maximum number of timed runs of a model.
RUNS = 1000
# Threads of a model: within a node, and between nodes.
WITHIN, BETWEEN = 2, 1


def emit(peer, name, threads, unit, better, values=None, missing=None):
    row = {"peer": peer, "name": name, "threads": threads, "unit": unit, "better": better}
    if values:
        row |= {"min": min(values), "median": statistics.median(values), "max": max(values),
                "value": statistics.median(values), "samples": len(values)}
    else:
        row["missing"] = missing
    print(json.dumps(row), flush=True)


def sample(work, most=SAMPLES):
    """Seconds of each run, after a warm-up run."""
    work()
    times, start = [], time.perf_counter()
    while len(times) < 3 or (len(times) < most and time.perf_counter() - start < SECONDS):
        t = time.perf_counter()
        work()
        times.append(time.perf_counter() - t)
    return times


def measure(peer, name, threads, unit, better, value, prepare):
    """`prepare` returns the work; `value` converts seconds to the value. A failure becomes a row."""
    try:
        values = [value(t) for t in sample(prepare())]
    except Exception as error:  # A failure of this peer must not stop the others.
        missing = f"{type(error).__name__}: {error}".split("\n")[0][:200]
        return emit(peer, name, threads, unit, better, missing=missing)
    emit(peer, name, threads, unit, better, values)


def numpy_rows(wanted):
    import numpy as np

    rng = np.random.default_rng(1)
    for dtype, label in [(np.float32, "f32"), (np.float64, "f64")]:
        for n in (512, 1024, 2048):
            def prepare(n=n, dtype=dtype):
                a, b = (rng.random((n, n)).astype(dtype) - dtype(0.5) for _ in range(2))
                out = np.empty((n, n), dtype)
                return lambda: np.matmul(a, b, out=out)
            name = f"gemm {label} {n}"
            if wanted(name):
                measure("numpy", name, THREADS, "GFLOP/s", "higher",
                        lambda t, n=n: 2 * n ** 3 / t / 1e9, prepare)

    def softmax():
        x = rng.random((16 * 1024, 1024), dtype=np.float32)

        def work():
            y = x - x.max(axis=1, keepdims=True)
            np.exp(y, out=y)
            y /= y.sum(axis=1, keepdims=True)
            return y
        return work

    def layernorm():
        x = rng.random((16 * 1024, 1024), dtype=np.float32)

        def work():
            y = x - x.mean(axis=1, keepdims=True)
            y /= np.sqrt(np.square(y).mean(axis=1, keepdims=True) + np.float32(1e-5))
            return y
        return work

    # NumPy's elementwise loops have one thread, whatever BLAS uses. A row kernel reads and writes
    # every byte once: that is the traffic that is counted.
    if THREADS == 1:
        for name, prepare in [("softmax f32 64MB", softmax), ("layernorm f32 64MB", layernorm)]:
            if wanted(name):
                measure("numpy", name, 1, "GB/s", "higher", lambda t: 2 * 64 * MB / t / 1e9, prepare)

    for size in (64, 512):
        def copy(size=size):
            from concurrent.futures import ThreadPoolExecutor
            a = rng.integers(0, 255, size * MB, dtype=np.uint8)
            b = np.zeros_like(a)
            if THREADS == 1:
                return lambda: np.copyto(b, a)
            pool = ThreadPoolExecutor(THREADS)
            parts = list(zip(np.array_split(b, THREADS), np.array_split(a, THREADS)))
            # copyto of plain bytes releases the interpreter lock.
            return lambda: list(pool.map(lambda p: np.copyto(*p), parts))
        name = f"copy {size}MB"
        if wanted(name):
            measure("numpy", name, THREADS, "GB/s", "higher",
                    lambda t, size=size: size * MB / t / 1e9, copy)


def tinygrad_rows(wanted):
    from tinygrad import Tensor, TinyJit, dtypes

    def gemm(n):
        a, b = Tensor.rand(n, n).realize(), Tensor.rand(n, n).realize()
        step = TinyJit(lambda x, y: (x @ y).realize())
        for _ in range(3):
            step(a, b).numpy()
        return lambda: step(a, b).numpy()

    def replay():
        # Each step waits for the one before and is forced into memory: 100 kernels of 16 numbers.
        def chain(x):
            for _ in range(100):
                x = (x * 1.01 + 0.5).contiguous()
            return x.realize()
        step, x = TinyJit(chain), Tensor.rand(16).realize()
        for _ in range(3):
            step(x).numpy()
        return lambda: step(x).numpy()

    def launch():
        x = Tensor.rand(16).realize()
        for _ in range(3):
            (x + 1.0).realize()
        return lambda: (x + 1.0).realize()

    # 0: it chooses its number of threads, so its rows are compared with any number.
    if wanted("gemm f32 1024"):
        measure("tinygrad", "gemm f32 1024", 0, "GFLOP/s", "higher",
                lambda t: 2 * 1024 ** 3 / t / 1e9, lambda: gemm(1024))
    if wanted("replay 100 kernels"):
        measure("tinygrad", "replay 100 kernels", 0, "us/kernel", "lower",
                lambda t: t / 100 * 1e6, replay)
    if wanted("eager add"):
        measure("tinygrad", "eager add", 0, "us", "lower", lambda t: t * 1e6, launch)


def peak():
    """Peak memory of this process in MB."""
    status = open("/proc/self/status").read()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024 / MB


def model_inputs(specs, dims):
    """Normal numbers for floats; ones for integers, because 1 is a valid index and mask."""
    import numpy as np
    rng = np.random.default_rng(1)
    made = {}
    for name, shape, floating in specs:
        shape = [dims[d] if isinstance(d, str) else d for d in shape]
        made[name] = rng.standard_normal(shape, dtype=np.float32) if floating else np.ones(shape, np.int64)
    return made


def model_feed(name):
    """The inputs stored beside a model, if any."""
    import numpy as np
    path = cases.given(name)
    return dict(np.load(path)) if path else None


def onnxruntime_model(path, dims, given):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = WITHIN, BETWEEN
    options.log_severity_level = 3

    def load():
        run = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        feed = given or model_inputs(
            [(i.name, i.shape, "float" in i.type) for i in run.get_inputs()], dims)
        return lambda: run.run(None, feed)
    return load


def openvino_model(path, dims, given):
    import openvino

    # As the others compute, on as many threads: by itself it takes 16-bit floats where the processor
    # has products of these.
    config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": WITHIN,
              "INFERENCE_PRECISION_HINT": "f32"}

    def load():
        run = openvino.Core().compile_model(str(path), "CPU", config)
        specs = [(i.any_name, [d.get_length() if d.is_static else str(d) for d in i.partial_shape],
                  "float" in str(i.element_type)) for i in run.inputs]
        made = given or model_inputs(specs, dims)
        # The compiler removes unused inputs.
        feed = {i: made[next(n for n in i.names if n in made)] for i in run.inputs}
        request = run.create_infer_request()
        return lambda: request.infer(feed, share_inputs=True, share_outputs=True)
    return load


def tinygrad_model(path, dims, given):
    from tinygrad import Tensor, TinyJit, dtypes
    from tinygrad.nn.onnx import OnnxRunner

    def load():
        run = OnnxRunner(str(path))
        specs = [(name, v.shape, dtypes.is_float(v.dtype)) for name, v in run.graph_inputs.items()]
        feed = {name: Tensor(a).realize() for name, a in (given or model_inputs(specs, dims)).items()}
        step = TinyJit(lambda **x: [run(x)[name].realize() for name in run.graph_outputs])
        return lambda: [y.numpy() for y in step(**feed)]
    return load


def model_rows(peer, name):
    threads = 0 if peer == "tinygrad" else WITHIN
    makers = {"onnxruntime": onnxruntime_model, "openvino": openvino_model, "tinygrad": tinygrad_model}
    try:
        load = makers[peer](*cases.MODELS[name], model_feed(name))
        start = time.perf_counter()
        work = load()
        work()
        first = time.perf_counter() - start
        # The second and third run of a TinyJit still record.
        work()
        work()
        times = sample(work, RUNS)
    except Exception as error:
        # OpenVINO's message starts with a position in its source.
        lines = [line.strip() for line in str(error).split("\n") if line.strip()]
        lines = [line for line in lines if not line.startswith("Exception from")] or lines
        missing = f"{type(error).__name__}: {' '.join(lines)}"[:200]
        return emit(peer, f"{name} {cases.STEADY}", threads, "ms", "lower", missing=missing)
    emit(peer, f"{name} {cases.STEADY}", threads, "ms", "lower", [t * 1e3 for t in times])
    for row in (cases.COLD, cases.WARM):
        emit(peer, f"{name} {row}", threads, "s", "lower", [first])
    emit(peer, f"{name} {cases.MEMORY}", threads, "MB", "lower", [peak()])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=["numpy", "tinygrad", "onnxruntime", "openvino"])
    parser.add_argument("--only", default="")
    parser.add_argument("--model", choices=cases.MODELS)
    args = parser.parse_args()
    if args.model:
        return model_rows(args.peer, args.model)
    if args.peer in ("onnxruntime", "openvino"):
        parser.error(f"{args.peer}: expected --model")
    pattern = re.compile(args.only)
    rows = {"numpy": numpy_rows, "tinygrad": tinygrad_rows}[args.peer]
    try:
        rows(lambda name: pattern.search(name))
    except ImportError as error:
        emit(args.peer, "*", THREADS, "", "higher", missing=f"cannot be imported: {error}")
        sys.exit(0)


if __name__ == "__main__":
    main()
