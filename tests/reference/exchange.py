"""Reference implementation of `mapper.limits.exchange` and `relief`: recounts after every move."""

from __future__ import annotations

from dataclasses import dataclass

from tests.reference import limits as limits_twin

WORD = 1 << 64


class Draws:
    """xorshift64*, the upper half of each number scaled to a range."""

    def __init__(self, state: int) -> None:
        self.state = state

    def draw(self, below: int) -> int:
        x = self.state
        x ^= x >> 12
        x ^= (x << 25) % WORD
        x ^= x >> 27
        self.state = x
        return ((x * 0x2545F4914F6CDD1D % WORD) >> 32) * below >> 32


@dataclass
class Case:
    """Neurons in items, items in parts.

    edges : distinct synapses
    item : item of every neuron
    place : part of every item
    sizes : sizes of the neurons
    limits, weight : values of the five limits, and of the offset of `least` if there is one
    least : least size of every part; above its offset, a sixth row counts the deficit
    bits : of memory, per unit of neuron size and per synapse
    """

    edges: limits_twin.Edges
    item: list[int]
    place: list[int]
    sizes: list[int]
    parts: int
    limits: list[int]
    weight: list[int]
    copies: bool = False
    bits: tuple[int, int] = (0, 0)
    least: list[int] | None = None

    def part(self) -> list[int]:
        return [self.place[i] for i in self.item]

    def use(self) -> list[list[int]]:
        found = limits_twin.use(
            self.edges, self.part(), self.parts, self.sizes, self.copies, self.bits
        )
        if self.least is None:
            return found
        lack = [one - held for one, held in zip(self.least, found[0], strict=True)]
        return [*found, [self.limits[5] + one for one in lack]]

    def total(self) -> int:
        return limits_twin.excess(self.use(), self.limits, self.weight)

    def above(self, k: int) -> list[int]:
        """Return the excess of a part over each limit."""
        use = self.use()
        return [max(0, use[r][k] - self.limits[r]) for r in range(len(self.limits))]

    def over(self, k: int) -> int:
        return sum(w * a for w, a in zip(self.weight, self.above(k), strict=True))

    def move(self, v: int, to: int) -> int:
        before = self.total()
        self.place[v] = to
        return self.total() - before

    def rows(self, v: int) -> list[int]:
        """Return the source of every synapse of an item, in order."""
        return sorted(s for s, t in self.edges if self.item[t] == v)

    def size(self, v: int) -> int:
        return sum(size for size, i in zip(self.sizes, self.item, strict=True) if i == v)

    def memory(self, v: int) -> int:
        return self.bits[0] * self.size(v) + self.bits[1] * len(self.rows(v))

    def sources(self, k: int) -> set[int]:
        """Return the neurons with a synapse in a part."""
        part = self.part()
        return {s for s, t in self.edges if part[t] == k}

    def leaving(self, v: int) -> int:
        """Return the (neuron of the item, other part) pairs; or its neurons and their copies."""
        part, own = self.part(), self.place[v]
        if self.copies:
            each = limits_twin.reach(self.edges, part)
            return sum(max(1, n) for n, i in zip(each, self.item, strict=True) if i == v)
        return len({(s, part[t]) for s, t in self.edges if self.item[s] == v and part[t] != own})

    def relief(self, v: int) -> int:
        own = self.place[v]
        others = {s for s, t in self.edges if self.item[t] != v and self.place[self.item[t]] == own}
        rows = self.rows(v)
        gone = len(set(rows) - others)
        uses = (self.size(v), len(rows), gone, self.leaving(v), self.memory(v))
        above = self.above(own)
        return sum(self.weight[r] * min(uses[r], above[r]) for r in range(5))

    def judge(self, v: int, to: int) -> tuple[int, int]:
        """Return the estimated excess added by an item at its destination, and its new sources."""
        use, rows = self.use(), self.rows(v)
        new = set(rows) - self.sources(to)
        uses = (self.size(v), len(rows), len(new), self.leaving(v), self.memory(v))
        change = 0
        for r in range(5):
            before = max(0, use[r][to] - self.limits[r])
            after = max(0, use[r][to] + uses[r] - self.limits[r])
            change += self.weight[r] * (after - before)
        if self.least is not None:
            change -= self.weight[5] * min(self.size(v), self.above(to)[5])
        for s in new:
            home = self.place[self.item[s]]
            if (self.copies or home != to) and use[3][home] >= self.limits[3]:
                change += self.weight[3]
        return change, len(new)


