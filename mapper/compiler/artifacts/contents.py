"""Summaries of compiled folders and core programs, and of samples for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.npu.records import KINDS, Op
from hw.npu.isa.encoding import decode_program
from mapper.compiler.artifacts.manifest import RECORDS, CompiledFolder
from mapper.compiler.codegen.macros.file import MACROS, contents, record_count
from mapper.compiler.program.image import MAGIC, Image, unpack_image
from mapper.results.sealed_folder import MOST_FILE
from storage.files import open_input, read_input


def is_program(path: Path) -> bool:
    """Return whether a file is a core program (.npc)."""
    with open_input(path) as file:
        return file.read(len(MAGIC)) == MAGIC


def is_records(path: Path) -> bool:
    """Return whether a file contains macro records (macros.bin)."""
    with open_input(path) as file:
        return file.read(len(MACROS.magic)) == MACROS.magic


def record_contents(path: Path) -> dict[str, Any]:
    """Return a summary of a file of macro records; raise `MapperError` if it is damaged."""
    return {"path": str(path), **contents(read_input(path, MOST_FILE), str(path))}


def program_contents(path: Path) -> dict[str, Any]:
    """Return a summary of a core program; raise `MapperError` if the file is damaged."""
    return {
        "path": str(path),
        **image_contents(unpack_image(read_input(path, MOST_FILE), str(path)), str(path)),
    }


def image_contents(image: Image, where: str) -> dict[str, Any]:
    """Return the entries of each memory, and the number of instructions of each kind."""
    decoded = decode_program(image.instructions, where)
    pairs, counts = np.unique(
        np.stack([decoded.op, decoded.kind], 1).reshape(-1, 2), axis=0, return_counts=True
    )
    kinds = {
        f"{Op(op).name}.{KINDS[Op(op)][kind]}": count
        for (op, kind), count in zip(pairs.tolist(), counts.tolist(), strict=True)
    }
    return {
        "core": image.info.get("core"),
        "npu": image.info["shape"].get("name"),
        "rows": image.info["shape"]["rows"],
        "columns": image.info["shape"]["columns"],
        **image.counts,
        "kinds": kinds,
    }


def folder_contents(folder: CompiledFolder) -> dict[str, Any]:
    """Return a summary of a compiled folder."""
    manifest = folder.manifest
    cores = []
    for one in manifest["cores"]:
        image = folder.images[one["x"], one["y"]]
        cores.append({"file": one["file"], **image_contents(image, str(folder.path / one["file"]))})
    files = {name: (folder.path / name).stat().st_size for name in manifest["files"]}
    return {
        "path": str(folder.path),
        "model": manifest["model"],
        "tool": manifest["tool"],
        "chip": manifest["chip"],
        "settings": manifest["settings"],
        "samples": manifest["samples"],
        "input": manifest["input"],
        "outputs": manifest["outputs"],
        "layers": len(manifest["layers"]),
        "maps": len(manifest["maps"]),
        "host_nodes": sum(step["do"] == "node" for step in folder.host),
        "cores": cores,
        "macro_records": record_count(folder.records, str(folder.path / RECORDS)),
        "files": files,
    }


class Clipped(NamedTuple):
    """Number of input values outside the range of the input scale. low, high : the range"""

    values: int
    low: float
    high: float


def clipped_inputs(folder: CompiledFolder, samples: NDArray[np.float32]) -> Clipped | None:
    """Return how many sample values are clipped by host quantisation; None if the input has no
    scale.
    """
    step = input_step(folder)
    if step is None:
        return None
    half = 1 << (step["bits"] - 1)
    ends = (np.array([-half, half - 1]) - step["zero_point"]).astype(np.float32)
    steps = np.rint(samples / np.float32(step["scale"]))
    outside = int(((steps < ends[0]) | (steps > ends[1])).sum())
    low, high = (float(end * np.float32(step["scale"])) for end in ends)
    return Clipped(outside, low, high)


def input_step(folder: CompiledFolder) -> dict[str, Any] | None:
    """Return the host's step that quantises the input; None if the input has no scale."""
    name = next(iter(folder.graph.inputs))
    for step in folder.host:
        if step["do"] == "quantise" and step["value"] == name and not step.get("levels"):
            return step
    return None
