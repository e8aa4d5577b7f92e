"""What the program doorbell knows: devices and the state of the system."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from ._errors import Error


def _rows(*words: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "doorbell", *words, "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if ran.returncode != 0:
        raise Error(f"doorbell {' '.join(words)}: exit code {ran.returncode}: {ran.stderr.strip()}")
    rows: list[dict[str, Any]] = json.loads(ran.stdout)["rows"]
    return rows


def devices() -> list[dict[str, Any]]:
    """The devices that can be opened, as `python -m doorbell devices --json` lists them."""
    return _rows("devices")


def doctor() -> list[dict[str, Any]]:
    """What is installed, what is missing and how to fix it, as rows with check, status, detail and fix. Changes nothing."""
    return _rows("doctor")
