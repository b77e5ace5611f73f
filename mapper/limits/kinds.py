"""Kinds of items: items under the same regions and keep-apart constraints.

Items of a kind may be on the same cores, and items of two kinds may be forbidden to share a core.
There are few kinds, so that tables of kinds and cores are small.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import numpy as np

from mapper.errors import DoesNotFitError, MapperError
from mapper.limits.constraints import ApartConstraint, Called, RegionConstraint
from mapper.limits.domains import FIXED, Domains
from storage.arrays import Int32, Int64, Mask

BYTES = 48  # bytes per kind and core, of all tables
PAIR_BYTES = 5  # bytes per pair of kinds
ITEM_BYTES = 8  # bytes per item: its kind, and its domain


class Names(NamedTuple):
    """Names in errors.

    tables : table that an item comes from, if there is one
    neuron : function that returns the name of a neuron
    """

    tables: dict[int, str]
    neuron: Called


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of the items of a run.

    kind : ndarray[int32], shape (items,)
    allowed : ndarray[bool], shape (kinds, cores), usable cores that a kind may be on
    apart : ndarray[bool], shape (kinds, kinds), kinds that must not share a core
    name : names of the tables that each kind is under
    """

    kind: Int32
    allowed: Mask
    apart: Mask
    name: tuple[tuple[str, ...], ...]

    @classmethod
    def single(cls, items: int, usable: Mask) -> Kinds:
        """Return the kinds of items that are all under no region and no keep-apart constraint."""
        return cls(np.zeros(items, np.int32), usable[None], np.zeros((1, 1), np.bool_), ((),))

    @property
    def bytes(self) -> int:
        """Return the bytes of the kinds, and of the tables that the search for cores uses."""
        return ITEM_BYTES * self.kind.size + _table_bytes(*self.allowed.shape)

    def domains(self, place: Int32, fixed: Mask) -> Domains:
        """Return domains in which every move keeps all constraints, starting from a mapping.

        place : ndarray[int32], shape (items,), core of every item, within the constraints
        fixed : items that must not move

        A core that holds none of two kinds that must be apart is given to the larger one.
        """
        table = self.free(place)
        sizes = np.bincount(self.kind, minlength=table.shape[0])
        for k in np.argsort(-sizes, kind="stable"):
            table[self.apart[k]] &= ~table[k]
        return Domains(np.where(fixed, FIXED, self.kind).astype(np.int32), table)

    def free(self, place: Int32, some: Mask | None = None) -> Mask:
        """Return the cores that each kind may be on next to the items that are placed there.

        some : items that count; None for all
        """
        kind, core = (self.kind, place) if some is None else (self.kind[some], place[some])
        present = np.zeros_like(self.allowed)
        present[kind, core] = True
        return self.allowed & ~((self.apart.astype(np.int32) @ present.astype(np.int32)) > 0)

    def shown(self, some: Int64 | None = None) -> str:
        """Return the names of the tables of some kinds, in one line; None for all kinds."""
        rows = self.name if some is None else [self.name[k] for k in some]
        names = list(dict.fromkeys(name for row in rows for name in row))
        if some is not None and not all(rows):
            names.append("other neurons")
        return " and ".join([*names[:1], *(name.rpartition(": ")[2] for name in names[1:])])

    def kept(self, place: Int32) -> bool:
        """Return whether a mapping keeps all constraints."""
        return bool(self.free(place)[self.kind, place].all())


def find_kinds(
    item: Int32,
    items: int,
    regions: Sequence[RegionConstraint],
    groups: Sequence[ApartConstraint],
    usable: Mask,
    names: Names,
    memory: int | None = None,
) -> Kinds:
    """Return the kinds of all items; raises `MapperError` if constraints contradict each other.

    item : ndarray[int32], shape (neurons,), item of every neuron
    usable : shape (cores,)
    memory : bytes for tables of kinds and cores; `DoesNotFitError` if they need more
    """
    kind = np.zeros(items, np.int32)
    rows: list[tuple[int, ...]] = [()]  # of each kind: 0, or 1 + its group, by table
    tables: list[tuple[str, tuple[Int64, ...]]] = []
    for region in regions:
        if region.exclusive:
            _require_pure(region, item, items, names)
        tables.append((region.where, (region.neurons,)))
    for one in groups:
        _require_single(one, item, items, names)
        tables.append((one.where, one.groups))
    for _, parts in tables:
        value = np.zeros(items, np.int64)
        for number, neurons in enumerate(parts, 1):
            value[item[neurons]] = number
        key = kind.astype(np.int64) * (len(parts) + 1) + value
        known, inverse = np.unique(key, return_inverse=True)
        before, here = np.divmod(known, len(parts) + 1)
        rows = [(*rows[b], int(h)) for b, h in zip(before.tolist(), here.tolist(), strict=True)]
        kind = inverse.astype(np.int32)
        if memory is not None:
            _require_memory(len(rows), usable.size, memory)
    row = np.array(rows, np.int64).reshape(len(rows), len(tables))
    allowed = np.repeat(usable[None], len(rows), axis=0)
    for at, region in enumerate(regions):
        inside = np.zeros(usable.size, np.bool_)
        inside[region.cores] = True
        member = row[:, at] > 0
        allowed[member] &= inside
        if region.exclusive:
            allowed[~member] &= ~inside
    found = Kinds(kind, allowed, _apart(row[:, len(regions) :]), _names(row, tables))
    for k in np.flatnonzero(~allowed.any(axis=1)):
        first = int(np.flatnonzero(kind == k)[0])
        neuron = names.neuron(int(np.flatnonzero(item == first)[0]))
        together = f" ({names.tables[first]})" if first in names.tables else ""
        _refuse(neuron + together, row[k], regions)
    return found


