"""Reference implementation of the mesh: every router, port and flit, cycle by cycle.

It shares no code with `chipsim.noc`. The complete rules:

- Router of node ``y * width + x``; x grows to the east, y to the south. Ports: 0 north, 1 east, 2
south, 3 west, 4 local. A flit goes along its row first, then along its column.
- Each input has a FIFO of `depth` flits. A flit written in a cycle can be at the head in the next
cycle. An input is ready if fewer than `depth` flits were in it at the start of the cycle.
- Each output offers one of the heads that are routed to it: the one that it offered before and
could not pass on, else the first at or after its pointer in the cyclic order of the ports. If the
receiver is ready the flit moves and the pointer moves to the port after its input; otherwise
neither moves.
- A link may have a latency of `latency` cycles instead of one, and `cycles` (1 or more) until it
accepts the next flit; fractions accumulate while flits are back to back. In addition to the FIFO it
holds the flits in flight: the number of flits sent within one latency, minus one.
- On a torus routes take the shorter way round by steps; if both ways are equal, the one without
wrap-around. A flit that enters a ring (from its core, or turning) is offered, and moves, only if
the next input has room for two.
- With `routes`, packets follow them instead, and rings keep no place free.
- A core's packets wait in an unlimited queue and enter the local input of its router one per cycle,
in order, from their cycle of creation on. The local output is always ready.
- Cores may share a router, `tile` columns and rows of them, and so its local input: of the cores
whose packet is due one sends per cycle, the first at or after the turn, row by row, and the turn
moves to the next core. Cores are numbered row by row over the whole mesh.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping

NORTH, EAST, SOUTH, WEST, LOCAL = PORTS = range(5)
OPPOSITE = {NORTH: SOUTH, EAST: WEST, SOUTH: NORTH, WEST: EAST}
STEP = {NORTH: (0, -1), EAST: (1, 0), SOUTH: (0, 1), WEST: (-1, 0)}

Packet = tuple[int, int, int]
"""Cycle of creation, source core, destination core."""


Link = tuple[int, int, int]
"""Router x, y, and the port by which the link leaves it."""


Routes = Callable[[int, int], list[int]]
"""Function that returns the outputs on the way between two cores."""


def route(x: int, y: int, to_x: int, to_y: int, around: tuple[int, int] = (0, 0)) -> int:
    """Return the output of a flit at router (x, y).

    around : routers per row and per column, for axes that are rings
    """
    if to_x != x:
        return EAST if (to_x > x) != (around[0] and 2 * abs(to_x - x) > around[0]) else WEST
    if to_y != y:
        return SOUTH if (to_y > y) != (around[1] and 2 * abs(to_y - y) > around[1]) else NORTH
    return LOCAL


class Router:
    """FIFOs of packet indices, and the state of each output."""

    def __init__(self, x: int, y: int) -> None:
        self.x = x
        self.y = y
        self.fifo: dict[int, deque[int]] = {port: deque() for port in PORTS}
        self.pointer = dict.fromkeys(PORTS, 0)
        self.locked: dict[int, int | None] = dict.fromkeys(PORTS, None)


class Twin:
    """A mesh with its source queues.

    Attributes
    ----------
    delivered : cycle in which each packet was delivered, -1 before
    links : flits that left router (x, y) through a port, by (x, y, port)
    """

    def __init__(
        self, width: int, height: int, depth: int, packets: Iterable[Packet],
        slow: Mapping[Link, tuple[int, float]] | None = None, tile: tuple[int, int] = (1, 1),
        torus: str = "", routes: Routes | None = None,
    ) -> None:  # fmt: skip
        self.around = width if "x" in torus else 0, height if "y" in torus else 0
        self.width, self.height, self.depth, self.tile = width, height, depth, tile
        self.packets = list(packets)
        self.paths = (
            [routes(source, target) for _, source, target in self.packets] if routes else []
        )
        self.taken = [0] * len(self.packets)  # links of the path
        self.cycle = 0
        self.delivered = [-1] * len(self.packets)
        self.routers = {(x, y): Router(x, y) for y in range(height) for x in range(width)}
        self.links = {(x, y, port): 0 for x, y in self.routers for port in PORTS}
        self.slow = slow or {}
        self.free = dict.fromkeys(self.links, 0.0)
        self.way: dict[Link, deque[tuple[int, int]]] = {link: deque() for link in self.links}
        cores = width * height * tile[0] * tile[1]
        self.waiting: list[deque[int]] = [deque() for _ in range(cores)]
        self.turn = dict.fromkeys(self.routers, 0)
        # The sort is stable: packets of one cycle and node enter in the given order.
        for index in sorted(range(len(self.packets)), key=lambda i: self.packets[i][0]):
            self.waiting[self.packets[index][1]].append(index)

    def place(self, core: int) -> tuple[int, int]:
        """Return the router of a core."""
        wide, tall = self.tile
        x, y = core % (self.width * wide) // wide, core // (self.width * wide) // tall
        assert 0 <= y < self.height
        return x, y

    def tile_of(self, x: int, y: int) -> list[int]:
        """Return the cores of a tile, row by row."""
        wide, tall = self.tile
        return [
            (y * tall + j) * self.width * wide + x * wide + i
            for j in range(tall)
            for i in range(wide)
        ]

    def enters(self, at: tuple[int, int]) -> int | None:
        """Return the core whose packet enters a router in this cycle."""
        cores = self.tile_of(*at)
        for step in range(len(cores)):
            queue = self.waiting[cores[(self.turn[at] + step) % len(cores)]]
            if queue and self.packets[queue[0]][0] <= self.cycle:
                return cores[(self.turn[at] + step) % len(cores)]
        return None

    def output_of_head(self, router: Router, port: int) -> int | None:
        """Return the output that the head of an input requests."""
        if not router.fifo[port]:
            return None
        index = router.fifo[port][0]
        if self.paths:
            return [*self.paths[index], LOCAL][self.taken[index]]
        to_x, to_y = self.place(self.packets[index][2])
        return route(router.x, router.y, to_x, to_y, self.around)

    def there(self, x: int, y: int, output: int) -> deque[int]:
        """Return the FIFO after an output."""
        to_x, to_y = (x + STEP[output][0]) % self.width, (y + STEP[output][1]) % self.height
        return self.routers[to_x, to_y].fifo[OPPOSITE[output]]

    def room(self, x: int, y: int, output: int) -> int:
        """Return the number of flits that fit after an output."""
        latency, cycles = self.slow.get((x, y, output), (1, 1.0))
        held = len(self.there(x, y, output)) + len(self.way[x, y, output])
        return self.depth + math.ceil(latency / cycles) - 1 - held

    def may_come(self, router: Router, port: int, output: int) -> bool:
        """Return whether an output may offer the head of an input: its ring keeps a place free."""
        ring = output != LOCAL and self.around[0 if output in (EAST, WEST) else 1] > 0
        straight = output != LOCAL and port == OPPOSITE[output]
        return (
            bool(self.paths) or not ring or straight or self.room(router.x, router.y, output) >= 2
        )

    def grant(self, router: Router, output: int) -> int | None:
        """Return the input whose head an output offers in this cycle."""
        if router.locked[output] is not None:
            return router.locked[output]
        for step in range(5):
            port = (router.pointer[output] + step) % 5
            if self.output_of_head(router, port) == output and self.may_come(router, port, output):
                return port
        return None

    def step(self) -> None:
        """Run one cycle: everything is decided on the state before it, then everything changes."""
        for (x, y, port), coming in self.way.items():
            while coming and coming[0][0] <= self.cycle:
                self.there(x, y, port).append(coming.popleft()[1])
        moves: list[tuple[Router, int, int]] = []
        refused: list[tuple[Router, int, int]] = []
        for (x, y), router in self.routers.items():
            for output in PORTS:
                port = self.grant(router, output)
                if port is None:
                    continue
                if output == LOCAL:
                    taken = True
                else:
                    taken = self.room(x, y, output) > 0 and self.free[x, y, output] <= self.cycle
                (moves if taken else refused).append((router, output, port))
        entering = [
            (at, core)
            for at, router in self.routers.items()
            if len(router.fifo[LOCAL]) < self.depth and (core := self.enters(at)) is not None
        ]

        for router, output, port in refused:
            router.locked[output] = port
        flits = [router.fifo[port].popleft() for router, _, port in moves]
        for (router, output, port), flit in zip(moves, flits, strict=True):
            router.pointer[output] = (port + 1) % 5
            router.locked[output] = None
            self.links[router.x, router.y, output] += 1
            if output == LOCAL:
                assert self.delivered[flit] == -1, "a packet is delivered once"
                assert self.place(self.packets[flit][2]) == (router.x, router.y)
                self.delivered[flit] = self.cycle
            else:
                link = router.x, router.y, output
                self.taken[flit] += 1
                latency, cycles = self.slow.get(link, (1, 1.0))
                since = self.free[link]
                self.free[link] = (since if since > self.cycle - 1 else self.cycle) + cycles
                self.way[link].append((self.cycle + latency, flit))
        for at, core in entering:
            self.routers[at].fifo[LOCAL].append(self.waiting[core].popleft())
            cores = self.tile_of(*at)
            self.turn[at] = (cores.index(core) + 1) % len(cores)
        self.cycle += 1


def simulate(width: int, height: int, depth: int, packets: Iterable[Packet]) -> list[int]:
    """Return the cycle in which each packet is delivered, in the order of `packets`.

    packets : (cycle of creation, source node, destination node), in any order; packets that one
        node creates in the same cycle enter in the given order
    """
    twin = Twin(width, height, depth, packets)
    while -1 in twin.delivered:
        twin.step()
    return twin.delivered
