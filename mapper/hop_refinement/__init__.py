"""Refinement of a mapping: single neurons move between cores to save hops."""
