"""Tensor programs by talking to the hardware: lazy tensors, gradients, layers, captured functions, ONNX models.

    >>> import doorbell as db
    >>> x = db.Tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> (x @ x + 1).sum(axis=0).tolist()
    [24.0, 34.0]

The device is the one that the variable DEV names, or the CPU. help(doorbell.Tensor) lists the methods of tensors.
"""

from __future__ import annotations

from . import nn, onnx, optim
from ._errors import (
    CaptureError,
    DeviceError,
    DTypeError,
    Error,
    FileError,
    GradientError,
    KernelError,
    ModelError,
    ModelInputError,
    OutOfMemoryError,
    PlaceError,
    RangeError,
    ShapeError,
    TargetError,
)
from ._jit import jit
from ._native import (
    Device,
    DType,
    Rng,
    Tensor,
    __version__,
    arange,
    asarray,
    bfloat16,
    bool_,
    broadcast_shapes,
    cat,
    commit,
    default_device,
    default_rng,
    dtype,
    einsum,
    eye,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    from_dlpack,
    full,
    gradients,
    int8,
    int16,
    int32,
    int64,
    linspace,
    load_safetensors,
    manual_seed,
    meshgrid,
    ones,
    parameter,
    read_npy,
    realize,
    save_safetensors,
    stack,
    uint8,
    uint16,
    uint32,
    uint64,
    where,
    zeros,
)
from ._scope import no_grad
from ._tools import devices, doctor
from .onnx import InferenceSession, SessionOptions, get_available_providers

tensor = Tensor
array = Tensor
from_numpy = asarray
concatenate = cat

__all__ = [
    "CaptureError", "DType", "DTypeError", "Device", "DeviceError", "Error", "FileError", "GradientError", "InferenceSession",
    "KernelError", "ModelError", "ModelInputError", "OutOfMemoryError", "PlaceError", "RangeError", "Rng", "SessionOptions",
    "ShapeError", "TargetError", "Tensor", "__version__", "arange", "array", "asarray", "bfloat16", "bool_", "broadcast_shapes",
    "cat", "commit", "concatenate", "default_device", "default_rng", "devices", "doctor", "dtype", "einsum", "eye", "float16", "float32", "float64",
    "float8_e4m3fn", "float8_e5m2", "from_dlpack", "from_numpy", "full", "get_available_providers", "gradients", "int16", "int32",
    "int64", "int8", "jit", "linspace", "load_safetensors", "manual_seed", "meshgrid", "nn", "no_grad", "ones", "onnx", "optim", "parameter",
    "read_npy", "realize", "save_safetensors", "stack", "tensor", "uint16", "uint32", "uint64", "uint8", "where", "zeros",
]
