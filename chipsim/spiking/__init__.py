"""Functional simulator of the spiking cores of `hw.core`: events, neuron updates, ticks."""
