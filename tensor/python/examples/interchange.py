"""Tensors in the memory of numpy's arrays and torch's tensors, and back, without a copy."""

import importlib.util

import numpy as np

import doorbell as db


def main() -> None:
    """Prints where the memory is."""
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = db.asarray(array)  # the memory of the array
    print("numpy to doorbell:", tensor.data_ptr() == array.ctypes.data)
    result = tensor * 2
    back = result.numpy()  # read-only: values of tensors do not change
    print("doorbell to numpy:", back.ctypes.data == result.data_ptr())
    if importlib.util.find_spec("torch") is None:
        print("no torch here")
        return
    import torch

    theirs = torch.arange(6, dtype=torch.float32)
    ours = db.from_dlpack(theirs)
    print("torch to doorbell:", ours.data_ptr() == theirs.data_ptr())
    doubled = ours + ours
    again = torch.from_dlpack(doubled)
    print("doorbell to torch:", again.data_ptr() == doubled.data_ptr())


if __name__ == "__main__":
    main()
