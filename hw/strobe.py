"""A port for words that the receiver always accepts: a stream without `ready`.

It has its own signature instead of an always-ready stream because the constant `ready` of such a
stream cannot be a port of a module that is built once and instantiated many times.
"""

from __future__ import annotations

from amaranth.hdl import ShapeLike
from amaranth.lib import wiring
from amaranth.lib.wiring import Out


def strobe(payload: ShapeLike) -> wiring.Signature:
    """Return the signature with `valid`, 1 in a cycle with a word, and `payload`."""
    return wiring.Signature({"valid": Out(1), "payload": Out(payload)})
