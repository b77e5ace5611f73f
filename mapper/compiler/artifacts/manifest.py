"""Read and write the folder of a compiled model.

manifest.json    model, target and settings; hashes of all other files
host_plan.json   steps of the host around the cores
graph.json, graph.npz   the integer graph, the reference of programs
macros.bin       macro records: the layers from which programs are generated
core_X_Y.npc     the program of a core
weights.bin      weight words that cores request from the host at run time, if any
ranges.json      minimum, maximum and histogram of each map over the samples
graphs/          with --keep-graphs: the graph after each stage
loops/           with --emit loops: the schedule of each core as loop nests
driver/          with --emit c: programs, their interpreter and the host's work as C sources
report.json, report.html
"""

from __future__ import annotations

import io
import itertools
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NpuShape
from chipsim.chip.presets import from_fields
from chipsim.npu.arrivals import HostLink
from chipsim.npu.mesh.chip import HostStages
from mapper.compiler.codegen.code import Lying
from mapper.compiler.compiled import Compiled
from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import JOINS, Interleave
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.ir.text import graph_from_json, graph_to_json
from mapper.compiler.memory.planner import pixel_vectors
from mapper.compiler.multicore.tiles import flits_of, mapping_file, tiles_file
from mapper.compiler.partition.hostplan import Step
from mapper.compiler.program.image import Image, pack_image, unpack_image
from mapper.compiler.settings import CompileSettings
from mapper.errors import MapperError
from mapper.results.sealed_folder import (
    MANIFEST,
    as_damage,
    json_bytes,
    read_manifest,
    read_sealed,
    write_sealed,
)
from mapper.version import version
from storage.files import digest
from storage.jsontext import parse_json
from storage.npz import load_arrays, npz_bytes

SCHEMA = 1
MODEL = "model.onnx"
WEIGHTS, RECORDS = "weights.bin", "macros.bin"
TILES, MAPPING = "tiles.bin", "mapping.npz"
HOST_PLAN, GRAPH, CONSTANTS, RANGES, GRAPHS, DRIVER, LOOPS = (
    "host_plan.json", "graph.json", "graph.npz", "ranges.json", "graphs", "driver", "loops",
)  # fmt: skip


MOST_SCALE = 3.4e38  # float32


class CompiledFolder(NamedTuple):
    """Contents of a folder.

    host : steps of the host plan
    graph : integer graph, the reference
    images : by core, (x, y)
    weights : words of the host's memory that cores request, int8, shape (words, rows, columns);
        None if there are none
    records : file of macro records
    model : compiled ONNX model, serialised
    """

    path: Path
    manifest: dict[str, Any]
    host: list[Step]
    graph: Graph
    images: dict[tuple[int, int], Image]
    weights: NDArray[np.int8] | None = None
    records: bytes = b""
    model: bytes = b""

    @property
    def chip(self) -> Chip:
        """Chip that it was compiled for."""
        return from_fields(self.manifest["chip"], f"{self.path}: chip")

    @property
    def shape(self) -> NpuShape:
        """Cores of the chip."""
        return NpuShape(**self.manifest["shape"])

    @property
    def link(self) -> HostLink:
        """Link over which the host answers requests for weights."""
        return HostLink.of(self.chip.host)

    @property
    def is_spread(self) -> bool:
        """Whether several cores share the model and exchange maps."""
        return bool(self.manifest["host_maps"])


def folder_in_memory(path: Path, compiled: Compiled, target: Target) -> CompiledFolder:
    """Return the contents of a folder without writing it, to run temporary programs."""
    images = {one.place: one.image() for one in compiled.codes}
    records = b"".join(one.records for one in compiled.codes)
    words = compiled.host_weights if compiled.host_weights.size else None
    manifest = manifest_of(compiled, target)
    return CompiledFolder(path, manifest, compiled.host, compiled.graph, images, words, records)


def is_compiled(folder: Path) -> bool:
    """Return whether a folder contains a compiled model, even if its manifest is missing."""
    return (folder / MANIFEST).is_file() or any(folder.glob("core_*.npc"))


class Target(NamedTuple):
    """Chip, core and settings of a compilation."""

    chip: Chip
    shape: NpuShape
    settings: CompileSettings


