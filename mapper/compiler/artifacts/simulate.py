"""Run a compiled model: host steps in Python, core programs in the functional simulator."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.npu.execute import Frame, NpuChip, run_frames
from chipsim.npu.records import STREAMS, Program
from mapper.compiler.artifacts.columns import (
    Feeder,
    LoggedColumns,
    Map,
    SentColumns,
    by_name,
    current_parts,
    sent_columns,
    stored_vectors,
)
from mapper.compiler.artifacts.manifest import CompiledFolder, program_file
from mapper.compiler.ir.node import Concat
from mapper.compiler.memory.layouts import in_planes
from mapper.compiler.memory.planner import VECTORS_OF_ENTRY, blocks_of
from mapper.compiler.numerics.binary import packed, unpacked
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.partition.hostrun import CoreAccess, Data, HostPlan, without_gaps
from mapper.compiler.program.image import program_of
from mapper.errors import MapperError
from mapper.results.sealed_folder import as_damage

Maps = dict[str, NDArray[np.int64]]
FRAMES_AT_ONCE = 64


class Compared(NamedTuple):
    """Comparison of a layer's map with the reference, over all frames."""

    name: str
    elements: int
    differences: int


class Outcome(NamedTuple):
    """Result of a simulation.

    values : the model's outputs, by name, shape (frames, ...)
    stored : integers that the cores computed for them, by map name, in the order of the plan
    """

    values: dict[str, Data]
    stored: Maps
    compared: list[Compared]


