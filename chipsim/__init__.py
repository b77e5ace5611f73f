"""Chip model, metrics and simulators."""
