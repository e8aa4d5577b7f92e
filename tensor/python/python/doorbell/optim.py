"""Optimizers. `loss.backward(); optimizer.step(); optimizer.zero_grad()`, or `optimizer.minimize(loss)`."""

from __future__ import annotations

from collections.abc import Iterable

from ._native import Optimizer, Tensor

__all__ = ["SGD", "Adam", "AdamW", "LAMB", "Optimizer"]


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum, Nesterov's variant and weight decay."""

    def __new__(
        cls, params: Iterable[Tensor], lr: float = 0.001, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False
    ) -> SGD:
        return super().__new__(cls, "sgd", list(params), lr, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay)


class Adam(Optimizer):
    """Adam, with weight decay as a part of the gradient."""

    def __new__(
        cls,
        params: Iterable[Tensor],
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> Adam:
        return super().__new__(cls, "adam", list(params), lr, betas=betas, eps=eps, weight_decay=weight_decay)


class AdamW(Optimizer):
    """Adam whose weights shrink by `lr * weight_decay` beside the step."""

    def __new__(
        cls,
        params: Iterable[Tensor],
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> AdamW:
        return super().__new__(cls, "adamw", list(params), lr, betas=betas, eps=eps, weight_decay=weight_decay)


class LAMB(Optimizer):
    """Adam's direction, scaled for each parameter by the ratio of its norm to the step's."""

    def __new__(
        cls,
        params: Iterable[Tensor],
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> LAMB:
        return super().__new__(cls, "lamb", list(params), lr, betas=betas, eps=eps, weight_decay=weight_decay)
