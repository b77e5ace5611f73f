"""Hardware of the spiking core: memories, neurons, synapses, routes."""
