"""Description of a deadlock of cores on a mesh."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chipsim.npu.cycles import UNITS
from chipsim.npu.mesh.chip import MeshChip, say
from chipsim.npu.mesh.state import CoreStates, Hosts
from chipsim.npu.mesh.steps import ASK, COUNT, PRODUCTS, SEND, STREAM_OF, WAIT, Steps

SHOWN = 6
"""Maximum number of waits in a message."""


def say_waits(chip: MeshChip, steps: Steps, cores: CoreStates, hosts: Hosts) -> str:
    """Return a text on the waiting units and host ports; the first few are listed."""
    found = [*_host_waits(chip, hosts)]
    for number, (x, y) in enumerate(chip.programs):
        if cores.position[number] < steps.first[number + 1] or _works(cores, number):
            begin = chip.begins.get((x, y), 0) - int(steps.first[number])
            found += [f"core ({x}, {y}): {one}" for one in _waits(steps, cores, number, begin)]
    more = f"; and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
    return "; ".join(found[:SHOWN]) + more


def _host_waits(chip: MeshChip, hosts: Hosts) -> Iterator[str]:
    """Yield a text per waiting input of a host port, and for the first stage without results."""
    stages, frames = hosts.released.shape
    for lane in np.flatnonzero(np.diff(hosts.first)).tolist():
        number, stage = divmod(lane, stages)
        at, frame = int(hosts.at[number, stage]), int(hosts.frame[number, stage])
        if frame < frames and hosts.pair[at] >= 0 and not hosts.credits[hosts.pair[at]]:
            y, x = divmod(int(hosts.target[at]), chip.mesh.width)
            yield (
                f"host port {say(chip.hosts[number].place)}: frame {frame} waits for a credit of "
                f"stream {hosts.stream[at]} of core ({x}, {y})"
            )
    for stage in np.flatnonzero(hosts.following[1:] < frames)[:1].tolist():
        frame, wanted = int(hosts.following[stage + 1]), hosts.wanted[stage + 1]
        yield (
            f"host: stage {stage + 1} of frame {frame} waits for results, "
            f"{hosts.came[stage + 1, frame]:,} of {wanted:,} flits have arrived"
        )


def _works(cores: CoreStates, number: int) -> bool:
    return bool((cores.job[number] >= 0).any() or cores.level[number].any())


def _waits(steps: Steps, cores: CoreStates, number: int, begin: int) -> Iterator[str]:
    """Yield a text per waiting unit.

    begin : offset from the number of a step to the number of its instruction
    """
    frame = f" of frame {cores.frame[number]}" if cores.frame[number] else ""
    for unit, name in enumerate(UNITS):
        at = int(cores.job[number, unit])
        if at >= 0:
            here = f"{name} waits at instruction {at + begin}{frame}"
            stream, count = steps.more[at, [STREAM_OF, COUNT]].tolist()
            if steps.what[at] == WAIT:
                counted = int(cores.streams[number, stream])
                yield f"{here} for {count:,} of stream {stream}, which has counted {counted:,}"
            elif steps.what[at] == PRODUCTS:
                word = int(steps.most[cores.place[number]])
                arrived = int(max(cores.base[number], cores.pointer[number]))
                yield f"{here} for weight word {word:,}; words below {arrived:,} have arrived"
            elif steps.what[at] in (SEND, ASK):
                yield f"{here} for the router"
        elif cores.level[number, unit]:
            at = int(cores.queue[number, unit, cores.head[number, unit]])
            lacking = [
                UNITS[other]
                for other in range(len(UNITS))
                if steps.wait[at] >> other & 1 and not cores.tokens[number, other, unit]
            ]
            if lacking:
                yield (
                    f"{name} waits at instruction {at + begin}{frame} for a token of "
                    f"{' and '.join(lacking)}"
                )
