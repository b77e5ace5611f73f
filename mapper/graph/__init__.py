"""Graphs as read by the algorithms: rows, sampling, contraction, groups, heap."""
