"""Reference implementation of the cycles in which queues are emptied, buffer by buffer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from chipsim.chip.model import Chip
from tests.reference.detours import faults_of
from tests.reference.mesh_routes import STEPS, Leg, Router, place, size

Buffer = tuple[Router, str]
"""A router, and the direction of the packets in one of its buffers, or "core"."""
BEHIND = 3


class BufferQueues(NamedTuple):
    """flits : by leg; comes : by buffer; service : cycles of a flit on each link
    cores : router of each core, packets that it receives, and the cycles that it needs for them
    size : columns and rows of routers; laps : how often lines of routers are followed, 0 if routes
        are not XY routes because links are broken
    """

    flits: Mapping[Leg, float]
    comes: Mapping[Buffer, float]
    service: Mapping[Buffer, float]
    cores: Sequence[tuple[Router, float, float]]
    size: tuple[int, int]
    laps: int


def queues_of(
    chip: Chip, walked: Sequence[tuple[float, list[list[Leg]]]],
    own: Sequence[float], work: Sequence[Sequence[float]], service: Mapping[Buffer, float],
) -> BufferQueues:  # fmt: skip
    """Return the packets of a tick as queues.

    walked : rate and routes of packets to other cores; own : packets of each core to itself
    work : packets sent and received, events, and spikes, of each core
    """
    time = chip.time
    assert time is not None
    flits: dict[Leg, float] = defaultdict(float)
    comes: dict[Buffer, float] = defaultdict(float)
    for rate, routes in walked:
        legs = {leg for path in routes for leg in path}
        for leg in legs:
            flits[leg] += rate
        for here, way in {leg[:2] for leg in legs}:
            comes[here, way] += rate * (way != "core")
    cores = []
    for k, (sent, taken, events) in enumerate(zip(*work[:3], strict=True)):
        here = place(chip, k)
        flits[here, "core", "core"] += own[k]
        comes[here, "core"] += sent
        cores.append((here, taken, taken * time.packet_in + events * time.event))
    laps = 0 if faults_of(chip) else 2 if chip.machine and chip.machine.torus else 1
    return BufferQueues(flits, comes, service, cores, size(chip), laps)


def emptied(queues: BufferQueues, least: float) -> float:
    """Return the cycles of the busiest buffer for packets spread over `least` cycles or more."""
    first = busiest(queues, least)
    if first <= 1:
        return first * least
    low, high = least, 2 * least
    while busiest(queues, high) > 1:
        high *= 2
    for _ in range(60):
        half = (low + high) / 2
        if busiest(queues, half) > 1:
            low = half
        else:
            high = half
    return high


def busiest(queues: BufferQueues, cycles: float) -> float:
    """Return the share of the cycles in which the busiest buffer has a packet; 2 if above 1."""
    flits = {leg: n / cycles for leg, n in queues.flits.items()}
    comes = {buffer: n / cycles for buffer, n in queues.comes.items()}
    busy = dict(comes)
    inputs: dict[Buffer, list[Leg]] = defaultdict(list)
    for leg in flits:
        inputs[leg[0], leg[2]].append(leg)

    def wait(output: Buffer, room: Callable[[float], float]) -> dict[Buffer, float]:
        """Return the share of time in which buffers wait for an output."""
        legs, service = inputs[output], queues.service.get(output, 1.0)
        rates = [flits[leg] for leg in legs]
        more = room(service)
        own = more + (service - 1) * min(1.0, sum(rates) * service)
        # w_i = own + slot * sum over other inputs j of rate_j * (w_j + service / 2)
        n, slot = len(legs), service + more
        matrix, right = np.eye(n), np.full(n, own)
        for i in range(n):
            for j in range(n):
                if i != j:
                    matrix[i, j] = -slot * rates[j]
                    right[i] += slot * rates[j] * service / 2
        waits = np.linalg.solve(matrix, right)
        if min(waits, default=0.0) < 0:
            return {leg[:2]: 2.0 for leg in legs}
        return {leg[:2]: rate * w for leg, rate, w in zip(legs, rates, waits, strict=True)}

    def of_cores(router: Router) -> Callable[[float], float]:
        loads = [(n / cycles, max(n, w) / cycles) for at, n, w in queues.cores if at == router]
        packets = sum(n for n, _ in loads)
        late = sum((w - n) * min(1.0, w) ** BEHIND for n, w in loads)
        return lambda _: late / packets if packets else 0.0

    columns, rows = queues.size
    for router in [(x, y) for y in range(rows) for x in range(columns)]:
        for buffer, share in wait((router, "core"), of_cores(router)).items():
            busy[buffer] += share
    done: set[Buffer] = set()

    def settle(output: Buffer) -> None:
        """Add the waits for an output after those for all outputs that its packets take next."""
        if output in done:
            return
        done.add(output)
        (x, y), (dx, dy) = output[0], STEPS[output[1]]
        after = ((x + dx) % columns, (y + dy) % rows), output[1]
        for leg in flits:
            if leg[:2] == after and leg[2] != "core":
                settle((leg[0], leg[2]))

        def room(service: float) -> float:
            if not comes.get(after):
                return 0.0
            return max(0.0, busy[after] / comes[after] - service) * min(1, busy[after]) ** 3

        for buffer, share in wait(output, room).items():
            busy[buffer] += share

    if not queues.laps:
        for leg in flits:
            if leg[2] != "core" and max(busy.values()) <= 1:
                settle((leg[0], leg[2]))
        return min(2.0, max(busy.values()))
    for way in ("south", "north", "east", "west"):
        (dx, dy), before, waits = STEPS[way], dict(busy), {}
        count = columns if dx else rows
        for line in range(rows if dx else columns):
            for step in reversed(range(queues.laps * count)):
                at = step % count if dx + dy > 0 else count - 1 - step % count
                here = (at, line) if dx else (line, at)
                after = ((here[0] + dx) % columns, (here[1] + dy) % rows), way

                def room(service: float, after: Buffer = after) -> float:
                    if not comes.get(after):
                        return 0.0
                    return max(0.0, busy[after] / comes[after] - service) * min(1, busy[after]) ** 3

                waits[here] = wait((here, way), room)
                if (here, way) in waits[here]:
                    busy[here, way] = before[here, way] + waits[here][here, way]
        for here, shares in waits.items():
            for buffer, share in shares.items():
                if buffer != (here, way):
                    busy[buffer] += share
        if max(busy.values()) > 1:
            return 2.0
    return max(busy.values())
