"""Checks of mappings by neuron: populations, and constraints."""
