"""Faults for `scripts/torture.py`: system calls, kills, damaged files, servers, limits."""
