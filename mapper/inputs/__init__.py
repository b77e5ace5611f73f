"""Inputs of a run: open network files, import other files and objects, split neurons."""
