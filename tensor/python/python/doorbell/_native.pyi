"""Types of the module that the package is made on."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, Union

from typing_extensions import Self

__version__: str

class SupportsDLPack(Protocol):
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

class SupportsArray(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

TensorLike: TypeAlias = Union[Tensor, float, Sequence[Any], SupportsDLPack, SupportsArray]
DTypeLike: TypeAlias = Any  # a DType, a name, float, int, bool, or a type of numpy or torch
Path: TypeAlias = Union[str, os.PathLike[str]]
Number: TypeAlias = Union[int, float, bool]
Place: TypeAlias = Union[Device, str]
Reduction: TypeAlias = Literal["mean", "sum", "none"]
# Tensors have methods of these names.
_int: TypeAlias = int
_float: TypeAlias = float
_bool: TypeAlias = bool
Combined: TypeAlias = Literal["set", "add", "mul", "max", "min"]
Sizes: TypeAlias = Union[int, Sequence[int]]

class DType:
    @property
    def name(self) -> str: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def is_floating_point(self) -> bool: ...

class Device:
    def __new__(
        cls, target: str | None = None, *, threads: int | None = None, profile: bool = False, timeout: float | None = None
    ) -> Device: ...
    @property
    def name(self) -> str: ...
    def info(self) -> dict[str, Any]: ...
    def synchronize(self) -> None: ...
    def take_runs(self) -> list[dict[str, Any]]: ...
    def write_trace(self, path: Path) -> int: ...
    def check_rules(self) -> None: ...

class Rng:
    state: list[int]
    def __new__(cls, seed: int = 0, device: Place | None = None) -> Rng: ...
    def rand(self, *shape: Any, dtype: DTypeLike = None) -> Tensor: ...
    def randn(self, *shape: Any, dtype: DTypeLike = None) -> Tensor: ...
    def uniform(self, shape: Sizes, low: float = 0.0, high: float = 1.0, dtype: DTypeLike = None) -> Tensor: ...
    def normal(self, shape: Sizes, mean: float = 0.0, std: float = 1.0, dtype: DTypeLike = None) -> Tensor: ...
    def randint(self, shape: Sizes, low: int, high: int, dtype: DTypeLike = None) -> Tensor: ...
    def randperm(self, n: int) -> Tensor: ...
    def dropout(self, x: Tensor, p: float) -> Tensor: ...

class Layer:
    @staticmethod
    def linear(rng: Rng, inputs: int, outputs: int, bias: bool, dtype: DTypeLike) -> Layer: ...
    @staticmethod
    def conv(
        rng: Rng, inputs: int, outputs: int, kernel: list[int], stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, bias: bool,
        dtype: DTypeLike,
    ) -> Layer: ...
    @staticmethod
    def conv_transpose(
        rng: Rng, inputs: int, outputs: int, kernel: list[int], stride: Sizes, padding: Sizes, output_padding: Sizes, dilation: Sizes,
        groups: int, bias: bool, dtype: DTypeLike,
    ) -> Layer: ...
    @staticmethod
    def embedding(rng: Rng, entries: int, width: int, dtype: DTypeLike) -> Layer: ...
    @staticmethod
    def layer_norm(shape: Sizes, eps: float, dtype: DTypeLike, device: Place) -> Layer: ...
    @staticmethod
    def group_norm(groups: int, channels: int, eps: float, dtype: DTypeLike, device: Place) -> Layer: ...
    @staticmethod
    def instance_norm(channels: int, eps: float, dtype: DTypeLike, device: Place) -> Layer: ...
    @staticmethod
    def rms_norm(width: int, eps: float, dtype: DTypeLike, device: Place) -> Layer: ...
    @staticmethod
    def batch_norm(channels: int, eps: float, momentum: float, dtype: DTypeLike, device: Place) -> Layer: ...
    @staticmethod
    def attention(rng: Rng, width: int, heads: int, kv_heads: int, bias: bool, dtype: DTypeLike) -> Layer: ...
    @staticmethod
    def recurrent(
        kind: str, rng: Rng, inputs: int, hidden: int, layers: int, bias: bool, batch_first: bool, bidirectional: bool, dtype: DTypeLike
    ) -> Layer: ...
    def parameters(self) -> list[tuple[str, Tensor]]: ...
    def forward(self, x: Tensor, training: bool = False) -> Tensor: ...
    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: TensorLike | None = None, causal: bool = False) -> Tensor: ...
    def recur(self, x: Tensor, first: Sequence[Tensor] | None = None) -> tuple[Tensor, list[Tensor]]: ...

class Optimizer:
    lr: float
    def __new__(
        cls,
        kind: str,
        parameters: Sequence[Tensor],
        lr: float,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> Self: ...
    def step(self) -> None: ...
    def zero_grad(self) -> None: ...
    def minimize(self, loss: Tensor, clip_norm: float | None = None) -> None: ...

class Jit:
    def __new__(cls, function: Any, device: Place) -> Jit: ...
    def call(self, inputs: Sequence[Tensor]) -> list[Tensor]: ...
    @property
    def captures(self) -> int: ...

class Model:
    def __new__(cls, source: Path | bytes, device: Place | None = None) -> Model: ...
    def inputs(self) -> list[tuple[str, list[int | str | None] | None, str]]: ...
    def defaults(self) -> list[tuple[str, list[int | str | None] | None, str]]: ...
    def outputs(self) -> list[tuple[str, list[int | str | None] | None, str]]: ...
    @property
    def device(self) -> Device: ...
    @property
    def captures(self) -> int: ...
    def run(self, names: list[str] | None, feeds: dict[str, Any]) -> list[Any]: ...

float16: DType
float32: DType
float64: DType
bfloat16: DType
float8_e4m3fn: DType
float8_e5m2: DType
bool_: DType
int8: DType
int16: DType
int32: DType
int64: DType
uint8: DType
uint16: DType
uint32: DType
uint64: DType

def _main(args: Sequence[str]) -> int: ...
def stubs() -> str: ...
def dtype(given: DTypeLike) -> DType: ...
def _from_bytes(bytes: bytes, shape: Sequence[int], dtype: DTypeLike, requires_grad: bool | None = None) -> Tensor: ...
def _no_grad(begin: bool) -> None: ...
def _save(
    parameters: list[tuple[str, Tensor]], optimizers: list[tuple[str, Optimizer]], generators: list[tuple[str, Rng]], path: Path
) -> None: ...
def _load(
    parameters: list[tuple[str, Tensor]], optimizers: list[tuple[str, Optimizer]], generators: list[tuple[str, Rng]], path: Path
) -> None: ...
def commit() -> None: ...
def asarray(data: Any, dtype: DTypeLike = None, device: Place | None = None) -> Tensor: ...
def from_dlpack(x: SupportsDLPack, device: Place | None = None) -> Tensor: ...
def parameter(value: TensorLike, requires_grad: bool = True) -> Tensor: ...
def full(shape: Sizes, value: Number, dtype: DTypeLike = None, device: Place | None = None) -> Tensor: ...
def zeros(shape: Sizes, dtype: DTypeLike = None, device: Place | None = None) -> Tensor: ...
def ones(shape: Sizes, dtype: DTypeLike = None, device: Place | None = None) -> Tensor: ...
def arange(
    start: Number, stop: Number | None = None, step: Number | None = None, dtype: DTypeLike = None, device: Place | None = None
) -> Tensor: ...
def linspace(start: float, stop: float, num: int = 50, dtype: DTypeLike = None, device: Place | None = None) -> Tensor: ...
def eye(rows: int, columns: int | None = None, dtype: DTypeLike = None, device: Place | None = None) -> Tensor: ...
def cat(tensors: Sequence[TensorLike], axis: int = 0) -> Tensor: ...
def stack(tensors: Sequence[TensorLike], axis: int = 0) -> Tensor: ...
def einsum(equation: str, *operands: TensorLike) -> Tensor: ...
def meshgrid(*vectors: TensorLike) -> list[Tensor]: ...
def where(condition: TensorLike, a: TensorLike, b: TensorLike) -> Tensor: ...
def broadcast_shapes(*shapes: Sizes) -> list[int]: ...
def gradients(output: Tensor, inputs: Sequence[Tensor], seed: TensorLike | None = None) -> list[Tensor]: ...
def realize(*tensors: Tensor) -> None: ...
def load_safetensors(path: Path, device: Place | None = None) -> dict[str, Tensor]: ...
def save_safetensors(tensors: Mapping[str, Tensor], path: Path) -> None: ...
def read_npy(path: Path, device: Place | None = None) -> Tensor: ...
def default_device() -> Device: ...
def default_rng() -> Rng: ...
def manual_seed(seed: int) -> None: ...

class Tensor:
    grad: Tensor | None
    def __new__(cls, data: Any, dtype: DTypeLike = None, device: Place | None = None, requires_grad: _bool = False) -> Tensor: ...
    @staticmethod
    def zeros(*shape: Any, dtype: DTypeLike = None, device: Place | None = None, requires_grad: _bool = False) -> Tensor: ...
    @staticmethod
    def ones(*shape: Any, dtype: DTypeLike = None, device: Place | None = None, requires_grad: _bool = False) -> Tensor: ...
    @staticmethod
    def eye(
        rows: _int, columns: _int | None = None, dtype: DTypeLike = None, device: Place | None = None, requires_grad: _bool = False
    ) -> Tensor: ...
    @staticmethod
    def rand(*shape: Any, dtype: DTypeLike = None, requires_grad: _bool = False) -> Tensor: ...
    @staticmethod
    def randn(*shape: Any, dtype: DTypeLike = None, requires_grad: _bool = False) -> Tensor: ...
    @property
    def shape(self) -> tuple[_int, ...]: ...
    @property
    def ndim(self) -> _int: ...
    @property
    def size(self) -> _int: ...
    @property
    def nbytes(self) -> _int: ...
    @property
    def itemsize(self) -> _int: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def device(self) -> Device: ...
    @property
    def T(self) -> Tensor: ...
    @property
    def requires_grad(self) -> _bool: ...
    @property
    def is_parameter(self) -> _bool: ...
    @property
    def is_shared(self) -> _bool: ...
    def numel(self) -> _int: ...
    def backward(self, gradient: TensorLike | None = None) -> None: ...
    def assign(self, value: TensorLike) -> None: ...
    def copy_into(self, shared: Tensor) -> None: ...
    def realize(self) -> Tensor: ...
    def numpy(self, copy: _bool = False) -> Any: ...
    def data_ptr(self) -> _int: ...
    def tolist(self) -> Any: ...
    def item(self) -> Any: ...
    def tobytes(self) -> bytes: ...
    def to(self, *args: Any, dtype: DTypeLike = None, device: Place | None = None) -> Tensor: ...
    def astype(self, dtype: DTypeLike) -> Tensor: ...
    def half(self) -> Tensor: ...
    def long(self) -> Tensor: ...
    def float(self) -> Tensor: ...
    def int(self) -> Tensor: ...
    def bool(self) -> Tensor: ...
    def reshape(self, *shape: Any) -> Tensor: ...
    def view(self, *shape: Any) -> Tensor: ...
    def ravel(self) -> Tensor: ...
    def permute(self, *order: Any) -> Tensor: ...
    def transpose(self, *axes: Any) -> Tensor: ...
    def expand(self, *shape: Any) -> Tensor: ...
    def full_like(self, value: Number) -> Tensor: ...
    def write_npy(self, path: Path) -> None: ...
    def __dlpack__(
        self, *, stream: Any = None, max_version: tuple[_int, _int] | None = None, dl_device: tuple[_int, _int] | None = None,
        copy: _bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[_int, _int]: ...
    def __array__(self, dtype: Any = None, copy: _bool | None = None) -> Any: ...
    def __getitem__(self, key: Any) -> Tensor: ...
    def __setitem__(self, key: Any, value: TensorLike) -> None: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __contains__(self, value: Any) -> _bool: ...
    def __len__(self) -> _int: ...
    def __bool__(self) -> _bool: ...
    def __float__(self) -> _float: ...
    def __int__(self) -> _int: ...
    def __index__(self) -> _int: ...
    def __hash__(self) -> _int: ...
    def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __lt__(self, other: TensorLike) -> Tensor: ...
    def __le__(self, other: TensorLike) -> Tensor: ...
    def __gt__(self, other: TensorLike) -> Tensor: ...
    def __ge__(self, other: TensorLike) -> Tensor: ...
    def __add__(self, other: TensorLike) -> Tensor: ...
    def __radd__(self, other: TensorLike) -> Tensor: ...
    def __iadd__(self, other: TensorLike) -> Self: ...
    def __sub__(self, other: TensorLike) -> Tensor: ...
    def __rsub__(self, other: TensorLike) -> Tensor: ...
    def __isub__(self, other: TensorLike) -> Self: ...
    def __mul__(self, other: TensorLike) -> Tensor: ...
    def __rmul__(self, other: TensorLike) -> Tensor: ...
    def __imul__(self, other: TensorLike) -> Self: ...
    def __truediv__(self, other: TensorLike) -> Tensor: ...
    def __rtruediv__(self, other: TensorLike) -> Tensor: ...
    def __itruediv__(self, other: TensorLike) -> Self: ...
    def __floordiv__(self, other: TensorLike) -> Tensor: ...
    def __rfloordiv__(self, other: TensorLike) -> Tensor: ...
    def __ifloordiv__(self, other: TensorLike) -> Self: ...
    def __mod__(self, other: TensorLike) -> Tensor: ...
    def __rmod__(self, other: TensorLike) -> Tensor: ...
    def __imod__(self, other: TensorLike) -> Self: ...
    def __pow__(self, other: TensorLike) -> Tensor: ...
    def __rpow__(self, other: TensorLike) -> Tensor: ...
    def __ipow__(self, other: TensorLike) -> Self: ...
    def __matmul__(self, other: TensorLike) -> Tensor: ...
    def __rmatmul__(self, other: TensorLike) -> Tensor: ...
    def __and__(self, other: TensorLike) -> Tensor: ...
    def __rand__(self, other: TensorLike) -> Tensor: ...
    def __iand__(self, other: TensorLike) -> Self: ...
    def __or__(self, other: TensorLike) -> Tensor: ...
    def __ror__(self, other: TensorLike) -> Tensor: ...
    def __ior__(self, other: TensorLike) -> Self: ...
    def __xor__(self, other: TensorLike) -> Tensor: ...
    def __rxor__(self, other: TensorLike) -> Tensor: ...
    def __ixor__(self, other: TensorLike) -> Self: ...
    def __lshift__(self, other: TensorLike) -> Tensor: ...
    def __rlshift__(self, other: TensorLike) -> Tensor: ...
    def __ilshift__(self, other: TensorLike) -> Self: ...
    def __rshift__(self, other: TensorLike) -> Tensor: ...
    def __rrshift__(self, other: TensorLike) -> Tensor: ...
    def __irshift__(self, other: TensorLike) -> Self: ...
    def __neg__(self) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def argmax(self, axis: _int | None = None, keepdims: _bool = False) -> Tensor: ...
    def argmin(self, axis: _int | None = None, keepdims: _bool = False) -> Tensor: ...
    def conv(
        self, weight: TensorLike, bias: TensorLike | None = None, stride: Sizes | None = None, padding: Sizes | None = None,
        dilation: Sizes | None = None, groups: _int = 1,
    ) -> Tensor: ...
    def conv_transpose(
        self, weight: TensorLike, bias: TensorLike | None = None, stride: Sizes | None = None, padding: Sizes | None = None,
        output_padding: Sizes | None = None, dilation: Sizes | None = None, groups: _int = 1,
    ) -> Tensor: ...
    def max_pool(
        self, kernel: Sizes | None = None, stride: Sizes | None = None, padding: Sizes | None = None, dilation: Sizes | None = None,
        ceil: _bool = False,
    ) -> Tensor: ...
    def max_pool_indices(
        self, kernel: Sizes | None = None, stride: Sizes | None = None, padding: Sizes | None = None, dilation: Sizes | None = None,
        ceil: _bool = False,
    ) -> tuple[Tensor, Tensor]: ...
    def avg_pool(
        self, kernel: Sizes | None = None, stride: Sizes | None = None, padding: Sizes | None = None, dilation: Sizes | None = None,
        ceil: _bool = False, count_padding: _bool = True,
    ) -> Tensor: ...
    def lp_pool(
        self, p: _float, kernel: Sizes | None = None, stride: Sizes | None = None, padding: Sizes | None = None,
        dilation: Sizes | None = None, ceil: _bool = False,
    ) -> Tensor: ...
    def pad(self, amounts: Any, mode: Literal["constant", "reflect", "edge", "wrap"] = "constant", value: Number | None = None) -> Tensor: ...
    def scatter(self, axis: _int, index: TensorLike, source: TensorLike, mode: Combined = "set") -> Tensor: ...
    def scatter_reduce(
        self, axis: _int, index: TensorLike, source: TensorLike, reduce: Literal["add", "mul", "max", "min"], include_self: _bool = True
    ) -> Tensor: ...
    def scatter_nd(self, index: TensorLike, updates: TensorLike, mode: Combined = "set") -> Tensor: ...
    def interpolate(self, size: Sizes, mode: Literal["nearest", "linear", "linear-corners"] = "nearest") -> Tensor: ...
    def attention(
        self, key: TensorLike, value: TensorLike, mask: TensorLike | None = None, causal: _bool = False, scale: _float | None = None,
        softcap: _float | None = None,
    ) -> Tensor: ...
    def nonzero(self) -> Tensor: ...
    def masked_select(self, mask: TensorLike) -> Tensor: ...
    def unique(self) -> tuple[Tensor, Tensor, Tensor]: ...
    def nll_loss(
        self, target: TensorLike, weight: TensorLike | None = None, ignore_index: _int | None = None, reduction: Reduction = "mean"
    ) -> Tensor: ...
    def cross_entropy(
        self, target: TensorLike, weight: TensorLike | None = None, ignore_index: _int | None = None, label_smoothing: _float = 0.0,
        reduction: Reduction = "mean",
    ) -> Tensor: ...
    # Made from the engine's source; `scripts/wheel stubs` writes what follows.
    def zeros_like(self) -> Tensor:
        """Zeros in the shape, type and engine of this tensor.
        
        Errors None today."""
        ...
    def ones_like(self) -> Tensor:
        """Ones in the shape, type and engine of this tensor.
        
        Errors None today."""
        ...
    def positions(self, axis: _int) -> Tensor:
        """The positions along an axis of this tensor's shape, as `I32`.
        
        Errors
        An axis that the tensor lacks."""
        ...
    def tril(self, diagonal: _int = 0) -> Tensor:
        """The lower triangle of the last two axes: elements with `column - row <= diagonal`, else 0.
        
        Errors
        Fewer than two axes."""
        ...
    def triu(self, diagonal: _int = 0) -> Tensor:
        """The upper triangle of the last two axes: elements with `column - row >= diagonal`, else 0.
        
        Errors
        Fewer than two axes."""
        ...
    def relu(self) -> Tensor:
        """max(x, 0); the gradient at 0 is 0."""
        ...
    def relu6(self) -> Tensor:
        """min(max(x, 0), 6); the gradient at 0 and 6 is 0."""
        ...
    def leaky_relu(self, slope: _float = 0.01) -> Tensor:
        """x above zero, `slope * x` below."""
        ...
    def elu(self, alpha: _float = 1.0) -> Tensor:
        """x above zero, `alpha (e^x - 1)` below."""
        ...
    def celu(self, alpha: _float = 1.0) -> Tensor:
        """x above zero, `alpha (e^(x / alpha) - 1)` below."""
        ...
    def selu(self) -> Tensor:
        """The self-normalizing scaled elu."""
        ...
    def thresholded_relu(self, alpha: _float = 1.0) -> Tensor:
        """x above `alpha`, else 0."""
        ...
    def shrinkage(self, lambd: _float = 0.5, bias: _float = 0.0) -> Tensor:
        """`x - bias` above `lambda`, `x + bias` below `-lambda`, else 0."""
        ...
    def gelu(self) -> Tensor:
        """x times the normal distribution function: the complement of the error function has the digits that
        `1 + erf` loses below zero."""
        ...
    def gelu_tanh(self) -> Tensor:
        """The tanh approximation of gelu."""
        ...
    def quick_gelu(self) -> Tensor:
        """x sigmoid(1.702 x)."""
        ...
    def silu(self) -> Tensor:
        """x sigmoid(x), also called swish."""
        ...
    def mish(self) -> Tensor:
        """x tanh(softplus(x))."""
        ...
    def softplus(self, beta: _float = 1.0) -> Tensor:
        """ln(1 + e^(beta x)) / beta, without overflow."""
        ...
    def softsign(self) -> Tensor:
        """x / (1 + |x|)."""
        ...
    def hardsigmoid(self, alpha: _float = 0.16666666666666666, beta: _float = 0.5) -> Tensor:
        """min(max(alpha x + beta, 0), 1); PyTorch has alpha 1/6, ONNX 0.2, both beta 0.5."""
        ...
    def hardswish(self) -> Tensor:
        """x hardsigmoid(x) with alpha 1/6 and beta 0.5."""
        ...
    def hardtanh(self, min: _float = -1.0, max: _float = 1.0) -> Tensor:
        """min(max(x, low), high); the gradient at both is 0."""
        ...
    def prelu(self, slope: TensorLike) -> Tensor:
        """x above zero, `slope * x` below, with a slope per channel; shapes broadcast.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def rotary(self, cos: TensorLike, sin: TensorLike, interleaved: _bool = False) -> Tensor:
        """Rotary position embedding of `[.., positions, width]`: pairs of elements turned by the angles
        whose `cos` and `sin` are `[.., positions, width / 2]`. Pairs are neighbours if `interleaved`,
        else element i with element `i + width / 2`.
        
        Errors
        An odd width; angles that do not broadcast."""
        ...
    def rotary_angles(self, width: _int, base: _float = 10000.0) -> tuple[Tensor, Tensor]:
        """`cos` and `sin` of the rotary angles `position * base^(-2 i / width)`, each
        `[positions, width / 2]` in `f32`; this tensor holds the positions, `[n]`.
        
        Errors
        Not one axis; an odd width, or one above 2^20."""
        ...
    def lt(self, other: TensorLike) -> Tensor:
        """`self < other`, as `bool`."""
        ...
    def le(self, other: TensorLike) -> Tensor:
        """`self <= other`, as `bool`; false with NaN."""
        ...
    def gt(self, other: TensorLike) -> Tensor:
        """`self > other`, as `bool`."""
        ...
    def ge(self, other: TensorLike) -> Tensor:
        """`self >= other`, as `bool`; false with NaN."""
        ...
    def eq(self, other: TensorLike) -> Tensor:
        """`self == other`, as `bool`."""
        ...
    def ne(self, other: TensorLike) -> Tensor:
        """`self != other`, as `bool`; true with NaN."""
        ...
    def maximum(self, other: TensorLike) -> Tensor:
        """Larger of both; NaN propagates.
        
        Errors
        Shapes that do not broadcast; a number above what the type holds."""
        ...
    def minimum(self, other: TensorLike) -> Tensor:
        """Smaller of both; NaN propagates.
        
        Errors
        Shapes that do not broadcast; a number below what the type holds."""
        ...
    def clamp(self, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
        """Limited to `low..=high`; a missing limit does nothing. The gradient is PyTorch's: an element at a limit that is
        a number has none, one at a limit that is a tensor shares it with the limit.
        
        Errors
        Shapes that do not broadcast; a limit that all would become and that does not fit."""
        ...
    def clip(self, min: TensorLike, max: TensorLike) -> Tensor:
        """Limited to `low..=high`, with the gradient of `clamp`.
        
        Errors
        As `clamp`."""
        ...
    def add(self, other: TensorLike) -> Tensor:
        """Sum; `or` for `bool`."""
        ...
    def sub(self, other: TensorLike) -> Tensor:
        """Difference; exclusive or for `bool`."""
        ...
    def mul(self, other: TensorLike) -> Tensor:
        """Product; `and` for `bool`."""
        ...
    def floor_div(self, other: TensorLike) -> Tensor:
        """Integer quotient rounded down; 0 where the divisor is 0."""
        ...
    def trunc_div(self, other: TensorLike) -> Tensor:
        """Integer quotient rounded towards zero; 0 where the divisor is 0."""
        ...
    def fmod(self, other: TensorLike) -> Tensor:
        """Remainder with the sign of the dividend, as C's `fmod`."""
        ...
    def bitand(self, other: TensorLike) -> Tensor:
        """Bitwise and; logical for `bool`."""
        ...
    def bitor(self, other: TensorLike) -> Tensor:
        """Bitwise or; logical for `bool`."""
        ...
    def bitxor(self, other: TensorLike) -> Tensor:
        """Bitwise exclusive or; logical for `bool`."""
        ...
    def shl(self, other: TensorLike) -> Tensor:
        """Shift left; 0 if the count is the width or more."""
        ...
    def shr(self, other: TensorLike) -> Tensor:
        """Shift right, with the sign for signed types."""
        ...
    def neg(self) -> Tensor:
        """Negation; wraps for integers."""
        ...
    def abs(self) -> Tensor:
        """Absolute value."""
        ...
    def reciprocal(self) -> Tensor:
        """1/x."""
        ...
    def sqrt(self) -> Tensor:
        """Square root; NaN below zero."""
        ...
    def exp2(self) -> Tensor:
        """2 to the power x."""
        ...
    def log2(self) -> Tensor:
        """Logarithm to base 2."""
        ...
    def sin(self) -> Tensor:
        """Sine, x in radians."""
        ...
    def trunc(self) -> Tensor:
        """Rounded towards zero; integers stay."""
        ...
    def floor(self) -> Tensor:
        """Rounded down; integers stay."""
        ...
    def ceil(self) -> Tensor:
        """Rounded up; integers stay."""
        ...
    def round(self) -> Tensor:
        """Rounded to the nearest integer, ties to even; integers stay."""
        ...
    def exp(self) -> Tensor:
        """e to the power x."""
        ...
    def expm1(self) -> Tensor:
        """e^x - 1, with all digits near 0."""
        ...
    def log(self) -> Tensor:
        """Natural logarithm."""
        ...
    def log10(self) -> Tensor:
        """Logarithm to base 10."""
        ...
    def log1p(self) -> Tensor:
        """ln(1 + x), with all digits near 0."""
        ...
    def cos(self) -> Tensor:
        """Cosine, x in radians."""
        ...
    def tan(self) -> Tensor:
        """Tangent, x in radians."""
        ...
    def asin(self) -> Tensor:
        """Inverse sine, in radians; NaN outside of -1..=1."""
        ...
    def acos(self) -> Tensor:
        """Inverse cosine, in radians; NaN outside of -1..=1."""
        ...
    def atan(self) -> Tensor:
        """Inverse tangent, in radians."""
        ...
    def sinh(self) -> Tensor:
        """Hyperbolic sine."""
        ...
    def cosh(self) -> Tensor:
        """Hyperbolic cosine."""
        ...
    def tanh(self) -> Tensor:
        """Hyperbolic tangent."""
        ...
    def asinh(self) -> Tensor:
        """Inverse hyperbolic sine."""
        ...
    def acosh(self) -> Tensor:
        """Inverse hyperbolic cosine; NaN below 1."""
        ...
    def atanh(self) -> Tensor:
        """Inverse hyperbolic tangent; NaN outside of -1..=1."""
        ...
    def erf(self) -> Tensor:
        """The error function."""
        ...
    def erfc(self) -> Tensor:
        """1 - erf(x), with all digits where it is small."""
        ...
    def exp10(self) -> Tensor:
        """10 to the power x, as 2^n e^r: n is the integer near x / log10 2, and r little enough that rounding it
        does not count."""
        ...
    def rsqrt(self) -> Tensor:
        """1 over the square root."""
        ...
    def sigmoid(self) -> Tensor:
        """1 / (1 + e^-x). Made of e = e^-|x|, so neither the value nor the gradient overflows. The quotient
        s = e / (1 + e) is that of a negative x, but 1 + e is rounded, which counts double where e is just above a
        power of two and s just below. In e - e s, which is the same, it counts s times; 1 - s is that of -x."""
        ...
    def logsigmoid(self) -> Tensor:
        """ln sigmoid(x)."""
        ...
    def to_float(self) -> Tensor:
        """Integers and booleans as `f32`, floats as they are.
        
        Errors None today."""
        ...
    def div(self, other: TensorLike) -> Tensor:
        """True quotient: integers and booleans divide as `f32`.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def modulo(self, other: TensorLike) -> Tensor:
        """Remainder with the sign of the divisor, as Python's `%`. That of an integer by 0 is 0.
        
        Errors
        Shapes that do not broadcast; `bool`."""
        ...
    def pow(self, other: TensorLike) -> Tensor:
        """a to the power b. Floats as C's `pow`; integers by multiplication, which wraps. An integer to a
        negative power is rounded towards zero: 1 and -1 have powers, others (and 0) give 0.
        
        Errors
        Shapes that do not broadcast; `bool`."""
        ...
    def square(self) -> Tensor:
        """x * x.
        
        Errors None today."""
        ...
    def sign(self) -> Tensor:
        """-1, 0 or 1 with the sign of x; NaN and zeros stay.
        
        Errors
        `bool`."""
        ...
    def copysign(self, other: TensorLike) -> Tensor:
        """The magnitude of this tensor with the sign of `other` (also of -0).
        
        Errors
        Shapes that do not broadcast."""
        ...
    def logaddexp(self, other: TensorLike) -> Tensor:
        """ln(e^a + e^b), without overflow: the larger plus `ln(1 + e^-|a - b|)`, rounded in units of the larger of
        these.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def lerp(self, end: TensorLike, weight: TensorLike) -> Tensor:
        """`self + (end - self) * weight`.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def isnan(self) -> Tensor:
        """Where the value is NaN, as `bool`.
        
        Errors None today."""
        ...
    def isinf(self) -> Tensor:
        """Where the value is infinite, as `bool`.
        
        Errors None today."""
        ...
    def isfinite(self) -> Tensor:
        """Where the value is neither NaN nor infinite, as `bool`.
        
        Errors None today."""
        ...
    def isclose(self, other: TensorLike, rtol: _float = 1e-5, atol: _float = 1e-8, equal_nan: _bool = False) -> Tensor:
        """Where `|a - b| <= atol + rtol * |b|`, or both are the same infinity, or both are NaN if
        `equal_nan`.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def allclose(self, other: TensorLike, rtol: _float = 1e-5, atol: _float = 1e-8) -> Tensor:
        """Whether all elements are close, see `isclose`; a tensor without axes.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def where(self, a: TensorLike, b: TensorLike) -> Tensor:
        """`self ? a : b`, broadcast and promoted; `self` is true where it is not 0.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def masked_fill(self, mask: TensorLike, value: TensorLike) -> Tensor:
        """`value` where the mask is true, this tensor elsewhere; keeps the type.
        
        Errors
        Shapes that do not broadcast; a number that does not fit."""
        ...
    def logical_not(self) -> Tensor:
        """True where the value is 0, as `bool`.
        
        Errors None today."""
        ...
    def logical_and(self, other: TensorLike) -> Tensor:
        """True where both are not 0, as `bool`.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def logical_or(self, other: TensorLike) -> Tensor:
        """True where one is not 0, as `bool`.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def logical_xor(self, other: TensorLike) -> Tensor:
        """True where exactly one is not 0, as `bool`.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def depth_to_space(self, r: _int, block_first: _bool = True) -> Tensor:
        """Blocks of channels moved into space, 2-D: `[n, c * r * r, h, w]` gives `[n, c, h * r, w * r]`
        (also called pixel shuffle). With `block_first` the channel is the fastest of the three parts
        of the channel axis, else the slowest.
        
        Errors
        Channels that `r * r` does not divide."""
        ...
    def space_to_depth(self, r: _int, block_first: _bool = True) -> Tensor:
        """Blocks of space moved into channels, 2-D: `[n, c, h * r, w * r]` gives
        `[n, r * r * c, h, w]`, with the channel as the fastest part of the channel axis if
        `block_first`, else the slowest.
        
        Errors
        Sizes that `r` does not divide."""
        ...
    def index_select(self, axis: _int, index: TensorLike) -> Tensor:
        """Slices of an axis at `index`, an integer tensor of any shape, which takes the place of the
        axis in the result.
        
        Errors
        An axis that the tensor lacks; a non-integer index, or known to be out of range."""
        ...
    def take(self, index: TensorLike) -> Tensor:
        """Elements of the flattened tensor at `index`; the result has the shape of `index`.
        
        Errors
        A non-integer index, or known to be out of range."""
        ...
    def embedding(self, index: TensorLike) -> Tensor:
        """Rows of this table `[entries, width]` at `index`: shape of `index`, then `width`.
        
        Errors
        Not two axes; a non-integer index, or known to be out of range."""
        ...
    def scatter_add(self, axis: _int, index: TensorLike, source: TensorLike) -> Tensor:
        """This tensor with `source` added at `index` along an axis, in row-major order of the source.
        
        Errors
        As `scatter`."""
        ...
    def index_add(self, axis: _int, index: TensorLike, source: TensorLike) -> Tensor:
        """This tensor with the slices of `source` added to its own at `index`, a vector, along an axis: the reverse of
        `index_select`.
        
        Errors
        An index that is no vector of integers; a source of another shape than the slices; as `scatter`."""
        ...
    def scatter_mean(self, axis: _int, index: TensorLike, source: TensorLike, include_self: _bool = True) -> Tensor:
        """The mean of this tensor's element (if `include_self`) and of what `source` puts there.
        
        Errors
        As `scatter`."""
        ...
    def one_hot(self, classes: _int, dtype: DTypeLike) -> Tensor:
        """1 where the position along a new last axis of `classes` equals the value, else 0. Negative
        values match nothing.
        
        Errors
        A tensor that holds no integers."""
        ...
    def gather_nd(self, index: TensorLike, batch: _int = 0) -> Tensor:
        """Elements or slices at coordinates: the last axis of `index` holds coordinates of the axes
        after the first `batch`, which both share.
        
        Errors
        More coordinates than axes; batches that differ; coordinates known to be out of range."""
        ...
    def matmul(self, other: TensorLike) -> Tensor:
        """The product of matrices: `[.., m, k]` by `[.., k, n]` gives `[.., m, n]`, with the leading
        axes broadcast. A vector on the left is a row, on the right a column, and the axis goes away
        again. Types promote; narrow floats are multiplied and summed in `f32` and rounded once.
        
        Errors
        Operands without axes; inner sizes that differ; leading axes that do not broadcast."""
        ...
    def matmul_in(self, other: TensorLike, dtype: DTypeLike) -> Tensor:
        """`matmul` in a chosen type: operands are cast to it, and the result stays in it.
        
        Errors
        As `matmul`."""
        ...
    def dot(self, other: TensorLike) -> Tensor:
        """Another name of `matmul`.
        
        Errors
        As `matmul`."""
        ...
    def linear(self, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
        """`self` by the transposed weight `[out, in]`, plus the bias `[out]`.
        
        Errors
        As `matmul`."""
        ...
    def outer(self, other: TensorLike) -> Tensor:
        """The outer product of two vectors, `[n, m]`.
        
        Errors
        Operands with other than one axis."""
        ...
    def det(self) -> Tensor:
        """The determinant of square matrices `[.., n, n]`, by elimination with the largest pivot of each
        column; in at least `f32`.
        
        Errors
        Matrices that are not square, or of more than 256 rows: each row is a step of the graph."""
        ...
    def sparse_categorical_crossentropy(self, target: TensorLike) -> Tensor:
        """Cross entropy of logits whose classes are the last axis; targets are integers.
        
        Errors
        Incompatible shapes."""
        ...
    def binary_cross_entropy(self, target: TensorLike, reduction: Reduction = "mean") -> Tensor:
        """Binary cross entropy of probabilities; logarithms are limited to -100.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def binary_cross_entropy_logits(self, target: TensorLike, positive: TensorLike | None = None, reduction: Reduction = "mean") -> Tensor:
        """Binary cross entropy of logits, with a factor for the positive class if given.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def mse_loss(self, target: TensorLike, reduction: Reduction = "mean") -> Tensor:
        """Mean squared error.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def l1_loss(self, target: TensorLike, reduction: Reduction = "mean") -> Tensor:
        """Mean absolute error.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def huber_loss(self, target: TensorLike, delta: _float = 1.0, reduction: Reduction = "mean") -> Tensor:
        """Half the squared error up to `delta`, linear beyond.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def smooth_l1_loss(self, target: TensorLike, beta: _float = 1.0, reduction: Reduction = "mean") -> Tensor:
        """Half the squared error over `beta` up to `beta`, linear with slope 1 beyond: `huber_loss` over `beta`, and
        with a `beta` of 0 `l1_loss`.
        
        Errors
        Shapes that do not broadcast; a `beta` that is negative or NaN."""
        ...
    def kl_div(self, target: TensorLike, reduction: Reduction = "mean") -> Tensor:
        """Kullback-Leibler divergence of log-probabilities from target probabilities: `t (ln t - x)`,
        0 where t is 0.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def t(self) -> Tensor:
        """The last two axes exchanged.
        
        Errors
        Fewer than two axes."""
        ...
    def move_axis(self, source: _int, destination: _int) -> Tensor:
        """An axis moved to another place; the others keep their order.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def flip(self, axis: _int | Sequence[_int] | None = None) -> Tensor:
        """The axes reversed; none given means all.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def squeeze(self, axis: _int | Sequence[_int] | None = None) -> Tensor:
        """Axes of size 1 removed; none given means all of them. Named axes of other sizes stay.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def unsqueeze(self, axis: _int) -> Tensor:
        """A new axis of size 1 that becomes axis `at` of the result.
        
        Errors
        A place beyond the end."""
        ...
    def flatten(self, first: _int = 0, last: _int = -1) -> Tensor:
        """Axes `first..=last` as one.
        
        Errors
        Axes that the tensor lacks, or in the wrong order."""
        ...
    def unflatten(self, axis: _int, sizes: _int | Sequence[_int] | None) -> Tensor:
        """One axis split into several, one of which may be -1.
        
        Errors
        An axis that the tensor lacks; sizes that do not multiply to its size."""
        ...
    def narrow(self, axis: _int, start: _int, len: _int) -> Tensor:
        """`start..start + len` of an axis.
        
        Errors
        A part that does not lie within the axis."""
        ...
    def split(self, sizes: _int | Sequence[_int], axis: _int) -> list[Tensor]:
        """The axis cut into parts of the given sizes.
        
        Errors
        Sizes whose sum is not that of the axis."""
        ...
    def chunk(self, count: _int, axis: _int) -> list[Tensor]:
        """The axis cut into at most `count` parts of one size, the last of which may be shorter.
        
        Errors
        No parts."""
        ...
    def repeat(self, times: _int | Sequence[_int]) -> Tensor:
        """The whole tensor repeated `times[i]` times along axis i; leading axes are added as needed.
        
        Errors
        Fewer numbers than axes."""
        ...
    def repeat_interleave(self, times: _int, axis: _int) -> Tensor:
        """Each element of an axis repeated in place.
        
        Errors
        An axis that the tensor lacks."""
        ...
    def roll(self, amount: _int, axis: _int) -> Tensor:
        """Elements shifted by `amount` along an axis, those that leave re-enter at the other end.
        
        Errors
        An axis that the tensor lacks."""
        ...
    def unfold(self, axis: _int, size: _int, step: _int) -> Tensor:
        """The windows of `size` elements every `step` along an axis, as a new last axis.
        
        Errors
        A window longer than the axis; a zero size or step."""
        ...
    def diag(self) -> Tensor:
        """A vector as the diagonal of a square matrix `[n, n]`.
        
        Errors
        Not one axis."""
        ...
    def diagonal(self, a: _int = 0, b: _int = 1) -> Tensor:
        """The elements with equal positions in two axes, as a new last axis of the shorter size.
        
        Errors
        One axis twice; axes that the tensor lacks."""
        ...
    def slice_assign(self, lo: _int | Sequence[_int], part: TensorLike) -> Tensor:
        """This tensor with the part that starts at `lo` replaced by `part`.
        
        Errors
        A part that does not lie within the tensor; types that differ."""
        ...
    def standardize(self, axis: _int | Sequence[_int] | None = None, eps: _float = 1e-5) -> Tensor:
        """Mean 0 and variance 1 over axes: `(x - mean) / sqrt(var + eps)`.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def layer_norm(self, axes: _int = 1, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: _float = 1e-5) -> Tensor:
        """Layer normalization over the last `axes` axes; weight and bias have their shape.
        
        Errors
        More axes than there are; a weight or bias that does not broadcast."""
        ...
    def rms_norm(self, weight: TensorLike | None = None, eps: _float = 1e-6) -> Tensor:
        """Root mean square normalization over the last axis: `x / sqrt(mean(x^2) + eps) * weight`.
        
        Errors
        No axes; a weight that does not broadcast."""
        ...
    def group_norm(self, groups: _int, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: _float = 1e-5) -> Tensor:
        """Normalization of `[n, c, s..]` over groups of channels and all of `s..`; weight and bias are
        `[c]`.
        
        Errors
        Groups that do not divide the channels."""
        ...
    def instance_norm(self, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: _float = 1e-5) -> Tensor:
        """Normalization of each channel of each sample of `[n, c, s..]`.
        
        Errors
        Fewer than two axes; weight or bias not `[c]`."""
        ...
    def batch_norm(self, mean: TensorLike, var: TensorLike, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: _float = 1e-5) -> Tensor:
        """`(x - mean) / sqrt(var + eps) * weight + bias` with one value each per channel (axis 1).
        
        Errors
        Vectors that are not `[c]`."""
        ...
    def local_response_norm(self, size: _int, alpha: _float = 1e-4, beta: _float = 0.75, k: _float = 1.0) -> Tensor:
        """Local response normalization across `size` neighbouring channels:
        `x / (k + alpha / size * sum of x^2) ^ beta`.
        
        Errors
        Fewer than two axes; a zero size."""
        ...
    def atan2(self, x: TensorLike) -> Tensor:
        """The angle of the points `(x, self)` in radians, from -π to π, with the signs of zeros as C's `atan2`. Its gradient
        is 0 at the origin.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def hypot(self, other: TensorLike) -> Tensor:
        """The distance of the points `(self, other)` from the origin, `sqrt(a^2 + b^2)`, without overflow on the way. It is
        infinite where one of them is. Its gradient is `self / length` and
        `other / length`, and 0 at the origin and at infinite lengths.
        
        Errors
        Shapes that do not broadcast."""
        ...
    def max_unpool(self, indices: TensorLike, spatial_shape: _int | Sequence[_int]) -> Tensor:
        """The inverse of `max_pool_indices`: elements at their positions in planes of shape
        `spatial_shape`, zeros elsewhere.
        
        Errors
        Indices of another shape or no integers."""
        ...
    def adaptive_avg_pool(self, sizes: _int | Sequence[_int]) -> Tensor:
        """The means of windows that divide each spatial axis into as many parts as `sizes` says, as evenly as they can: part
        i of an axis is from `floor(i len / size)` to `ceil((i + 1) len / size)`. `[n, c, s..]` to `[n, c, sizes..]`.
        
        Errors
        Another number of sizes than spatial axes; a spatial axis without elements."""
        ...
    def global_avg_pool(self) -> Tensor:
        """The mean over all spatial axes, which stay with size 1.
        
        Errors
        No spatial axes."""
        ...
    def global_max_pool(self) -> Tensor:
        """The largest element over all spatial axes, which stay with size 1.
        
        Errors
        No spatial axes."""
        ...
    def select(self, a: TensorLike, b: TensorLike) -> Tensor:
        """`self ? a : b`, all of one shape; `self` is `bool`, `a` and `b` of one type.
        
        Errors
        Shapes or types that differ."""
        ...
    def cast(self, dtype: DTypeLike) -> Tensor:
        """Conversion by value; the laws are those of `codegen::ir::op`.
        
        Errors
        A shape that exceeds the address space."""
        ...
    def bitcast(self, dtype: DTypeLike) -> Tensor:
        """The same bits as another type of the same width. No gradient goes through.
        
        Errors
        Widths that differ, or a cast to or from `bool`."""
        ...
    def shrink(self, lo: _int | Sequence[_int], shape: _int | Sequence[_int]) -> Tensor:
        """The part that starts at `lo` and has `shape`.
        
        Errors
        Ranks that differ, or a part that does not lie within the tensor."""
        ...
    def reverse(self, axes: _int | Sequence[_int]) -> Tensor:
        """These axes reversed (ascending, no repeats).
        
        Errors
        Axes that the tensor lacks."""
        ...
    def windows(self, axis: _int, size: _int, stride: _int, dilation: _int) -> Tensor:
        """The windows along `axis` as a new last axis of `size`, see `Op::Windows`.
        
        Errors
        A zero size, stride or dilation; a window longer than the axis."""
        ...
    def gather(self, axis: _int, index: TensorLike) -> Tensor:
        """The elements that `index` names along an axis; the result has the shape of `index`, see
        `Op::Gather`.
        
        Errors
        A non-integer index, of another rank, or larger than the tensor elsewhere; one with values known to the host
        that are out of range (see `crate::ops::index`)."""
        ...
    def contiguous(self) -> Tensor:
        """The same value, forced into memory of its own.
        
        Errors None today."""
        ...
    def detach(self) -> Tensor:
        """The same value without gradient. For a realized tensor it keeps no graph. A lazy one is recomputed from its
        whole graph, so `realize` loop-carried state, or keep it in a `Parameter`(crate::Parameter).
        
        Errors None today."""
        ...
    def sum(self, axis: _int | Sequence[_int] | None = None, keepdims: _bool = False) -> Tensor:
        """Sum over axes; booleans and integers give `I64` (`U64` of `U64`), see `sum_in`.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def prod(self, axis: _int | Sequence[_int] | None = None, keepdims: _bool = False) -> Tensor:
        """Product over axes, in the type of `sum`.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def max(self, axis: _int | Sequence[_int] | None = None, keepdims: _bool = False) -> Tensor:
        """Largest element over axes; NaN propagates. The gradient is split evenly among equals.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def min(self, axis: _int | Sequence[_int] | None = None, keepdims: _bool = False) -> Tensor:
        """Smallest element over axes; NaN propagates. The gradient is split evenly among equals.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def any(self, axis: _int | Sequence[_int] | None = None, keepdims: _bool = False) -> Tensor:
        """Whether any element over axes is not 0, as `bool`.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def all(self, axis: _int | Sequence[_int] | None = None, keepdims: _bool = False) -> Tensor:
        """Whether all elements over axes are not 0, as `bool`.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def mean(self, axis: _int | Sequence[_int] | None = None, keepdims: _bool = False) -> Tensor:
        """Mean over axes, as a float (`f32` of integers, of which all digits count); NaN over nothing.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def nansum(self, axis: _int | Sequence[_int] | None = None, keepdims: _bool = False) -> Tensor:
        """`sum` of the elements that are not NaN.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def nanmean(self, axis: _int | Sequence[_int] | None = None, keepdims: _bool = False) -> Tensor:
        """`mean` of the elements that are not NaN; NaN if there are none.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def var(self, axis: _int | Sequence[_int] | None = None, correction: _float = 0.0, keepdims: _bool = False) -> Tensor:
        """Variance over axes, divided by `n - correction` (1 for the unbiased estimate).
        
        Errors
        Axes that the tensor lacks."""
        ...
    def std(self, axis: _int | Sequence[_int] | None = None, correction: _float = 0.0, keepdims: _bool = False) -> Tensor:
        """Standard deviation over axes, see `var`.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def var_mean(self, axis: _int | Sequence[_int] | None = None, correction: _float = 0.0, keepdims: _bool = False) -> tuple[Tensor, Tensor]:
        """Variance and mean over axes.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def std_mean(self, axis: _int | Sequence[_int] | None = None, correction: _float = 0.0, keepdims: _bool = False) -> tuple[Tensor, Tensor]:
        """Standard deviation and mean over axes.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def norm(self, p: _float = 2.0, axis: _int | Sequence[_int] | None = None, keepdims: _bool = False) -> Tensor:
        """The `p`-norm over axes: the `p`-th root of the sum of `|x|^p`; p may be infinite, and 0 counts
        elements that are not 0. Where it is 0, so is its gradient.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def normalize(self, p: _float = 2.0, axis: _int = -1, eps: _float = 1e-12) -> Tensor:
        """Divided by the `p`-norm along an axis, or by `eps` if that is larger.
        
        Errors
        An axis that the tensor lacks."""
        ...
    def logsumexp(self, axis: _int | Sequence[_int] | None = None, keepdims: _bool = False) -> Tensor:
        """ln of the sum of e^x over axes, without overflow.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def softmax(self, axis: _int = -1) -> Tensor:
        """e^x divided by its sum along an axis.
        
        Errors
        An axis that the tensor lacks."""
        ...
    def softmin(self, axis: _int = -1) -> Tensor:
        """Softmax of the negated tensor.
        
        Errors
        An axis that the tensor lacks."""
        ...
    def log_softmax(self, axis: _int = -1) -> Tensor:
        """ln softmax, without the loss of small probabilities.
        
        Errors
        An axis that the tensor lacks."""
        ...
    def hardmax(self, axis: _int = -1) -> Tensor:
        """1 at the first largest element along an axis, 0 elsewhere.
        
        Errors
        An axis that the tensor lacks, or that is empty."""
        ...
    def count_nonzero(self, axis: _int | Sequence[_int] | None = None, keepdims: _bool = False) -> Tensor:
        """Number of elements that are not 0 over axes, as `I64`.
        
        Errors
        Axes that the tensor lacks."""
        ...
    def cumsum(self, axis: _int) -> Tensor:
        """Running sum along an axis, in the type of `sum`.
        
        Errors
        An axis that the tensor lacks."""
        ...
    def cumprod(self, axis: _int) -> Tensor:
        """Running product along an axis, in the type of `sum`. Its gradient takes as many passes over the
        axis as the number of its elements has bits.
        
        Errors
        An axis that the tensor lacks."""
        ...
    def cummax(self, axis: _int) -> Tensor:
        """Running maximum along an axis. The gradient goes to the latest of equals.
        
        Errors
        An axis that the tensor lacks."""
        ...
    def cummin(self, axis: _int) -> Tensor:
        """Running minimum along an axis. The gradient goes to the latest of equals.
        
        Errors
        An axis that the tensor lacks."""
        ...
    def logcumsumexp(self, axis: _int) -> Tensor:
        """ln of the running sum of e^x along an axis, without overflow.
        
        Errors
        An axis that the tensor lacks; more than 2^15 elements along it, because every pair is computed."""
        ...
    def sum_in(self, dtype: DTypeLike, axis: _int | Sequence[_int] | None = None, keepdims: _bool = False) -> Tensor:
        """Sum over axes in a chosen type: elements are cast first, and the sum stays in it.
        
        Errors
        Axes that the tensor lacks; `bool`."""
        ...
    def solve(self, b: TensorLike) -> Tensor:
        """The solutions `x` of `self x = b`, for `self` `[.., n, n]` and `b` `[.., n, m]`, by elimination with the
        largest pivot of each column. Singular matrices give infinities or NaN.
        
        Errors
        Other shapes."""
        ...
    def inv(self) -> Tensor:
        """The inverses of matrices `[.., n, n]`. To solve equations use `solve`, which is more accurate.
        
        Errors
        Matrices that are not square."""
        ...
    def cholesky(self) -> Tensor:
        """The lower triangle `l` of `self = l l^T`, for symmetric positive definite matrices `[.., n, n]`: the mean of the
        matrix and its transpose is taken. Other matrices, also singular ones, give NaN from the first column on whose
        pivot is not above 0.
        
        Errors
        Matrices that are not square."""
        ...
    def solve_triangular(self, b: TensorLike, upper: _bool = True) -> Tensor:
        """The solutions `x` of `self x = b` for triangular matrices `[.., n, n]`; the other triangle is not read.
        
        Errors
        Other shapes than those of `solve`."""
        ...
    def ranks(self, axis: _int = -1, descending: _bool = False) -> Tensor:
        """The place of each element in the sorted order along an axis, as `I32`.
        
        Errors
        An axis that the tensor lacks."""
        ...
    def argsort(self, axis: _int = -1, descending: _bool = False) -> Tensor:
        """The positions that sort an axis, as `I32`. Stable.
        
        Errors
        An axis that the tensor lacks."""
        ...
    def sort(self, axis: _int = -1, descending: _bool = False) -> tuple[Tensor, Tensor]:
        """The sorted elements along an axis, and the positions they came from (`I32`). Stable.
        
        Errors
        An axis that the tensor lacks."""
        ...
    def topk(self, k: _int, axis: _int = -1, largest: _bool = True) -> tuple[Tensor, Tensor]:
        """The `k` largest (or smallest) elements along an axis, best first, and their positions
        (`I32`).
        
        Errors
        More elements than the axis has."""
        ...
    def median(self, axis: _int = -1, keepdims: _bool = False) -> tuple[Tensor, Tensor]:
        """The median over an axis and its position (`I32`): of two in the middle the smaller one. NaN, if one is there.
        
        Errors
        An axis that the tensor lacks, or without elements."""
        ...
    def searchsorted(self, values: TensorLike, right: _bool = False) -> Tensor:
        """For each value the number of elements of this ascending vector that are smaller (or not
        larger, if `right`), as `I32`: where it would be inserted. NaN comes after all numbers.
        
        Errors
        Not one axis; more than `i32` counts."""
        ...
