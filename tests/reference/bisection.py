"""Reference implementation of the kernels that bisect a block."""

from __future__ import annotations

from collections.abc import Sequence

from tests.reference.partitioning import Adjacency, merged, pulls

WORD = 2**64


class Xorshift:
    """xorshift64*, the upper 31 bits of each number."""

    def __init__(self, state: int) -> None:
        self.state = state

    def next(self) -> int:
        x = self.state
        x ^= x >> 12
        x ^= x << 25 & WORD - 1
        x ^= x >> 27
        self.state = x
        return (x * 0x2545F4914F6CDD1D % WORD) >> 33


def grow(
    adjacency: Adjacency,
    sizes: Sequence[int],
    bias: Sequence[int],
    target: int,
    most: int,
    random: Xorshift,
) -> list[int]:
    """Return sides; the cost of every vertex adjacent to side 0 is recomputed for every choice."""
    n = len(adjacency)
    zero: set[int] = set()
    waiting = set(range(n))
    held = 0

    def cost(v: int) -> int:
        return sum(-w if u in zero else w for u, w in adjacency[v]) - bias[v]

    while held < target and waiting:
        beside = [v for v in waiting if any(u in zero for u, _ in adjacency[v])]
        if beside:
            v = min(beside, key=cost)
        else:
            v = random.next() % n
            while v not in waiting:
                v = (v + 1) % n
        waiting.remove(v)
        if held + sizes[v] <= most:
            zero.add(v)
            held += sizes[v]
    return [0 if v in zero else 1 for v in range(n)]


def averaged(adjacency: Adjacency, x: Sequence[float], steps: int) -> list[float]:
    """Return 4/5 of the neighbours' mean and 1/5 of the own value, centred and scaled to 1."""
    degree = [sum(w for _, w in links) for links in adjacency]
    total = sum(degree)
    x = list(x)
    for _ in range(steps):
        y = [
            (0.8 * sum(w * x[u] for u, w in links) / d if d else 0.0) + 0.2 * x[v]
            for v, (links, d) in enumerate(zip(adjacency, degree, strict=True))
        ]
        mean = sum(a * d for a, d in zip(y, degree, strict=True)) / max(total, 1)
        largest = max(1e-30, *(abs(a - mean) for a in y))
        x = [(a - mean) / largest for a in y]
    return x


def sampled(
    adjacency: Adjacency, x: Sequence[float], steps: int, seen: int, centred: int
) -> list[float]:
    """Like `averaged`, over `seen` connections of each vertex, evenly spaced in its row.

    The mean is subtracted, and the largest value scaled to 1, after every `centred` steps and at
    the end.
    """
    rows = [
        [links[i * len(links) // seen] for i in range(seen)] if links else [] for links in adjacency
    ]
    x = list(x)

    def centre() -> list[float]:
        degree = [sum(w for _, w in row) for row in rows]
        mean = sum(a * d for a, d in zip(x, degree, strict=True)) / max(sum(degree), 1)
        largest = max(1e-30, *(abs(a - mean) for a in x))
        return [(a - mean) / largest for a in x]

    for done in range(1, steps + 1):
        x = [
            (0.8 * sum(w * x[u] for u, w in row) / total if total else 0.0) + 0.2 * x[v]
            for v, row in enumerate(rows)
            for total in [sum(w for _, w in row)]
        ]
        if done % centred == 0:
            x = centre()
    return centre()


def halved(x: Sequence[float], sizes: Sequence[int], target: int) -> list[int]:
    """Put the largest values on side 0: vertices of which at least half fits below the target."""
    side, held = [1] * len(x), 0
    for v in sorted(range(len(x)), key=lambda v: -x[v]):
        side[v] = 0 if held + sizes[v] // 2 < target else 1
        held += sizes[v]
    return side


def excess(sizes: Sequence[int], most: Sequence[int], side: Sequence[int]) -> int:
    held = [sum(z for z, s in zip(sizes, side, strict=True) if s == t) for t in (0, 1)]
    return sum(max(0, h - m) for h, m in zip(held, most, strict=True))


def fm(
    adjacency: Adjacency,
    sizes: Sequence[int],
    most: Sequence[int],
    passes: int,
    side: Sequence[int],
    bias: Sequence[int],
    haste: int = 8,
) -> list[int]:
    """Return sides after some passes; all costs are recomputed for every move."""
    side = list(side)
    n = len(side)

    def cost(v: int) -> int:
        links = sum(w if side[u] == side[v] else -w for u, w in adjacency[v])
        return links + (-bias[v] if side[v] else bias[v])

    for _ in range(passes):
        free = set(range(n))
        best, best_side, gain = (excess(sizes, most, side), 0), list(side), 0
        since_best = moves_kept = moved = 0
        while since_best < max(32, n // haste):
            held = [sum(sizes[v] for v in range(n) if side[v] == t) for t in (0, 1)]
            first = {}
            for t in (0, 1):
                mine = [v for v in free if side[v] == t]
                if mine:
                    first[t] = min(mine, key=cost)
            over = [t for t in first if held[t] > most[t]]
            fits = [
                t for t in first if 1 - t in first or held[1 - t] + sizes[first[t]] <= most[1 - t]
            ]
            if over:
                v = first[over[-1]]
            elif fits:
                v = first[min(fits, key=lambda t: cost(first[t]))]
            elif first:  # continue after the one that does not fit
                free.remove(*first.values())
                continue
            else:
                break
            free.remove(v)
            gain -= cost(v)
            side[v] = 1 - side[v]
            moved += 1
            since_best += 1
            now = (excess(sizes, most, side), -gain)
            if now < best:
                best, best_side, moves_kept, since_best = now, list(side), moved, 0
        side = best_side
        if not moves_kept:
            break
    return side


def cluster(adjacency: Adjacency, sizes: Sequence[int], limit: int, random: Xorshift) -> list[int]:
    """Run two rounds of label propagation; clusters are numbered in the order of first members."""
    n = len(adjacency)
    label, held, order = list(range(n)), list(sizes), list(range(n))
    for _ in range(2):
        for i in range(n - 1, 0, -1):
            j = random.next() % (i + 1)
            order[i], order[j] = order[j], order[i]
        for v in order:
            own = label[v]
            pull = pulls([(u, w) for u, w in adjacency[v] if w > 0], label)
            here = pull.pop(own, 0)
            better = [c for c in pull if pull[c] > here and held[c] + sizes[v] <= limit]
            best = max(better, key=lambda c: pull[c], default=own)
            held[own] -= sizes[v]
            held[best] += sizes[v]
            label[v] = best
    numbers = {c: number for number, c in enumerate(dict.fromkeys(label))}
    return [numbers[c] for c in label]


def contract(adjacency: Adjacency, label: Sequence[int]) -> dict[tuple[int, int], int]:
    """Return the weight between clusters; connections of weight 0 vanish."""
    triples = [
        (label[v], label[u], w)
        for v, links in enumerate(adjacency)
        for u, w in links
        if label[u] != label[v] and w > 0
    ]
    return {pair: min(w, 2**31 - 1) for pair, w in merged(triples).items()}


def limits(size: int, cores: int, left: int, capacity: int) -> tuple[int, int, int]:
    """Return the target of side 0 and the limits of both sides."""
    depth = max(1, (cores - 1).bit_length())
    slack = max(1.0, cores * capacity / max(size, 1)) ** (1.0 / depth)
    share = size * (left / cores)
    target = round(share)
    most0 = min(int(share * slack), left * capacity)
    most1 = min(int((size - share) * slack), (cores - left) * capacity)
    return target, max(most0, target), max(most1, size - target)
