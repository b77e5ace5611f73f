"""The chip: cores, limits, costs; presets and files."""
