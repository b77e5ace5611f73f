"""Check a compiled folder.

Checks hashes, checksums, that macro records generate the programs, addresses and tokens of every
program and of its loop listing, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.artifacts.checks.areas import MapPlace
from mapper.compiler.artifacts.checks.checker import (
    CompleteMap,
    Declared,
    check_program,
    stored_maps,
)
from mapper.compiler.artifacts.checks.exchange import Paced, Traded, check_exchange
from mapper.compiler.artifacts.checks.functions import Computed, check_functions, runs_of
from mapper.compiler.artifacts.checks.touches import Instruction, in_slots, instructions_of
from mapper.compiler.artifacts.loops.check import check_listing
from mapper.compiler.artifacts.manifest import (
    LOOPS,
    RECORDS,
    WEIGHTS,
    CompiledFolder,
    program_file,
)
from mapper.compiler.codegen.code import images_of_records
from mapper.compiler.codegen.macros.file import record_count
from mapper.compiler.program.image import Image
from mapper.errors import CheckFailedError
from mapper.results.sealed_folder import MOST_JSON
from storage.files import read_input


def vectors_in(one: dict[str, Any]) -> NDArray[np.int64]:
    """Return the addresses of a map of the manifest, including high bytes of 16 bits."""
    if one["planes"]:
        return np.arange(one["address"], one["address"] + int(one["vectors"]))
    _, rows, columns, _ = one["shape"]
    row, pixel = one["strides"]
    columns = one.get("ring", columns)
    blocks = int(one["pixel"])  # vectors per pixel
    found = np.arange(rows)[:, None, None] * row + np.arange(columns)[:, None] * pixel
    places = np.arange(blocks)
    if one["high"]:
        low = places[: blocks // 2]
        places = np.concatenate([low, low + one["high"]])
    return (one["address"] + found + places).ravel()


def _maps_on(folder: CompiledFolder, place: tuple[int, int]) -> dict[str, dict[str, Any]]:
    """Return the maps of a core by name."""
    return {one["name"]: one for one in folder.manifest["maps"] if tuple(one["core"]) == place}


def _presets(folder: CompiledFolder, place: tuple[int, int]) -> list[NDArray[np.int64]]:
    """Return the addresses of a core that the host writes before each function."""
    maps, nothing = _maps_on(folder, place), np.zeros(0, np.int64)
    return [
        np.concatenate([nothing, *(vectors_in(maps[x]) for x in one["inputs"] if x in maps)])
        for one in folder.manifest["functions"]
    ]


def _stored(folder: CompiledFolder, place: tuple[int, int]) -> list[CompleteMap]:
    """Return the maps in a core's memory at the end of layers."""
    maps = _maps_on(folder, place)
    at = list(folder.images).index(place)
    ends = {
        one["map"]: int(one["end"][at]) for one in folder.manifest["layers"] if one["map"] in maps
    }
    written = [name for one in folder.manifest["functions"] for name in one["inputs"]]
    names = [*ends, *(name for name in written if name in maps)]
    cells = {name: vectors_in(maps[name]) for name in names}
    owners = {name: one["owner"] for name, one in maps.items()}
    return stored_maps(list(ends.items()), owners, cells)


def _maps(folder: CompiledFolder, place: tuple[int, int]) -> list[MapPlace]:
    """Return the maps of a core from which loads may read areas; maps in planes have none."""
    found = []
    for one in folder.manifest["maps"]:
        if tuple(one["core"]) == place and not one["planes"]:
            _, height, width, _ = one["shape"]
            blocks = int(one["pixel"]) // (2 if one["high"] else 1)
            row, pixel = one["strides"]
            ring = int(one.get("ring", 0))
            found.append(
                MapPlace(one["address"], height, width, blocks, row, pixel, one["pad"], ring)
            )
    return found


def _traded(
    folder: CompiledFolder, programs: dict[tuple[int, int], list[Instruction]]
) -> dict[tuple[int, int], Traded]:
    """Return the programs of all cores, and their data from the host."""
    found = {}
    for one in folder.manifest["cores"]:
        place = one["x"], one["y"]
        brought, paced = {}, {}
        for each in one["brought"]:
            brought[each["stream"]] = in_slots(runs_of(each["runs"]), each["slots"])
            if "waits" in each:
                starts = np.cumsum([0, *(count for _, count, *_ in each["runs"][:-1])])
                paced[each["stream"]] = Paced(starts.tolist(), each["waits"], each["credits"])
        cells = [
            in_slots(vectors_in(a_map), a_map["slots"]).ravel()
            for a_map in folder.manifest["maps"]
            if tuple(a_map["core"]) == place
        ]
        where = str(folder.path / program_file(place))
        maps = np.unique(np.concatenate([np.zeros(0, np.int64), *cells]))
        rings = any(
            "ring" in a_map for a_map in folder.manifest["maps"] if tuple(a_map["core"]) == place
        )
        found[place] = Traded(
            programs[place], brought, maps, dict(one["streams"]), where, rings, paced
        )
    return found


