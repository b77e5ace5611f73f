"""User constraints on neurons: where they must be, and where they must not be together.

A TOML file with any number of::

    [[pin]]
    neurons = [0, 5, 17]         # or range = [100, 199], both ends included
    core = 12                    # or [x, y], or "x,y"

    [[together]]
    population = "L5I"           # all neurons of that population

    [[region]]
    population = "L4"
    rectangle = [0, 0, 3, 3]     # first column and row, last column and row; or cores = [4, [5, 0]]
    exclusive = true             # no other neurons on these cores; the default is false

    [[apart]]
    populations = ["L4", "L6"]   # no core holds neurons of two of them

Neurons are numbered from 0, as in the network file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType

from chipsim.chip.model import Chip
from chipsim.chip.toml_text import parse_toml, read_toml_bytes
from mapper.errors import MapperError
from storage.arrays import Int32, Int64
from storage.jsontext import shown
from storage.store.network import NetworkFile
from storage.store.populations import called, read_populations
from storage.typed import Whole, convert

Population = Callable[[str], Int64 | None]
Range = Annotated[tuple[Whole, Whole], Meta(description="the first and the last neuron")]
Ids = Annotated[list[Whole], Meta(min_length=1)]
CoreName = int | str | tuple[int, int]
Called = Callable[[int], str]
"""Function that returns the name of a neuron in messages."""


def numbered_neuron(neuron: int) -> str:
    """Return the name of a neuron without a population."""
    return f"neuron {neuron}"


class Together(msgspec.Struct, forbid_unknown_fields=True):
    """Neurons to keep on one core, given by one of the three keys."""

    neurons: Ids | UnsetType = UNSET
    range: Range | UnsetType = UNSET
    population: str | UnsetType = UNSET


class Pin(Together, forbid_unknown_fields=True, kw_only=True):
    """Neurons to put on a core, given by its id or its column and row."""

    core: CoreName


class CoreRegion(Together, forbid_unknown_fields=True, kw_only=True):
    """Neurons to put on the cores of a rectangle or a list."""

    rectangle: (
        Annotated[
            tuple[Whole, Whole, Whole, Whole],
            Meta(description="first column, first row, last column, last row"),
        ]
        | UnsetType
    ) = UNSET
    cores: Annotated[list[CoreName], Meta(min_length=1)] | UnsetType = UNSET
    exclusive: Annotated[bool, Meta(description="keep other neurons off these cores")] = False


class Apart(msgspec.Struct, forbid_unknown_fields=True):
    """Groups of neurons of which no core may hold two, given by one of the three keys."""

    populations: Annotated[list[str], Meta(min_length=2)] | UnsetType = UNSET
    ranges: Annotated[list[Range], Meta(min_length=2)] | UnsetType = UNSET
    groups: Annotated[list[Ids], Meta(min_length=2, description="lists of neurons")] | UnsetType = (
        UNSET
    )


TABLES: dict[str, type[msgspec.Struct]] = {
    "pin": Pin, "together": Together, "region": CoreRegion, "apart": Apart
}  # fmt: skip
"""The tables that a file may contain, by key."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """Neurons of one table that must be on one core.

    where : its name in errors
    neurons : ndarray[int64], sorted ids
    core : core id, or None for any core
    """

    where: str
    neurons: Int64
    core: int | None

    def fault(self, core: Int32 | Int64, called: Called = numbered_neuron) -> str:
        """Return how a mapping breaks the constraint, in one line; empty if it does not."""
        wanted = int(core[self.neurons[0]]) if self.core is None else self.core
        off = self.neurons[core[self.neurons] != wanted]
        if not off.size:
            return ""
        name = called(int(off[0]))
        return f"{self.where}: {name} is on core {core[off[0]]}, not on {wanted}"


@dataclass(frozen=True, slots=True)
class RegionConstraint:
    """Neurons of one table that must be on some cores.

    cores : ndarray[int64], sorted ids of the usable cores
    exclusive : other neurons must not be on these cores
    """

    where: str
    neurons: Int64
    cores: Int64
    exclusive: bool

    def fault(self, core: Int32 | Int64, called: Called = numbered_neuron) -> str:
        """Return how a mapping breaks the constraint, in one line; empty if it does not."""
        inside = np.isin(core, self.cores)
        off = self.neurons[~inside[self.neurons]]
        if off.size:
            name = called(int(off[0]))
            return f"{self.where}: {name} is on core {core[off[0]]}, outside its region"
        if self.exclusive:
            inside[self.neurons] = False
            if inside.any():
                other = int(inside.argmax())
                name = called(other)
                return f"{self.where}: {name} is on core {core[other]}, which is exclusive"
        return ""


@dataclass(frozen=True, slots=True)
class ApartConstraint:
    """Groups of one table: no core holds neurons of two of them.

    groups : ndarray[int64] each, sorted ids
    """

    where: str
    groups: tuple[Int64, ...]

    def fault(self, core: Int32 | Int64, called: Called = numbered_neuron) -> str:
        """Return how a mapping breaks the constraint, in one line; empty if it does not."""
        first = np.full(int(core.max(initial=0)) + 1, -1, np.int64)  # a neuron on each core
        for group in self.groups:
            on = core[group]
            shared = np.flatnonzero(first[on] >= 0)
            if shared.size:
                v = int(group[shared[0]])
                both = f"{called(int(first[core[v]]))} and {called(v)}"
                return f"{self.where}: {both} are both on core {core[v]}"
            first[on] = group
        return ""


AnyConstraint = Constraint | RegionConstraint | ApartConstraint


@dataclass(frozen=True, slots=True)
class ConstraintFile:
    """A file of constraints, read once; the run stores this copy.

    path : its path
    raw : its bytes
    """

    path: Path
    raw: bytes

    @classmethod
    def read(cls, path: Path) -> ConstraintFile:
        """Read the file; raises `MapperError` if it cannot be read."""
        try:
            return cls(path, read_toml_bytes(path))
        except OSError as error:
            raise MapperError(f"{path}: cannot read: {error.strerror or error}") from error
        except ValueError as error:
            raise MapperError(f"{path}: {error}") from error


def constraints_in(
    file: ConstraintFile, chip: Chip, neurons: int, population: Population
) -> list[AnyConstraint]:
    """Parse the constraints of a file; raises `MapperError` for invalid ones.

    neurons : number of neurons of the network
    population : function from the name of a population to its ids, or None if it does not exist
    """
    path = file.path
    try:
        found = parse_toml(file.raw)
    except ValueError as error:
        raise MapperError(f"{path}: is not valid TOML: {error}") from error
    constraints: list[AnyConstraint] = []
    for kind, tables in found.items():
        if kind not in TABLES:
            known = ", ".join(f"[[{name}]]" for name in TABLES)
            raise MapperError(f"{path}: unknown key {shown(kind)}; known tables are {known}")
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise MapperError(f"{path}: {kind} is not a list of tables; write [[{kind}]]")
        for number, table in enumerate(tables, 1):
            where = f"{path}: {kind} {number}"
            try:
                given = convert(table, TABLES[kind])
            except ValueError as error:
                known = ", ".join(TABLES[kind].__struct_fields__)
                raise MapperError(f"{where}: {error}; known keys are {known}") from error
            ids = _Selection(neurons, population, where)
            if isinstance(given, Apart):
                constraints.append(ApartConstraint(where, _groups(given, ids)))
                continue
            assert isinstance(given, Together)
            chosen = ids.of(given)
            if isinstance(given, CoreRegion):
                cores = _cores(given, chip, where)
                constraints.append(RegionConstraint(where, chosen, cores, given.exclusive))
            else:
                core = _usable(given.core, chip, where) if isinstance(given, Pin) else None
                constraints.append(Constraint(where, chosen, core))
    return constraints


@dataclass(frozen=True, slots=True)
class _Selection:
    """Neurons by id, range or population; errors name the table."""

    count: int
    population: Population
    where: str

    def of(self, given: Together) -> Int64:
        """Return the neurons of a table."""
        key = _only_key(given, Together.__struct_fields__, self.where)
        if key == "population":
            assert isinstance(given.population, str)
            return self.named(given.population)
        return self.listed(getattr(given, key), key == "range")

    def named(self, name: str) -> Int64:
        """Return the neurons of a population."""
        ids = self.population(name)
        if ids is None or not ids.size:
            raise MapperError(f"{self.where}: the network has no population {shown(name)}")
        return ids

    def listed(self, values: list[int] | tuple[int, int], is_range: bool) -> Int64:
        """Return the neurons of a list or a range."""
        if (most := max(values)) >= self.count:
            raise MapperError(f"{self.where}: neuron {most} is outside 0 .. {self.count - 1}")
        if not is_range:
            return np.unique(np.array(values, np.int64))
        first, last = values
        if first > last:
            raise MapperError(
                f"{self.where}: range is {[first, last]}; give the first and the last neuron"
            )
        return np.arange(first, last + 1, dtype=np.int64)


def _only_key(given: msgspec.Struct, ways: tuple[str, ...], where: str) -> str:
    """Return the one key of these that a table has."""
    found = [way for way in ways if getattr(given, way) is not UNSET]
    if len(found) != 1:
        raise MapperError(f"{where}: give one of {', '.join(ways)}, not {len(found)}")
    return found[0]


def _groups(given: Apart, ids: _Selection) -> tuple[Int64, ...]:
    key = _only_key(given, Apart.__struct_fields__, ids.where)
    if key == "populations":
        groups = tuple(ids.named(name) for name in getattr(given, key))
    else:
        groups = tuple(ids.listed(values, key == "ranges") for values in getattr(given, key))
    member = np.zeros(ids.count, np.bool_)
    for group in groups:
        if member[group].any():
            twice = int(group[member[group]][0])
            raise MapperError(
                f"{ids.where}: neuron {twice} is in two of its groups; list it in one of them"
            )
        member[group] = True
    return groups


def _cores(given: CoreRegion, chip: Chip, where: str) -> Int64:
    key = _only_key(given, ("rectangle", "cores"), where)
    if key == "cores":
        names = getattr(given, key)
        found = np.unique(np.array([_core(name, chip, where) for name in names], np.int64))
    else:
        assert isinstance(given.rectangle, tuple)
        left, top, right, bottom = corners = given.rectangle
        if not (left <= right < chip.width and top <= bottom < chip.height):
            raise MapperError(
                f"{where}: rectangle is {list(corners)}; give first column, first row, last column "
                f"and last row of the {chip.width}x{chip.height} mesh"
            )
        x, y = np.arange(left, right + 1), np.arange(top, bottom + 1)
        found = (y[:, None] * chip.width + x).ravel()
    usable = found[chip.usable[found]]
    if not usable.size:
        raise MapperError(f"{where}: all of its cores are unavailable; choose others")
    return usable


def _usable(core: CoreName, chip: Chip, where: str) -> int:
    value = _core(core, chip, where)
    if value in chip.unavailable:
        raise MapperError(f"{where}: core {value} is unavailable; choose another")
    return value


def _core(core: CoreName, chip: Chip, where: str) -> int:
    value = core
    if isinstance(value, str):
        parts = value.split(",")
        if len(parts) == 2 and all(p.strip().isdecimal() and len(p) < 20 for p in parts):
            value = int(parts[0]), int(parts[1])
    if isinstance(value, tuple):
        x, y = value
        value = y * chip.width + x if 0 <= x < chip.width and 0 <= y < chip.height else -1
    if isinstance(value, str) or not 0 <= value < chip.cores:
        given = list(core) if isinstance(core, tuple) else core
        raise MapperError(
            f"{where}: core is {shown(given)}; give an id of 0 .. {chip.cores - 1}, "
            f"or x,y of the {chip.width}x{chip.height} mesh"
        )
    return value


def population_of(network: NetworkFile) -> Population:
    """Return a function from the name of a population to its ids in a network."""

    def ids(name: str) -> Int64 | None:
        found = read_populations(network)
        if found is None or name not in found.names:
            return None
        return np.flatnonzero(found.of == found.names.index(name))

    return ids


def faults(file: ConstraintFile, chip: Chip, network: NetworkFile, core: Int32) -> list[str]:
    """Return a line for each constraint of a file that a mapping breaks.

    core : shape (neurons,), core of every neuron
    """
    found = constraints_in(file, chip, network.vertices, population_of(network))
    named = partial(called, network)
    return [fault for one in found if (fault := one.fault(core, named))]
