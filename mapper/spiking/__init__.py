"""Compilation of trained spiking models: float reference, integers, tiles, tables, verification."""
