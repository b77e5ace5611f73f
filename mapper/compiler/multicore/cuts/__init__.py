"""Cuts of a model into parts, one or more per core."""
