"""Reference implementation of routes around broken links: turns one by one, routes by Dijkstra.

The rules are the same as in `chipsim.detours`; no code is shared. A link is a router (x, y) and the
direction in which it leaves.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from chipsim.chip.model import Chip

Router = tuple[int, int]
Link = tuple[Router, str]
Turn = tuple[Router, str, str]
"""A router, and the directions of travel before and after."""

STEPS = {"east": (1, 0), "west": (-1, 0), "south": (0, 1), "north": (0, -1)}
BACK = {"east": "west", "west": "east", "south": "north", "north": "south"}
NAMES = list(STEPS)
NEARBY = 2


class Faults:
    """The routers of a chip, their working links, permitted turns and routes."""

    def __init__(self, chip: Chip) -> None:
        tile = chip.machine and chip.machine.tile
        self.tile = (tile.width, tile.height) if tile else (1, 1)
        self.columns, self.rows = chip.width // self.tile[0], chip.height // self.tile[1]
        self.torus = chip.machine.torus if chip.machine else ""
        self.places = [(x, y) for y in range(self.rows) for x in range(self.columns)]
        dead = {self.place(chip, core) for core in chip.broken_routers}
        broken = [{self.place(chip, core) for core in pair} for pair in chip.broken_links]
        self.broken: list[Link] = []
        self.after: dict[Link, Router] = {}
        for here in self.places:
            for name in NAMES:
                there = self.step(here, name)
                if there is None or there == here:
                    continue
                if here in dead or there in dead or {here, there} in broken:
                    self.broken.append((here, name))
                else:
                    self.after[here, name] = there
        self.turns = self._permitted()
        self._routes: dict[Router, dict[Router, list[Link]]] = {}

    def place(self, chip: Chip, core: int) -> Router:
        return core % chip.width // self.tile[0], core // chip.width // self.tile[1]

    def step(self, here: Router, name: str) -> Router | None:
        """Return the next router in a direction, if the mesh or the torus has one."""
        x, y = here[0] + STEPS[name][0], here[1] + STEPS[name][1]
        if "x" in self.torus:
            x %= self.columns
        if "y" in self.torus:
            y %= self.rows
        return (x, y) if 0 <= x < self.columns and 0 <= y < self.rows else None

    def closes(self, link: Link) -> bool:
        (x, y), name = link
        return {
            "east": x == self.columns - 1, "west": x == 0,
            "south": y == self.rows - 1, "north": y == 0,
        }[name]  # fmt: skip

    def _tree(self) -> set[Link]:
        """Return the links of a spanning tree, in both directions."""
        part = {here: {here} for here in self.places}
        found = set()

        def key(link: Link) -> tuple[bool, bool, int, int, int]:
            (x, y), name = link
            far = abs(y - self.rows // 2) if name == "east" else 0
            return self.closes(link), name == "east", far, y, x

        for link in sorted((one for one in self.after if one[1] in ("east", "south")), key=key):
            here, there = link[0], self.after[link]
            if there not in part[here]:
                both = part[here] | part[there]
                part |= dict.fromkeys(both, both)
                found |= {link, (there, BACK[link[1]])}
        return found

    def _wanted(self) -> Iterator[Turn]:
        ahead = [(name, name) for name in NAMES]
        into_columns = [(came, out) for came in NAMES[:2] for out in NAMES[2:]]
        for closing in (False, True):
            for came, out in ahead + into_columns:
                for here in self.places:
                    over = self.closes((here, BACK[came])) or self.closes((here, out))
                    if over == closing:
                        yield here, came, out
        for came in NAMES[2:]:
            for out in NAMES[:2]:
                for here in self.places:
                    if self.near(here):
                        yield here, came, out

    def near(self, here: Router) -> bool:
        """Return whether a router with a broken link is nearby, also across the border."""
        for (x, y), _ in self.broken:
            across, down = abs(x - here[0]), abs(y - here[1])
            across, down = min(across, self.columns - across), min(down, self.rows - down)
            if max(across, down) <= NEARBY:
                return True
        return False

    def _permitted(self) -> set[Turn]:
        tree = self._tree()
        turns = {
            (here, came, out)
            for here in self.places
            for came in NAMES
            for out in NAMES
            if out != BACK[came] and (here, BACK[came]) in tree and (here, out) in tree
        }
        for turn in self._wanted():
            here, came, out = turn
            if (here, BACK[came]) in self.after and (here, out) in self.after:
                first = self.after[here, BACK[came]], came
                if turn not in turns and not self.leads(turns, (here, out), first):
                    turns.add(turn)
        return turns

    def leads(self, turns: set[Turn], first: Link, goal: Link) -> bool:
        """Return whether a packet may take link `goal` some time after link `first`."""
        seen, left = {first}, [first]
        while left:
            link = left.pop()
            if link == goal:
                return True
            here = self.after[link]
            for out in NAMES:
                if (here, link[1], out) in turns and (here, out) not in seen:
                    seen.add((here, out))
                    left.append((here, out))
        return False

    def number(self, link: Link) -> int:
        (x, y), name = link
        state = (4 * (y * self.columns + x) + NAMES.index(name) + 1) * 0x9E3779B97F4A7C15 % 2**64
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
        return (state ^ state >> 31) >> 24

    def routes(self, source: Router) -> dict[Router, list[Link]]:
        """Return the route to every router that can be reached."""
        if source not in self._routes:
            self._routes[source] = self._search(source)
        return self._routes[source]

    def _search(self, source: Router) -> dict[Router, list[Link]]:
        found: dict[Router, list[Link]] = {source: []}
        done: set[Link] = set()
        queue: list[tuple[int, int, int, list[Link]]] = []
        for name in NAMES:
            if (source, name) in self.after:
                heapq.heappush(queue, (1, 0, self.number((source, name)), [(source, name)]))
        while queue:
            hops, into_rows, total, path = heapq.heappop(queue)
            link = path[-1]
            if link in done:
                continue
            done.add(link)
            here = self.after[link]
            found.setdefault(here, path)
            for out in NAMES:
                if (here, link[1], out) in self.turns:
                    into = link[1] in ("south", "north") and out in ("east", "west")
                    more = total + self.number((here, out))
                    heapq.heappush(queue, (hops + 1, into_rows + into, more, [*path, (here, out)]))
        return found


_known: dict[tuple[object, ...], Faults] = {}


def faults_of(chip: Chip) -> Faults | None:
    """Return the faults of a chip; None without broken links."""
    if not chip.broken_links and not chip.broken_routers:
        return None
    key = chip.width, chip.height, chip.machine, chip.broken_links, chip.broken_routers
    if key not in _known:
        if len(_known) > 64:
            _known.clear()
        _known[key] = Faults(chip)
    return _known[key]
