"""Instructions of programs on a mesh in the form of the kernel of `chipsim.npu.mesh.run`.

Data values are not needed: an instruction is a unit, tokens, cycles, and its interaction with the
mesh, with streams or with weights from the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.errors import ChipError
from chipsim.npu.arrivals import Taken
from chipsim.npu.cycles import BANK, CREDIT, FETCH, ROUTER, STREAM, UNITS, WEIGHTS
from chipsim.npu.followed import Followed, Registers
from chipsim.npu.mesh.chip import Place
from chipsim.npu.records import STREAMS, Program
from chipsim.npu.timing import vectors_of_entry

NodeOf = Callable[[Place], int]

# Interactions of an instruction: column `Steps.what`.
PLAIN, WAIT, SEND, ASK, PRODUCTS, STORE, BASE, END = range(8)

# Kinds of flits; a credit is a request without words.
MAP, WORDS, TOKEN, TO_HOST, REQUEST, CREDITS = 1, 2, 3, 4, 5, 8

# Columns of `Steps.more`. TARGET : node; -1 for the core's own memory. COUNT : number of vectors or
# words, or count to wait for. VALUE : base, first word, or whether END drains. MOVED : cycles on
# the path to external memory. The other columns describe the address pattern of stores.
(
    TARGET, KIND, STREAM_OF, COUNT, VALUE, FIRST, SLOT, C_SIZE, Y_SIZE, X_SIZE, Y_STRIDE, X_STRIDE,
    TIMES, WIDTH, PARTS, STEP, MOVED, WRAP,
) = range(18)  # fmt: skip
MORE = 18


class Steps(NamedTuple):
    """Instructions of all cores, each up to its END, n in all.

    first : int64, shape (cores + 1,), the first instruction of each core
    unit, wait, signal, what, cause : uint8, shape (n,); `cause` : cause of its stalls while running
    cycles : int64, shape (n,), without stalls
    more : int64, shape (n, MORE)
    behind : int64, shape (n + 1,), for products: start of their words in the next three arrays
    words, after, most : int64: each weight word read, cycles since the first product, and the
        largest word from it on
    """

    first: NDArray[np.int64]
    unit: NDArray[np.uint8]
    wait: NDArray[np.uint8]
    signal: NDArray[np.uint8]
    what: NDArray[np.uint8]
    cause: NDArray[np.uint8]
    cycles: NDArray[np.int64]
    more: NDArray[np.int64]
    behind: NDArray[np.int64]
    words: NDArray[np.int64]
    after: NDArray[np.int64]
    most: NDArray[np.int64]


class One(NamedTuple):
    """An instruction of a core; `at` is its number in the program."""

    at: int
    unit: int
    wait: int
    signal: int
    what: int
    cycles: int
    more: tuple[int, ...]
    taken: Taken | None


class Ends(NamedTuple):
    """Destinations of flits.

    core, host : return the node of a core or of a host port at a place; raise `ChipError` without
        one
    port : node of the host port that a core requests weights from
    """

    core: NodeOf
    host: NodeOf
    port: int


def steps_of(
    programs: Mapping[Place, Program], shape: NpuShape, ends: Mapping[Place, Ends], frames: int,
    begins: Mapping[Place, int],
) -> Steps:  # fmt: skip
    """Return the instructions of the programs of all cores.

    begins : number of the first instruction of a core; default 0

    Raises `ChipError` if a destination does not exist, if two queues of a core wait for one stream,
    or if an instruction differs between the first and later frames.
    """
    cores = [
        core_steps(program, shape, place, ends[place], frames, begins.get(place, 0))
        for place, program in programs.items()
    ]
    whole = list(chain.from_iterable(cores))
    counts = np.array([0 if one.taken is None else one.taken.words.size for one in whole], np.int64)
    words = _joined(one.taken.words for one in whole if one.taken is not None)
    behind = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    columns = np.array([one[1:6] for one in whole], np.int64).reshape(-1, 5)
    unit, wait, signal, what = (columns[:, at].astype(np.uint8) for at in range(4))
    more = np.array([one.more for one in whole], np.int64).reshape(-1, MORE)
    first = np.cumsum([0, *map(len, cores)]).astype(np.int64)
    return Steps(
        first, unit, wait, signal, what, _causes(what, more, first, unit), columns[:, 4].copy(),
        more, behind, words, _joined(one.taken.after for one in whole if one.taken is not None),
        _most(words, behind),
    )  # fmt: skip


def core_steps(
    program: Program, shape: NpuShape, place: Place, ends: Ends, frames: int, begin: int
) -> list[One]:
    """Return the instructions of a core."""
    where = f"core ({place[0]}, {place[1]})"
    registers = Registers(program, shape)
    before = registers.state
    found = [_step(one, program, shape, where, ends) for one in registers.follow(begin)]
    if frames > 1 and registers.state != before:
        # registers and tables left by the first frame are the start of the next ones
        for one, again in zip(found, registers.follow(begin), strict=True):
            other = _step(again, program, shape, where, ends)
            if not _same(one, other):
                raise ChipError(
                    f"{where}: instruction {one.at} differs between first and second frame, "
                    "as the program changes a base, a distance or micro-ops after their use; set "
                    "them before"
                )
    queues: dict[int, int] = {}
    for one in found:
        if one.what == WAIT and queues.setdefault(one.more[STREAM_OF], one.unit) != one.unit:
            names = " and ".join(UNITS[unit] for unit in sorted({queues[one.more[2]], one.unit}))
            raise ChipError(
                f"{where}: {names} both wait for stream {one.more[STREAM_OF]} (instruction "
                f"{one.at}); a stream belongs to one queue"
            )
    return found


def _step(one: Followed, program: Program, shape: NpuShape, where: str, ends: Ends) -> One:
    try:
        what, values = _mesh_work(one, shape, ends)
    except ChipError as error:
        raise ChipError(f"{where}: instruction {one.at} ({one.op}.{one.kind}): {error}") from None
    more = [0] * MORE
    for column, value in values.items():
        more[column] = value
    if what in (PLAIN, STORE):
        more[MOVED] = -(-one.moved // shape.load_bits)
    taken = one.words if isinstance(one.words, Taken) and one.words.words.size else None
    if taken is not None:
        what = PRODUCTS
    wait, signal = int(program.wait[one.at]), int(program.signal[one.at])
    return One(one.at, one.unit, wait, signal, what, one.cycles, tuple(more), taken)


def _mesh_work(one: Followed, shape: NpuShape, ends: Ends) -> tuple[int, dict[int, int]]:
    """Return the interaction of an instruction, and its columns of `more`."""
    kind, f = one.kind, one.fields
    if kind == "WAIT":
        return WAIT, {STREAM_OF: f["stream"], COUNT: f["count"]}
    if kind == "SEND":
        target = (ends.host if f["host"] else ends.core)((f["x"], f["y"]))
        kind_of = CREDITS if f["host"] else TOKEN
        return SEND, {
            TARGET: target, KIND: kind_of, STREAM_OF: f["stream"], COUNT: f["count"],
        }  # fmt: skip
    if kind == "WSTREAM":
        return ASK, {TARGET: ends.port, KIND: REQUEST, COUNT: f["words"], VALUE: f["dst"]}
    if kind == "BASE" and f["space"] == 2:
        return BASE, {VALUE: f["value"]}
    if kind == "END":
        return END, {VALUE: f["drain"]}
    if one.op != "STORE":
        return PLAIN, {}
    return STORE, _store_columns(one, shape, ends)


def _store_columns(one: Followed, shape: NpuShape, ends: Ends) -> dict[int, int]:
    kind, f = one.kind, one.fields
    target, kind_of = -1, MAP
    if kind == "REMOTE":
        target = ends.core((f["x"], f["y"]))
    elif "HOST" in kind:
        target, kind_of = ends.host((f["x"], f["y"])), TO_HOST
    times = 1 + f["up"]
    width = vectors_of_entry(shape) if "PARTIAL" in kind else 1
    parts = width + (one.high > 0)
    return {
        TARGET: target,
        KIND: kind_of,
        STREAM_OF: f["stream"],
        COUNT: f["c_size"] * f["y_size"] * f["x_size"] * times**2 * parts,
        FIRST: one.base + f["dst"],
        SLOT: 1 << (f["pp"] + 2) if f["pp"] else 0,
        C_SIZE: f["c_size"],
        Y_SIZE: f["y_size"],
        X_SIZE: f["x_size"],
        Y_STRIDE: f["y_stride"],
        X_STRIDE: f["x_stride"],
        TIMES: times,
        WIDTH: width,
        PARTS: parts,
        STEP: one.high or 1,
        WRAP: f["wrap"] or f["x_size"],
    }


def store_vectors(more: Sequence[int], odd: bool) -> NDArray[np.int64]:
    """Return the addresses of the vectors that a store writes, in order."""
    m = more
    base = m[FIRST] + (m[SLOT] if odd else 0)
    x = np.arange(m[X_SIZE])
    axes: list[NDArray[np.int64]] = [
        np.arange(m[C_SIZE]) * m[WIDTH], np.arange(m[Y_SIZE]) * m[TIMES] * m[Y_STRIDE],
        x * m[TIMES] * m[X_STRIDE] - (x >= m[WRAP]) * m[Y_STRIDE], np.arange(m[PARTS]) * m[STEP],
        np.arange(m[TIMES]) * m[Y_STRIDE], np.arange(m[TIMES]) * m[X_STRIDE],
    ]  # fmt: skip
    found = np.array([base], np.int64)
    for offsets in axes:
        found = (found[:, None] + offsets).ravel()
    return found


def _causes(
    what: NDArray[np.uint8], more: NDArray[np.int64], first: NDArray[np.int64],
    unit: NDArray[np.uint8],
) -> NDArray[np.uint8]:  # fmt: skip
    """Return the stall cause of each instruction; a WAIT in the store queue is for credits."""
    found = np.full(len(what), FETCH, np.uint8)
    found[(what == SEND) | (what == ASK)] = ROUTER
    found[what == PRODUCTS] = WEIGHTS
    found[what == STORE] = np.where(more[what == STORE, TARGET] < 0, BANK, ROUTER)
    found[more[:, MOVED] > 0] = BANK
    found[what == WAIT] = np.where(unit[what == WAIT] == UNITS.index("STORE"), CREDIT, STREAM)
    return found


def _same(one: One, other: One) -> bool:
    if one[:-1] != other[:-1] or (one.taken is None) != (other.taken is None):
        return False
    if one.taken is None or other.taken is None:
        return True
    return all(np.array_equal(a, b) for a, b in zip(one.taken, other.taken, strict=True))


def _joined(parts: Iterator[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)


def _most(words: NDArray[np.int64], behind: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the largest word from each place on, up to the end of its instruction."""
    found = words.copy()
    for low, high in zip(behind[:-1].tolist(), behind[1:].tolist(), strict=True):
        if high > low:
            found[low:high] = np.maximum.accumulate(words[low:high][::-1])[::-1]
    return found


def require_streams(stream: Any, what: str) -> NDArray[np.int64]:
    """Return the stream counts of a core, shape (STREAMS,)."""
    counts = np.asarray(stream, np.int64)
    say = f"{what}: streams of shape {counts.shape}; give {STREAMS} counts, 0 or more"
    if counts.shape != (STREAMS,) or counts.min() < 0:
        raise ChipError(say)
    return counts
