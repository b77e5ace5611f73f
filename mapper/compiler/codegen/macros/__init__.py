"""Macro records: the file format between graph and instructions."""
