"""Flit layouts of routers: a destination and payload fields; a spike carries an axon.

========  =========  ==================================================
field     bits       meaning
========  =========  ==================================================
``x``     x_bits     column of the destination, 0 in the west
``y``     y_bits     row of the destination, 0 in the north
``axon``  axon_bits  index into the synapse tables of that core
========  =========  ==================================================

Fields are packed in this order from bit 0. Routers use only ``x`` and ``y``, so all flits of a mesh
begin with these; the other fields are private to sender and receiver (`hw.npu.flit` has others).
"""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.lib import data
from amaranth.utils import ceil_log2

from hw.errors import check_count

MAX_BITS = 32
"""Widest field; the mesh and the axons of any `chipsim.chip.model.Chip` need less."""


class Flit(data.StructLayout):
    """A destination followed by fields; raises `HwError` unless x and y have 1 to 32 bits."""

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
    """Return the layout of packets with these field widths; equal widths give equal layouts."""
    return Packet(x_bits, y_bits, axon_bits)


def coordinate_bits(side: int) -> int:
    """Return the bits for 0 .. side - 1; at least 1, so that every mesh has the field."""
    return max(1, ceil_log2(side))
