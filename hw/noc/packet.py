"""What routers pass: flits that name their destination; a spike is one of an axon there.

========  =========  ==================================================
field     bits       meaning
========  =========  ==================================================
``x``     x_bits     column of the destination, 0 in the west
``y``     y_bits     row of the destination, 0 in the north
``axon``  axon_bits  index into the synapse tables of that core
========  =========  ==================================================

Fields are packed in this order from bit 0. Routers look at ``x`` and ``y`` alone, so all flits of
a mesh begin with them; what follows is between sender and receiver (`hw.npu.flit` has others).
"""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.lib import data
from amaranth.utils import ceil_log2

from hw.errors import check_count

MAX_BITS = 32
"""Widest field; the mesh and the axons of any `chipsim.chip.model.Chip` need less."""


class Flit(data.StructLayout):
    """A destination, and fields behind it; raises `HwError` unless x and y have 1 to 32 bits."""

    def __init__(self, x_bits: int, y_bits: int, fields: Mapping[str, int]) -> None:
        self.x_bits = check_count("packet: x_bits", x_bits, 1, MAX_BITS)
        self.y_bits = check_count("packet: y_bits", y_bits, 1, MAX_BITS)
        super().__init__({"x": x_bits, "y": y_bits, **fields})


class Packet(Flit):
    """Layout of a spike; raises `HwError` unless every width is 1 to 32."""

    def __init__(self, x_bits: int, y_bits: int, axon_bits: int) -> None:
        self.axon_bits = check_count("packet: axon_bits", axon_bits, 1, MAX_BITS)
        super().__init__(x_bits, y_bits, {"axon": axon_bits})


def packet_layout(x_bits: int, y_bits: int, axon_bits: int) -> Packet:
    """The layout of packets with fields of these widths; equal widths give equal layouts."""
    return Packet(x_bits, y_bits, axon_bits)


def coordinate_bits(side: int) -> int:
    """Bits that hold 0 .. side - 1; at least 1, so that a mesh of one column has the field too."""
    return max(1, ceil_log2(side))
