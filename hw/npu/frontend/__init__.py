"""Fetch, decoding and control of a core, and frames."""
