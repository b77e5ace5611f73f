"""User constraints on neurons: pinned to a core, or kept together on one.

A TOML file with any number of::

    [[pin]]
    neurons = [0, 5, 17]         # or range = [100, 199], both ends included
    core = 12                    # or [x, y], or "x,y"

    [[together]]
    population = "L5I"           # all neurons of that population

Neurons are numbered from 0, as in the network file. Neurons linked by a chain of constraints form
one item, which is partitioned and moved as one; so do all neurons pinned to the same core.
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
from numpy.typing import NDArray

from chipsim.chip.limits import BITS_OF_MEMORY, LIMITS
from chipsim.chip.model import Chip
from chipsim.chip.toml_text import parse_toml, read_toml_bytes
from mapper.errors import DoesNotFitError, MapperError
from mapper.limits.capacity import without_lists
from mapper.limits.enforce import Items
from mapper.limits.use import BitCosts, Fans
from storage.arrays import Int32, Int64
from storage.jsontext import shown
from storage.store.network import NetworkFile
from storage.store.populations import called, read_populations
from storage.typed import Whole, convert

Population = Callable[[str], Int64 | None]
Called = Callable[[int], str]
"""Function that returns the name of a neuron in messages."""


def numbered_neuron(neuron: int) -> str:
    """Return the name of a neuron without a population."""
    return f"neuron {neuron}"


class Together(msgspec.Struct, forbid_unknown_fields=True):
    """Neurons to keep on one core, given by one of the three keys."""

    neurons: Annotated[list[Whole], Meta(min_length=1)] | UnsetType = UNSET
    range: (
        Annotated[tuple[Whole, Whole], Meta(description="the first and the last neuron")]
        | UnsetType
    ) = UNSET
    population: str | UnsetType = UNSET


class Pin(Together, forbid_unknown_fields=True, kw_only=True):
    """Neurons to put on a core, given by its id or its column and row."""

    core: int | str | tuple[int, int]


TABLES: dict[str, type[Together]] = {"pin": Pin, "together": Together}
"""The tables that a file may contain, by key."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint of a file.

    where : its name in errors
    neurons : ndarray[int64], sorted ids
    core : core id, or None
    """

    where: str
    neurons: Int64
    core: int | None


@dataclass(frozen=True, slots=True)
class Constraints:
    """The combined constraints of a file.

    item : ndarray[int32], shape (neurons,), item of every neuron
    core : ndarray[int32], shape (items,), core that an item is pinned to, or -1
    name : names in errors, of items with several neurons or a core
    """

    item: Int32
    core: Int32
    name: dict[int, str]

    def items(self) -> Items:
        """Return the items, all free to move."""
        return Items(self.item, np.zeros(self.core.size, np.bool_))

    def require_fit(
        self, chip: Chip, sizes: Int64, fans: Fans, called: Called = numbered_neuron
    ) -> None:
        """Raise `DoesNotFitError` if an item exceeds a core; called : names of single neurons."""
        items, chip = self.items(), without_lists(chip)
        limits = {
            LIMITS[0]: (sizes, chip.neurons),
            LIMITS[1]: (fans.into, chip.synapse_limit),
            BITS_OF_MEMORY: (BitCosts.on(chip).of(sizes, fans.into), chip.shared_bits),
        }
        for name, (values, limit) in limits.items():
            needed = items.total(values)
            if limit is not None and needed.max(initial=0) > limit:
                worst = int(needed.argmax())
                short = f"a core holds {limit:,} ({needed[worst] - limit:,} short)"
                if worst not in self.name:
                    neuron = int(np.flatnonzero(self.item == worst)[0])
                    raise DoesNotFitError(
                        f"{called(neuron)} needs {needed[worst]:,} {name}; {short}; "
                        "use larger cores"
                    )
                raise DoesNotFitError(
                    f"{self.name[worst]}: needs {needed[worst]:,} {name} together; {short}; "
                    "keep fewer neurons together"
                )


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
) -> list[Constraint]:
    """Parse the constraints of a file; raises `MapperError` for invalid ones.

    neurons : number of neurons of the network
    population : function from the name of a population to its ids, or None if it does not exist
    """
    path = file.path
    try:
        found = parse_toml(file.raw)
    except ValueError as error:
        raise MapperError(f"{path}: is not valid TOML: {error}") from error
    constraints: list[Constraint] = []
    for kind, tables in found.items():
        if kind not in TABLES:
            raise MapperError(f"{path}: unknown key {shown(kind)}; give [[pin]] and [[together]]")
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise MapperError(f"{path}: {kind} is not a list of tables; write [[{kind}]]")
        for number, table in enumerate(tables, 1):
            where = f"{path}: {kind} {number}"
            try:
                given = convert(table, TABLES[kind])
            except ValueError as error:
                known = ", ".join(TABLES[kind].__struct_fields__)
                raise MapperError(f"{where}: {error}; known keys are {known}") from error
            core = _core(given.core, chip, where) if isinstance(given, Pin) else None
            constraints.append(Constraint(where, _neurons(given, neurons, population, where), core))
    return constraints


def _neurons(given: Together, count: int, population: Population, where: str) -> Int64:
    ways = Together.__struct_fields__
    number = sum(getattr(given, way) is not UNSET for way in ways)
    if number != 1:
        raise MapperError(f"{where}: give one of {', '.join(ways)}, not {number}")
    if isinstance(given.population, str):
        ids = population(given.population)
        if ids is None or not ids.size:
            name = shown(given.population)
            raise MapperError(f"{where}: the network has no population {name}")
        return ids
    listed = list(given.neurons or given.range or ())
    if (most := max(listed)) >= count:
        raise MapperError(f"{where}: neuron {most} is outside 0 .. {count - 1}")
    if given.neurons:
        return np.unique(np.array(listed, np.int64))
    first, last = listed
    if first > last:
        raise MapperError(f"{where}: range is {[first, last]}; give the first and the last neuron")
    return np.arange(first, last + 1, dtype=np.int64)


def _core(core: int | str | tuple[int, int], chip: Chip, where: str) -> int:
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
    if value in chip.unavailable:
        raise MapperError(f"{where}: core {value} is unavailable; choose another")
    return value


def combine(
    constraints: list[Constraint], neurons: int, called: Called = numbered_neuron
) -> Constraints:
    """Combine constraints into items; raises `MapperError` if a neuron is pinned to two cores."""
    parent = np.arange(neurons)

    def root(v: int) -> int:
        while parent[v] != v:
            parent[v] = parent[parent[v]]
            v = int(parent[v])
        return v

    first_on: dict[int, int] = {}
    for one in constraints:
        roots = np.unique([root(int(v)) for v in one.neurons])
        if one.core is not None and one.core in first_on:
            roots = np.unique([*roots, root(first_on[one.core])])
        parent[roots] = roots[0]
        if one.core is not None:
            first_on[one.core] = int(roots[0])
    while not np.array_equal(top := parent[parent], parent):
        parent = top
    item = np.unique(parent, return_inverse=True)[1].astype(np.int32)
    core = np.full(int(item.max(initial=-1)) + 1, -1, np.int32)
    name: dict[int, str] = {}
    for one in constraints:
        mine = int(item[one.neurons[0]])
        name.setdefault(mine, one.where)
        if one.core is None:
            continue
        if core[mine] not in (-1, one.core):
            raise MapperError(
                f"{one.where}: {called(int(one.neurons[0]))} is pinned to core {one.core}, but "
                f"other constraints pin it to core {core[mine]}; remove one of them"
            )
        core[mine] = one.core
    return Constraints(item, core, name)


def population_of(network: NetworkFile) -> Population:
    """Return a function from the name of a population to its ids in a network."""

    def ids(name: str) -> Int64 | None:
        found = read_populations(network)
        if found is None or name not in found.names:
            return None
        return np.flatnonzero(found.of == found.names.index(name))

    return ids


def read_constraints(
    file: ConstraintFile, chip: Chip, network: NetworkFile, relays: int = 0
) -> Constraints:
    """Return the constraints of a file for a network; raises `MapperError` for invalid ones.

    relays : number of relay vertices, which follow the network's; a file cannot constrain them
    """
    constraints = constraints_in(file, chip, network.vertices, population_of(network))
    return combine(constraints, network.vertices + relays, partial(called, network))


def broken(
    constraints: list[Constraint], core: NDArray[np.integer], called: Called = numbered_neuron
) -> str:
    """Return the first constraint that a mapping violates, as a sentence; empty if there is none.

    core : shape (neurons,), core of every neuron
    """
    for one in constraints:
        wanted = int(core[one.neurons[0]]) if one.core is None else one.core
        apart = one.neurons[core[one.neurons] != wanted]
        if apart.size:
            name = called(int(apart[0]))
            return f"{one.where}: {name} is on core {core[apart[0]]}, not on {wanted}"
    return ""
