"""The chip: a mesh of identical cores, their limits, and what a hop costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from chipsim.errors import ChipError
from chipsim.protocols import BoolArray, Int32Array

MAX_CORES = 2**31 - 1
"""Core ids are int32."""
MAX_LIMIT = 2**62
"""Sums of what cores hold are int64."""

_LIMITS = ("neurons", "synapses", "axons_in", "axons_out")
_COSTS = ("energy_router", "energy_link", "latency_router", "latency_link")


def _is_int(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Chip:
    """A many-core chip: ``width`` x ``height`` cores on a 2D mesh.

    Core id = y * width + x, with x the column and y the row, both from 0.

    Attributes
    ----------
    name : what the chip is called in reports
    width, height : cores in a row, cores in a column
    neurons : capacity of a core, in units of vertex size
    synapses : incoming synapses that a core can store, or None for no limit
    axons_in : distinct source neurons with a synapse in the core, or None
    axons_out : distinct (source neuron, other core) pairs that leave the core, or None
    unavailable : sorted ids of the cores that must stay empty
    energy_router, energy_link : energy of a spike in a router and on a link (pJ, or relative)
    latency_router, latency_link : time of a spike in a router and on a link (ns, or relative)

    Raises
    ------
    ChipError
        If a value is out of range; the message names it.
    """

    name: str
    width: int
    height: int
    neurons: int = 1024
    synapses: int | None = None
    axons_in: int | None = None
    axons_out: int | None = None
    unavailable: tuple[int, ...] = ()
    energy_router: float = 1.0
    energy_link: float = 0.1
    latency_router: float = 1.0
    latency_link: float = 0.01

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ChipError(f"chip: name is {self.name!r}; give a non-empty text")
        for side in ("width", "height"):
            self._check_count(side, "at least one core")
        if self.width * self.height > MAX_CORES:
            raise ChipError(
                f"chip {self.name}: {self.width}x{self.height} is more than {MAX_CORES} cores; "
                "try a smaller mesh"
            )
        for limit in _LIMITS:
            if limit == "neurons" or getattr(self, limit) is not None:
                self._check_count(limit, "1 or more")
        for cost in _COSTS:
            value = getattr(self, cost)
            number = isinstance(value, float | np.floating) or _is_int(value)
            if not number or not math.isfinite(value) or value < 0:
                raise ChipError(
                    f"chip {self.name}: {cost} is {value!r}; give a finite number, 0 or more"
                )
            object.__setattr__(self, cost, float(value))
        self._check_unavailable()

    def _check_count(self, field: str, least: str) -> None:
        value = getattr(self, field)
        if not _is_int(value) or value < 1:
            raise ChipError(f"chip {self.name}: {field} is {value!r}; give a whole number, {least}")
        if value > MAX_LIMIT:
            raise ChipError(f"chip {self.name}: {field} is beyond 2^62; give less")
        object.__setattr__(self, field, int(value))

    def _check_unavailable(self) -> None:
        for core in self.unavailable:
            if not _is_int(core) or not 0 <= core < self.cores:
                raise ChipError(
                    f"chip {self.name}: unavailable core {core!r} is outside the "
                    f"{self.width}x{self.height} mesh; core ids run from 0 to {self.cores - 1}"
                )
        ids = tuple(sorted({int(core) for core in self.unavailable}))
        if len(ids) == self.cores:
            raise ChipError(f"chip {self.name}: all {self.cores} cores are unavailable; leave one")
        object.__setattr__(self, "unavailable", ids)

    @property
    def cores(self) -> int:
        """Number of cores of the mesh, the unavailable ones included."""
        return self.width * self.height

    @property
    def usable(self) -> BoolArray:
        """A new mask, shape (cores,): True where neurons may be put."""
        mask = np.ones(self.cores, dtype=np.bool_)
        mask[list(self.unavailable)] = False
        return mask

    @property
    def usable_count(self) -> int:
        """Number of cores that neurons may be put on."""
        return self.cores - len(self.unavailable)

    @property
    def links(self) -> int:
        """Number of directed links between neighbouring routers."""
        return 2 * ((self.width - 1) * self.height + self.width * (self.height - 1))

    def coordinates(self) -> tuple[Int32Array, Int32Array]:
        """Column and row of every core: two arrays of shape (cores,), indexed by core id."""
        y, x = np.divmod(np.arange(self.cores, dtype=np.int32), np.int32(self.width))
        return x, y

    def with_limits(
        self,
        neurons: int | None = None,
        synapses: int | None = None,
        axons_in: int | None = None,
        axons_out: int | None = None,
    ) -> Chip:
        """The same chip with other limits per core; None keeps the present one."""
        given = dict(zip(_LIMITS, (neurons, synapses, axons_in, axons_out), strict=True))
        return replace(self, **{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """All fields by name, for ``json.dumps``; `chipsim.chip.presets.from_fields` undoes it."""
        out = {field.name: getattr(self, field.name) for field in fields(self)}
        out["unavailable"] = list(self.unavailable)
        return out
