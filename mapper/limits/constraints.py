"""Wishes of a user about single neurons: pinned to a core, or kept together on one.

A TOML file with any number of::

    [[pin]]
    neurons = [0, 5, 17]         # or range = [100, 199], both ends included
    core = 12                    # or [x, y], or "x,y"

    [[together]]
    population = "L5I"           # all neurons of that name

Neurons are numbered as in the network file, from 0. Neurons that a chain of wishes holds together
are one item, which is partitioned, moved and counted as one; so are all neurons pinned to a core.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.limits import LIMITS
from chipsim.chip.model import Chip
from chipsim.chip.toml_text import parse_toml, read_toml_bytes
from mapper.errors import DoesNotFitError, MapperError
from mapper.limits.enforce import Items
from mapper.limits.use import Fans
from storage.jsontext import shown
from storage.store.network import NetworkFile

Population = Callable[[str], NDArray[np.int64] | None]
_WAYS = ("neurons", "range", "population")


@dataclass(frozen=True, slots=True)
class Wish:
    """where : how errors name it; neurons : ndarray[int64], sorted ids; core : or None"""

    where: str
    neurons: NDArray[np.int64]
    core: int | None


@dataclass(frozen=True, slots=True)
class Constraints:
    """What a file of wishes amounts to.

    item : ndarray[int32], shape (neurons,), item of every neuron
    core : ndarray[int32], shape (items,), core that an item is pinned to, or -1
    name : how errors name the items of several neurons or with a core
    """

    item: NDArray[np.int32]
    core: NDArray[np.int32]
    name: dict[int, str]

    def items(self, fixed: bool = False) -> Items:
        """The items, those that are pinned not to be moved if `fixed`."""
        pinned = self.core >= 0 if fixed else np.zeros(self.core.size, np.bool_)
        return Items(self.item, pinned)

    def require_fit(self, chip: Chip, sizes: NDArray[np.int64], fans: Fans) -> None:
        """Raise `DoesNotFitError` if a core cannot hold an item."""
        items = self.items()
        limits = {LIMITS[0]: sizes, LIMITS[1]: fans.into}
        for name, values in limits.items():
            limit, needed = getattr(chip, name), items.total(values)
            if limit is not None and needed.max(initial=0) > limit:
                worst = int(needed.argmax())
                raise DoesNotFitError(
                    f"{self.name.get(worst, f'vertex {worst}')}: needs {needed[worst]:,} {name} "
                    f"together; a core holds {limit:,} ({needed[worst] - limit:,} short); "
                    "keep fewer neurons together"
                )


@dataclass(frozen=True, slots=True)
class WishFile:
    """A file of wishes, read once: what is kept of it is what counted.

    path : where it was; raw : its bytes
    """

    path: Path
    raw: bytes

    @classmethod
    def read(cls, path: Path) -> WishFile:
        """Raises `MapperError` with one line if it cannot be read."""
        try:
            return cls(path, read_toml_bytes(path))
        except OSError as error:
            raise MapperError(f"{path}: cannot read: {error.strerror or error}") from error
        except ValueError as error:
            raise MapperError(f"{path}: {error}") from error


def read_wishes(file: WishFile, chip: Chip, neurons: int, population: Population) -> list[Wish]:
    """The wishes of a file. Raises `MapperError` with one line for what is wrong with it.

    neurons : of the network; population : ids of a population, or None if there is none
    """
    path = file.path
    try:
        found = parse_toml(file.raw)
    except ValueError as error:
        raise MapperError(f"{path}: is not valid TOML: {error}") from error
    wishes: list[Wish] = []
    for kind, tables in found.items():
        if kind not in ("pin", "together"):
            raise MapperError(f"{path}: unknown key {shown(kind)}; give [[pin]] and [[together]]")
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise MapperError(f"{path}: {kind} is not a list of tables; write [[{kind}]]")
        for number, table in enumerate(tables, 1):
            where = f"{path}: {kind} {number}"
            known = (*_WAYS, "core") if kind == "pin" else _WAYS
            for key in table:
                if key not in known:
                    raise MapperError(
                        f"{where}: unknown key {shown(key)}; known are {', '.join(known)}"
                    )
            core = _core(table, chip, where) if kind == "pin" else None
            wishes.append(Wish(where, _neurons(table, neurons, population, where), core))
    return wishes


def _neurons(
    table: dict[str, Any], count: int, population: Population, where: str
) -> NDArray[np.int64]:
    given = [way for way in _WAYS if way in table]
    if len(given) != 1:
        raise MapperError(f"{where}: give one of {', '.join(_WAYS)}, not {len(given)}")
    value = table[given[0]]
    if given[0] == "population":
        ids = population(value) if isinstance(value, str) else None
        if ids is None or not ids.size:
            raise MapperError(f"{where}: the network has no population {shown(value)}")
        return ids
    if not isinstance(value, list) or not value or any(type(v) is not int for v in value):
        raise MapperError(f"{where}: {given[0]} is {shown(value)}; give a list of neuron ids")
    for v in value:
        if not 0 <= v < count:
            raise MapperError(f"{where}: neuron {v} is none of 0 .. {count - 1}")
    if given[0] == "neurons":
        return np.unique(np.array(value, np.int64))
    if len(value) != 2 or value[0] > value[1]:
        raise MapperError(f"{where}: range is {value}; give the first and the last neuron")
    return np.arange(value[0], value[1] + 1, dtype=np.int64)


def _core(table: dict[str, Any], chip: Chip, where: str) -> int:
    value = table.get("core")
    if isinstance(value, str):
        parts = value.split(",")
        whole = all(p.strip().isdecimal() and len(p) < 20 for p in parts)
        value = [int(p) for p in parts] if whole else None
    if isinstance(value, list):
        good = len(value) == 2 and all(type(v) is int for v in value)
        good = good and 0 <= value[0] < chip.width and 0 <= value[1] < chip.height
        value = value[1] * chip.width + value[0] if good else None
    if type(value) is not int or not 0 <= value < chip.cores:
        raise MapperError(
            f"{where}: core is {shown(table.get('core'))}; give an id of 0 .. {chip.cores - 1}, "
            f"or x,y of the {chip.width}x{chip.height} mesh"
        )
    if value in chip.unavailable:
        raise MapperError(f"{where}: core {value} is unavailable; choose another")
    return int(value)


def combine(wishes: list[Wish], neurons: int) -> Constraints:
    """Items from wishes. Raises `MapperError` if one neuron would have to be on two cores."""
    parent = np.arange(neurons)

    def root(v: int) -> int:
        while parent[v] != v:
            parent[v] = parent[parent[v]]
            v = int(parent[v])
        return v

    first_on: dict[int, int] = {}
    for wish in wishes:
        roots = np.unique([root(int(v)) for v in wish.neurons])
        if wish.core is not None and wish.core in first_on:
            roots = np.unique([*roots, root(first_on[wish.core])])
        parent[roots] = roots[0]
        if wish.core is not None:
            first_on[wish.core] = int(roots[0])
    while not np.array_equal(top := parent[parent], parent):
        parent = top
    item = np.unique(parent, return_inverse=True)[1].astype(np.int32)
    core = np.full(int(item.max(initial=-1)) + 1, -1, np.int32)
    name: dict[int, str] = {}
    for wish in wishes:
        mine = int(item[wish.neurons[0]])
        name.setdefault(mine, wish.where)
        if wish.core is None:
            continue
        if core[mine] not in (-1, wish.core):
            raise MapperError(
                f"{wish.where}: neuron {wish.neurons[0]} is to be on core {wish.core}, but other "
                f"constraints put it on core {core[mine]}; remove one of them"
            )
        core[mine] = wish.core
    return Constraints(item, core, name)


def population_of(network: NetworkFile) -> Population:
    """Ids of a population by name, from the network's attribute of that name."""

    def ids(name: str) -> NDArray[np.int64] | None:
        if "population" not in network.meta.attributes:
            return None
        found = network.attribute("population")
        if found.labels is None or name not in found.labels:
            return None
        return np.flatnonzero(found.stored == found.labels.index(name))

    return ids


def read_constraints(
    file: WishFile, chip: Chip, network: NetworkFile, helpers: int = 0
) -> Constraints:
    """The constraints of a file for a network. Raises `MapperError` if there is a fault in it.

    helpers : vertices behind those of the network, of which a file cannot wish anything
    """
    wishes = read_wishes(file, chip, network.vertices, population_of(network))
    return combine(wishes, network.vertices + helpers)


def broken(wishes: list[Wish], core: NDArray[np.integer]) -> str:
    """The first wish that a mapping does not keep, as a sentence; empty if it keeps all.

    core : shape (neurons,), core of every neuron
    """
    for wish in wishes:
        wanted = int(core[wish.neurons[0]]) if wish.core is None else wish.core
        apart = wish.neurons[core[wish.neurons] != wanted]
        if apart.size:
            return f"{wish.where}: neuron {apart[0]} is on core {core[apart[0]]}, not on {wanted}"
    return ""
