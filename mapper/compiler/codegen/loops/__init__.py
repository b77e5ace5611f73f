"""Schedules as listings of loop nests: words of 32 bits, for address generators that count."""
