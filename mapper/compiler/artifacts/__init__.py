"""A compiled folder: its files, checks and simulation."""
