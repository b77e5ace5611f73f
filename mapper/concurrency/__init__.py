"""Threads of a run and its early end: ordered map over threads, stop flag, Ctrl-C."""
