"""Mapping for chips with spike fan-out inside the core: a spike goes once to each core.

The neurons that one axon joins, its own and its targets, are a net of a hypergraph. Partitioning
goes by connectivity, the sum over nets of rate * (cores of its pins - 1), and placement and
refinement by the links of the trees that spikes travel along.
"""
