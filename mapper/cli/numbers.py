"""Parsers of numbers on the command line."""

from __future__ import annotations

import argparse
import math


def above_zero(text: str) -> float:
    """Parse a finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def number(text: str) -> int | float:
    """Parse a finite number; a whole number becomes an int."""
    try:
        value = float(text)
        whole = int(text) if text.strip().lstrip("+-").isdecimal() else None
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value if whole is None else whole
