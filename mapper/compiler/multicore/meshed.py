"""Programs of several cores as a chip for cycle simulation, with the input from the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from chipsim.chip.npu_shape import NpuShape
from chipsim.noc.mesh import Mesh
from chipsim.npu.arrivals import HostLink
from chipsim.npu.mesh.chip import HostInputs, HostPort, HostStages, MeshChip
from chipsim.npu.records import STREAMS, Program
from mapper.compiler.multicore.job import nearest
from mapper.compiler.program.links import Brought, CoreLinks, Place


class HostSide(NamedTuple):
    """ports : nodes of the host's ports; link : timing of the host's weights
    stages : work of the host between functions"""

    ports: Sequence[Place]
    link: HostLink
    stages: HostStages = HostStages()


def mesh_chip(
    shape: NpuShape, mesh: Mesh, programs: dict[Place, Program],
    feeds: Mapping[Place, CoreLinks], host: HostSide,
) -> MeshChip:  # fmt: skip
    """Return a chip that runs programs frame by frame; each core uses the nearest host port."""
    streams = {}
    ports = {place: nearest(host.ports, place) for place in programs}
    sent: dict[Place, list[tuple[int, ...]]] = {place: [] for place in host.ports}
    for place, one in feeds.items():
        counts = np.zeros(STREAMS, np.int64)
        for stream, count in one.counts.items():
            counts[stream] = count
        streams[place] = counts
        for each in one.brought:
            sent[ports[place]] += _vectors(place, each)
    hosts = [HostPort(place, _inputs(rows)) for place, rows in sent.items()]
    return MeshChip(
        shape, mesh, programs, streams, hosts, host.link, ports, stages=host.stages
    )  # fmt: skip


def _vectors(place: Place, brought: Brought) -> list[tuple[int, ...]]:
    """Return a row per vector that the host sends to a region: row of the feature map, core,
    stream, address, address offset of odd frames, slots, function, and the credits that it consumes
    (-1: one at the first vector of a frame)."""
    odd, slots = (1 << (brought.slots + 2), 2) if brought.slots else (0, 1)
    if brought.waits:
        slots = brought.credits
    waits = brought.waits or [-1] * len(brought.runs)
    return [
        (row, *place, brought.stream, vector, odd, slots, brought.function,
         wait if wait < 0 or vector == first else 0)
        for (first, count, row), wait in zip(brought.runs, waits, strict=True)
        for vector in range(first, first + count)
    ]  # fmt: skip


def _inputs(rows: list[tuple[int, ...]]) -> HostInputs:
    """Return a frame's input, sorted by row of the feature map."""
    table = np.array(rows, np.int64).reshape(-1, 9)
    table = table[np.argsort(table[:, 0], kind="stable")]
    found = HostInputs(*(table[:, one] for one in (slice(1, 3), 3, 4, 5, 6, 7)))
    waits = table[:, 8]
    if (waits < 0).all():
        return found
    return found._replace(waits=np.where(waits < 0, found.consumed, waits))
