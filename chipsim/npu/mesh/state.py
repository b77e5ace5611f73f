"""Arrays of the kernel of cores on a mesh, grouped in named tuples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.noc.kernel import NEVER
from chipsim.npu.cycles import CAUSES, UNITS
from chipsim.npu.records import STREAMS

REGISTERS = len(UNITS) + 1
"""Registers per core for flits that wait for the router: a SEND of each queue, and WSTREAM."""
ASKED = len(UNITS)
"""The register of WSTREAM."""
SOURCES = REGISTERS + 2
"""Flit sources per node: STORE, the registers, the host port."""
HOST = SOURCES - 1
TOP = 1 << 32
"""A flit is value * TOP + its other parts; see `pack_flit`."""

# Entries of `Chip.scalars`.
CYCLE, ACTIVE, FINISHED, FAULT, FAULT_CORE, FAULT_FROM, FAULT_TO, FLITS = range(8)
SCALARS = 8
MOST_REQUESTS = 1 << 12
"""Maximum number of weight requests that wait at a host port."""
# Values of `FAULT`; 0 is none.
TOKENS, REQUESTS = 1, 2


@njit(cache=True, nogil=True)
def pack_flit(bits, target, source, kind, stream, value):
    """Return a flit of a core on a mesh, encoded as a number.

    From bit 0 on: target node and source node, each with `bits` bits; kind and stream, 4 bits each;
    from `TOP` on the value.
    """
    low = target | (source << bits) | (kind << (2 * bits)) | (stream << (2 * bits + 4))
    return value * TOP + low


class Sizes(NamedTuple):
    """Constants of a run.

    width, depth, bits : as in `chipsim.noc.state.FifoLayout`
    parts, word : flits per vector and per weight word
    queue, tokens : depth of a queue, largest value of a token counter
    control, store, stream, matrix, restart : latencies of `NpuShape.latency`
    frames : frames per core
    results : flits per frame that go to the host
    arrives : cycles on the path to external memory per vector received, 0 for own memory
    latency, numerator, denominator : latency of the host's answers; flits per cycle as a fraction
    """

    width: int
    depth: int
    bits: int
    parts: int
    word: int
    queue: int
    tokens: int
    control: int
    store: int
    stream: int
    matrix: int
    restart: int
    frames: int
    results: int
    arrives: int
    latency: int
    numerator: int
    denominator: int


class CoreStates(NamedTuple):
    """State of n cores; unknown cycles are NEVER.

    node : int64, shape (n,)
    position, frame : int64, shape (n,), next instruction to fetch, number of the frame
    fetches, wakes : int64, shape (n,), cycle of a frame's first fetch; next cycle with work
    queue, dispatched : int64, shape (n, 4, places), instructions, and their dispatch cycles
    head, level : int64, shape (n, 4)
    job, begun, end, free : int64, shape (n, 4), running instruction or -1, its start and end cycle,
        and the cycle since when the unit is free
    lacking : int64, shape (n, 4), units whose tokens the next instruction waited for last
    tokens : int64, shape (n, 4, 4), by producing and consuming unit
    streams : int64, shape (n, STREAMS)
    register : int64, shape (n, REGISTERS), flits, or -1
    offers, sent : int64, shape (n,), for a store: first cycle of its flit, flits or cycles of delay
    base, pointer, filled : int64, shape (n,), weights of the host: the first word, the word after
        the last one received, flits of the next word
    place, offset, delay : int64, shape (n,), for products: index of the next one in `Steps.words`,
        cycles since the first one, and total stall
    path : int64, shape (n,), the cycle from which the path to external memory is free
    """

    node: NDArray[np.int64]
    position: NDArray[np.int64]
    frame: NDArray[np.int64]
    fetches: NDArray[np.int64]
    wakes: NDArray[np.int64]
    queue: NDArray[np.int64]
    dispatched: NDArray[np.int64]
    head: NDArray[np.int64]
    level: NDArray[np.int64]
    job: NDArray[np.int64]
    begun: NDArray[np.int64]
    end: NDArray[np.int64]
    free: NDArray[np.int64]
    lacking: NDArray[np.int64]
    tokens: NDArray[np.int64]
    streams: NDArray[np.int64]
    register: NDArray[np.int64]
    offers: NDArray[np.int64]
    sent: NDArray[np.int64]
    base: NDArray[np.int64]
    pointer: NDArray[np.int64]
    filled: NDArray[np.int64]
    place: NDArray[np.int64]
    offset: NDArray[np.int64]
    delay: NDArray[np.int64]
    path: NDArray[np.int64]


class Hosts(NamedTuple):
    """State of n host ports, and of the processor that they share.

    node : int64, shape (n,)
    first : int64, shape (n * stages + 1,), start of the input of each port and stage in the next
        six arrays
    target, stream, address, odd : int64, shape (flits,): node, stream and address of a flit of a
        frame, and its address offset in odd frames
    pair : int64, shape (flits,), index of the credit counter that the flit consumes from, or -1
    needs : int64, shape (flits,), credits that it consumes there
    credits : int64, shape (pairs,), credit counters
    pairs : int64, shape (n, nodes, STREAMS), indices into `credits`
    at, frame : int64, shape (n, stages), the next flit of the input, and its frame
    offered : int64, shape (n,), flit, or -1
    asked, begin, flits : int64, shape (n, places), requests: node, first cycle, flits
    head, level, answered, free : int64, shape (n,), request queue; flits of the first request that
        were offered; the cycle in which the next request may start
    stage : int64, shape (addresses,), stage of the result at each address
    cycles : int64, shape (stages,), work before the inputs of each stage
    wanted, came : int64, shape (stages,) and (stages, frames), results of lower stages that the
        work waits for, in flits, and those that have arrived
    following : int64, shape (stages,), frame of the next work
    released : int64, shape (stages, frames), cycle from which inputs are sent, NEVER if unknown
    idle : int64, shape (1,), the cycle from which the processor has no work
    turn : int64, shape (1,), stage - 1 of the work that is preferred next
    """

    node: NDArray[np.int64]
    first: NDArray[np.int64]
    target: NDArray[np.int64]
    stream: NDArray[np.int64]
    address: NDArray[np.int64]
    odd: NDArray[np.int64]
    pair: NDArray[np.int64]
    needs: NDArray[np.int64]
    credits: NDArray[np.int64]
    pairs: NDArray[np.int64]
    at: NDArray[np.int64]
    frame: NDArray[np.int64]
    offered: NDArray[np.int64]
    asked: NDArray[np.int64]
    begin: NDArray[np.int64]
    flits: NDArray[np.int64]
    head: NDArray[np.int64]
    level: NDArray[np.int64]
    answered: NDArray[np.int64]
    free: NDArray[np.int64]
    stage: NDArray[np.int64]
    cycles: NDArray[np.int64]
    wanted: NDArray[np.int64]
    came: NDArray[np.int64]
    following: NDArray[np.int64]
    released: NDArray[np.int64]
    idle: NDArray[np.int64]
    turn: NDArray[np.int64]


class Nodes(NamedTuple):
    """State of each node.

    core, host : int64, shape (nodes,), a number, or -1
    wants : int64, shape (nodes,), bits of the sources that have a flit
    turn : int64, shape (nodes,), round-robin turn of the sources
    passed : int64, shape (5 * nodes,), flits through output o of node v at 5 * v + o
    entering, flits : int64, shape (nodes,), scratch: nodes and the flits that enter there
    """

    core: NDArray[np.int64]
    host: NDArray[np.int64]
    wants: NDArray[np.int64]
    turn: NDArray[np.int64]
    passed: NDArray[np.int64]
    entering: NDArray[np.int64]
    flits: NDArray[np.int64]


class Seen(NamedTuple):
    """Counters and recorded times.

    scalars : int64, shape (SCALARS,)
    busy, waits : int64, shape (cores, 4) and (cores, 4, causes)
    ended : int64, shape (cores, frames), the cycle after the last one of each frame
    kept : int64, shape (frames,), row of a frame in the next two arrays, or -1
    starts, ends : int64, shape (rows, instructions)
    written : int64, shape (addresses,), flits that the host received at each address
    came, completed : int64, shape (frames,), flits of each frame; cycle of its completion, or -1
    cycle, flit : int64, shape (kept flits,), delivered flits
    """

    scalars: NDArray[np.int64]
    busy: NDArray[np.int64]
    waits: NDArray[np.int64]
    ended: NDArray[np.int64]
    kept: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    written: NDArray[np.int64]
    came: NDArray[np.int64]
    completed: NDArray[np.int64]
    cycle: NDArray[np.int64]
    flit: NDArray[np.int64]


def new_cores(nodes: list[int], first: NDArray[np.int64], shape: NpuShape) -> CoreStates:
    """Return the state before the first fetch, in cycle 0."""
    n, units = len(nodes), len(UNITS)

    def zeros(*sizes: int) -> NDArray[np.int64]:
        return np.zeros((n, *sizes), np.int64)

    return CoreStates(
        node=np.array(nodes, np.int64).reshape(-1),
        position=first[:-1].copy(), frame=zeros(), fetches=zeros(), wakes=zeros(),
        queue=zeros(units, shape.queue_places), dispatched=zeros(units, shape.queue_places),
        head=zeros(units), level=zeros(units), job=zeros(units) - 1, begun=zeros(units),
        end=np.full((n, units), NEVER, np.int64), free=zeros(units), lacking=zeros(units),
        tokens=zeros(units, units), streams=zeros(STREAMS), register=zeros(REGISTERS) - 1,
        offers=np.full(n, NEVER, np.int64), sent=zeros(), base=zeros(), pointer=zeros(),
        filled=zeros(), place=zeros(), offset=zeros(), delay=zeros(), path=zeros(),
    )  # fmt: skip


def new_hosts(nodes: list[int], all_nodes: int, cycles: NDArray[np.int64], frames: int) -> Hosts:
    """Return hosts without input and without results. cycles : work of each stage"""
    n, stages = len(nodes), len(cycles)

    def zeros(*sizes: int) -> NDArray[np.int64]:
        return np.zeros((n, *sizes), np.int64)

    none = np.zeros(0, np.int64)
    released = np.full((stages, frames), NEVER, np.int64)
    released[0] = 0
    return Hosts(
        node=np.array(nodes, np.int64).reshape(-1),
        first=np.zeros(n * stages + 1, np.int64), target=none,
        stream=none, address=none, odd=none, pair=none, needs=none, credits=none,
        pairs=zeros(all_nodes, STREAMS) - 1, at=zeros(stages), frame=zeros(stages),
        offered=zeros() - 1,
        asked=zeros(MOST_REQUESTS), begin=zeros(MOST_REQUESTS), flits=zeros(MOST_REQUESTS),
        head=zeros(), level=zeros(), answered=zeros(), free=zeros(),
        stage=none, cycles=cycles, wanted=np.zeros(stages, np.int64),
        came=np.zeros((stages, frames), np.int64), following=np.zeros(stages, np.int64),
        released=released, idle=np.zeros(1, np.int64), turn=np.zeros(1, np.int64),
    )  # fmt: skip


def new_nodes(count: int) -> Nodes:
    """Return idle nodes."""
    none = np.full(count, -1, np.int64)
    wants, turn, entering, flits = (np.zeros(count, np.int64) for _ in range(4))
    return Nodes(none, none.copy(), wants, turn, np.zeros(5 * count, np.int64), entering, flits)


def new_seen(
    cores: int, instructions: int, frames: int, keep: list[int], addresses: int, flits: int
) -> Seen:
    """Return empty counters.

    keep : frames whose instruction times are kept
    flits : number of delivered flits to keep
    """
    kept = np.full(frames, -1, np.int64)
    kept[keep] = np.arange(len(keep))

    def none(*sizes: int) -> NDArray[np.int64]:
        return np.full(sizes, -1, np.int64)

    def zeros(*sizes: int) -> NDArray[np.int64]:
        return np.zeros(sizes, np.int64)

    return Seen(
        scalars=zeros(SCALARS), busy=zeros(cores, len(UNITS)),
        waits=zeros(cores, len(UNITS), len(CAUSES)), ended=none(cores, frames), kept=kept,
        starts=none(len(keep), instructions), ends=none(len(keep), instructions),
        written=zeros(addresses), came=zeros(frames), completed=none(frames),
        cycle=zeros(flits), flit=zeros(flits),
    )  # fmt: skip