class SourceFile(NamedTuple):
    """The file of a model, and the serialised model that is compiled."""

    path: Path
    data: bytes


def write_folder(
    folder: Path, model: SourceFile, target: Target, compiled: Compiled, form: dict[str, Any]
) -> None:
    """Write a compiled model. form : description of how samples become the model's input"""
    graph, constants = graph_to_json(compiled.graph)
    files = {program_file(one.place): pack_image(one.image()) for one in compiled.codes} | {
        RECORDS: b"".join(one.records for one in compiled.codes),
        HOST_PLAN: json_bytes({"steps": compiled.host}),
        GRAPH: json_bytes(graph),
        CONSTANTS: npz_bytes(constants),
        MODEL: model.data,
    }
    if compiled.ports:
        flits = flits_of(compiled.codes, target.shape, compiled.ports)
        files[TILES] = tiles_file(flits, compiled.codes, len(compiled.ports))
        files[MAPPING] = mapping_file(compiled.codes, compiled.ports, target.chip)
    if compiled.host_weights.size:
        files[WEIGHTS] = compiled.host_weights.tobytes()
    manifest = manifest_of(compiled, target) | {
        "model": {"name": model.path.name, "sha256": digest(model.path)},
        "samples": form,
    }
    write_sealed(folder, files, manifest)


def program_file(core: tuple[int, int]) -> str:
    """Return the file name of a core's program."""
    return f"core_{core[0]}_{core[1]}.npc"


def manifest_of(compiled: Compiled, target: Target) -> dict[str, Any]:
    """Return the manifest entries of the compiled model itself."""
    columns, cores = target.shape.columns, []
    for one in compiled.codes:
        x, y = one.place
        brought = [
            {
                "stream": each.stream,
                "slots": each.slots,
                "runs": [list(run) for run in each.runs],
                **({"function": each.function} if each.function else {}),
                **({"waits": list(each.waits), "credits": each.credits} if each.numbers else {}),
            }
            for each in one.links.brought
        ]
        cores.append(
            {
                "x": x,
                "y": y,
                "file": program_file(one.place),
                "streams": [list(pair) for pair in sorted(one.links.counts.items())],
                "brought": brought,
            }
        )
    functions = [
        {
            "name": compiled.partition.names()[number],
            "spans": [list(code.spans[number]) for code in compiled.codes],
            "inputs": [tensor.name for tensor in one.inputs],
            "results": [tensor.name for tensor in one.results],
            **_host_stage(compiled.stages, number),
        }
        for number, one in enumerate(compiled.partition.functions)
    ]
    return {
        "schema": SCHEMA,
        "tool": f"mapper {version()}",
        "settings": target.settings.as_json(),
        "chip": target.chip.to_json(),
        "shape": asdict(target.shape),
        "ports": [list(port) for port in compiled.ports],
        "cores": cores,
        "maps": [
            _map(one, list(code.place), columns) for code in compiled.codes for one in code.maps
        ],
        "host_maps": [_map(one, None, columns) for one in compiled.results],
        "functions": functions,
        **({"in_order": True} if any(one.in_order for one in compiled.codes) else {}),
        "layers": _layers(compiled),
        "input": _value(next(iter(compiled.graph.inputs.items()))),
        "outputs": list(compiled.graph.outputs),
        **({"limits_missed": compiled.missed} if compiled.missed else {}),
    }


def _host_stage(stages: HostStages, number: int) -> dict[str, Any]:
    """Return the work of the host before a function, and the runs of its memory that receive
    results of the function: first vector and count. A model of one function has neither."""
    if len(stages.cycles) == 1:
        return {}
    vectors = np.flatnonzero(stages.results == number)
    runs = np.split(vectors, np.flatnonzero(np.diff(vectors) > 1) + 1)
    received = [[int(run[0]), len(run)] for run in runs if run.size]
    return {"host_cycles": stages.cycles[number], "received": received}


