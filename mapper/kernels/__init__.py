"""Compilation of numba kernels ahead of a run, and checks of the installation."""
