"""Runs an ONNX model on random inputs, and prints its outputs. The program was written for ONNX Runtime.

    python session.py MODEL.onnx
"""

import sys
from typing import Any

import numpy as np

import doorbell.onnx as ort

KINDS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}


def main(path: str) -> list[Any]:
    """The outputs of the model, with 1 for sizes that it leaves open."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    feeds: dict[str, Any] = {}
    for port in session.get_inputs():
        shape = [size if isinstance(size, int) else 1 for size in port.shape]
        feeds[port.name] = rng.random(shape).astype(KINDS[port.type])
        print(f"input {port.name}: {port.type} {port.shape}")
    names = [port.name for port in session.get_outputs()]
    outputs = session.run(names, feeds)
    for name, output in zip(names, outputs):
        print(f"output {name}: {output.dtype} {output.shape}, mean {output.mean():.4f}")
    return outputs


if __name__ == "__main__":
    main(sys.argv[1])
