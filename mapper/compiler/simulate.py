"""Runs a compiled model: the host's steps here, the cores' programs in the functional simulator."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.execute import Frame, NpuChip, run_frames
from chipsim.npu.records import Program
from hw.npu.programs import decode_micro_ops, decode_program
from mapper.compiler.codegen.image import Image
from mapper.compiler.graph.execute import run_graph
from mapper.compiler.integer.binary import packed, unpacked
from mapper.compiler.integer.reference import INTEGER
from mapper.compiler.manifest import CompiledFolder, as_damage
from mapper.compiler.memory.planner import VECTORS_OF_ENTRY, blocks_of
from mapper.compiler.partition.hostplan import Data, run_host

Maps = dict[str, NDArray[np.int64]]
Map = dict[str, Any]
"""A stored map, as the manifest has it: name, core, address, shape."""
FRAMES_AT_ONCE = 64


class Compared(NamedTuple):
    """A layer's map beside that of the reference, over all frames."""

    name: str
    elements: int
    differences: int


class Outcome(NamedTuple):
    """values : of the model's outputs, by name, shape (frames, ...)
    stored : what the cores made for them, integers by the name of the map, in the order of the plan
    """

    values: dict[str, Data]
    stored: Maps
    compared: list[Compared]


class Digest:
    """SHA-256 of what the cores make: frame by frame, map by map, little-endian integers. The
    driver in C prints the same."""

    def __init__(self, folder: CompiledFolder) -> None:
        self.bytes = {one["name"]: max(1, one["bits"] // 8) for one in folder.manifest["maps"]}
        self.made = hashlib.sha256()

    def add(self, outcome: Outcome) -> None:
        for frame in zip(*outcome.stored.values(), strict=True):
            for name, data in zip(outcome.stored, frame, strict=True):
                self.made.update(data.astype(f"<i{self.bytes[name]}").tobytes())

    @property
    def text(self) -> str:
        return self.made.hexdigest()


def program_of(image: Image, where: str, end: int | None = None) -> Program:
    """The decoded program of a core; end : instructions of it, None for all."""
    decoded = decode_program(image.instructions, where)
    headers = np.frombuffer(image.headers, "<u8").astype(np.uint64)
    maps = np.zeros((image.map_vectors, image.maps.shape[1]), np.uint8)
    maps[: len(image.maps)] = image.maps
    return Program(
        op=decoded.op[:end],
        kind=decoded.kind[:end],
        wait=decoded.wait[:end],
        signal=decoded.signal[:end],
        fields=decoded.fields[:end],
        micro_ops=decode_micro_ops(image.micro_ops, where),
        weights=image.weights,
        parameters=image.parameters,
        maps=maps,
        headers=headers,
    )


def simulate(
    folder: CompiledFolder, samples: NDArray[np.float32], threads: int, check: bool
) -> Outcome:
    """Run samples, float32 of shape (frames, ...), through a compiled model.

    check : compare every stored map of every frame with the reference
    """
    compared: list[Compared] = []

    def cores(stored: Maps) -> Maps:
        results = next(step["results"] for step in folder.host if step["do"] == "cores")
        made = run_cores(folder, stored, results, threads)
        if check:
            compared.extend(compare(folder, stored, threads))
        return made

    name = next(iter(folder.graph.inputs))
    with as_damage(folder.path):
        values, stored = run_host(folder.host, {name: samples}, cores)
    return Outcome({one: values[one] for one in folder.manifest["outputs"]}, stored, compared)


def run_cores(
    folder: CompiledFolder, stored: Maps, results: list[str], threads: int,
    end: int | None = None,
) -> Maps:  # fmt: skip
    """Some stored maps after the programs have run, frame by frame.

    stored : the maps that the host writes, int64 of shape (frames, rows, columns, channels)
    end : of the instructions, None for all
    """
    shape = NpuShape(**folder.manifest["shape"])
    maps: dict[str, Map] = {one["name"]: one for one in folder.manifest["maps"]}
    chip = NpuChip(
        shape,
        {
            place: program_of(image, f"core_{place[0]}_{place[1]}.npc", end)
            for place, image in folder.images.items()
        },
    )

    def work(frame: Frame, number: int) -> list[NDArray[np.int64]]:
        for name, data in stored.items():
            write_map(frame, maps[name], data[number], shape.columns)
        frame.run()
        return [read_map(frame, maps[name], shape.columns) for name in results]

    frames = len(next(iter(stored.values())))
    rows = list(run_frames(chip, range(frames), work, threads))
    return {name: np.stack([row[at] for row in rows]) for at, name in enumerate(results)}


def write_map(frame: Frame, one: Map, pixels: NDArray[np.int64], columns: int) -> None:
    """A map, shape (rows, columns, channels), into a core's memory. Channels that fill the last
    block of a pixel hold the zero point; high bytes of 16 bits lie behind the low ones."""
    height, width, channels = pixels.shape
    core, first, strides = tuple(one["core"]), one["address"], (*one["strides"], 1)
    if one["bits"] == 1:
        frame.write(
            core, first, strides, packed(pixels, columns).reshape(height, width, -1, columns)
        )
        return
    blocks = blocks_of(channels, columns)
    whole = np.full((height, width, blocks * columns), one["zero_point"], np.int64)
    whole[:, :, :channels] = pixels
    vectors = whole.reshape(height, width, blocks, columns)
    for byte in range(one["bits"] // 8):
        part = (vectors >> 8 * byte & 255).astype(np.uint8)
        frame.write(core, first + byte * one["high"], strides, part)


def read_map(frame: Frame, one: Map, columns: int) -> NDArray[np.int64]:
    """A map from a core's memory, shape (rows, columns, channels)."""
    _, height, width, channels = one["shape"]
    blocks = blocks_of(channels, columns if one["bits"] > 1 else 8 * columns)
    blocks *= VECTORS_OF_ENTRY if one["bits"] == 32 else 1
    core, first, strides = tuple(one["core"]), one["address"], (*one["strides"], 1)
    found = frame.read(core, first, (height, width, blocks), strides)
    if one["bits"] == 1:
        return unpacked(np.ascontiguousarray(found).view(np.uint8), channels)
    whole = np.ascontiguousarray(found).reshape(height, width, -1)
    if one["bits"] == 32:
        whole = whole.view("<i4")
    made = whole[:, :, :channels].astype(np.int64)
    if one["bits"] == 16:
        found = frame.read(core, first + one["high"], (height, width, blocks), strides)
        made = (found.reshape(height, width, -1)[:, :, :channels].astype(np.int64) << 8) + (
            made & 255
        )
    return made


def compare(folder: CompiledFolder, stored: Maps, threads: int) -> list[Compared]:
    """Every stored map beside the reference. A map may be overwritten later in a frame, so each
    layer is read when the program has run as far as it."""
    made = {tensor.name: tensor for node in folder.graph.nodes for tensor in node.outputs}
    feeds = {made[name]: data for name, data in stored.items() if name in made} | {
        view.tensor: stored[view.tensor.name]
        for view in folder.graph.inputs.values()
        if view.tensor.name in stored
    }
    found = []
    for layer in folder.manifest["layers"]:
        name = layer["map"]
        got = run_cores(folder, stored, [name], threads, layer["end"])[name]
        wanted = run_graph(folder.graph, feeds, INTEGER, [made[name]])[made[name]]
        differences = int((got != wanted).sum())
        found.append(Compared(name, got.size, differences))
    return found
