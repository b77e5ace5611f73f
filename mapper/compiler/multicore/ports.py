"""Ports of the host; a core uses the nearest one for all traffic with the host."""

from __future__ import annotations

from collections.abc import Sequence

from chipsim.chip.model import Chip
from mapper.compiler.program.links import Place


def ports_of(chip: Chip) -> list[Place]:
    """Return the nodes of a chip that have a port of the host."""
    return [(core % chip.width, core // chip.width) for core in chip.host_ports]


def nearest(ports: Sequence[Place], place: Place) -> Place:
    """Return the port with the fewest hops to a core; the first in case of a tie."""
    return min(ports, key=lambda port: abs(port[0] - place[0]) + abs(port[1] - place[1]))
