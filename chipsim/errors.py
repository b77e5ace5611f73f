"""The one error that this package raises on bad input.

A message is one line: what is wrong, where, and what to try. The command line prints it as it is.
"""

from __future__ import annotations


class ChipError(ValueError):
    """A chip, a mapping or a network that cannot be used, said in one line."""

    def __init__(self, message: str) -> None:
        # Texts of other libraries find their way into messages; they may hold line breaks.
        super().__init__(" ".join(message.split()))
