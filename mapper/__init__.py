"""Puts neural networks onto many-core neuromorphic chips."""
