"""Captured functions."""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable, Generic, TypeVar

from ._native import Device, Jit, Tensor, default_device

R = TypeVar("R")


def _flatten(value: Any, tensors: list[Tensor]) -> Any:
    """Where the tensors of nested tuples, lists and dicts are; other values stay what they are."""
    if isinstance(value, Tensor) and not value.is_parameter:
        tensors.append(value)
        return ("tensor",)
    if isinstance(value, (tuple, list)):
        kind = "list" if isinstance(value, list) else "named" if hasattr(value, "_fields") else "tuple"
        return (kind, tuple(_flatten(item, tensors) for item in value), type(value))
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
    if kind == "named":
        return form[2](*(_rebuilt(item, tensors) for item in form[1]))
    if kind == "list":
        return [_rebuilt(item, tensors) for item in form[1]]
    if kind == "dict":
        return {key: _rebuilt(item, tensors) for key, item in form[1]}
    return form[2]


def _case(tensors: list[Tensor]) -> Any:
    return tuple((tensor.shape, tensor.dtype.name) for tensor in tensors)


def _traced(function: Callable[..., Any], form: Any, forms: dict[Any, Any], tensors: list[Tensor]) -> list[Tensor]:
    """Calls a function, notes the form of its result, and returns the tensors in it."""
    args, kwargs = _rebuilt(form, list(tensors))
    outputs: list[Tensor] = []
    forms[_case(tensors)] = _flatten(function(*args, **kwargs), outputs)
    return outputs


class jit(Generic[R]):
    """A function that is captured: call 1 runs normally, call 2 is recorded, later calls replay the recording.

    There is a recording for each set of shapes and types, and of values that are no tensors (they must be hashable). Parameters
    that the function reads or sets, and generators, are found by it, also among its arguments. All else that it does (printing, counting, reading values of
    tensors) happens at the first two calls only; reading or realizing a tensor is an error at the second one.

    Gradients that backward() makes in it end with the call: take the optimizer's step in it, too.
    """

    def __init__(self, function: Callable[..., R], device: Device | None = None) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._device = device
        self._lock = threading.Lock()
        # What is recorded, with the forms of results by the shapes of inputs.
        self._captured: dict[Any, tuple[Jit, dict[Any, Any]]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        tensors: list[Tensor] = []
        form = _flatten((args, kwargs), tensors)
        device = self._device or (tensors[0].device if tensors else default_device())
        key = (form, device)
        with self._lock:
            known = self._captured.get(key)
            if known is None:
                forms: dict[Any, Any] = {}
                known = (Jit(functools.partial(_traced, self._function, form, forms), device), forms)
                self._captured[key] = known
        captured, forms = known
        found = captured.call(tensors)
        result: R = _rebuilt(forms[_case(tensors)], found)
        return result

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        # A method is recorded for each object, and the recording goes with the object.
        name = f"_doorbell_jit_{id(self)}"
        own = vars(instance).get(name)
        if own is None:
            own = jit(functools.partial(self._function, instance), self._device)
            own = vars(instance).setdefault(name, functools.update_wrapper(own, self._function))
        return own

    @property
    def captures(self) -> int:
        """How many recordings there are."""
        return sum(captured.captures for captured, _ in self._captured.values())
