"""Refinement of a mapping: single neurons move between cores by the hops of their spikes."""