def _map(one: Lying, core: list[int] | None, columns: int) -> dict[str, Any]:
    """Return a map, or its part on a core or the host. columns : bytes per vector"""
    tensor, region = one.tensor, one.region
    return {
        "name": tensor.name,
        "core": core,
        "rows": list(one.rows),
        "channels": list(one.channels),
        "address": region.first,
        "vectors": region.vectors,
        "pixel": pixel_vectors(region.tensor, columns),
        "shape": list(region.tensor.shape),
        "whole": list(tensor.shape),
        "bits": tensor.bits,
        "strides": [region.row, region.pixel],
        "high": region.high,
        "slots": region.slots,
        **({"ring": region.ring.columns} if region.ring is not None else {}),
        "pad": list(region.border.pad),
        "planes": tensor.planes,
        "owner": None if region.owner is None else region.owner.name,
        "scale": tensor.scale,
        "zero_point": tensor.zero_point,
        **({} if tensor.of_model is None else {"of_model": list(tensor.of_model)}),
    }


def _layers(compiled: Compiled) -> list[dict[str, Any]]:
    """Return the stored maps of each macro node; joined maps follow their last part. Interleaved
    maps are values of the model, their parts are not.

    bits : bits of the integers that the macro node reads
    end : for each core, the end of the instructions for it or earlier layers
    """
    ends: dict[Tensor, tuple[int, int]] = {}  # function, and macro node
    sources: dict[Tensor, tuple[str, ...]] = {}
    bits: dict[Tensor, int] = {}
    for number, one in enumerate(compiled.partition.functions):
        ends |= dict.fromkeys(one.inputs, (number, one.first - 1))
        for at in range(one.first, one.stop):
            for tensor in compiled.macros[at].outputs:
                ends[tensor] = number, at
                sources[tensor] = compiled.macros[at].sources
                bits[tensor] = compiled.macros[at].bits
    for node in compiled.graph.nodes:
        if isinstance(node.operator, JOINS):
            ends[node.output] = max(ends.get(tensor, (0, -1)) for tensor in node.inputs)
            sources[node.output] = node.sources
            bits[node.output] = node.output.bits
        if isinstance(node.operator, Interleave):
            made = [sources.pop(tensor, ()) for tensor in node.inputs]
            sources[node.output] = tuple(dict.fromkeys([*node.sources, *itertools.chain(*made)]))
    return [
        {
            "map": tensor.name,
            "nodes": list(names),
            "bits": bits[tensor],
            "function": ends[tensor][0],
            "end": _ends(compiled, *ends[tensor]),
        }
        for tensor, names in sources.items()
    ]


def _ends(compiled: Compiled, function: int, number: int) -> list[int]:
    """Return the end of a macro node's instructions for each core."""
    found = []
    for code in compiled.codes:
        done = [end for at, end in zip(code.numbers, code.ends, strict=True) if at <= number]
        found.append(max([code.spans[function][0], *done]))
    return found


def _value(item: tuple[str, View]) -> dict[str, Any]:
    name, view = item
    return {"name": name, "shape": list(view.shape), "channels_last": view.order[-1] == 3}


def read_folder(folder: Path) -> CompiledFolder:
    """Read a compiled model; raise `MapperError` that names the missing or damaged file."""
    manifest = read_manifest(folder, SCHEMA)
    with as_damage(folder):
        data = read_sealed(folder, manifest)
        host = parse_json(data[HOST_PLAN])["steps"]
        if not all(isinstance(step["do"], str) for step in host):
            raise TypeError("invalid step")
        if not all(abs(step["scale"]) <= MOST_SCALE for step in host if "scale" in step):
            raise ValueError("invalid scale")
        with load_arrays(io.BytesIO(data[CONSTANTS])) as arrays:
            graph = graph_from_json(parse_json(data[GRAPH]), dict(arrays))
        images = {
            (one["x"], one["y"]): unpack_image(data[one["file"]], str(folder / one["file"]))
            for one in manifest["cores"]
        }
        weights = None
        if WEIGHTS in data:
            size = manifest["shape"]["rows"], manifest["shape"]["columns"]
            weights = np.frombuffer(data[WEIGHTS], np.int8).reshape(-1, *size)
        for name in (RECORDS, MODEL):
            if name not in data:
                raise MapperError(f"{folder / name}: is missing; compile the model again")
    return CompiledFolder(
        folder, manifest, host, graph, images, weights, data[RECORDS], data[MODEL]
    )
