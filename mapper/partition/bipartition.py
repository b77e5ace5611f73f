"""Bisection of blocks in memory: a small multilevel method, each block by one thread.

Coarsening by label propagation, greedy graph growing (Karypis and Kumar 1998) on the coarsest
level, two-way FM (Fiduccia and Mattheyses 1982) on every level. On the finest level the cut is
also smoothed: the two sides as values +1 and -1 are averaged over neighbours a few times (power
iteration towards the Fiedler vector) and cut at the median. Where connections reach farther than
a part is wide, FM alone ends in ragged parts: on a sheet of cortex the cut of one bisection is the
same, but the cut after all bisections and k-way refinement is 0.772 instead of 0.777.

A block is cut in two again and again until each piece has the number of cores that is asked for.
All of that happens in one call of a kernel for many blocks, without Python in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

COARSEST = 96  # vertices at which greedy growing starts
PREFER_SMOOTH = 1.01  # a smoothed cut may be this much worse: its shape is worth more
DENSE = 16  # connections of a vertex above which coarse levels cost more than they show
WORTHWHILE = 0.6  # so does a level that keeps more than this share of them
TRIED_ENTRIES = 20_000  # of all starts together, if there is more than one
UNSEEN = np.int64(2**62)


@dataclass(frozen=True, slots=True)
class BisectionEffort:
    """How hard each bisection tries.

    tries : random starts on the coarsest level; passes : of FM on each level
    smoothing : averaging steps on the finest level, 0 for none
    """

    tries: int = 4
    passes: int = 2
    smoothing: int = 12


@njit(cache=True, nogil=True)
def _next(state):
    """xorshift64*: a random number, and the state moves on."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return np.int64((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33))


@njit(cache=True, nogil=True)
def _sift_down(heap, place, cost, at, length):
    v = heap[at]
    while True:
        child = 2 * at + 1
        if child >= length:
            break
        if child + 1 < length and cost[heap[child + 1]] < cost[heap[child]]:
            child += 1
        if cost[heap[child]] >= cost[v]:
            break
        heap[at] = heap[child]
        place[heap[at]] = at
        at = child
    heap[at] = v
    place[v] = at


@njit(cache=True, nogil=True)
def _sift_up(heap, place, cost, at):
    v = heap[at]
    while at > 0:
        parent = (at - 1) // 2
        if cost[heap[parent]] <= cost[v]:
            break
        heap[at] = heap[parent]
        place[heap[at]] = at
        at = parent
    heap[at] = v
    place[v] = at


@njit(cache=True, nogil=True)
def _remove(heap, place, cost, v, length):
    at = place[v]
    length -= 1
    if at != length:
        heap[at] = heap[length]
        place[heap[at]] = at
        _sift_down(heap, place, cost, at, length)
        _sift_up(heap, place, cost, place[heap[at]])
    place[v] = -1
    return length


@njit(cache=True, nogil=True)
def _grow(n, indptr, ids, weights, sizes, target, most, side, heap, place, cost, state):
    """Side 0 grows from a random vertex by the vertex that adds least to the cut, up to target."""
    for v in range(n):
        side[v] = 1
        place[v] = -1
    held = np.int64(0)
    length = 0
    left = n
    while held < target and left > 0:
        if length == 0:  # the start, or a connected component is exhausted
            v = _next(state) % np.int64(n)
            while side[v] != 1:
                v = (v + 1) % np.int64(n)
        else:
            v = heap[0]
            length = _remove(heap, place, cost, v, length)
        left -= 1
        if held + sizes[v] > most:
            side[v] = 2  # too large: not looked at again
            continue
        side[v] = 0
        held += sizes[v]
        for e in range(indptr[v], indptr[v + 1]):
            u = ids[e]
            if side[u] != 1:
                continue
            if place[u] < 0:
                c = np.int64(0)
                for f in range(indptr[u], indptr[u + 1]):
                    c += weights[f] if side[ids[f]] != 0 else -np.int64(weights[f])
                cost[u] = c
                heap[length] = u
                place[u] = length
                length += 1
            else:
                cost[u] -= 2 * np.int64(weights[e])
            _sift_up(heap, place, cost, place[u])
    for v in range(n):
        if side[v] == 2:
            side[v] = 1


