"""The core as logic: memories, neurons, synapses, routes."""
