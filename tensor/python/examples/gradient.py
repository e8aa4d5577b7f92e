"""Fits a line by its gradient. The program was written for tinygrad."""

from doorbell import Tensor


def main() -> list[float]:
    """The slope and the shift."""
    x = Tensor([[0.0], [1.0], [2.0], [3.0]])
    y = Tensor([[1.0], [3.0], [5.0], [7.0]])
    w = Tensor.zeros(1, 1, requires_grad=True)
    b = Tensor.zeros(1, requires_grad=True)
    for _ in range(200):
        w.grad, b.grad = None, None
        loss = (x.matmul(w) + b - y).square().mean()
        loss.backward()
        assert w.grad is not None and b.grad is not None
        w.assign(w.detach() - w.grad * 0.1)
        b.assign(b.detach() - b.grad * 0.1)
    print(f"y = {w.item():.3f} x + {b.item():.3f}")
    return [w.item(), b.item()]


if __name__ == "__main__":
    main()