@dataclass
class Search:
    """State of a visit.

    active : parts that take part
    lists : items of each part, the first in front
    roomy, empty : parts with room, and without items
    fixed : whether each item is fixed
    domain : parts that each item may be in
    """

    case: Case
    active: list[int]
    lists: list[list[int]]
    roomy: list[int]
    empty: list[int]
    fixed: list[bool]
    domain: list[set[int]]
    draws: Draws
    near: int
    spread: int
    room: int
    sample: int
    links: int
    pulls: int

    def candidates(self, v: int, turn: int) -> list[int]:
        case, own = self.case, self.case.place[v]
        found: list[int] = []
        rows = case.rows(v)
        for s in rows[:: max(1, len(rows) // self.sample)]:
            k = case.place[case.item[s]]
            known = k == own or k not in self.active or k in found or k not in self.domain[v]
            if len(found) < self.near and not known:
                found.append(k)
        drawn = [self.active[self.draws.draw(len(self.active))] for _ in range(self.spread)]
        turns = range(min(self.room, len(self.roomy)))
        drawn += [self.roomy[(turn + j) % len(self.roomy)] for j in turns]
        return found + [k for k in drawn if k != own and k in self.domain[v]]

    def relink(self, v: int, own: int, to: int) -> None:
        self.lists[own].remove(v)
        self.lists[to].insert(0, v)

    def relieve(self, queue: list[int], chains: int) -> tuple[int, int]:
        """Return the number of moves kept, and the change of the excess."""
        case, moved, total, turn = self.case, 0, 0, 0
        for c in queue:
            if case.over(c) == 0:
                continue
            change, count = self.pull(c, self.pulls * chains)
            total, moved = total + change, moved + count
            inside = [v for v in self.lists[c] if not self.fixed[v]]
            priority = {v: 1e-3 * len(case.rows(v)) - case.relief(v) for v in inside}
            for v in sorted(inside, key=lambda v: priority[v]):
                if case.over(c) == 0:
                    break
                relief = case.relief(v)
                if relief == 0:
                    continue
                wanted = self.candidates(v, turn)
                turn += self.room
                bare = [k for k in self.empty if not self.lists[k]][:1]
                wanted += [k for k in bare if k in self.domain[v]]
                judged = [case.judge(v, k) for k in wanted]
                if not judged or min(judged)[0] >= relief:
                    continue
                best = wanted[judged.index(min(judged))]
                change = case.move(v, best)
                if change >= 0:
                    case.move(v, c)
                    continue
                total, moved = total + change, moved + 1
                self.relink(v, c, best)
            if case.over(c) == 0 or len(self.active) < 2:
                continue
            for _ in range(chains):
                if case.over(c) == 0 or not inside:
                    break
                change, count = self.chain(c, inside)
                total, moved = total + change, moved + count
        return moved, total

    def pull(self, c: int, tries: int) -> tuple[int, int]:
        """Move items of other parts into a part below its least size."""
        case, draw, total, moved = self.case, self.draws.draw, 0, 0
        for _ in range(tries):
            if case.least is None or case.above(c)[5] == 0:
                break
            k = self.active[draw(len(self.active))]
            rows = case.rows(self.lists[c][0]) if self.lists[c] else []
            if rows and draw(4) > 0:
                near = case.place[case.item[rows[draw(len(rows))]]]
                k = near if near in self.active else k
            steps = draw(2 * self.links)
            if not self.lists[k] or k == c:
                continue
            v = self.lists[k][min(steps, len(self.lists[k]) - 1)]
            if self.fixed[v] or c not in self.domain[v]:
                continue
            change = case.move(v, c)
            if change >= 0:
                case.move(v, k)
                continue
            self.relink(v, k, c)
            total, moved = total + change, moved + 1
        return total, moved

    def chain(self, c: int, inside: list[int]) -> tuple[int, int]:
        """Move one item to a part, then another item of that part further or back."""
        case, draw = self.case, self.draws.draw
        v = inside[draw(len(inside))]
        to = self.active[draw(len(self.active))]
        rows = case.rows(v)
        if rows and draw(4) > 0:
            near = case.place[case.item[rows[draw(len(rows))]]]
            to = near if near in self.active else to
        if case.place[v] != c or to == c or to not in self.domain[v]:
            return 0, 0
        change = case.move(v, to)
        if change < 0:
            self.relink(v, c, to)
            return change, 1
        others = list(self.lists[to])
        start = min(draw(2 * self.links), max(0, len(others) - 1))
        for tried, u in enumerate(others[start : start + self.links]):
            onward = c if tried % 2 == 0 else self.active[draw(len(self.active))]
            if self.fixed[u] or onward == to or onward not in self.domain[u]:
                continue
            further = case.move(u, onward)
            if change + further < 0 or (change + further == 0 and draw(4) == 0):
                self.relink(v, c, to)
                self.relink(u, to, onward)
                return change + further, 2
            case.move(u, to)
        case.move(v, c)
        return 0, 0
