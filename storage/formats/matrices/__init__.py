"""Readers of dense and sparse matrices: NumPy arrays, MATLAB files, text."""
