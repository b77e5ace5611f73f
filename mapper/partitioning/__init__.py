"""Partitioning, steps 1 to 4: coarsening, initial partition, uncoarsening with refinement."""
