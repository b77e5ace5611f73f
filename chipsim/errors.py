"""The error that this package raises on bad input.

A message is one line: what is wrong, where, and what to do. The command line prints it unchanged.
"""

from __future__ import annotations


class ChipError(ValueError):
    """A chip, mapping or network that cannot be used; the message is one line."""

    def __init__(self, message: str) -> None:
        # Messages may quote other libraries, whose texts may hold line breaks.
        line = " ".join(message.split())
        super().__init__("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line))
