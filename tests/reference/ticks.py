"""Reference implementation of ticks of a chip of spiking cores, with lists and dicts."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from chipsim.chip.time import ChipTime

NORTH, EAST, SOUTH, WEST, LOCAL = range(5)
STEPS = {NORTH: (0, -1), EAST: (1, 0), SOUTH: (0, 1), WEST: (-1, 0)}
ACROSS = {NORTH: SOUTH, SOUTH: NORTH, EAST: WEST, WEST: EAST}


@dataclass
class Flit:
    """A packet in flight, or a copy: the events at each core that it still has to reach."""

    events: dict[int, int]
    ways: dict[int, list[int]] = field(default_factory=dict)  # to each of these, with `routes`


@dataclass
class TwinCore:
    neurons: int
    update: float = math.inf  # cycle in which the next spiking neuron is updated
    spiking: deque[int] = field(default_factory=deque)
    queue: deque[list[Flit]] = field(default_factory=deque)
    looked: list[Flit] | None = None
    known: list[Flit] | None = None
    left: deque[Flit] = field(default_factory=deque)
    read: Flit | None = None
    offered: deque[Flit] = field(default_factory=deque)
    offer: float = -math.inf
    free: float = 0
    begins: float = 0
    before: float = 0
    ends: float = 0


class TwinChip:
    """A chip.

    width, height : in routers, of `tile` columns and rows of cores each
    packets : for every neuron of every core, and for the inputs of the host (key None), the packets
        of a spike: each a dict from destination cores to their events; the core after the last is
        the host
    routes : outputs on the way between two cores, if packets do not take XY routes
    """

    def __init__(
        self, width: int, height: int, depth: int, time: ChipTime,
        packets: dict[int | None, list[list[dict[int, int]]]],
        slow: dict[tuple[int, int], tuple[int, float]] | None = None,
        tile: tuple[int, int] = (1, 1), torus: str = "",
        routes: Callable[[int, int], list[int]] | None = None,
    ) -> None:  # fmt: skip
        self.height, self.torus, self.routes = height, torus, routes
        self.width, self.depth, self.time, self.packets = width, depth, time, packets
        wide, tall = tile
        self.router = [
            y // tall * width + x // wide for y in range(height * tall) for x in range(width * wide)
        ]
        self.cores = [TwinCore(len(packets.get(c, []))) for c in range(len(self.router))]
        self.host = len(self.cores)
        self.router.append(width * (height - 1) if torus else width * height)
        self.heard = 0
        self.sends_next = [0] * (width * height)  # a place in the tile
        self.queues: dict[tuple[int, int], deque[tuple[Flit, set[int]]]] = {
            (v, port): deque() for v in range(width * height) for port in range(5)
        }
        self.turn = dict.fromkeys(self.queues, 0)
        self.passed = dict.fromkeys(self.queues, 0)
        self.slow = slow or {}
        self.free = dict.fromkeys(self.queues, 0.0)
        # Flits in flight to a queue: (cycle of arrival, flit).
        self.way: dict[tuple[int, int], deque[tuple[int, Flit]]] = {q: deque() for q in self.queues}

    def flit(self, source: int, events: dict[int, int]) -> Flit:
        """Return a packet of a core."""
        ways = {c: self.routes(source, c) for c in events} if self.routes else {}
        return Flit(dict(events), ways)

    def outputs(self, v: int, flit: Flit) -> dict[int, dict[int, int]]:
        """Return the outputs of a flit at a router, with their destination cores: x first."""
        found: dict[int, dict[int, int]] = {}
        for core, events in flit.events.items():
            to = self.router[core]
            dx, dy = to % self.width - v % self.width, to // self.width - v // self.width
            if "x" in self.torus and 2 * abs(dx) > self.width:
                dx = -dx
            if "y" in self.torus and 2 * abs(dy) > self.height:
                dy = -dy
            way = EAST if dx > 0 else WEST if dx < 0 else SOUTH if dy > 0 else NORTH
            way = LOCAL if to == v else way
            if self.routes:
                way = [*flit.ways[core], LOCAL][0]
            found.setdefault(way, {})[core] = events
        return found

    def tick(self, spikes: list[list[int]], host: list[int]) -> int:
        """Run a tick and return its cycles.

        spikes : neurons that spike, by core
        host : inputs that the host sends before the tick
        """
        if host:
            queue = deque(self.flit(0, one) for n in host for one in self.packets[None][n])
            self.start([[] for _ in self.cores])
            self.phase(queue)
        end = self.start(spikes)
        return max(1, math.ceil(max(end, self.phase(None))))

    def start(self, spikes: list[list[int]]) -> float:
        end = 0.0
        for core, neurons in zip(self.cores, spikes, strict=True):
            core.spiking = deque(neurons)
            core.update = math.inf
            core.free, core.before, core.begins, core.ends = 0, 0, 0, 0
            core.offer = -math.inf
            if neurons:
                core.update = self.time.barrier + neurons[0] * self.time.neuron
            if core.neurons:
                end = max(end, self.time.barrier + core.neurons * self.time.neuron)
        return end

    def phase(self, host: deque[Flit] | None) -> float:
        t, end = 0, 0.0
        self.free = dict.fromkeys(self.queues, 0.0)
        while True:
            for (v, came), coming in self.way.items():
                while coming and coming[0][0] <= t:
                    flit = coming.popleft()[1]
                    self.queues[v, came].append((flit, set(self.outputs(v, flit))))
            enters = []
            if host is not None:
                if host and len(self.queues[0, LOCAL]) < self.depth:
                    enters.append((0, host.popleft()))
            else:
                senders = self.senders(t)
                for c, core in enumerate(self.cores):
                    flit, busy = self.work(c, core, t, c in senders)
                    end = max(end, busy)
                    if flit is not None:
                        enters.append((self.router[c], flit))
            moves = self.decide(t)
            for v, output, port in moves:
                flit, todo = self.queues[v, port][0]
                rest = self.outputs(v, flit)[output]
                todo.remove(output)
                if not todo:
                    self.queues[v, port].popleft()
                self.passed[v, output] += 1
                if self.is_last(v, output):
                    for c, events in rest.items():
                        if c == self.host:
                            self.heard += 1
                            end = max(end, t + 1.0)
                            continue
                        core = self.cores[c]
                        core.free = max(t + 1.0, core.before)
                        core.before, core.begins = core.begins, max(t + 3.0, core.ends)
                        core.ends = core.begins + self.time.packet_in + events * self.time.event
                        tail = max(0.0, self.time.spike - 9 - self.time.event)
                        end = max(end, core.ends + tail)
                else:
                    latency, cycles = self.slow.get((v, output), (1, 1.0))
                    since = self.free[v, output]
                    self.free[v, output] = (since if since > t - 1 else t) + cycles
                    there = self.there(v, output)
                    ways = {c: flit.ways[c][1:] for c in rest} if self.routes else {}
                    self.way[there].append((t + latency, Flit(rest, ways)))
            for v, flit in enters:
                self.queues[v, LOCAL].append((flit, set(self.outputs(v, flit))))
            t += 1
            waiting = any(
                core.update < math.inf or core.queue or core.offered
                or core.read is not None or core.looked is not None or core.known is not None
                for core in self.cores
            )  # fmt: skip
            moving = any(self.queues.values()) or any(self.way.values())
            if not (host or waiting or moving):
                return end

    def is_last(self, v: int, output: int) -> bool:
        """Return whether packets of an output have arrived: at a core, or outside of the mesh."""
        below = not self.torus and output == SOUTH and v // self.width == self.height - 1
        return output == LOCAL or below

    def there(self, v: int, output: int) -> tuple[int, int]:
        """Return the queue after an output."""
        dx, dy = STEPS[output]
        x, y = (v % self.width + dx) % self.width, (v // self.width + dy) % self.height
        return y * self.width + x, ACROSS[output]

    def room(self, v: int, output: int) -> int:
        """Return the number of packets that fit after an output."""
        there = self.there(v, output)
        latency, cycles = self.slow.get((v, output), (1, 1.0))
        room = self.depth + math.ceil(latency / cycles) - 1
        return room - len(self.queues[there]) - len(self.way[there])

    def senders(self, t: int) -> set[int]:
        """Return the core that sends of each tile whose router has room; the turn moves on."""
        found = set()
        for v in range(len(self.sends_next)):
            tile = [c for c, at in enumerate(self.router[: self.host]) if at == v]
            ready = [c for c in tile if self.cores[c].offered and self.cores[c].offer <= t]
            if ready and len(self.queues[v, LOCAL]) < self.depth:
                turn = self.sends_next[v]
                chosen = min(ready, key=lambda c: (tile.index(c) - turn) % len(tile))
                self.sends_next[v] = (tile.index(chosen) + 1) % len(tile)
                found.add(chosen)
        return found

    def work(self, c: int, core: TwinCore, t: int, sends: bool) -> tuple[Flit | None, float]:
        flit, busy = None, 0.0
        full = len(core.offered) == 2
        if sends:
            flit = core.offered.popleft()
            core.offer = core.offer if core.offer > t - 1 else t
            core.offer += self.time.packet_out if core.offered else 0
        if core.read is not None and not full:
            if not core.offered:
                core.offer = max(t + 1, core.offer + self.time.packet_out)
            core.offered.append(core.read)
            core.read = None
        if core.known is not None and not core.left and core.read is None:
            core.left, core.known = deque(core.known), None
            busy = t + 1
        if core.known is None:
            core.known, core.looked = core.looked, None
        if core.left and core.read is None:
            core.read = core.left.popleft()
        full = len(core.queue) == 2
        if core.looked is None and core.queue:
            core.looked = core.queue.popleft()
        if not full and core.update <= t:
            neuron = core.spiking.popleft()
            core.queue.append([self.flit(c, one) for one in self.packets[c][neuron]])
            moved = core.update if core.update > t - 1 else t
            if core.spiking:
                core.update = moved + (core.spiking[0] - neuron) * self.time.neuron
            else:
                core.update = math.inf
                busy = max(busy, moved + (core.neurons - neuron) * self.time.neuron)
        return flit, busy

    def decide(self, t: int) -> list[tuple[int, int, int]]:
        moves = []
        for v in range(len(self.sends_next)):
            for output in range(5):
                asking = [p for p in range(5) if (q := self.queues[v, p]) and output in q[0][1]]
                axis = "x" if output in (EAST, WEST) else "y"
                ringed = output != LOCAL and axis in self.torus and not self.routes
                if ringed and self.room(v, output) < 2:
                    asking = [p for p in asking if p == ACROSS[output]]  # flits in the ring
                if not asking:
                    continue
                port = min(asking, key=lambda p: (p - self.turn[v, output]) % 5)
                if self.is_last(v, output):
                    ends = self.outputs(v, self.queues[v, port][0][0])[output]
                    ready = all(c == self.host or self.cores[c].free <= t for c in ends)
                else:
                    ready = self.room(v, output) > 0 and self.free[v, output] <= t
                if ready:
                    moves.append((v, output, port))
                self.turn[v, output] = (port + 1) % 5 if ready else port
        return moves
