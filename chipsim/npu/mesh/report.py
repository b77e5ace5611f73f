"""Report of a mesh run: latency, initiation interval, and bottleneck.

A core processes one frame at a time and a link carries a flit per cycle. So the period is at least
the cycles per frame of any core without waiting, at least the cycles per frame of the host's work,
and at least the flits per frame of any link.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.npu.cycles import Timed, run_queues
from chipsim.npu.mesh.chip import MeshChip, Place, say
from chipsim.npu.mesh.run import MeshTimes
from chipsim.npu.mesh.steps import MOVED, Steps

SETTLED = 3
"""First frame whose interval from the previous one counts for the period."""
SIDES = ("east", "west", "south", "north")
"""Sides of links, in the order of `MeshTimes.links`."""


class Bound(NamedTuple):
    """A lower bound of the period.

    cycles : minimum cycles per frame
    where : core, host, link or port of a node
    """

    cycles: float
    where: str


class CoreReport(NamedTuple):
    """Report of a core.

    cycles : cycles per frame without waiting for other cores, the host or the mesh
    busy : share of the run's cycles that each unit is busy, float64, shape (4,)
    waits : share of the run's cycles by unit and cause, float64, shape (4, len(CAUSES))
    """

    cycles: int
    busy: NDArray[np.float64]
    waits: NDArray[np.float64]


class ChipReport(NamedTuple):
    """Report of a run.

    latency : cycles until the host has all results of the first frame
    period : median initiation interval from frame 3 on; with fewer frames, the last interval; None
        for a single frame
    mean : mean of the same intervals; frames that wait for weights of the host may alternate with
        others that do not
    links : flits per frame on each link, float64, shape (4, height, width)
    bound : the bottleneck
    """

    frames: int
    cycles: int
    latency: int
    period: float | None
    mean: float | None
    cores: dict[Place, CoreReport]
    links: NDArray[np.float64]
    bound: Bound

    def frames_per_second(self, megahertz: float) -> float:
        """Return the throughput at a clock; for a single frame, without overlap."""
        return 1e6 * megahertz / (self.mean or self.latency)


def chip_report(chip: MeshChip, times: MeshTimes) -> ChipReport:
    """Return the report of a run."""
    frames = len(times.completed)
    apart = np.diff(times.completed)
    settled = apart[SETTLED - 1 :] if frames > SETTLED else apart[-1:]
    period = float(np.median(settled)) if settled.size else None
    mean = float(settled.mean()) if settled.size else None
    cores = {
        place: CoreReport(
            _alone(chip, times.steps, number), work.busy / times.cycles, work.waits / times.cycles
        )
        for number, (place, work) in enumerate(times.cores.items())
    }
    links = times.links / frames
    bound = max(_bounds(chip, times, cores), key=lambda one: one.cycles)
    return ChipReport(
        frames, times.cycles, int(times.completed[0]), period, mean, cores, links, bound
    )  # fmt: skip


def _alone(chip: MeshChip, steps: Steps, number: int) -> int:
    """Return the initiation interval of a core that never waits for others."""
    span = slice(int(steps.first[number]), int(steps.first[number + 1]))
    moved = steps.more[:, MOVED] * chip.shape.load_bits
    columns = (steps.unit, steps.wait, steps.signal, steps.cycles, moved)
    rows = zip(*(column[span].tolist() for column in columns), strict=True)
    program = [Timed(*row) for row in rows]
    return run_queues(program, chip.shape).cycles + chip.shape.latency.restart


def _bounds(chip: MeshChip, times: MeshTimes, cores: dict[Place, CoreReport]) -> list[Bound]:
    frames, width = len(times.completed), chip.mesh.width
    found = [Bound(core.cycles, f"core {say(place)}") for place, core in cores.items()]
    found.append(Bound(float(sum(chip.stages.cycles)), "host"))
    side, y, x = np.unravel_index(int(times.links.argmax()), times.links.shape)
    busiest = float(times.links[side, y, x]) / frames
    found.append(Bound(busiest, f"link {say((int(x), int(y)))} {SIDES[side]}"))
    for flits, what in ((times.entered, "into"), (times.left, "out of")):
        node = int(flits.argmax())
        place = (node % width, node // width)
        found.append(Bound(float(flits[node]) / frames, f"port {what} the mesh at {say(place)}"))
    return found
