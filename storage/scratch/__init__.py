"""Scratch of a run: arrays and coarsening levels that survive a crash, and unnamed files."""
