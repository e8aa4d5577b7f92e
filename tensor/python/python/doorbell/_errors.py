"""The exceptions of doorbell. Each says what was expected, what was found, and what to do."""

from __future__ import annotations

import builtins

__all__ = [
    "CaptureError", "DTypeError", "DeviceError", "Error", "FileError", "GradientError", "KernelError", "ModelError", "ModelInputError",
    "OutOfMemoryError", "PlaceError", "RangeError", "ShapeError", "TargetError",
]


class Error(Exception):
    """What all exceptions of doorbell are."""


class ShapeError(Error, ValueError):
    """Shapes that do not fit."""


class DTypeError(Error, TypeError):
    """An element type that the operation does not support."""


class RangeError(Error, IndexError):
    """An index out of range."""


class PlaceError(Error, ValueError):
    """Tensors of different devices in one operation, or memory that a device cannot read."""


class GradientError(Error, RuntimeError):
    """A gradient that is not there, or that nothing can have."""


class CaptureError(Error, RuntimeError):
    """A function that cannot be captured, or a call that does not fit its capture."""


class KernelError(Error, RuntimeError):
    """A kernel could not be compiled or run, or there is no compiler."""


class DeviceError(Error, RuntimeError):
    """The device failed, or broke a rule."""


class TargetError(Error, ValueError):
    """A name of a device, or a variable, that makes no sense."""


class OutOfMemoryError(Error, builtins.MemoryError):
    """Not enough memory."""


class FileError(Error, OSError):
    """A file cannot be read or written."""


class ModelError(Error, RuntimeError):
    """A model that is malformed or not supported, or a node that does not fit its inputs."""


class ModelInputError(ModelError, ValueError):
    """An input of a wrong name, shape or type."""
