"""Checkpoints of a run, and resuming of runs that were interrupted or killed."""
