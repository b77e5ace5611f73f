"""Functional simulator of the spiking cores of `hw.cuba`: events, neuron updates, ticks."""
