"""Partition of populations into tiles that fit in cores, and their placement."""
