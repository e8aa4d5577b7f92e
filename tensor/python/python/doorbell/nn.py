"""Layers, and modules made of them. Names of parameters are PyTorch's, so that its checkpoints load.

    class Net(nn.Module):
        def __init__(self) -> None:
            self.inner = nn.Linear(64, 32)
            self.outer = nn.Linear(32, 10)

        def forward(self, x: Tensor) -> Tensor:
            return self.outer(self.inner(x).relu())

A module needs no call of super().__init__(): what is assigned to its attributes is found there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ._errors import ShapeError
from ._native import DType, Layer, Optimizer, Rng, Tensor, _load, _save, default_device, default_rng, float32, manual_seed

__all__ = [
    "AvgPool2d", "BatchNorm", "BatchNorm1d", "BatchNorm2d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "Dropout",
    "Embedding", "Flatten", "GELU", "GRU", "GroupNorm", "InstanceNorm", "LSTM", "LayerNorm", "Linear", "MaxPool2d", "Module",
    "MultiHeadAttention", "RMSNorm", "ReLU", "Sequential", "Sigmoid", "SiLU", "Tanh", "clip_grad_norm", "load", "manual_seed", "save",
]


def _rng(rng: Rng | None) -> Rng:
    return default_rng() if rng is None else rng


class Module:
    """Something with parameters: attributes that are parameters, modules, or lists, tuples and dicts of such."""

    training: bool = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; calling the module calls it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def _parts(self) -> Iterator[tuple[str, Any]]:
        yield from vars(self).items()

    def named_state(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Parameters and running statistics by name, in a fixed order."""
        for name, part in self._parts():
            yield from _named(f"{prefix}{name}", part)

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Parameters that optimizers may change, by name."""
        return ((name, tensor) for name, tensor in self.named_state() if tensor.requires_grad)

    def parameters(self) -> list[Tensor]:
        """Parameters that optimizers may change."""
        return [tensor for _, tensor in self.named_parameters()]

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and running statistics by name; they are those of the module, not copies."""
        return dict(self.named_state())

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Sets parameters and running statistics to tensors or arrays of their names, in their types."""
        own = self.state_dict()
        missing = sorted(own.keys() - state.keys())
        extra = sorted(state.keys() - own.keys())
        if strict and (missing or extra):
            raise ShapeError(f"load_state_dict: missing {missing}, not in the module {extra}; strict=False ignores both")
        new = {name: Tensor(state[name], dtype=tensor.dtype, device=tensor.device) for name, tensor in own.items() if name in state}
        for name, value in new.items():
            if value.shape != own[name].shape:
                raise ShapeError(f"load_state_dict: {name} is {value.shape} there, and {own[name].shape} here")
        for name, value in new.items():
            own[name].assign(value)

    def modules(self) -> Iterator[Module]:
        """The module, and all in it."""
        yield self
        for _, part in self._parts():
            yield from _modules(part)

    def train(self, mode: bool = True) -> Module:
        """Dropout and batch normalization as in training, from now on."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """Dropout and batch normalization as in use, from now on."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Forgets the gradients of the parameters."""
        for tensor in self.parameters():
            tensor.grad = None

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in self.named_state())
        return f"{type(self).__name__}({shapes})"


