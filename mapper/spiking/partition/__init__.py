"""Partition of a spiking model into parts that fit in cores, and their placement."""
