"""Trains a small network on handwritten digits (8 x 8 pixels), saves it, and prints its accuracy.

    python digits.py [EPOCHS]

The digits are those of `doorbell demo`: UCI Machine Learning Repository, CC BY 4.0; see tensor/cli/data.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import doorbell as db
from doorbell import Tensor, nn, optim

DATA = Path(__file__).resolve().parents[2] / "cli/data/digits.npz"


class Net(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        self.inner = nn.Linear(64, 64)
        self.outer = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the ten digits."""
        scores: Tensor = self.outer(self.inner(x).relu())
        return scores


def digits() -> tuple[Tensor, Tensor]:
    """Pixels `[n, 64]` within 0..1, and the digits `[n]`."""
    file = np.load(DATA)
    pixels = db.asarray(file["images"].reshape(-1, 64).astype("float32") / 16)
    return pixels, db.asarray(file["labels"].astype("int64"))


def main(epochs: int = 20) -> float:
    """Trains, and returns the share of the last digits that the network knows."""
    nn.manual_seed(7)
    pixels, targets = digits()
    known = len(pixels) * 4 // 5
    net = Net()
    adam = optim.Adam(net.parameters(), lr=0.003)

    @db.jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        adam.zero_grad()
        loss = net.forward(x).cross_entropy(y)
        loss.backward()
        adam.step()
        return loss

    batch = 64
    loss = Tensor(0.0)
    for epoch in range(epochs):
        for start in range(0, known - batch + 1, batch):
            loss = step(pixels[start : start + batch], targets[start : start + batch])
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")
    folder = tempfile.gettempdir()
    nn.save(net, Path(folder) / "doorbell-digits-python.safetensors")
    with db.no_grad():
        right = net.forward(pixels[known:]).argmax(axis=1) == targets[known:]
    accuracy = float(right.astype("float32").mean())
    print(f"{accuracy:.1%} of {len(pixels) - known} digits that it has not seen")
    return accuracy


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