@njit(cache=True, nogil=True)
def _smooth(n, indptr, ids, weights, sizes, target, steps, x, side):
    """Average x over neighbours `steps` times, then cut where side 0 has its target.

    x : ndarray[float32], shape (n,); power iteration with the random walk's matrix, the constant
    vector taken out, so x goes towards the Fiedler vector
    """
    y = np.empty(n, np.float32)
    share = np.empty(n, np.float32)
    degree = np.empty(n, np.float64)
    total = 0.0
    for v in range(n):
        heavy = np.int64(0)
        for e in range(indptr[v], indptr[v + 1]):
            heavy += weights[e]
        degree[v] = heavy
        share[v] = 0.8 / heavy if heavy > 0 else 0.0
        total += heavy
    for _ in range(steps):
        mean = 0.0
        for v in range(n):
            # four sums: one would wait for itself at every step
            row = ids[indptr[v] : indptr[v + 1]]
            row_weights = weights[indptr[v] : indptr[v + 1]]
            a = np.float32(0.0)
            b = np.float32(0.0)
            c = np.float32(0.0)
            d = np.float32(0.0)
            fours = row.size // 4
            for q in range(fours):
                e = 4 * q
                a += np.float32(row_weights[e]) * x[np.uint32(row[e])]
                b += np.float32(row_weights[e + 1]) * x[np.uint32(row[e + 1])]
                c += np.float32(row_weights[e + 2]) * x[np.uint32(row[e + 2])]
                d += np.float32(row_weights[e + 3]) * x[np.uint32(row[e + 3])]
            for e in range(4 * fours, row.size):
                a += np.float32(row_weights[e]) * x[np.uint32(row[e])]
            # lazy: with a full step the two colours of a bipartite graph would swap for ever
            y[v] = share[v] * ((a + b) + (c + d)) + np.float32(0.2) * x[v]
            mean += y[v] * degree[v]
        mean = mean / total if total > 0 else 0.0
        largest = np.float32(1e-30)
        for v in range(n):
            x[v] = y[v] - np.float32(mean)
            largest = max(largest, abs(x[v]))
        for v in range(n):
            x[v] /= largest
    held = np.int64(0)
    for v in np.argsort(-x, kind="mergesort"):
        side[v] = 0 if held + sizes[v] // 2 < target else 1
        held += sizes[v]


@njit(cache=True, nogil=True)
def _cut_and_excess(n, indptr, ids, weights, sizes, most0, most1, side):
    """Weight between the sides, and the size by which they are above their limits."""
    cut = np.int64(0)
    held0 = np.int64(0)
    held1 = np.int64(0)
    for v in range(n):
        if side[v] == 0:
            held0 += sizes[v]
            for e in range(indptr[v], indptr[v + 1]):
                if side[np.uint32(ids[e])] != 0:
                    cut += weights[e]
        else:
            held1 += sizes[v]
    return cut, max(np.int64(0), held0 - most0) + max(np.int64(0), held1 - most1)


