"""Captured functions."""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable, Generic, TypeVar

from ._native import Device, Jit, Tensor, default_device

R = TypeVar("R")


def _flatten(value: Any, tensors: list[Tensor]) -> Any:
    """Where the tensors of nested tuples, lists and dicts are; other values stay what they are."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return ("tensor",)
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, tuple(_flatten(item, tensors) for item in value))
    if isinstance(value, dict):
        return ("dict", tuple((key, _flatten(item, tensors)) for key, item in value.items()))
    return ("value", type(value), value)


def _rebuilt(form: Any, tensors: list[Tensor]) -> Any:
    """The way back; takes tensors from the front of the list."""
    kind = form[0]
    if kind == "tensor":
        return tensors.pop(0)
    if kind == "tuple":
        return tuple(_rebuilt(item, tensors) for item in form[1])
    if kind == "list":
        return [_rebuilt(item, tensors) for item in form[1]]
    if kind == "dict":
        return {key: _rebuilt(item, tensors) for key, item in form[1]}
    return form[2]


class jit(Generic[R]):
    """A function that is captured: call 1 runs normally, call 2 is recorded, later calls replay the recording.

    There is a recording for each set of shapes and types, and of values that are no tensors (they must be hashable). Parameters
    that the function reads or sets, and generators, are found by it. All else that it does (printing, counting, reading values of
    tensors) happens at the first two calls only; reading or realizing a tensor is an error at the second one.

    Gradients that backward() makes in it end with the call: take the optimizer's step in it, too.
    """

    def __init__(self, function: Callable[..., R], device: Device | None = None) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._device = device
        self._lock = threading.Lock()
        self._captured: dict[Any, Jit] = {}
        self._forms: dict[Any, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        tensors: list[Tensor] = []
        form = _flatten((args, kwargs), tensors)
        device = self._device or (tensors[0].device if tensors else default_device())
        key = (form, device)
        with self._lock:
            captured = self._captured.get(key)
            if captured is None:
                captured = Jit(functools.partial(self._traced, form, key), device)
                self._captured[key] = captured
        found = captured.call(tensors)
        result: R = _rebuilt(self._forms[self._case(key, tensors)], found)
        return result

    @staticmethod
    def _case(key: Any, tensors: list[Tensor]) -> Any:
        return (key, tuple((tensor.shape, tensor.dtype.name) for tensor in tensors))

    def _traced(self, form: Any, key: Any, tensors: list[Tensor]) -> list[Tensor]:
        args, kwargs = _rebuilt(form, list(tensors))
        outputs: list[Tensor] = []
        result = _flatten(self._function(*args, **kwargs), outputs)
        self._forms[self._case(key, tensors)] = result
        return outputs

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return functools.partial(self, instance)

    @property
    def captures(self) -> int:
        """How many recordings there are."""
        return sum(captured.captures for captured in self._captured.values())