class Digest:
    """SHA-256 of core results: frame by frame, map by map, little-endian integers.

    The C driver prints the same digest.
    """

    def __init__(self, folder: CompiledFolder) -> None:
        maps = folder.manifest["maps"] + folder.manifest["host_maps"]
        self.bytes = {one["name"]: max(1, one["bits"] // 8) for one in maps}
        self.made = hashlib.sha256()

    def add(self, outcome: Outcome) -> None:
        for frame in zip(*outcome.stored.values(), strict=True):
            for name, data in zip(outcome.stored, frame, strict=True):
                self.made.update(data.astype(f"<i{self.bytes[name]}").tobytes())

    @property
    def text(self) -> str:
        return self.made.hexdigest()


def programs_of(folder: CompiledFolder) -> dict[tuple[int, int], Program]:
    """Return the decoded programs of all cores."""
    return {place: program_of(image, program_file(place)) for place, image in folder.images.items()}


def streams_of(folder: CompiledFolder) -> dict[tuple[int, int], NDArray[np.int64]]:
    """Return the initial stream counters of each core, shape (STREAMS,).

    They count credits, and packets that the host sends before a frame.
    """
    found = {}
    for one in folder.manifest["cores"]:
        counts = np.zeros(STREAMS, np.int64)
        for stream, count in one["streams"]:
            counts[stream] += count
        for each in one["brought"]:
            if "waits" in each:  # sent while the cores run
                continue
            counts[each["stream"]] += sum(count for _, count, _ in each["runs"])
        found[one["x"], one["y"]] = counts
    return found


class Machine:
    """A compiled model, ready to run: the cores and the host's plan.

    maps : parts of maps on cores, by name; results : maps sent to the host, by name
    """

    def __init__(self, folder: CompiledFolder) -> None:
        self.folder = folder
        with as_damage(folder.path):
            self._read(folder)

    def _read(self, folder: CompiledFolder) -> None:
        self.shape = folder.shape
        self.maps = by_name(folder.manifest["maps"])
        self.results = by_name(folder.manifest["host_maps"])
        self.chip = NpuChip(
            self.shape, programs_of(folder), streams_of(folder), host_weights=folder.weights,
            logged="in_order" in folder.manifest,
        )  # fmt: skip
        self.columns = sent_columns(folder.manifest)
        self.functions: list[dict[str, Any]] = folder.manifest["functions"]
        joined = {
            tensor.name
            for node in folder.graph.nodes
            if isinstance(node.operator, Concat)
            for tensor in node.inputs
        }
        known = self.maps.keys() | self.results.keys()
        self.layers: list[dict[str, Any]] = [  # parts of other maps may have no separate place
            layer
            for layer in folder.manifest["layers"]
            if layer["map"] in known or layer["map"] not in joined
        ]
        self.plan = HostPlan(folder.host)
        self.input = next(iter(folder.graph.inputs))

    def parts(self, tensor: str) -> list[Map]:
        """Return the parts from which a map is read: on the host if it is sent there, else on
        cores.
        """
        return self.results.get(tensor) or self.maps[tensor]

    def covered(self, tensor: str) -> NDArray[np.bool_]:
        """Return which elements of a map are stored, shape (rows, columns, channels).

        Elements that no layer reads are not stored, and padding channels have arbitrary values.
        """
        return self._covered(self.parts(tensor))

    def is_whole(self, tensor: str) -> bool:
        """Return whether the copy that is read has all elements of a map that a layer uses."""
        cores = self.maps.get(tensor)
        return cores is None or not (self._covered(cores) & ~self.covered(tensor)).any()

    @staticmethod
    def _covered(parts: Sequence[Mapping[str, Any]]) -> NDArray[np.bool_]:
        """Return which elements of a map some parts contain."""
        found = np.zeros(parts[0]["whole"][1:], bool)
        for one in parts:
            found[slice(*one["rows"]), :, slice(*one["channels"])] = True
        if (channels := parts[0].get("of_model")) is not None:
            filled = np.setdiff1d(np.arange(found.shape[2]), channels)
            found[:, :, filled] = False
        return found

    def run(self, cores: CoreAccess, sample: NDArray[np.float32]) -> tuple[dict[str, Data], Maps]:
        """Run a frame; return values by name, and stored maps. sample : shape (1, ...)"""
        return self.plan.run({self.input: sample}, cores)


class FrameCores:
    """The cores during a frame of the host's plan.

    watched : whether all stored maps are read right after their layer has run, as later layers may
        overwrite them
    written : maps written by the host; seen : maps of layers; both by name, shape (1, rows,
        columns, channels)
    """

    def __init__(self, machine: Machine, frame: Frame, watched: bool = False) -> None:
        self.machine, self.frame, self.watched = machine, frame, watched
        self.written: Maps = {}
        self.seen: Maps = {}
        self.sending: list[tuple[SentColumns, NDArray[np.int8]]] = []

    def write(self, tensor: str, maps: Data) -> None:
        machine = self.machine
        self.written[tensor] = maps
        for one in machine.maps[tensor]:
            part = maps[0][slice(*one["rows"]), :, slice(*one["channels"])]
            if "ring" in one:
                self.sending += [
                    (each, stored_vectors(one, part, machine.shape.columns))
                    for each in machine.columns
                    if each.map is one
                ]
                continue
            write_map(self.frame, one, part, machine.shape.columns)

    def start(self, function: int) -> None:
        spans = self.machine.functions[function]["spans"]
        at = [first for first, _ in spans]
        layers = [layer for layer in self.machine.layers if layer["function"] == function]
        ends = [stop for _, stop in spans]
        for layer in sorted(layers if self.watched else [], key=lambda layer: layer["end"]):
            end = ends if self.machine.chip.logged else layer["end"]  # tiles of layers alternate
            self._run(at, end)
            at = end
            self.seen[layer["map"]] = self.read(layer["map"])
        self._run(at, ends)

    def _run(self, first: list[int], stop: list[int]) -> None:
        """Run a range of instructions on each core."""
        spans = zip(self.machine.chip.cores, first, stop, strict=True)
        parts = {core: (begin, end) for core, begin, end in spans if end > begin}
        if parts:
            self.frame.run(parts=parts, feed=Feeder(self.frame, self.sending))
            self.sending = []

    def put(self, tensor: str, vectors: Data) -> None:
        (one,) = self.machine.maps[tensor]
        self.written[tensor] = without_gaps(vectors, one["shape"])
        write_vectors(self.frame, one, vectors[0])

    def take(self, tensor: str) -> Data:
        machine = self.machine
        (one,) = machine.maps[tensor]
        return read_vectors(self.frame, one, machine.shape.columns)[None]

    def read(self, tensor: str) -> Data:
        machine = self.machine
        parts = machine.parts(tensor)
        source = self.frame if parts[0]["core"] is not None else SentData(machine, self.frame)
        found = np.zeros(parts[0]["whole"], np.int64)
        for one in current_parts(parts):
            place = (0, slice(*one["rows"]), slice(None), slice(*one["channels"]))
            from_ = LoggedColumns(self.frame, one) if "ring" in one else source
            found[place] = read_map(from_, one, machine.shape.columns)
        return found


class SentData:
    """Data sent to the host in a frame, with the read interface of cores."""

    def __init__(self, machine: Machine, frame: Frame) -> None:
        parts = [one for parts in machine.results.values() for one in parts]
        stop = max(one["address"] + one["vectors"] for one in parts)
        self.vectors = np.zeros((stop, machine.shape.columns), np.int8)
        for core in machine.chip.cores:
            addresses, vectors = frame.host(core)
            self.vectors[addresses] = vectors

    def read(
        self, core: tuple[int, int] | None, base: int, sizes: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> NDArray[np.int8]:  # fmt: skip
        """See `Frame.read`."""
        places = np.asarray(base)
        for size, stride in zip(sizes, strides, strict=True):
            places = places[..., None] + np.arange(size) * stride
        return np.asarray(self.vectors[places])


def simulate(
    folder: CompiledFolder | Machine, samples: NDArray[np.float32], threads: int, check: bool,
    on_frame: Callable[[int, Maps], None] | None = None,
) -> Outcome:  # fmt: skip
    """Run samples, float32 of shape (frames, ...), through a compiled model.

    check : compare every stored map of every frame with the reference
    on_frame : called with the number of each frame and all its maps, by the threads that run frames
    """
    machine = Machine(folder) if isinstance(folder, CompiledFolder) else folder
    with as_damage(machine.folder.path):
        outputs = machine.folder.manifest["outputs"]

        def work(frame: Frame, number: int) -> tuple[list[Data], Maps, list[int]]:
            cores = FrameCores(machine, frame, check or on_frame is not None)
            values, stored = machine.run(cores, samples[number : number + 1])
            if on_frame is not None:
                on_frame(number, cores.written | cores.seen)
            return [values[name] for name in outputs], stored, _differences(machine, cores)

        rows = list(run_frames(machine.chip, range(len(samples)), work, threads))
        values = {
            name: _frames_of(name, [np.atleast_1d(row[0][at]) for row in rows])
            for at, name in enumerate(outputs)
        }
        stored = {name: np.concatenate([row[1][name] for row in rows]) for name in rows[0][1]}
        found = [
            Compared(
                layer["map"],
                len(rows) * int(machine.covered(layer["map"]).sum()),
                sum(row[2][at] for row in rows),
            )
            for at, layer in enumerate(machine.layers if check or on_frame else [])
        ]
        return Outcome(values, stored, found)


def _frames_of(name: str, rows: list[Data]) -> Data:
    """Return an output of the model for all frames, shape (frames, ...); it may lack a batch
    axis."""
    shapes = dict.fromkeys(row.shape for row in rows)
    if len(shapes) > 1:
        first, second, *_ = shapes
        raise MapperError(
            f"output {name!r}: has shape {second} for one sample, {first} for another; export "
            "the model without shapes that depend on data"
        )
    return np.concatenate([row if row.shape[0] == 1 else row[None] for row in rows])


def _differences(machine: Machine, cores: FrameCores) -> list[int]:
    """Return the number of differing elements of each layer's map; empty if maps were not
    watched."""
    if not cores.watched:
        return []
    graph = machine.folder.graph
    tensors = {view.tensor.name: view.tensor for view in graph.inputs.values()}
    tensors |= {tensor.name: tensor for node in graph.nodes for tensor in node.outputs}
    feeds = {tensors[name]: maps for name, maps in cores.written.items()}
    names = [layer["map"] for layer in machine.layers]
    wanted = run_graph(graph, feeds, INTEGER, [tensors[name] for name in names])
    return [
        int(((cores.seen[name] != wanted[tensors[name]]) & machine.covered(name)).sum())
        for name in names
    ]


def write_map(frame: Frame, one: Map, pixels: NDArray[np.int64], columns: int) -> None:
    """Write a map, shape (rows, columns, channels), to a core's memory.

    Padding channels in the last block of a pixel, and padding of planes, hold the zero point; high
    bytes of 16 bits follow the low ones.
    """
    height, width, channels = pixels.shape
    core, first, strides = tuple(one["core"]), one["address"], (*one["strides"], 1)
    if one["planes"]:
        frame.load(core, first, in_planes(pixels, columns, one["zero_point"]))
        return
    if one["bits"] == 1:
        frame.write(
            core, first, strides, packed(pixels, columns).reshape(height, width, -1, columns)
        )
        return
    blocks = blocks_of(channels, columns)
    whole = np.full((height, width, blocks * columns), one["zero_point"], np.int64)
    whole[:, :, :channels] = pixels
    write_vectors(frame, one, whole.reshape(height, width, blocks, columns))


def write_vectors(frame: Frame, one: Map, vectors: NDArray[np.int64]) -> None:
    """Write a map of 8 or 16 bits in storage layout, shape (rows, columns, blocks, channels per
    block).
    """
    core, first, strides = tuple(one["core"]), one["address"], (*one["strides"], 1)
    for byte in range(one["bits"] // 8):
        part = (vectors >> 8 * byte & 255).astype(np.uint8)
        frame.write(core, first + byte * one["high"], strides, part)


def _core(one: Map) -> Any:
    """Return the core of a map; None is the host."""
    return None if one["core"] is None else tuple(one["core"])


def read_map(frame: Frame | SentData | LoggedColumns, one: Map, columns: int) -> NDArray[np.int64]:
    """Return a map from a core's memory, shape (rows, columns, channels)."""
    _, height, width, channels = one["shape"]
    if one["bits"] in (8, 16):
        return read_vectors(frame, one, columns).reshape(height, width, -1)[:, :, :channels]
    blocks = blocks_of(channels, columns if one["bits"] > 1 else 8 * columns)
    blocks *= VECTORS_OF_ENTRY if one["bits"] == 32 else 1
    core, first, strides = _core(one), one["address"], (*one["strides"], 1)
    found = frame.read(core, first, (height, width, blocks), strides)
    if one["bits"] == 1:
        return unpacked(np.ascontiguousarray(found).view(np.uint8), channels)
    whole = np.ascontiguousarray(found).reshape(height, width, -1).view("<i4")
    return whole[:, :, :channels].astype(np.int64)


def read_vectors(
    frame: Frame | SentData | LoggedColumns, one: Map, columns: int
) -> NDArray[np.int64]:
    """Return a map of 8 or 16 bits in storage layout, shape (rows, columns, blocks, channels per
    block).
    """
    _, height, width, channels = one["shape"]
    area = (height, width, blocks_of(channels, columns))
    core, first, strides = _core(one), one["address"], (*one["strides"], 1)
    made = frame.read(core, first, area, strides).astype(np.int64)
    if one["bits"] == 16:
        found = frame.read(core, first + one["high"], area, strides)
        made = (found.astype(np.int64) << 8) + (made & 255)
    return made
