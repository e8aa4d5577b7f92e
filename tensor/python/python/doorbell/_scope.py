"""Computation without gradients."""

from __future__ import annotations

import functools
from types import TracebackType
from typing import Callable, TypeVar

from ._native import _no_grad

R = TypeVar("R")


class no_grad:
    """A time without gradients, as `with no_grad():` or as a decorator.

    What is computed in it is constant for gradients, and keeps no graph once it is in memory. It affects only the calling thread.
    """

    def __enter__(self) -> None:
        _no_grad(True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _no_grad(False)

    def __call__(self, function: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(function)
        def without(*args: object, **kwargs: object) -> R:
            with no_grad():
                return function(*args, **kwargs)

        return without
