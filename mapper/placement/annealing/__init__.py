"""Simulated annealing of placements: dense and sparse traffic, classes of equal groups."""