def _named(name: str, part: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(part, Tensor):
        if part.is_parameter:
            yield name, part
    elif isinstance(part, Module):
        yield from part.named_state(f"{name}.")
    elif isinstance(part, (list, tuple)):
        for i, item in enumerate(part):
            yield from _named(f"{name}.{i}", item)
    elif isinstance(part, dict):
        for key, item in part.items():
            yield from _named(f"{name}.{key}", item)


def _modules(part: Any) -> Iterator[Module]:
    if isinstance(part, Module):
        yield from part.modules()
    elif isinstance(part, (list, tuple)):
        for item in part:
            yield from _modules(item)
    elif isinstance(part, dict):
        for item in part.values():
            yield from _modules(item)


class _Native(Module):
    """A layer of the engine: its parameters are attributes."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._own = layer.parameters()
        vars(self).update((name, tensor) for name, tensor in self._own if "." not in name)

    def __setattr__(self, name: str, value: Any) -> None:
        if any(name == own for own, _ in vars(self).get("_own", ())):
            raise AttributeError(f"{type(self).__name__}.{name} is the layer's own: {name}.assign(...) sets its value")
        super().__setattr__(name, value)

    def _parts(self) -> Iterator[tuple[str, Any]]:
        yield from self._own

    def forward(self, x: Tensor) -> Tensor:
        """The result for a tensor."""
        return self._layer.forward(x)


class Linear(_Native):
    """`x @ weight.T + bias`, from `[.., in]` to `[.., out]`."""

    weight: Tensor

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *, dtype: DType = float32, rng: Rng | None = None
    ) -> None:
        super().__init__(Layer.linear(_rng(rng), in_features, out_features, bias, dtype))


def _sizes(size: Any, axes: int) -> list[int]:
    return [size] * axes if isinstance(size, int) else list(size)


class _Conv(_Native):
    """A convolution of `[n, c, s..]`."""

    weight: Tensor
    axes = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        dtype: DType = float32,
        rng: Rng | None = None,
    ) -> None:
        kernel = _sizes(kernel_size, self.axes)
        super().__init__(Layer.conv(_rng(rng), in_channels, out_channels, kernel, stride, padding, dilation, groups, bias, dtype))


class Conv1d(_Conv):
    """A convolution of `[n, c, s]`."""

    axes = 1


class Conv2d(_Conv):
    """A convolution of `[n, c, h, w]`."""

    axes = 2


class Conv3d(_Conv):
    """A convolution of `[n, c, d, h, w]`."""

    axes = 3


class _ConvTranspose(_Native):
    """The transpose of a convolution."""

    weight: Tensor
    axes = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        *,
        dtype: DType = float32,
        rng: Rng | None = None,
    ) -> None:
        kernel = _sizes(kernel_size, self.axes)
        super().__init__(
            Layer.conv_transpose(
                _rng(rng), in_channels, out_channels, kernel, stride, padding, output_padding, dilation, groups, bias, dtype
            )
        )


class ConvTranspose1d(_ConvTranspose):
    """The transpose of a convolution of `[n, c, s]`."""

    axes = 1


class ConvTranspose2d(_ConvTranspose):
    """The transpose of a convolution of `[n, c, h, w]`."""

    axes = 2


class Embedding(_Native):
    """A table of vectors, looked up by integers."""

    weight: Tensor

    def __init__(self, num_embeddings: int, embedding_dim: int, *, dtype: DType = float32, rng: Rng | None = None) -> None:
        super().__init__(Layer.embedding(_rng(rng), num_embeddings, embedding_dim, dtype))


class LayerNorm(_Native):
    """Layer normalization over the last axes, which have these sizes."""

    weight: Tensor
    bias: Tensor

    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-5, *, dtype: DType = float32) -> None:
        super().__init__(Layer.layer_norm(normalized_shape, eps, dtype, default_device()))


class RMSNorm(_Native):
    """Normalization by the root of the mean square of the last axis."""

    weight: Tensor

    def __init__(self, width: int, eps: float = 1e-6, *, dtype: DType = float32) -> None:
        super().__init__(Layer.rms_norm(width, eps, dtype, default_device()))


class GroupNorm(_Native):
    """Normalization of groups of channels of `[n, c, s..]`."""

    weight: Tensor
    bias: Tensor

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, *, dtype: DType = float32) -> None:
        super().__init__(Layer.group_norm(num_groups, num_channels, eps, dtype, default_device()))


class InstanceNorm(_Native):
    """Normalization of each channel of `[n, c, s..]`."""

    weight: Tensor
    bias: Tensor

    def __init__(self, num_features: int, eps: float = 1e-5, *, dtype: DType = float32) -> None:
        super().__init__(Layer.instance_norm(num_features, eps, dtype, default_device()))


class BatchNorm(_Native):
    """Batch normalization of `[n, c, s..]`. In training its running statistics are set, and computed by the optimizer's step."""

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, *, dtype: DType = float32) -> None:
        super().__init__(Layer.batch_norm(num_features, eps, momentum, dtype, default_device()))

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return self._layer.forward(x, self.training)


BatchNorm1d = BatchNorm
BatchNorm2d = BatchNorm


