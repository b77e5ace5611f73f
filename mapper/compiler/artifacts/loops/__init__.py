"""Schedules as listings of loop nests: 32-bit words for address generators."""
