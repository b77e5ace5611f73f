"""Whole runs: one run into its folder, or many runs with a table of their results."""
