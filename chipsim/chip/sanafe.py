"""Chips from architecture files of SANA-FE (Boyle et al., IEEE TCAD 44(8), 2025), in YAML.

SANA-FE numbers tiles column by column: tile t is in column t // height, row t % height of the mesh.
Cores of a tile share a router and form the most nearly square block that their number allows, core
c in column c % width. A message goes to each destination core, so ``delivery`` is "core". A hop has
the cost of the tile; routers have no cost of their own. The files must name every energy, so 0
counts as unknown. Entries that a chip cannot represent are counted in its notes.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from chipsim.chip.energy import ChipEnergy, energy_from_table
from chipsim.chip.machine import Block, Machine
from chipsim.chip.model import MAX_CORES, Chip
from chipsim.chip.provenance import Provenance, Source, numbers
from chipsim.errors import ChipError

MOST_FILE_BYTES = 1 << 20  # bytes per file: published ones have a few thousand
_RANGE = re.compile(r"\[(\d{1,12})\.\.(\d{1,12})\]")
_SIDES = ("east", "west", "north", "south")


class ArchitectureCore(NamedTuple):
    """A core of the file.

    many : number of such cores in a tile
    neurons : neurons per core
    energy : energies of the core, None if unknown
    left_out : entries that a chip cannot represent, each with its number
    """

    many: int
    neurons: int
    energy: ChipEnergy | None
    left_out: dict[str, float]


class ArchitectureTile(NamedTuple):
    """A tile of the file: number of such tiles, hop energies (pJ) and times (ns) by side, cores."""

    many: int
    energies: tuple[float, ...]
    times: tuple[float, ...]
    cores: tuple[ArchitectureCore, ...]

    @property
    def size(self) -> int:
        return sum(core.many for core in self.cores)


def chip_of_architecture(raw: bytes, name: str) -> Chip:
    """Return the chip described by a file; its notes list the entries that are left out.

    Raises a one-line `ChipError` naming the place in the file.
    """
    found = _loaded(raw)
    arch = _mapping(found, "architecture", "the file")
    attributes = _mapping(arch, "attributes", "architecture")
    width, height = (_whole(attributes, side, "architecture") for side in ("width", "height"))
    tiles = [_tile(entry, where) for entry, where in _entries(arch, "tile", "architecture")]
    count, first = sum(tile.many for tile in tiles), tiles[0]
    if count > width * height:
        raise ChipError(f"tile: {count} tiles are more than the {width}x{height} of the mesh")
    size = max(tile.size for tile in tiles)
    across = next(n for n in range(math.ceil(math.sqrt(size)), size + 1) if size % n == 0)
    down, columns = size // across, -(-count // height)
    if columns * height * size > MAX_CORES:
        raise ChipError(f"tile: {columns * height} tiles of {size} cores are more than {MAX_CORES}")
    cores = [core for tile in tiles for core in tile.cores]
    chip = Chip(
        name, columns * across, height * down,
        neurons=min(core.neurons for core in cores),
        unavailable=tuple(_missing(tiles, height, columns, (across, down))),
        delivery="core",
        energy_router=0.0, energy_link=_by_axis(first.energies),
        energy_unit="pJ" if any(first.energies) else "relative",
        latency_router=0.0, latency_link=_by_axis(first.times),
        latency_unit="ns" if any(first.times) else "relative",
        energy=cores[0].energy,
    )  # fmt: skip
    if size > 1:
        tile = Block(across, down, 0.0)
        chip = replace(chip, machine=Machine(chip.width, chip.height, tile=tile))
    notes = _notes(tiles, attributes, width - columns)
    about = f"SANA-FE architecture {_brief(arch.get('name', name))}"
    stated = numbers(chip.to_json())
    given = ("width", "height", "neurons", "energy_link", "latency_link", "energy.event",
             "energy.neuron", "energy.packet_out", "energy.packet_in")  # fmt: skip
    sources = tuple(Source(key, stated[key], about) for key in given if stated.get(key))
    return replace(chip, origin=Provenance(about, notes, sources))


def _loaded(raw: bytes) -> Any:
    if len(raw) > MOST_FILE_BYTES:
        raise ChipError(
            f"is larger than {MOST_FILE_BYTES >> 20} MiB; is it a SANA-FE architecture?"
        )
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise ChipError(
            "SANA-FE architectures need pyyaml; run pip install 'neuromapper[sanafe]'"
        ) from error
    try:
        return yaml.safe_load(raw)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        said = " ".join(str(error).split())[:200]
        raise ChipError(f"is not valid YAML: {said or 'nested too deep'}") from error


def _tile(entry: Mapping[str, Any], where: str) -> ArchitectureTile:
    costs = _mapping(entry, "attributes", where)
    energies = tuple(_number(costs, f"energy_{side}_hop", where, 1e12) for side in _SIDES)
    times = tuple(_number(costs, f"latency_{side}_hop", where, 1e9) for side in _SIDES)
    cores = tuple(_core(core, inner) for core, inner in _entries(entry, "core", where))
    return ArchitectureTile(_count(entry, where), energies, times, cores)


def _core(entry: Mapping[str, Any], where: str) -> ArchitectureCore:
    attributes = _mapping(entry, "attributes", where)
    units = {
        part: [(_mapping(unit, "attributes", inner), inner, _count(unit, inner))
               for unit, inner in _entries(entry, part, where)]
        for part in ("axon_in", "synapse", "dendrite", "soma", "axon_out")
    }  # fmt: skip
    units["soma"] = [s for s in units["soma"] if s[0].get("model") != "input"] or units["soma"]

    def energy(part: str, key: str) -> float:
        attributes, inner, _ = units[part][0]
        return _number(attributes, key, inner, 1e12)

    def spent(part: str, key: str) -> float:
        return energy(part, key) if key in units[part][0][0] else 0.0

    access, update = (energy("soma", f"energy_{what}_neuron") for what in ("access", "update"))
    others = sum(count for found in units.values() for _, _, count in found) - len(units)
    times = sum(
        key.startswith("latency_") and _number(found[0][0], key, found[0][1], 1e9) > 0
        for found in units.values()
        for key in found[0][0]
    )
    left_out = {
        "units after the first of each kind: their costs are ignored": others,
        "times of core operations: not part of the chip model": times,
        "pJ of each spike (energy_spike_out): not counted": spent("soma", "energy_spike_out"),
        "pJ of dendrites (energy_update): not counted": spent("dendrite", "energy_update"),
        "pJ of conditional neuron updates: counted for every neuron in each tick": update,
    }
    parts = {
        "event": energy("synapse", "energy_process_spike"),
        "neuron": float(f"{access + update:.12g}"),
        "packet_out": energy("axon_out", "energy_message_out"),
        "packet_in": energy("axon_in", "energy_message_in"),
    }
    known = {part: value for part, value in parts.items() if value}
    left_out["core energies of 0: treated as unknown"] = len(parts) - len(known)
    return ArchitectureCore(
        _count(entry, where),
        _whole(attributes, "max_neurons_supported", where),
        energy_from_table(known) if known else None,
        left_out,
    )


def _notes(
    tiles: list[ArchitectureTile], attributes: Mapping[str, Any], columns: int
) -> tuple[str, ...]:
    """Return the notes on entries that a chip cannot represent, with their counts."""
    first = tiles[0]
    core = first.cores[0]
    found: dict[str, float] = {
        "mesh columns without tiles": columns,
        "tiles whose hop costs differ from the first tile's, which are used": sum(
            tile.many for tile in tiles if tile[1:3] != first[1:3]
        ),
        "hop costs that differ between east and west or north and south: averaged": (
            sum(of[k] != of[k + 1] for of in (first.energies, first.times) for k in (0, 2))
        ),
    }
    none = [what for what in (first.energies, first.times) if not any(what)]
    found["hop costs (energies, times) of 0: treated as unknown"] = len(none)
    unlike = [(tile, other) for tile in tiles for other in tile.cores]
    found["cores whose energies differ from the first core's, which are used"] = sum(
        tile.many * other.many for tile, other in unlike if other.energy != core.energy
    )
    least = min(other.neurons for _, other in unlike)
    found[f"cores with more than {least} neurons, the smallest limit"] = sum(
        tile.many * other.many for tile, other in unlike if other.neurons > least
    )
    found |= core.left_out
    known = ("width", "height", "topology")
    found["attributes of the mesh (buffers, synchronisation, ...)"] = len(
        set(attributes) - {*known}
    )
    return tuple(f"left out: {count:,.6g} {text}" for text, count in found.items() if count)


def _missing(
    tiles: list[ArchitectureTile], height: int, columns: int, block: tuple[int, int]
) -> Iterator[int]:
    """Yield the cores of the mesh that the file does not have."""
    (across, down), at = block, 0
    for count, size in [(tile.many, tile.size) for tile in tiles] + [(0, 0)]:
        last = at + count if count else columns * height
        if size < across * down:
            for tile in range(at, last):
                for core in range(size, across * down):
                    x = tile // height * across + core % across
                    y = tile % height * down + core // across
                    yield y * columns * across + x
        at = last


def _by_axis(of: tuple[float, ...]) -> float | tuple[float, ...]:
    """Return the costs of east-west and north-south hops, as one number if they are equal."""
    pair = tuple(float(f"{(of[k] + of[k + 1]) / 2:.12g}") for k in (0, 2))
    return pair[0] if pair[0] == pair[1] else pair


def _entries(
    node: Mapping[str, Any], key: str, where: str
) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield each tile, core or unit of a section, and its name for messages."""
    found = node.get(key)
    listed = found if isinstance(found, list) else [found]
    if found is None or not listed:
        raise ChipError(f"{where}: section {key!r} is missing; add it")
    for entry in listed:
        if not isinstance(entry, Mapping):
            raise ChipError(f"{where}: {key} is {_brief(entry)}; give a name and attributes")
        yield entry, f"{key} {_brief(entry.get('name', '?'))}"


