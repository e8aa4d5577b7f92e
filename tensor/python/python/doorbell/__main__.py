"""The program doorbell: `python -m doorbell doctor`."""

from __future__ import annotations

import signal
import sys

from ._native import _main


def main() -> int:
    """Runs the program with the arguments of the process."""
    sys.stdout.flush()
    # The interpreter would only note the key, and act when the program has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _main(["doorbell", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
