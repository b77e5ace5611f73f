"""Functional simulation of programs on the NPU cores of a chip: values only, no cycles.

    chip = NpuChip(shape, {(0, 0): program, (1, 0): other})
    frame = chip.frame()
    frame.load((0, 0), 0, image)          # vectors from address 0 on
    frame.run()
    result = frame.read((1, 0), 512, (8, 8, 4), (32, 4, 1))

Each frame starts with the memory contents of the programs, whatever ran before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from queue import SimpleQueue
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.errors import ChipError
from chipsim.npu import state as s
from chipsim.npu.kernels import _run, _run_in_order, _show_store
from chipsim.npu.programs import (
    TABLES,
    Place,
    check_program,
    host_vectors,
    initial_maps,
    instruction_name,
    largest_store,
    map_vectors,
    merge,
    writes_tables,
)
from chipsim.npu.records import (
    KINDS,
    STREAMS,
    Op,
    Program,
)
from chipsim.parallel import map_ordered

Item = TypeVar("Item")
Result = TypeVar("Result")


class NpuChip:
    """NPU cores of one shape with their programs.

    cores : places, in the order in which they run
    """

    def __init__(
        self,
        shape: NpuShape,
        programs: Mapping[Place, Program],
        credits: Mapping[Place, ArrayLike] | None = None,
        host_weights: NDArray[np.int8] | None = None,
        logged: bool = False,
    ) -> None:
        """programs : programs by place
        credits : initial stream counts of a core, shape (STREAMS,); default 0
        host_weights : words that WSTREAM reads, shape (words, rows, columns), by address
        logged : frames keep all vectors that are stored to feature memories, see `Frame.log`
        """
        self.logged = logged
        if shape.rows != shape.columns:
            raise ChipError(
                f"npu {shape.name}: {shape.rows} rows and {shape.columns} columns; programs need "
                "equal numbers"
            )
        self.shape = shape
        self.cores = list(programs)
        rows = shape.rows
        if host_weights is None:
            host_weights = np.zeros((0, rows, rows), np.int8)
        for place, program in programs.items():
            check_program(shape, place, program)
        self._code = merge(shape, programs, host_weights)
        self._maps = initial_maps(shape, programs)
        self._streams = np.zeros((len(self.cores), STREAMS), np.int64)
        for place, counts in (credits or {}).items():
            self._streams[self.number(place)] = counts

    def number(self, place: Place) -> int:
        """Return the number of the core at a place; `ChipError` if it has no program."""
        x, y = place
        found = int(self._code.node[256 * y + x]) if 0 <= x < 256 and 0 <= y < 256 else -1
        if found < 0:
            raise ChipError(f"core ({x}, {y}) has no program")
        return found

    def frame(self) -> Frame:
        """Return a frame with its own set of memories."""
        return Frame(self)


class Frame:
    """Memories of all cores for one frame; not thread-safe."""

    def __init__(self, chip: NpuChip) -> None:
        self.chip = chip
        code, shape, cores = chip._code, chip.shape, len(chip.cores)
        written = writes_tables(code)
        self._code = (
            code._replace(**{name: getattr(code, name).copy() for name in TABLES})
            if written
            else code
        )
        lanes = code.weights.shape[3]
        most = host_vectors(code) + largest_store(code)
        kept = map_vectors(code) if chip.logged else 0
        self._behind = code.start[1:]  # end of each core's instructions
        self._memory = s.Memory(
            maps=np.zeros_like(chip._maps),
            inputs=np.zeros((cores, shape.input_vectors, lanes), np.int16),
            sums=np.zeros((cores, shape.entries, lanes), np.int64),
            results=np.zeros((cores, shape.entries, lanes), np.int16),
            streams=np.zeros((cores, STREAMS), np.int64),
            position=np.zeros(cores, np.int64),
            registers=np.zeros((cores, s.REGISTERS), np.int64),
            fault=np.zeros(s.FAULTS, np.int64),
            host_count=np.zeros(1, np.int64),
            host_core=np.zeros(most, np.int64),
            host_address=np.zeros(most, np.int64),
            host_vectors=np.zeros((most, shape.columns), np.int8),
            scratch=np.zeros((2, lanes), np.int32),
            credits=np.zeros((cores, STREAMS), np.int64),
            log_count=np.zeros(1, np.int64),
            log_core=np.zeros(kept, np.int64),
            log_address=np.zeros(kept, np.int64),
            log_vectors=np.zeros((kept, shape.columns), np.int8),
        )
        self.reset()

    def reset(self) -> None:
        """Reset all memories to their state before the first frame."""
        memory, chip = self._memory, self.chip
        memory.maps[:] = chip._maps
        memory.streams[:] = chip._streams
        for name in (
            "inputs", "sums", "results", "registers", "fault", "host_count", "credits", "log_count",
        ):  # fmt: skip
            getattr(memory, name)[:] = 0
        if self._code is not chip._code:
            for name in TABLES:
                getattr(self._code, name)[:] = getattr(chip._code, name)

    def load(self, core: Place, address: int, vectors: NDArray[np.generic]) -> None:
        """Write bytes (int8 or uint8), shape (count, columns), to the feature memory of a core."""
        number, columns = self.chip.number(core), self.chip.shape.columns
        maps = self._memory.maps
        if vectors.ndim != 2 or vectors.shape[1] != columns or vectors.dtype.itemsize != 1:
            raise ChipError(
                f"vectors of shape {vectors.shape} and type {vectors.dtype}; give bytes of shape "
                f"(count, {columns})"
            )
        if address < 0 or address + len(vectors) > maps.shape[1]:
            _refuse_range(core, address, address + len(vectors) - 1, maps.shape[1])
        maps[number, address : address + len(vectors)] = vectors.view(np.int8)

    def read(
        self, core: Place, base: int, sizes: tuple[int, ...], strides: tuple[int, ...]
    ) -> NDArray[np.int8]:
        """Return vectors of a core's feature memory at base + sum of index * stride (in vectors).

        Returns ndarray[int8], shape (*sizes, columns).
        """
        places = self._places(core, base, sizes, strides)
        return self._memory.maps[self.chip.number(core)][places]

    def write(
        self, core: Place, base: int, strides: tuple[int, ...], vectors: NDArray[np.generic]
    ) -> None:
        """Write bytes, shape (*sizes, columns), to a core at base + sum of index * stride."""
        places = self._places(core, base, vectors.shape[:-1], strides)
        self._memory.maps[self.chip.number(core)][places] = vectors.view(np.int8)

    def _places(
        self, core: Place, base: int, sizes: tuple[int, ...], strides: tuple[int, ...]
    ) -> NDArray[np.int64]:
        """Return feature memory addresses, shape (*sizes,); `ChipError` if one is outside."""
        places = np.asarray(base)
        for size, stride in zip(sizes, strides, strict=True):
            places = places[..., None] + np.arange(size) * stride
        most = self._memory.maps.shape[1]
        if places.size and (places.min() < 0 or places.max() >= most):
            _refuse_range(core, int(places.min()), int(places.max()), most)
        return places

    def host(self, core: Place) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
        """Return the vectors that a core has sent to the host, in order.

        Returns addresses, shape (count,), and vectors, shape (count, columns).
        """
        memory = self._memory
        count = int(memory.host_count[0])
        mine = np.flatnonzero(memory.host_core[:count] == self.chip.number(core))
        return memory.host_address[mine], memory.host_vectors[mine]

    def log(self, core: Place) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
        """Return the vectors that were stored to the feature memory of a core, in order.

        Returns addresses, shape (count,), and vectors, shape (count, columns).
        """
        memory = self._memory
        count = int(memory.log_count[0])
        mine = np.flatnonzero(memory.log_core[:count] == self.chip.number(core))
        return memory.log_address[mine], memory.log_vectors[mine]

    def credits(self, core: Place) -> NDArray[np.int64]:
        """Return the credits that a core has sent to the host, shape (STREAMS,)."""
        return self._memory.credits[self.chip.number(core)].copy()

    def forget_host(self) -> None:
        """Clear the vectors that were sent to the host."""
        self._memory.host_count[0] = 0

    def receive(self, core: Place, address: int, vector: NDArray[np.int8], stream: int) -> None:
        """Deliver a vector, shape (columns,), to a core and increment its stream."""
        self.load(core, address, vector[None])
        self._memory.streams[self.chip.number(core), stream] += 1

    def stored(
        self, core: Place, place: int, odd: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
        """Return the vectors that a store to another core would write now, without writing.

        Returns addresses, shape (count,), and vectors, shape (count, columns).
        """
        memory, number = self._memory, self.chip.number(core)
        memory.registers[number, s.ODD] = odd
        before = int(memory.host_count[0])
        _show_store(self._code, memory, number, place)
        if memory.fault[s.CAUSE]:
            raise ChipError(self._say_fault())
        sent = slice(before, int(memory.host_count[0]))
        memory.host_count[0] = before
        return memory.host_address[sent].copy(), memory.host_vectors[sent].copy()

    def loaded(self, core: Place, place: int, odd: bool) -> NDArray[np.generic]:
        """Return the buffer content that a load would produce now, without changing anything.

        The result is the inputs, or the accumulators from the load's first one on.
        """
        memory, number = self._memory, self.chip.number(core)
        at = int(self._code.start[number]) + place
        f, kind = self._code.fields[at], KINDS[Op.LOAD][int(self._code.kind[at])]
        buffer: NDArray[np.generic] = memory.inputs[number]
        if kind in ("ACC8", "ACC32"):
            buffer = memory.sums[number, f[0] : f[0] + f[2] * f[3] * f[4]]
        before = buffer.copy()
        self.run_in_order(np.array([number]), np.array([place]), odd)
        found = buffer.copy()
        buffer[:] = before
        return found

    def memory(self, core: Place) -> dict[str, NDArray[np.int64]]:
        """Return copies of a core's memories and stream counts by name, without padding."""
        number, memory, rows = self.chip.number(core), self._memory, self.chip.shape.rows
        found = {
            "FM": memory.maps[number],
            "INP": memory.inputs[number, :, :rows],
            "ACC": memory.sums[number, :, :rows],
            "OUT": memory.results[number, :, :rows],
            "streams": memory.streams[number],
        }
        return {name: values.astype(np.int64) for name, values in found.items()}

    def run(
        self, odd: bool = False, parts: Mapping[Place, tuple[int, int]] | None = None,
        feed: Callable[[], bool] | None = None,
    ) -> None:  # fmt: skip
        """Run the programs of all cores to their ends.

        odd : True for an odd frame, which uses the second slots of feature maps
        parts : first and end instruction of each core that runs; None runs all instructions of all
            cores
        feed : called when all cores wait; sends data, and returns whether there was some to send

        Raises `ChipError` if an instruction cannot be executed, or at a deadlock.
        """
        memory = self._memory
        memory.registers[:, s.ODD] = odd
        first, behind = self._code.start[:-1].copy(), self._code.start[1:].copy()
        if parts is not None:
            behind[:] = first
            for place, (one, other) in parts.items():
                core = self.chip.number(place)
                first[core], behind[core] = first[core] + one, first[core] + other
        self._behind = behind
        while True:
            _run(self._code, memory, first, behind)
            waits = memory.fault[s.CAUSE] == s.DEADLOCK and feed is not None and feed()
            if not waits:
                break
            memory.fault[:] = 0
            first = memory.position.copy()
        if memory.fault[s.CAUSE]:
            raise ChipError(self._say_fault())

    def run_in_order(
        self, cores: NDArray[np.int64], places: NDArray[np.int64], odd: bool = False
    ) -> None:
        """Run instructions in the order of a cycle-accurate run, such as `ChipTimes.order`.

        cores, places : numbers of cores and of their instructions, shape (count,) each

        Raises `ChipError` like `run`.
        """
        memory = self._memory
        memory.registers[:, s.ODD] = odd
        _run_in_order(self._code, memory, cores, places)
        if memory.fault[s.CAUSE]:
            raise ChipError(self._say_fault())

    def _say_fault(self) -> str:
        cause, core, at, where, address, size = self._memory.fault.tolist()
        line = int(self._code.start[core]) + at
        op, kind = int(self._code.op[line]), int(self._code.kind[line])
        what = f"{self._say_core(core)}: instruction {at} ({instruction_name(op, kind)})"
        memory = s.MEMORIES[where]
        if cause == s.OUTSIDE:
            return f"{what}: address {address:,} is outside the {memory} of {size:,}"
        if cause == s.NO_UNIT:
            return f"{what}: the core {self.chip.shape.name} does not support it"
        if cause == s.NO_CORE:
            return f"{what}: core ({address % 256}, {address // 256}) has no program"
        if cause == s.STATIC:
            return f"{what}: weight word {address:,} is static; host words start at {size:,}"
        if cause == s.NEVER:
            return (
                f"{what}: weight word {address:,} never arrives; the host sends words below "
                f"{size:,}"
            )
        if cause == s.UNCOVERED:
            return f"{what}: packet header {address:,} does not cover word {size:,} of the map"
        if cause == s.EARLY:
            return f"{what}: uses accumulator {address:,} again before its result is written"
        if cause == s.DEADLOCK:
            return "deadlock: " + self._say_waits()
        return f"{what}: unknown instruction"

    def _say_core(self, number: int) -> str:
        x, y = self.chip.cores[number]
        return f"core ({x}, {y})"

    def _say_waits(self) -> str:
        """Return a text on the waiting cores; at most four are listed."""
        code, memory = self._code, self._memory
        found = []
        for core in range(len(self.chip.cores)):
            at = int(memory.position[core])
            if at < self._behind[core]:
                stream, count = code.fields[at, 1:3].tolist()
                found.append(
                    f"{self._say_core(core)} waits at instruction {at - int(code.start[core])} for "
                    f"{count:,} of stream {stream}, which has counted "
                    f"{int(memory.streams[core, stream]):,}"
                )
        more = f"; and {len(found) - 4:,} more" if len(found) > 4 else ""
        return "; ".join(found[:4]) + more


def run_frames(
    chip: NpuChip,
    items: Iterable[Item],
    work: Callable[[Frame, Item], Result],
    threads: int,
) -> Iterator[Result]:
    """Run frames in parallel and yield the results in the order of the items.

    work : called with a reset frame and an item; loads inputs, runs, and reads results
    """
    free: SimpleQueue[Frame] = SimpleQueue()

    def one(item: Item) -> Result:
        frame = chip.frame() if free.empty() else free.get()
        frame.reset()
        try:
            return work(frame, item)
        finally:
            free.put(frame)

    yield from map_ordered(one, items, threads)


def _refuse_range(core: Place, first: int, last: int, size: int) -> None:
    raise ChipError(
        f"core ({core[0]}, {core[1]}): vectors {first:,} to {last:,}; its feature memory has "
        f"{size:,}"
    )