@njit(cache=True, nogil=True)
def _fm(n, indptr, ids, weights, sizes, most0, most1, passes, side, heap, place, cost, moves):
    """Two-way FM: single moves, best first, each vertex once a pass; back to the best prefix.

    heap : shape (2, n), one queue per side, by the cost (loss) of moving; moves : scratch
    """
    total = np.int64(0)
    for v in range(n):
        total += sizes[v]
        place[v] = -1
    most = np.array([most0, most1])
    patience = max(32, n // 8)
    for _ in range(passes):
        length = np.zeros(2, np.int64)
        held = np.zeros(2, np.int64)
        for v in range(n):
            c = np.int64(0)
            for e in range(indptr[v], indptr[v + 1]):
                c += weights[e] if side[np.uint32(ids[e])] == side[v] else -np.int64(weights[e])
            cost[v] = c
            s = side[v]
            held[s] += sizes[v]
            heap[s, length[s]] = v
            place[v] = length[s]
            length[s] += 1
        for s in range(2):
            for i in range(length[s] // 2 - 1, -1, -1):
                _sift_down(heap[s], place, cost, i, length[s])
        gain = np.int64(0)
        best_gain = np.int64(0)
        excess = max(np.int64(0), held[0] - most0) + max(np.int64(0), held[1] - most1)
        best_excess = excess
        done = 0
        best_done = 0
        while done - best_done < patience:
            s = -1
            for t in range(2):
                # an overfull side must give; else the cheaper move of those that fit
                if held[t] > most[t] and length[t] > 0:
                    s = t
            if s < 0:
                for t in range(2):
                    if length[t] == 0 or held[1 - t] + sizes[heap[t, 0]] > most[1 - t]:
                        continue  # no room now; there may be once the other side has given
                    if s < 0 or cost[heap[t, 0]] < cost[heap[s, 0]]:
                        s = t
                if s < 0:  # neither fits: look behind the larger of the two
                    t = 0 if length[0] > 0 else 1
                    if length[0] > 0 and length[1] > 0 and sizes[heap[1, 0]] > sizes[heap[0, 0]]:
                        t = 1
                    if length[t] == 0:
                        break
                    length[t] = _remove(heap[t], place, cost, heap[t, 0], length[t])
                    continue
            v = heap[s, 0]
            length[s] = _remove(heap[s], place, cost, v, length[s])
            side[v] = 1 - s
            held[s] -= sizes[v]
            held[1 - s] += sizes[v]
            gain -= cost[v]
            moves[done] = v
            done += 1
            for e in range(indptr[v], indptr[v + 1]):
                u = ids[e]
                if place[u] < 0:
                    continue
                if side[u] == s:  # v has left u's side
                    cost[u] -= 2 * np.int64(weights[e])
                    _sift_up(heap[s], place, cost, place[u])
                else:
                    cost[u] += 2 * np.int64(weights[e])
                    _sift_down(heap[1 - s], place, cost, place[u], length[1 - s])
            excess = max(np.int64(0), held[0] - most0) + max(np.int64(0), held[1] - most1)
            if excess < best_excess or (excess == best_excess and gain > best_gain):
                best_excess = excess
                best_gain = gain
                best_done = done
        for i in range(best_done, done):
            side[moves[i]] = 1 - side[moves[i]]
        for v in range(n):
            place[v] = -1
        if best_done == 0:
            break


@njit(cache=True, nogil=True)
def _cluster(n, indptr, ids, weights, sizes, limit, cluster, held, pull, touched, order, state):
    """Two rounds of label propagation, vertices in random order; returns the number of clusters."""
    for v in range(n):
        cluster[v] = v
        held[v] = sizes[v]
        order[v] = v
    for _ in range(2):
        for i in range(n - 1, 0, -1):
            j = _next(state) % (i + 1)
            order[i], order[j] = order[j], order[i]
        for i in range(n):
            v = order[i]
            count = 0
            for e in range(indptr[v], indptr[v + 1]):
                c = cluster[ids[e]]
                if pull[c] == 0 and weights[e] > 0:
                    touched[count] = c
                    count += 1
                pull[c] += weights[e]
            own = cluster[v]
            best = own
            most = pull[own]
            for t in range(count):
                c = touched[t]
                if pull[c] > most and held[c] + sizes[v] <= limit:
                    best = c
                    most = pull[c]
            for t in range(count):
                pull[touched[t]] = 0
            held[own] -= sizes[v]
            held[best] += sizes[v]
            cluster[v] = best
    number = np.int64(0)
    for v in range(n):
        touched[v] = -1
    for v in range(n):
        c = cluster[v]
        if touched[c] < 0:
            touched[c] = number
            number += 1
        cluster[v] = touched[c]
    return number


@njit(cache=True, nogil=True)
def _contract(
    n, indptr, ids, weights, sizes, cluster, count, out_indptr, out_ids, out_weights, out_sizes,
    pull, touched, order,
):  # fmt: skip
    """The graph of clusters; parallel connections add up, up to what an int32 holds."""
    start = np.zeros(count + 1, np.int64)
    for v in range(n):
        start[cluster[v] + 1] += 1
    for c in range(count):
        start[c + 1] += start[c]
        out_sizes[c] = 0
    at = start[:-1].copy()
    for v in range(n):
        order[at[cluster[v]]] = v
        at[cluster[v]] += 1
        out_sizes[cluster[v]] += sizes[v]
    entries = 0
    out_indptr[0] = 0
    for c in range(count):
        found = 0
        for i in range(start[c], start[c + 1]):
            v = order[i]
            for e in range(indptr[v], indptr[v + 1]):
                d = cluster[ids[e]]
                if d == c:
                    continue
                if pull[d] == 0 and weights[e] > 0:
                    touched[found] = d
                    found += 1
                pull[d] += weights[e]
        for t in range(found):
            out_ids[entries] = touched[t]
            out_weights[entries] = min(pull[touched[t]], 2**31 - 1)
            pull[touched[t]] = 0
            entries += 1
        out_indptr[c + 1] = entries


@njit(cache=True, nogil=True)
def _grown(array, need):
    """The array, or a longer copy of it."""
    if array.size >= need:
        return array
    longer = np.empty(max(need, 2 * array.size), array.dtype)
    longer[: array.size] = array
    return longer


@njit(cache=True, nogil=True)
def _bisect(
    n, indptr, ids, weights, sizes, target, most0, most1, tries, passes, smoothing, state, side
):
    """Cut one graph in two; `side` gets 0 or 1 per vertex."""
    heap = np.empty((2, n), np.int64)
    place = np.empty(n, np.int64)
    cost = np.empty(n, np.int64)
    moves = np.empty(n, np.int64)
    if smoothing > 0 and ids.size > DENSE * n:
        # from a random vertex: what spreads from there turns into the Fiedler vector
        x = np.zeros(n, np.float32)
        x[_next(state) % np.int64(n)] = 1.0
        _smooth(n, indptr, ids, weights, sizes, target, 2 * smoothing, x, side)
        _fm(n, indptr, ids, weights, sizes, most0, most1, passes, side, heap, place, cost, moves)
        return
    # levels lie behind one another in the same arrays; v_at and e_at say where each starts
    all_indptr = np.empty(2 * n + 64, np.int64)
    all_ids = np.empty(ids.size, np.int32)
    all_weights = np.empty(ids.size, np.int32)
    all_sizes = np.empty(2 * n + 64, np.int64)
    clusters = np.empty(2 * n + 64, np.int32)
    v_at = np.zeros(66, np.int64)
    e_at = np.zeros(66, np.int64)
    counts = np.zeros(66, np.int64)
    all_indptr[: n + 1] = indptr[: n + 1]
    all_ids[: ids.size] = ids
    all_weights[: ids.size] = weights
    all_sizes[:n] = sizes[:n]
    counts[0] = n
    e_at[1] = ids.size
    v_at[1] = n + 1
    held = np.empty(n, np.int64)
    pull = np.zeros(n, np.int64)
    touched = np.empty(n, np.int64)
    order = np.empty(n, np.int64)
    total = sizes[:n].sum()
    levels = 1
    while counts[levels - 1] > COARSEST and levels < 64:
        m = counts[levels - 1]
        v0, e0, v1, e1 = v_at[levels - 1], e_at[levels - 1], v_at[levels], e_at[levels]
        limit = max(np.int64(1), 6 * total // m)
        clusters = _grown(clusters, v1 + m)
        count = _cluster(
            m, all_indptr[v0 : v0 + m + 1], all_ids[e0:e1], all_weights[e0:e1],
            all_sizes[v0 : v0 + m], limit, clusters[v0 : v0 + m], held, pull, touched, order,
            state,
        )  # fmt: skip
        if count > 0.9 * m:
            break
        all_indptr = _grown(all_indptr, v1 + count + 1)
        all_sizes = _grown(all_sizes, v1 + count + 1)
        all_ids = _grown(all_ids, e1 + (e1 - e0))
        all_weights = _grown(all_weights, e1 + (e1 - e0))
        _contract(
            m, all_indptr[v0 : v0 + m + 1], all_ids[e0:e1], all_weights[e0:e1],
            all_sizes[v0 : v0 + m], clusters[v0 : v0 + m], count,
            all_indptr[v1 : v1 + count + 1], all_ids[e1:], all_weights[e1:],
            all_sizes[v1 : v1 + count], pull, touched, order,
        )  # fmt: skip
        if all_indptr[v1 + count] > WORTHWHILE * (e1 - e0):
            break
        counts[levels] = count
        v_at[levels + 1] = v1 + count + 1
        e_at[levels + 1] = e1 + all_indptr[v1 + count]
        levels += 1

    trial = np.empty(n, np.uint8)
    finer = np.empty(n, np.uint8)
    best_cut = UNSEEN
    best_excess = UNSEEN
    for level in range(levels - 1, -1, -1):
        m = counts[level]
        v0, e0, e1 = v_at[level], e_at[level], e_at[level + 1]
        p, i, w = all_indptr[v0 : v0 + m + 1], all_ids[e0:e1], all_weights[e0:e1]
        z = all_sizes[v0 : v0 + m]
        if level == levels - 1:
            for _ in range(max(1, min(tries, TRIED_ENTRIES // max(1, p[m])))):
                _grow(m, p, i, w, z, target, most0, trial, heap[0], place, cost, state)
                _fm(m, p, i, w, z, most0, most1, passes, trial, heap, place, cost, moves)
                cut, excess = _cut_and_excess(m, p, i, w, z, most0, most1, trial)
                if excess < best_excess or (excess == best_excess and cut < best_cut):
                    best_cut = cut
                    best_excess = excess
                    side[:m] = trial[:m]
        else:
            for v in range(m):
                finer[v] = side[clusters[v0 + v]]
            side[:m] = finer[:m]
            _fm(m, p, i, w, z, most0, most1, passes, side, heap, place, cost, moves)
    if smoothing > 0 and n > 8:
        cut, excess = _cut_and_excess(n, indptr, ids, weights, sizes, most0, most1, side)
        x = np.empty(n, np.float32)
        for v in range(n):
            x[v] = 1.0 if side[v] == 0 else -1.0
        _smooth(n, indptr, ids, weights, sizes, target, smoothing, x, trial)
        _fm(n, indptr, ids, weights, sizes, most0, most1, passes, trial, heap, place, cost, moves)
        new_cut, new_excess = _cut_and_excess(n, indptr, ids, weights, sizes, most0, most1, trial)
        if new_excess < excess or (new_excess == excess and new_cut <= PREFER_SMOOTH * cut):
            side[:n] = trial[:n]


@njit(cache=True, nogil=True)
def _extract(n, indptr, ids, weights, sizes, piece, wanted, local, members, indptr_out, sizes_out):
    """Vertices of a piece with their rows inside it; returns ids and weights of the rows."""
    count = 0
    entries = 0
    for v in range(n):
        if piece[v] == wanted:
            local[v] = count
            members[count] = v
            count += 1
            entries += indptr[v + 1] - indptr[v]
    sub_ids = np.empty(entries + 1, np.int32)
    sub_weights = np.empty(entries + 1, np.int32)
    at = 0
    indptr_out[0] = 0
    for c in range(count):
        v = members[c]
        sizes_out[c] = sizes[v]
        for e in range(indptr[v], indptr[v + 1]):
            u = np.uint32(ids[e])
            sub_ids[at] = local[u]  # written anyway: whether it stays is hard to predict
            sub_weights[at] = weights[e]
            at += piece[u] == wanted
        indptr_out[c + 1] = at
    return count, sub_ids[:at], sub_weights[:at]


@njit(cache=True, nogil=True)
def _limits(size, cores, left, capacity):
    """Target of side 0 and limits of both: the slack is shared by the bisections still to come."""
    right = cores - left
    depth = 1
    while (1 << depth) < cores:
        depth += 1
    slack = max(1.0, cores * capacity / max(size, 1)) ** (1.0 / depth)
    share = size * (left / cores)
    target = np.int64(np.rint(share))
    most0 = max(min(np.int64(share * slack), left * capacity), target)
    most1 = max(min(np.int64((size - share) * slack), right * capacity), size - target)
    return target, most0, most1


@njit(cache=True, nogil=True)
def _split(
    n, indptr, ids, weights, sizes, cores, stop, capacity, tries, passes, smoothing, seed, piece,
    piece_cores,
):  # fmt: skip
    """Cut a block until no piece has over `stop` cores; returns the number of pieces.

    piece : ndarray[int32], shape (n,), gets the piece of every vertex; neighbouring numbers are
    pieces of the same piece. piece_cores : gets the cores of each, shape (cores,) or longer.
    """
    state = np.array([np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) | np.uint64(1)])
    piece[:n] = 0
    piece_cores[0] = cores
    count = 1
    local = np.empty(n, np.int32)
    members = np.empty(n, np.int64)
    sub_indptr = np.empty(n + 1, np.int64)
    sub_sizes = np.empty(n, np.int64)
    side = np.empty(n, np.uint8)
    at = 0
    while at < count:
        if piece_cores[at] <= stop:
            at += 1
            continue
        m, sub_ids, sub_weights = _extract(
            n, indptr, ids, weights, sizes, piece, at, local, members, sub_indptr, sub_sizes
        )
        left = (piece_cores[at] + 1) // 2
        size = sub_sizes[:m].sum()
        target, most0, most1 = _limits(size, piece_cores[at], left, capacity)
        if m > 1:
            _bisect(
                m, sub_indptr[: m + 1], sub_ids, sub_weights, sub_sizes[:m], target, most0,
                most1, tries, passes, smoothing, state, side,
            )  # fmt: skip
        else:
            side[:m] = 0
        for v in range(n):
            if piece[v] > at:
                piece[v] += 1
        for c in range(m):
            piece[members[c]] = at + side[c]
        for b in range(count, at + 1, -1):
            piece_cores[b] = piece_cores[b - 1]
        piece_cores[at + 1] = piece_cores[at] - left
        piece_cores[at] = left
        count += 1
    return count


@njit(cache=True, nogil=True)
def _split_gathered(
    blocks, members, start, offset, used, ids, weights, sizes, cores, stop, capacity, tries,
    passes, smoothing, seed, piece, piece_cores, piece_start, pieces,
):  # fmt: skip
    """`_split` for several blocks whose rows were gathered; see `mapper.partition.splitting`."""
    for b in blocks:
        n = start[b + 1] - start[b]
        entries = np.int64(0)
        for i in range(start[b], start[b + 1]):
            entries += used[members[i]]
        indptr = np.empty(n + 1, np.int64)
        own_ids = np.empty(entries, np.int32)
        own_weights = np.empty(entries, np.int32)
        own_sizes = np.empty(n, np.int64)
        at = 0
        indptr[0] = 0
        for i in range(n):
            v = members[start[b] + i]
            own_sizes[i] = sizes[v]
            for e in range(offset[v], offset[v] + used[v]):
                own_ids[at] = ids[e]
                own_weights[at] = weights[e]
                at += 1
            indptr[i + 1] = at
        own_piece = np.empty(n, np.int32)
        pieces[b] = _split(
            n, indptr, own_ids, own_weights, own_sizes, cores[b], stop, capacity, tries, passes,
            smoothing, seed + b, own_piece, piece_cores[piece_start[b] : piece_start[b + 1]],
        )  # fmt: skip
        for i in range(n):
            piece[members[start[b] + i]] = own_piece[i]
