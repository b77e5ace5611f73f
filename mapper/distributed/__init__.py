"""Distributed passes over the rows of a graph: local threads or workers in other processes."""
