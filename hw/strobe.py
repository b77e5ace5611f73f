"""A port for words that the receiver takes at once: a stream without `ready`.

It is a signature of its own, and not a stream that is always ready, because the constant `ready`
of such a stream can't be a port of a module that is made once and used many times.
"""

from __future__ import annotations

from amaranth.hdl import ShapeLike
from amaranth.lib import wiring
from amaranth.lib.wiring import Out


def strobe(payload: ShapeLike) -> wiring.Signature:
    """Members `valid`, 1 in a cycle with a word, and `payload`."""
    return wiring.Signature({"valid": Out(1), "payload": Out(payload)})
