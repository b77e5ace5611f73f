"""Chip model: cores, limits, costs, presets and files."""
