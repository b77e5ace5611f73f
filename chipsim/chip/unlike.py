"""Cores with lower limits than others: the tables ``[[core_limits]]`` of chip files.

The top-level limits of a chip hold for all cores; a table lowers some of them on some cores. A core
in several tables has the lowest of their limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
import numpy as np
from msgspec import Meta

from chipsim.chip.places import core_ids
from chipsim.chip.tables import annotations_of, checked_table, meanings
from chipsim.errors import ChipError
from chipsim.protocols import Int64Array

FIELD = "core_limits"
OWN_LIMITS = ("neurons", "synapses", "axons_in", "axons_out", "memory_bits")
"""Limits that a table may lower."""

_Count = Annotated[int, Meta(ge=1, le=2**62)]
_Side = Annotated[int, Meta(ge=0)]


class _Mesh(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LimitedCores:
    """Limits of some cores, lower than the limits of the other cores; None: the same limit."""

    rectangle: Annotated[
        tuple[_Side, _Side, _Side, _Side] | None,
        Meta(description="these cores: first column, first row, last column, last row"),
    ] = None
    cores: Annotated[
        tuple[int, ...] | None, Meta(description="or a list of cores: ids, or [x, y] pairs")
    ] = None
    neurons: Annotated[
        _Count | None, Meta(description="total size of the neurons of each of these cores")
    ] = None
    synapses: Annotated[_Count | None, Meta(description="incoming synapses of each")] = None
    axons_in: Annotated[
        _Count | None, Meta(description="distinct source neurons of each, at most")
    ] = None
    axons_out: Annotated[
        _Count | None, Meta(description="distinct (neuron, other core) pairs of each, at most")
    ] = None
    memory_bits: Annotated[_Count | None, Meta(description="bits of memory of each")] = None

    def __post_init__(self) -> None:
        for name, kind in annotations_of(LimitedCores).items():
            value = getattr(self, name)
            asked = {
                "rectangle": "[first column, first row, last column, last row]",
                "cores": "a list of core ids or [x, y] pairs",
            }.get(name, "a whole number, 1 or more")
            try:
                object.__setattr__(self, name, msgspec.convert(value, kind))
            except msgspec.ValidationError as error:
                raise ChipError(f"{FIELD}: {name} is {value!r}; give {asked}") from error
        if (self.rectangle is None) == (self.cores is None):
            raise ChipError(f"{FIELD}: give either rectangle or cores")
        if not self.own:
            raise ChipError(f"{FIELD}: a table has no limit; give one of {', '.join(OWN_LIMITS)}")

    @property
    def own(self) -> dict[str, int]:
        """Return the limits that the table has, by name."""
        found = {name: getattr(self, name) for name in OWN_LIMITS}
        return {name: value for name, value in found.items() if value is not None}

    def ids(self, width: int) -> Int64Array:
        """Return the ids of the cores; width : cores per row of the chip"""
        if self.rectangle is None:
            return np.array(self.cores, np.int64)
        left, top, right, bottom = self.rectangle
        x, y = np.arange(left, right + 1), np.arange(top, bottom + 1)
        return (y[:, None] * width + x).ravel().astype(np.int64)

    def to_json(self) -> dict[str, Any]:
        """Return the keys of the table; `core_limits_from_tables` is the inverse."""
        where: dict[str, Any] = (
            {"cores": list(self.cores)} if self.cores is not None
            else {"rectangle": list(self.rectangle or ())}
        )  # fmt: skip
        return where | self.own


def core_limits_from_tables(values: object, width: int, height: int) -> tuple[LimitedCores, ...]:
    """Return the limits of some cores from the tables of a file, or of `LimitedCores.to_json`.

    Raises `ChipError` naming the faulty key.
    """
    if not isinstance(values, list | tuple):
        raise ChipError(f"{FIELD} is {values!r}; write it as tables [[{FIELD}]]")
    known = [field.name for field in fields(LimitedCores)]
    found = []
    for number, table in enumerate(values, 1):
        given = dict(checked_table(f"{FIELD} {number}", table, known, ", such as neurons = 64"))
        if given.get("cores") is not None:
            where = f"{FIELD} {number}: cores"
            given["cores"] = core_ids(given["cores"], where, where, width, height)
        try:
            found.append(LimitedCores(**given))
        except ChipError as error:
            raise ChipError(str(error).replace(FIELD, f"{FIELD} {number}", 1)) from error
    return tuple(found)


class _Limited(_Mesh, Protocol):
    """A chip; a protocol, because chips have these tables."""

    @property
    def core_limits(self) -> tuple[LimitedCores, ...]: ...
    @property
    def neurons(self) -> int: ...


_Chip = TypeVar("_Chip", bound=_Limited)


def check_core_limits(chip: _Limited) -> None:
    """Raise `ChipError` for cores outside the mesh, and limits that are not lower."""
    for number, one in enumerate(chip.core_limits, 1):
        where = f"chip {chip.name}: {FIELD} {number}"
        if not isinstance(one, LimitedCores):
            raise ChipError(f"{where} is {one!r}; give a LimitedCores")
        _check_cores(chip, one, where)
        for name, value in one.own.items():
            most = getattr(chip, name)
            if most is None:
                raise ChipError(
                    f"{where}: {name} is {value}, but other cores have no such limit; add the "
                    f"largest limit to the chip as {name}"
                )
            if value > most:
                raise ChipError(
                    f"{where}: {name} is {value}, above the {name} = {most} of the chip; give the "
                    "largest limit to the chip, and lower ones to some cores"
                )
        try:
            chip_of_cores(chip, one)
        except ChipError as error:
            raise ChipError(f"{where}: {str(error).partition(': ')[2]}") from error


def _check_cores(mesh: _Mesh, one: LimitedCores, where: str) -> None:
    size = f"{mesh.width}x{mesh.height} mesh"
    if one.rectangle is not None:
        left, top, right, bottom = one.rectangle
        if not (left <= right < mesh.width and top <= bottom < mesh.height):
            raise ChipError(
                f"{where}: rectangle is {list(one.rectangle)}; give first column, first row, last "
                f"column and last row of the {size}"
            )
    for core in one.cores or ():
        if not 0 <= core < mesh.width * mesh.height:
            raise ChipError(
                f"{where}: core {core} is outside the {size}; core ids run from 0 to "
                f"{mesh.width * mesh.height - 1}"
            )


def chip_of_cores(chip: _Chip, one: LimitedCores) -> _Chip:
    """Return a chip all of whose cores have the limits of a table."""
    return replace(chip, core_limits=(), **one.own)  # type: ignore[type-var]


def limit_of_cores(chip: _Limited, name: str) -> Int64Array | None:
    """Return a limit of every core, shape (cores,); None if the chip does not have it.

    name : a limit of the file, or one for mappings: `synapse_limit`, `shared_bits`, `out_limit`
    """
    most = getattr(chip, name)
    if most is None:
        return None
    found = np.full(chip.width * chip.height, most, np.int64)
    for one in chip.core_limits:
        own = getattr(chip_of_cores(chip, one), name)
        ids = one.ids(chip.width)
        found[ids] = np.minimum(found[ids], most if own is None else own)
    return found


def lowered(
    tables: tuple[LimitedCores, ...], limits: Mapping[str, int]
) -> tuple[LimitedCores, ...]:
    """Return tables whose limits are at most the new limits of all cores.

    limits : new limits by name; a number of synapses replaces the bits of the memory, and tables
        without a limit are left out
    """
    found = []
    for one in tables:
        own = {
            name: min(value, limits.get(name, value))
            for name, value in one.own.items()
            if not (name == "memory_bits" and "synapses" in limits)
        }
        if own:
            found.append(replace(one, **(dict.fromkeys(OWN_LIMITS) | own)))  # type: ignore[arg-type]
    return tuple(found)


def filled(chip: _Chip, share: float) -> _Chip:
    """Return the same chip with a share of the neurons of each core, at least 1."""

    def part(neurons: int) -> int:
        return max(1, int(share * neurons))

    return neurons_changed(chip, part)


def neurons_changed(chip: _Chip, change: Callable[[int], int]) -> _Chip:
    """Return the same chip with another number of neurons of each core.

    change : returns the number, given the present one; it must not change their order
    """
    tables = tuple(
        one if one.neurons is None else replace(one, neurons=change(one.neurons))
        for one in chip.core_limits
    )
    return replace(chip, neurons=change(chip.neurons), core_limits=tables)  # type: ignore[type-var]


def core_limit_lines(tables: tuple[LimitedCores, ...]) -> list[str]:
    """Return the tables as lines of TOML, or a commented example."""
    lines = []
    for one in tables:
        lines += ["", f"[[{FIELD}]]", *(f"{key} = {value}" for key, value in one.to_json().items())]
    if not tables:
        about = meanings(LimitedCores)
        lines = ["", f"# [[{FIELD}]]  # lower limits of some cores; this chip has none"]
        lines += [f"# {f'{key} = ...':<26}  # {meaning}" for key, meaning in about.items()]
    return lines
