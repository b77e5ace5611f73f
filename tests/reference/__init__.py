"""Slow, obvious twins of the kernels in plain Python."""
