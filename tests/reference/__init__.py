"""Reference implementations of the kernels: slow plain Python."""
