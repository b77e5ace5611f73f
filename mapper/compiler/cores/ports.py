"""Ports of the host, and which of them a core uses: that which is nearest, for all that it sends to
the host, and gets."""

from __future__ import annotations

from collections.abc import Sequence

from chipsim.chip.model import Chip
from mapper.compiler.codegen.links import Place


def ports_of(chip: Chip) -> list[Place]:
    """The nodes of a chip with a port of the host."""
    return [(core % chip.width, core // chip.width) for core in chip.host_ports]


def nearest(ports: Sequence[Place], place: Place) -> Place:
    """The port of a core: the fewest hops away, of several the first."""
    return min(ports, key=lambda port: abs(port[0] - place[0]) + abs(port[1] - place[1]))