class MultiHeadAttention(_Native):
    """Attention with learned projections; `kv_heads` below `heads` shares keys and values among heads."""

    def __init__(
        self, width: int, heads: int, kv_heads: int | None = None, bias: bool = True, *, dtype: DType = float32, rng: Rng | None = None
    ) -> None:
        super().__init__(Layer.attention(_rng(rng), width, heads, kv_heads or heads, bias, dtype))

    def forward(  # type: ignore[override]
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Queries `[.., q, width]` over keys and values `[.., k, width]`."""
        return self._layer.attend(query, key, value, mask, causal)


class _Recurrent(_Native):
    kind = "gru"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        bidirectional: bool = False,
        *,
        dtype: DType = float32,
        rng: Rng | None = None,
    ) -> None:
        super().__init__(
            Layer.recurrent(self.kind, _rng(rng), input_size, hidden_size, num_layers, bias, batch_first, bidirectional, dtype)
        )


class GRU(_Recurrent):
    """Gated recurrent units, as PyTorch has them."""

    kind = "gru"

    def forward(self, x: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """The states of all steps, and the last one."""
        found, last = self._layer.recur(x, None if h is None else [h])
        return found, last[0]


class LSTM(_Recurrent):
    """Long short-term memory, as PyTorch has it."""

    kind = "lstm"

    def forward(  # type: ignore[override]
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The states of all steps, and the last ones."""
        found, last = self._layer.recur(x, None if state is None else list(state))
        return found, (last[0], last[1])


class Dropout(Module):
    """Sets elements to 0 at random in training."""

    def __init__(self, p: float = 0.5, *, rng: Rng | None = None) -> None:
        self.p = p
        self._generator = _rng(rng)

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return self._generator.dropout(x, self.p) if self.training else x


class Sequential(Module):
    """Modules and functions, one after the other."""

    def __init__(self, *layers: Any) -> None:
        self.layers = list(layers)

    def _parts(self) -> Iterator[tuple[str, Any]]:
        for i, layer in enumerate(self.layers):
            yield str(i), layer

    def forward(self, x: Tensor) -> Tensor:
        """The result of the last one."""
        for layer in self.layers:
            x = layer(x)
        return x

    def __getitem__(self, i: int) -> Any:
        return self.layers[i]

    def __len__(self) -> int:
        return len(self.layers)


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.relu()


class GELU(Module):
    """x times the normal distribution function."""

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.gelu()


class SiLU(Module):
    """x sigmoid(x)."""

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.silu()


class Sigmoid(Module):
    """1 / (1 + e^-x)."""

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.sigmoid()


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.tanh()


class Flatten(Module):
    """All axes but the first as one."""

    def forward(self, x: Tensor) -> Tensor:
        """`[n, ..]` to `[n, m]`."""
        return x.flatten(1)


class MaxPool2d(Module):
    """The largest element of each window."""

    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0) -> None:
        self.kernel, self.stride, self.padding = kernel_size, stride, padding

    def forward(self, x: Tensor) -> Tensor:
        """`[n, c, h, w]` to fewer rows and columns."""
        return x.max_pool(self.kernel, self.stride, self.padding)


class AvgPool2d(Module):
    """The mean of each window."""

    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0) -> None:
        self.kernel, self.stride, self.padding = kernel_size, stride, padding

    def forward(self, x: Tensor) -> Tensor:
        """`[n, c, h, w]` to fewer rows and columns."""
        return x.avg_pool(self.kernel, self.stride, self.padding)


def _all(
    module: Module, optimizers: Mapping[str, Optimizer] | None, rngs: Mapping[str, Rng] | None
) -> tuple[list[tuple[str, Tensor]], list[tuple[str, Optimizer]], list[tuple[str, Rng]]]:
    return list(module.named_state()), list((optimizers or {}).items()), list((rngs or {}).items())


def save(
    module: Module,
    path: str | os.PathLike[str],
    optimizers: Mapping[str, Optimizer] | None = None,
    rngs: Mapping[str, Rng] | None = None,
) -> None:
    """Saves a module, and the state of optimizers and generators, into a safetensors file."""
    _save(*_all(module, optimizers, rngs), path)


def load(
    module: Module,
    path: str | os.PathLike[str],
    optimizers: Mapping[str, Optimizer] | None = None,
    rngs: Mapping[str, Rng] | None = None,
) -> None:
    """Sets a module, optimizers and generators to what a file has; a run goes on as if it had not ended."""
    _load(*_all(module, optimizers, rngs), path)


def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Scales the gradients of parameters so that their common norm is at most this, and returns the norm that they had."""
    grads = [(tensor, tensor.grad) for tensor in parameters]
    present = [(tensor, grad) for tensor, grad in grads if grad is not None]
    if not present:
        return Tensor(0.0)
    squares = [grad.square().sum() for _, grad in present]
    norm = squares[0]
    for square in squares[1:]:
        norm = norm + square
    norm = norm.sqrt()
    factor = (max_norm / (norm + 1e-6)).minimum(1.0)
    for tensor, grad in present:
        tensor.grad = grad * factor
    return norm
