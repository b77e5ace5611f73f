"""Macro records: what stands between graph and instructions, as a file."""
