"""The ways from a network to parts and, once these have cores, to fewer hops: one module each.

`classic` is the published method, `streamed` works on rows of connections, `nets` on hyperedges.
"""