def require_pins(
    kinds: Kinds,
    item: Int32,
    pinned: Int32,
    regions: Iterable[RegionConstraint],
    names: Names,
) -> None:
    """Raise `MapperError` if a pin contradicts a region.

    pinned : ndarray[int32], shape (items,), required core, or -1
    """
    at = np.flatnonzero(pinned >= 0)
    wrong = at[~kinds.allowed[kinds.kind[at], pinned[at]]]
    if not wrong.size:
        return
    one, core = int(wrong[0]), int(pinned[wrong[0]])
    neurons = np.flatnonzero(item == one)
    for region in regions:
        inside = core in region.cores
        member = np.isin(neurons, region.neurons)
        if member.any() and not inside:
            raise MapperError(
                f"{region.where}: {names.neuron(int(neurons[member][0]))} must be in its region, "
                f"but {names.tables[one]} pins it to core {core}; remove one of them"
            )
        if region.exclusive and inside and not member.any():
            raise MapperError(
                f"{names.tables[one]}: pins {names.neuron(int(neurons[0]))} to core {core}, which "
                f"{region.where} keeps for other neurons; remove one of them"
            )


def _members(item: Int32, items: int, neurons: np.ndarray) -> Mask:
    found = np.zeros(items, np.bool_)
    found[item[neurons]] = True
    return found


def _apart(groups: np.ndarray) -> Mask:
    """Return the kinds that must be apart; groups : group of each kind by table, or 0"""
    found = np.zeros((groups.shape[0], groups.shape[0]), np.bool_)
    for group in groups.T:
        both = (group[:, None] > 0) & (group[None] > 0)
        found |= both & (group[:, None] != group[None])
    return found


def _table_bytes(kinds: int, cores: int) -> int:
    return BYTES * kinds * cores + PAIR_BYTES * kinds**2


def _require_memory(kinds: int, cores: int, memory: int) -> None:
    """Raise `DoesNotFitError` if the tables of kinds and cores exceed the memory."""
    needed = _table_bytes(kinds, cores)
    if needed > memory:
        raise DoesNotFitError(
            f"constraints: {kinds:,} combinations of regions and groups on {cores:,} cores need "
            f"{needed / 1e6:,.0f} MB of memory, {memory / 1e6:,.0f} MB are free for them; use "
            "fewer tables, or raise --memory"
        )


def _names(
    row: np.ndarray, tables: list[tuple[str, tuple[Int64, ...]]]
) -> tuple[tuple[str, ...], ...]:
    """Return the names of the tables of each kind."""
    return tuple(tuple(tables[at][0] for at in np.flatnonzero(one)) for one in row)


def _require_pure(region: RegionConstraint, item: Int32, items: int, names: Names) -> None:
    """Raise `MapperError` if an item has neurons in and outside an exclusive region."""
    others = np.ones(item.size, np.bool_)
    others[region.neurons] = False
    mixed = _members(item, items, region.neurons) & _members(item, items, np.flatnonzero(others))
    if mixed.any():
        one = int(mixed.argmax())
        inside = int(region.neurons[item[region.neurons] == one][0])
        outside = int(np.flatnonzero(others & (item == one))[0])
        raise MapperError(
            f"{region.where}: {names.neuron(inside)} is in this exclusive region and "
            f"{names.neuron(outside)} is not, but {names.tables[one]} puts them on one core; "
            "remove one of them"
        )


def _require_single(one: ApartConstraint, item: Int32, items: int, names: Names) -> None:
    """Raise `MapperError` if two groups share an item."""
    owner = np.full(items, -1, np.int64)
    for number, neurons in enumerate(one.groups):
        mask = _members(item, items, neurons)
        twice = np.flatnonzero(mask & (owner >= 0))
        if twice.size:
            both = int(twice[0])
            first, second = one.groups[int(owner[both])], one.groups[number]
            u, v = (int(group[item[group] == both][0]) for group in (first, second))
            raise MapperError(
                f"{one.where}: {names.neuron(u)} and {names.neuron(v)} are in two of its groups, "
                f"but {names.tables[both]} puts them on one core; remove one of them"
            )
        owner[mask] = number


def _refuse(neuron: str, row: np.ndarray, regions: Sequence[RegionConstraint]) -> NoReturn:
    """Raise the error of a neuron that may be on no core; neuron : its name"""
    own = [region for at, region in enumerate(regions) if row[at]]
    for at, one in enumerate(own):
        for other in own[at + 1 :]:
            if not np.intersect1d(one.cores, other.cores).size:
                raise MapperError(
                    f"{other.where}: {neuron} is also in {one.where}, and the "
                    "regions have no core in common; remove one of them"
                )
    taken = [r.where for at, r in enumerate(regions) if r.exclusive and not row[at]]
    if not own:
        raise MapperError(
            f"{taken[-1]}: exclusive regions leave no core for {neuron}; give smaller regions"
        )
    names = [*(region.where for region in own[1:]), *(f"exclusive {name}" for name in taken)]
    raise MapperError(
        f"{own[0].where}: {neuron} has no core left, given {' and '.join(names)}; "
        "give a larger region"
    )