def _computed(
    folder: CompiledFolder, programs: dict[tuple[int, int], list[Instruction]]
) -> dict[tuple[int, int], Computed]:
    """Return the function of all cores, and the data that the host sends for it."""
    functions = folder.manifest["functions"]
    found = {}
    for at, one in enumerate(folder.manifest["cores"]):
        place = one["x"], one["y"]
        maps = [each for each in folder.manifest["maps"] if tuple(each["core"]) == place]
        found[place] = Computed(
            programs[place],
            [tuple(each["spans"][at]) for each in functions],
            {
                each["stream"]: (each.get("function", 0), runs_of(each["runs"]))
                for each in one["brought"]
            },
            [_cells(maps, one["inputs"]) for one in functions],
            str(folder.path / program_file(place)),
        )
    return found


def _cells(maps: list[dict[str, Any]], names: list[str]) -> NDArray[np.int64]:
    """Return the vectors of all parts of some maps."""
    found = [vectors_in(one) for one in maps if one["name"] in names]
    return np.concatenate([np.zeros(0, np.int64), *found])


def verify_compiled(folder: CompiledFolder, made: bool = False) -> dict[str, Any]:
    """Check a folder; return the checked amounts.

    made : whether the programs were just generated from the macro records in the folder

    Raises `CheckFailedError` that names program and instruction.
    """
    records = {} if made else {"macro records": verify_records(folder)}
    shape = folder.shape
    instructions = 0
    declared, programs = {}, {}
    for place, image in folder.images.items():
        where = str(folder.path / program_file(place))
        if image.info["shape"] != folder.manifest["shape"]:
            raise CheckFailedError(f"{where}: compiled for another shape than the manifest")
        maps = _maps(folder, place)
        declared[place] = Declared(() if folder.is_spread else _stored(folder, place), maps)
        programs[place] = list(instructions_of(image, shape, where, maps))
        instructions += len(programs[place])
    comes = check_exchange(_traded(folder, programs)) if folder.is_spread else {}
    functions = folder.manifest["functions"]
    if folder.is_spread and len(functions) > 1:
        received = [runs_of(one["received"]) for one in functions]
        read = [_cells(folder.manifest["host_maps"], one["results"]) for one in functions]
        check_functions(_computed(folder, programs), received, read)
    for place, image in folder.images.items():
        where = str(folder.path / program_file(place))
        presets = [] if folder.is_spread else _presets(folder, place)
        check_program(
            programs[place], image, shape, presets, where, declared[place], comes.get(place, {})
        )
        listing = folder.path / LOOPS / Path(program_file(place)).with_suffix(".txt")
        if listing.is_file():
            text = read_input(listing, MOST_JSON).decode("ascii", "replace")
            check_listing(text, image, str(listing))
    return {
        "cores": len(folder.images),
        "instructions": instructions,
        **records,
        "maps": len(folder.manifest["maps"]),
    }


SAID = {
    "info": "sizes",
    "micro_ops": "micro-ops",
    "weights": "weight words",
    "parameters": "parameter words",
    "headers": "packet headers",
    "maps": "preset vectors",
}
"""Names of program parts in messages."""


def verify_records(folder: CompiledFolder) -> int:
    """Generate the programs from the macro records again; return the number of records.

    Raises `CheckFailedError` that names the difference, `MapperError` that names a damaged record.
    """
    where = str(folder.path / RECORDS)
    if not folder.records:
        raise CheckFailedError(f"{where}: is missing; compile the model again")
    made = images_of_records(folder.records, where)
    places = [one.core for one in made.layers]
    if places != list(folder.images):
        raise CheckFailedError(
            f"{where}: has cores {_named(places)}, but programs are for "
            f"{_named(folder.images)}; compile the model again"
        )
    for place, image in zip(places, made.images, strict=True):
        _require_same(folder.images[place], image, f"{where}: the {{}} differ from "
                      f"{program_file(place)}; compile the model again")  # fmt: skip
    stored = b"" if folder.weights is None else folder.weights.tobytes()
    if made.words != stored:
        raise CheckFailedError(f"{where}: its weight words differ from {WEIGHTS}; compile again")
    return record_count(folder.records, where)


def _named(places: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"({x}, {y})" for x, y in places) or "none"


def _require_same(kept: Image, made: Image, message: str) -> None:
    for name in Image._fields:
        mine, its = getattr(kept, name), getattr(made, name)
        if not (np.array_equal(mine, its) if isinstance(its, np.ndarray) else mine == its):
            raise CheckFailedError(message.format(SAID.get(name, name)))
