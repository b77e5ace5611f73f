"""hMETIS hypergraph files, as in the hMETIS 1.5 manual, section 5: one hyperedge is one axon.

The first line is ``hyperedges vertices [fmt]``. Each of the next lines lists the pins of a
hyperedge, from 1, after its weight if fmt is 1 or 11. If fmt is 10 or 11, one line per vertex with
its weight follows. Blank lines and lines that start with % are skipped.

Vertices are neurons, their weight is the attribute `size`. Each hyperedge becomes the outgoing
synapses of one neuron, to all its other pins, each with the weight of the hyperedge, which is then
the rate of the neuron. So its share of the multicast connectivity is weight * (cores of its pins -
1), and the sum over all neurons is the objective km1 of hypergraph partitioners.

A neuron has one axon. By a maximum matching, as many hyperedges as possible get one of their pins
as source; each other hyperedge gets an additional neuron of size 0, numbered after all
vertices. The sums are equal if such a neuron is on a core with one of its pins, where it needs no
capacity. The attribute `hyperedge` is the number of the hyperedge that a neuron drives, 0 for none.
Hyperedges of one pin never cost anything; they are dropped and counted, like repeated pins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from storage.budget import require_room
from storage.errors import BadInputError
from storage.formats.base import ImportJob, Progress
from storage.formats.text.metis import _check_whole
from storage.formats.text.reader import TextReader, read_counts
from storage.graph import MAX_VERTICES
from storage.store.meta import NetworkMeta
from storage.store.network import SIZE

HYPEREDGE = "hyperedge"  # attribute: number of the hyperedge that a neuron drives
FORMS = ("0", "1", "10", "11")
NODE_BYTES = 24  # per vertex and hyperedge: weights, offsets, and the matching

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Nets:
    """Hyperedges as stored in the file.

    start : shape (nets + 1,), offsets into pins; pins : from 0, unique within a net
    weights : shape (nets,); sizes : shape (vertices,); repeated : number of repeated pins dropped
    """

    start: Int64
    pins: Int64
    weights: Int64
    sizes: Int64
    repeated: int


def read_nets(reader: TextReader, progress: Progress, memory: int) -> Nets:
    """Read an open file into memory: 24 bytes per pin while reading.

    memory : bytes for the vertices and hyperedges that the header declares
    Raises `BadInputError` with the line of the first fault, or `MemoryShortError`.
    """
    words, (count, vertices, *_) = read_counts(reader, 3, "hyperedges vertices [fmt]")
    fmt = words[2].lstrip("0") or "0" if len(words) == 3 else "0"
    if fmt not in FORMS:
        raise BadInputError(f"{reader.where()}: fmt is {words[2]!r}; it must be 0, 1, 10 or 11")
    if vertices == 0:
        raise BadInputError(f"{reader.where()}: no neurons; a network needs at least one")
    if vertices + count > MAX_VERTICES:
        raise BadInputError(
            f"{reader.where()}: {vertices} vertices and {count} hyperedges; at most "
            f"{MAX_VERTICES} together can be stored"
        )
    what = f"{reader.where()}: a hypergraph of {vertices:,} vertices and {count:,} hyperedges"
    require_room(what, NODE_BYTES * (vertices + count), memory)
    numbers, lines = _numbers(reader, progress)
    first = np.flatnonzero(
        np.diff(lines, prepend=-1)
    )  # first number of each line that is not blank
    weighted, sized = fmt in ("1", "11"), fmt in ("10", "11")
    expected = count + (vertices if sized else 0)
    if first.size != expected:
        what = "hyperedges and vertices" if sized else "hyperedges"
        raise BadInputError(
            f"{reader.where()}: {first.size} lines after the header, which declares {expected} "
            f"{what}; is the file complete?"
        )
    start = np.append(first, numbers.size)
    end = int(start[count])
    sizes = numbers[end:] if sized else np.ones(vertices, np.int64)
    if sizes.size != vertices:
        wrong = int(np.argmax(np.diff(start[count:]) > 1))
        raise BadInputError(
            f"{reader.where(int(lines[first[count + wrong]]))}: more than one number; a vertex "
            "line holds only its weight"
        )
    net = np.repeat(np.arange(count), np.diff(start[: count + 1]))
    pins, lines = numbers[:end], lines[:end]
    weights = np.ones(count, np.int64)
    if weighted:
        weights = pins[start[:count]]
        inner = np.ones(end, np.bool_)
        inner[start[:count]] = False
        net, pins, lines = net[inner], pins[inner], lines[inner]
    wrong_pins = np.flatnonzero((pins < 1) | (pins > vertices))
    if wrong_pins.size:
        at = wrong_pins[0]
        raise BadInputError(
            f"{reader.where(int(lines[at]))}: pin {pins[at]} is outside 1..{vertices}; repair the "
            "line, or fmt in the header"
        )
    keys = np.unique(net * np.int64(vertices) + pins - 1)
    degrees = np.bincount(keys // vertices, minlength=count)
    return Nets(np.append(0, np.cumsum(degrees)), keys % vertices, weights, sizes,
                pins.size - keys.size)  # fmt: skip


def _numbers(reader: TextReader, progress: Progress) -> tuple[Int64, Int64]:
    """Return all numbers of the rest of a file, and their line numbers."""
    numbers, lines = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for tokens in reader.chunks():
        _check_whole(reader, tokens)
        places = np.arange(tokens.mantissa.size)
        numbers.append(tokens.mantissa)
        lines.append(tokens.first_line + np.searchsorted(tokens.ends, places, side="right"))
        progress(reader.fraction)
    return np.concatenate(numbers), np.concatenate(lines)


def choose_sources(start: Int64, pins: Int64, vertices: int) -> Int64:
    """Return the pin that drives each net, -1 for nets that need an additional source.

    No vertex drives two nets, and the number of nets without a source is minimal (Hopcroft and
    Karp, SIAM J. Comput. 2, 1973). Returns shape (nets,).
    """
    nets = start.size - 1
    if nets == 0:
        return np.empty(0, np.int64)
    kind = np.int32 if pins.size < 2**31 else np.int64
    ones = np.ones(pins.size, np.uint8)
    table = csr_array((ones, pins.astype(kind), start.astype(kind)), shape=(nets, vertices))
    found: Int64 = maximum_bipartite_matching(table, perm_type="column").astype(np.int64)
    return found


def load(job: ImportJob) -> NetworkMeta:
    """Convert an hMETIS file to a directed network file.

    Its provenance counts hyperedges, dropped ones, repeated pins, and the neurons added.
    The hypergraph is held in memory. Raises `BadInputError` with the line of the first fault.
    """
    with TextReader(job.source) as reader:
        nets = read_nets(reader, job.progress, job.memory)
    vertices, degrees = nets.sizes.size, np.diff(nets.start)
    kept = np.flatnonzero(degrees > 1)
    inner = np.repeat(degrees > 1, degrees)
    start = np.append(0, np.cumsum(degrees[kept]))
    pins = nets.pins[inner]
    driver = choose_sources(start, pins, vertices)
    alone = np.flatnonzero(driver < 0)
    driver[alone] = vertices + np.arange(alone.size)
    neurons = vertices + alone.size
    with job.writer(neurons) as writer:
        owner = np.repeat(driver, degrees[kept])
        weight = np.repeat(nets.weights[kept], degrees[kept])
        others = owner != pins
        writer.add(owner[others], pins[others], weight[others])
        writer.set_attribute(SIZE, np.append(nets.sizes, np.zeros(alone.size, np.int64)))
        hyperedge = np.zeros(neurons, np.int64)
        hyperedge[driver] = kept + 1
        writer.set_attribute(HYPEREDGE, hyperedge)
        provenance = {
            "format": "hmetis",
            "source": job.source.name,
            "hyperedges": degrees.size,
            "hyperedges_dropped": degrees.size - kept.size,
            "pins_repeated": nets.repeated,
            "neurons_added": alone.size,
        }
        return writer.finish(provenance)
