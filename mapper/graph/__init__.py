"""Graphs as the algorithms read them: rows, sampling, contraction, groups, heap."""
