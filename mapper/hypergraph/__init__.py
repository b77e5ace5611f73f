"""Mapping for chips with spike fan-out inside the core: a spike is sent once to each core.

A neuron and its targets, which share an axon, are a net of a hypergraph. Partitioning minimises
connectivity, the sum over nets of rate * (parts of its pins - 1); placement and refinement minimise
the links of the trees of spikes.
"""
