"""Calls of the operating system that not all systems have, and their twins."""