def _count(entry: Mapping[str, Any], where: str) -> int:
    """Return the number of elements that a name such as ``tile[0..31]`` denotes."""
    name = entry.get("name")
    if not isinstance(name, str):
        raise ChipError(f"{where}: key 'name' is missing; add it")
    found = _RANGE.search(name)
    if found is None:
        return 1
    first, last = int(found[1]), int(found[2])
    if last < first:
        raise ChipError(f"{where}: its range runs from {first} down to {last}; swap the ends")
    return last - first + 1


def _brief(value: Any) -> str:
    """Return a short form of a value for messages: a list may contain itself many times."""
    if value is None or isinstance(value, str | float | bool):
        return str(value)[:40]
    if isinstance(value, int):
        return str(value) if abs(value) < 1 << 64 else "a huge number"
    return f"a {type(value).__name__}"


def _mapping(node: Any, key: str, where: str) -> Mapping[str, Any]:
    found = node.get(key) if isinstance(node, Mapping) else None
    if not isinstance(found, Mapping):
        raise ChipError(f"{where}: section {key!r} is missing; add it")
    return found


def _whole(node: Mapping[str, Any], key: str, where: str) -> int:
    value = node.get(key)
    if type(value) is not int or not 1 <= value <= MAX_CORES:
        raise ChipError(f"{where}: {key} is {_brief(value)}; give a whole number, 1 or more")
    return value


def _number(node: Mapping[str, Any], key: str, where: str, scale: float) -> float:
    """Return a number of joules or seconds in the unit of chips; ``1e-9`` is text in YAML 1.1."""
    value = node.get(key)
    try:
        found = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        found = math.nan
    if isinstance(value, bool) or not 0 <= found < 1e6:
        raise ChipError(f"{where}: {key} is {_brief(value)}; give a number, 0 or more")
    return float(f"{found * scale:.12g}")
