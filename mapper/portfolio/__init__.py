"""Whole runs: one into its folder, or many with a table of what each gave."""
