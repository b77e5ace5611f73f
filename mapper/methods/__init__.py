"""Mapping methods, one module each: from a network to parts, and refinement after placement.

`classic` is the published method, `streamed` uses rows of connections, `nets` hyperedges.
"""
