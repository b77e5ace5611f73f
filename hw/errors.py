"""The errors that this package raises on bad parameters.

A message is one line: what is wrong, where, and what to do. The command line prints it unchanged.
"""

from __future__ import annotations


class HwError(ValueError):
    """Parameters that no hardware can be built for; the message is one line.

    neuron : the neuron that the message names by its number, if it names one
    """

    def __init__(self, message: str, neuron: int | None = None) -> None:
        self.neuron = neuron
        line = " ".join(message.split())
        super().__init__("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line))


class NotBuiltError(HwError):
    """A shape that is simulated but not implemented as hardware."""


def check_count(what: str, value: object, least: int = 1, most: int | None = None) -> int:
    """Return ``value`` as an int; raise HwError naming ``what`` unless least <= value <= most."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):  # type: ignore[operator]
        span = f"of {least} or more" if most is None else f"from {least} to {most}"
        raise HwError(f"{what} is {value!r}; give a whole number {span}")
    return int(value)  # type: ignore[call-overload]
