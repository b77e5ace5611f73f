"""Scratch of a run: arrays and coarse levels that outlive a crash, files without a name."""
