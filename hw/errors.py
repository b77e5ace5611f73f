"""The errors that this package raises on bad parameters.

A message is one line: what is wrong, where, and what to try. The command line prints it as it is.
"""

from __future__ import annotations


class HwError(ValueError):
    """A parameter that no hardware can be made for, said in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class NotBuiltError(HwError):
    """A shape that simulators know and that is not built as hardware."""


def check_count(what: str, value: object, least: int = 1, most: int | None = None) -> int:
    """``value`` as an int; raises HwError that names ``what`` unless least <= value <= most."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):  # type: ignore[operator]
        span = f"of {least} or more" if most is None else f"from {least} to {most}"
        raise HwError(f"{what} is {value!r}; give a whole number {span}")
    return int(value)  # type: ignore[call-overload]
