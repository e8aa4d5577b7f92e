"""ONNX models with the interface of ONNX Runtime: `import doorbell as ort` or `import doorbell.onnx as ort`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ._errors import ModelInputError
from ._native import Device, Model, Tensor, default_device

__all__ = ["GraphOptimizationLevel", "InferenceSession", "NodeArg", "RunOptions", "SessionOptions", "get_available_providers", "get_device"]


class NodeArg:
    """An input or output of a model."""

    def __init__(self, name: str, shape: list[int | str | None] | None, type: str) -> None:
        self.name = name
        self.shape = [] if shape is None else shape
        self.type = type

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


class GraphOptimizationLevel:
    """Graphs are always optimised; the levels are there for programs that name them."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_ALL = 99


class SessionOptions:
    """Options of ONNX Runtime that programs set. `intra_op_num_threads` is the number of threads of the CPU; the others have no
    effect here."""

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.graph_optimization_level: int = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode = 0
        self.log_severity_level = 2
        self.enable_mem_pattern = True
        self.enable_cpu_mem_arena = True

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Has no effect."""


class RunOptions:
    """Has no options here."""


def get_device() -> str:
    """The name of the usual device."""
    return default_device().name


def get_available_providers() -> list[str]:
    """The names of ONNX Runtime's providers are devices here: there is one, for the usual device."""
    return ["CPUExecutionProvider"] if get_device().startswith("CPU") else ["DoorbellExecutionProvider", "CPUExecutionProvider"]


class InferenceSession:
    """A model on a device.

    The first run with inputs of certain shapes builds and compiles one graph; later ones replay it. Many threads may run one session
    at once. `providers` is taken for the sake of ONNX Runtime's programs: the device is `device`, or the one that DEV names.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        device: Device | str | None = None,
        **kwargs: Any,
    ) -> None:
        if device is None and sess_options is not None and sess_options.intra_op_num_threads > 0:
            device = Device(threads=sess_options.intra_op_num_threads)
        self._model = Model(path_or_bytes, device)
        self._options = sess_options or SessionOptions()

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that must be given."""
        return [NodeArg(*port) for port in self._model.inputs()]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Inputs that the file has a value for."""
        return [NodeArg(*port) for port in self._model.defaults()]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs."""
        return [NodeArg(*port) for port in self._model.outputs()]

    def get_providers(self) -> list[str]:
        """As get_available_providers."""
        return get_available_providers()

    def get_session_options(self) -> SessionOptions:
        """The options that were given."""
        return self._options

    @property
    def device(self) -> Device:
        """The device that it runs on."""
        return self._model.device

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The outputs of these names, or all, as arrays of numpy, for arrays (or tensors) by name."""
        found = self.run_tensors(output_names, input_feed)
        return [_array(value) for value in found]

    def run_tensors(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any]) -> list[Any]:
        """The same with outputs that are tensors and stay on the device."""
        if not isinstance(input_feed, Mapping):
            raise ModelInputError(f"run: expected a dict of inputs by name, found {type(input_feed).__name__}")
        # An empty list is all of them, as in ONNX Runtime.
        return self._model.run(list(output_names) if output_names else None, dict(input_feed))


def _array(value: Any) -> Any:
    """Arrays of their own: programs change what ONNX Runtime returns."""
    if isinstance(value, Tensor):
        return value.numpy(copy=True)
    if isinstance(value, list):
        return [_array(item) for item in value]
    return value
