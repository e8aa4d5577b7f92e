"""What the makers share: running a model, and data sets in the layout of the ONNX backend cases."""

import json

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def write_set(folder, inputs, outputs):
    """`inputs` and `outputs` are (name, array) in the order of the model."""
    folder.mkdir(parents=True)
    for kind, values in (("input", inputs), ("output", outputs)):
        for i, (name, array) in enumerate(values):
            # from_array keeps the values in raw_data.
            tensor = numpy_helper.from_array(np.ascontiguousarray(array), name)
            (folder / f"{kind}_{i}.pb").write_bytes(tensor.SerializeToString())


def write_facts(folder, **facts):
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")


def check(path):
    onnx.checker.check_model(str(path), full_check=True)
