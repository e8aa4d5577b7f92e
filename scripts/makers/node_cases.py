"""Writes the node cases of a newer package `onnx`, which makes them instead of shipping them.

usage: node_cases.py FOLDER    (with that package's Python)

The layout is that of the cases that older packages ship: `test_NAME/model.onnx`, `test_data_set_0/input_0.pb`...
"""

import pathlib
import sys

from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_node_model_tests


def written(value, info):
    """A value as the type of its input or output says."""
    if info.type.HasField("map_type"):
        return numpy_helper.from_dict(value, info.name)
    if info.type.HasField("sequence_type"):
        return numpy_helper.from_list(value, info.name)
    if info.type.HasField("optional_type"):
        return numpy_helper.from_optional(value, info.name)
    if isinstance(value, TensorProto):
        return value
    return numpy_helper.from_array(value, info.name)


def make(folder):
    cases = load_node_model_tests()
    for case in cases:
        place = folder / case.name
        place.mkdir(parents=True)
        (place / "model.onnx").write_bytes(case.model.SerializeToString())
        for i, (inputs, outputs) in enumerate(case.data_sets):
            data = place / f"test_data_set_{i}"
            data.mkdir()
            graph = case.model.graph
            for kind, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
                for j, (value, info) in enumerate(zip(values, infos, strict=True)):
                    (data / f"{kind}_{j}.pb").write_bytes(written(value, info).SerializeToString())
    return f"{len(cases)} node cases"


if __name__ == "__main__":
    print(make(pathlib.Path(sys.argv[1])))
