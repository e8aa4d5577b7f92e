"""The expectations of the operator suite, computed by PyTorch and NumPy."""
