"""The chip: a mesh of cores, core limits, and the cost of a hop."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from chipsim.chip.energy import ChipEnergy
from chipsim.chip.faults import LinkPairs, check_core, checked_faults, place_of, working_links
from chipsim.chip.host import ChipHost
from chipsim.chip.machine import Axes, Machine, flat_axes
from chipsim.chip.memory import NO_MEMORY, PARTS, check_memory, free_bits
from chipsim.chip.npu_shape import NpuShape
from chipsim.chip.provenance import Provenance
from chipsim.chip.tables import annotations_of
from chipsim.chip.time import ChipTime
from chipsim.chip.unlike import FIELD, LimitedCores, check_core_limits, lowered
from chipsim.errors import ChipError
from chipsim.protocols import BoolArray, Int32Array

MAX_CORES = 2**31 - 1
"""Core ids are int32."""
MAX_LIMIT = 2**62
"""Sums over cores are int64."""

Delivery = Literal["synapse", "core", "tree"]
"""Packets sent per spike: one per synapse, one per other core with a synapse, or one packet that
branches on the way to these cores (multicast)."""

_LIMITS = ("neurons", "synapses", "axons_in", "axons_out")
_FAULTS = ("unavailable", "broken_links", "broken_routers")
_OMITTED = {"sharing": "none", "neuron_bits": 0, **dict.fromkeys(_FAULTS[1:], ())}
"""Values that are not in `to_json`."""
_UNITS = ("energy_unit", "latency_unit")
Sharing = Literal["none", "offset"]
"""Synapses that a core stores: all, or lists that are equal relative to their first neuron once."""

_TABLE_TYPES = {
    "npu": NpuShape, "host": ChipHost, "time": ChipTime, "energy": ChipEnergy, "machine": Machine
}  # fmt: skip
TABLES = tuple(_TABLE_TYPES)
"""Fields that are tables of a chip file and follow all other keys; `machine` is several tables."""
EnergyUnit = Literal["relative", "pJ"]
LatencyUnit = Literal["relative", "ns"]

_ASKED = {
    "name": "a non-empty text",
    **dict.fromkeys(("width", "height"), "a whole number of cores, 1 or more"),
    **dict.fromkeys((*_LIMITS, "memory_bits"), "a whole number, 1 or more"),
    **dict.fromkeys(PARTS, "a whole number, at most 65536"),
    "sharing": "none or offset",
    "delivery": "synapse, core or tree",
    "single_target": "true or false",
    "energy_unit": "relative or pJ",
    "latency_unit": "relative or ns",
    "energy_link": "a finite number, 0 or more, or two: east-west and north-south",
    "latency_link": "a finite number, 0 or more, or two: east-west and north-south",
}

Count = Annotated[int, Meta(ge=1, le=MAX_LIMIT)]
Bits = Annotated[int, Meta(ge=0, le=1 << 16)]
Cost = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
# msgspec crashes on unions of such numbers with tuples of a fixed length.
LinkCost = Cost | Annotated[tuple[Cost, ...], Meta(min_length=2, max_length=2)]


@dataclass(frozen=True, slots=True)
class Chip:
    """A many-core chip: ``width`` x ``height`` cores on a 2D mesh.

    Core id = y * width + x, with x the column and y the row, both from 0.

    Energies are in pJ and latencies in ns, or both relative.

    Raises
    ------
    ChipError
        If a value is out of range; the message names it.
    """

    name: Annotated[str, Meta(min_length=1, description="name of the chip in reports")]
    width: Annotated[Count, Meta(description="cores per row")]
    height: Annotated[Count, Meta(description="cores per column")]
    neurons: Annotated[Count, Meta(description="total size of the neurons of a core")] = 1024
    synapses: Annotated[Count | None, Meta(description="incoming synapses per core")] = None
    axons_in: Annotated[
        Count | None, Meta(description="distinct source neurons with a synapse in a core")
    ] = None
    axons_out: Annotated[
        Count | None,
        Meta(description="distinct (neuron, other core that it reaches) pairs, per core"),
    ] = None
    sharing: Annotated[
        Sharing,
        Meta(
            description="synapses that a core stores: all (none), or synapse lists that are equal "
            "relative to their first neuron once (offset)"
        ),
    ] = "none"
    memory_bits: Annotated[
        Count | None,
        Meta(description="bits of memory per core for synapses, and for neurons with neuron_bits"),
    ] = None
    weight_bits: Annotated[
        Bits | None, Meta(description="bits per weight in that memory; requires memory_bits")
    ] = None
    index_bits: Annotated[
        Bits, Meta(description="bits per synapse without its weight: target, delay, type")
    ] = 0
    axon_bits: Annotated[
        Bits, Meta(description="bits per synapse list of a source neuron, without its synapses")
    ] = 0
    neuron_bits: Annotated[
        Bits, Meta(description="bits per neuron, where that memory also holds neurons")
    ] = 0
    unavailable: Annotated[
        tuple[int, ...],
        Meta(description="cores that stay empty: ids y * width + x, or [x, y] pairs"),
    ] = ()
    broken_links: Annotated[
        LinkPairs,
        Meta(
            description="links that do not work, in both directions: pairs of adjacent cores, such "
            "as [[1, 2], [2, 2]]"
        ),
    ] = ()
    broken_routers: Annotated[
        tuple[int, ...],
        Meta(
            description="routers that do not route, each by a core: their cores stay empty; "
            "routers of other unavailable cores still route"
        ),
    ] = ()
    delivery: Annotated[
        Delivery,
        Meta(
            description="packets per spike: one per synapse (synapse), one per destination core "
            "(core), or one multicast packet (tree)"
        ),
    ] = "synapse"
    single_target: Annotated[
        bool,
        Meta(
            description="whether a neuron sends to one core only, even its own: a neuron with more "
            "targets needs a copy in its core for each, and axons_out counts neurons and copies"
        ),
    ] = False
    energy_router: Annotated[Cost, Meta(description="energy per spike in a router")] = 1.0
    energy_link: Annotated[
        LinkCost,
        Meta(
            description="energy per spike on a link between routers: a number, or "
            "[east-west, north-south]"
        ),
    ] = 0.1
    energy_unit: Annotated[EnergyUnit, Meta(description="unit of these energies")] = "relative"
    latency_router: Annotated[Cost, Meta(description="latency of a spike in a router")] = 1.0
    latency_link: Annotated[
        LinkCost,
        Meta(
            description="latency of a spike on a link between routers: a number, or "
            "[east-west, north-south]"
        ),
    ] = 0.01
    latency_unit: Annotated[LatencyUnit, Meta(description="unit of these latencies")] = "relative"
    npu: Annotated[
        NpuShape | None, Meta(description="the matrix processor (NPU) of each core, for `compile`")
    ] = None
    host: Annotated[
        ChipHost | None,
        Meta(description="where frames enter and leave, and the weight memory, for `compile`"),
    ] = None
    time: Annotated[
        ChipTime | None, Meta(description="cycles of the parts of a tick, for `tick_cycles`")
    ] = None
    energy: Annotated[ChipEnergy | None, Meta(description="energies of core operations")] = None
    machine: Annotated[
        Machine | None, Meta(description="tiles, chips and boards, tori, and step costs")
    ] = None
    core_limits: Annotated[
        tuple[LimitedCores, ...],
        Meta(description="lower limits of some cores; all others have the limits above"),
    ] = ()
    origin: Annotated[
        Provenance | None, Meta(description="description of the chip and sources of its numbers")
    ] = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name, kind in annotations_of(Chip).items():
            if name not in (*_FAULTS, "origin", FIELD, *TABLES):
                self._check(name, kind)
        if self.width * self.height > MAX_CORES:
            raise ChipError(
                f"chip {self.name}: {self.width}x{self.height} is more than {MAX_CORES} cores; "
                "try a smaller mesh"
            )
        if self.single_target and self.delivery != "core":
            raise ChipError(
                f"chip {self.name}: single_target requires one packet per destination core; "
                'add delivery = "core"'
            )
        check_memory(self)
        for name, asked in _TABLE_TYPES.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, asked):
                article = "an" if asked is NpuShape else "a"
                raise ChipError(
                    f"chip {self.name}: {name} is {value!r}; give {article} {asked.__name__}"
                )
        if self.machine is not None:
            size = self.machine.width, self.machine.height
            if size != (self.width, self.height):
                raise ChipError(
                    f"chip {self.name}: the machine has {size[0]}x{size[1]} cores, the mesh "
                    f"{self.width}x{self.height}; give both the same size"
                )
            if not self.machine.to_json():
                object.__setattr__(self, "machine", None)  # an empty machine is no machine
        for name, checked in checked_faults(self).items():
            object.__setattr__(self, name, checked)
        self._check_host()
        check_core_limits(self)

    def _check(self, name: str, kind: Any) -> None:
        value = getattr(self, name)
        if isinstance(value, np.generic):
            value = value.item()
        where = "chip" if name == "name" else f"chip {self.name}"
        try:
            object.__setattr__(self, name, msgspec.convert(value, kind))
        except msgspec.ValidationError as error:
            if f"<= {MAX_LIMIT}" in str(error):
                raise ChipError(f"{where}: {name} is beyond 2^62; give less") from error
            asked = _ASKED.get(name, "a finite number, 0 or more")
            raise ChipError(f"{where}: {name} is {value!r}; give {asked}") from error

    def _check_host(self) -> None:
        for core in () if self.host is None else self.host.ports:
            check_core(self, "host: port", core)
            if core in self.unavailable:
                raise ChipError(
                    f"chip {self.name}: host: port {place_of(self, core)} is at an unavailable "
                    "core; give usable cores"
                )

    @property
    def synapse_bits(self) -> int:
        """Bits per synapse in the memory of its core."""
        return (self.weight_bits or 0) + self.index_bits

    @property
    def synapse_limit(self) -> int | None:
        """Limit of synapses per core for mappings: `synapses` or the memory's capacity.

        The capacity excludes the lists of all `axons_in`, so a mapping within the limits also fits
        in the memory; where neurons are in the same memory, `shared_bits` is a further limit.
        """
        if self.memory_bits is None:
            return self.synapses
        room = free_bits(self) // self.synapse_bits
        return room if self.synapses is None else min(room, self.synapses)

    @property
    def shared_bits(self) -> int | None:
        """Limit of the bits of neurons and synapses per core for mappings, None if they share none.

        Like `synapse_limit`, it excludes the lists of all `axons_in`.
        """
        return free_bits(self) if self.memory_bits is not None and self.neuron_bits else None

    @property
    def out_limit(self) -> int | None:
        """Limit of `axons_out` for mappings; copies occupy neurons."""
        if not self.single_target:
            return self.axons_out
        return self.neurons if self.axons_out is None else min(self.neurons, self.axons_out)

    @property
    def host_ports(self) -> tuple[int, ...]:
        """Cores with a port of the host: the ports of `host`, or the first usable core."""
        if self.host is not None and self.host.ports:
            return self.host.ports
        return (int(self.usable.argmax()),)

    @property
    def cores(self) -> int:
        """Number of cores of the mesh, including unavailable ones."""
        return self.width * self.height

    @property
    def usable(self) -> BoolArray:
        """A new mask, shape (cores,): True for cores that may hold neurons."""
        mask = np.ones(self.cores, dtype=np.bool_)
        mask[list(self.unavailable)] = False
        return mask

    @property
    def usable_count(self) -> int:
        """Number of cores that may hold neurons."""
        return self.cores - len(self.unavailable)

    @property
    def axes(self) -> Axes:
        """Coordinates of columns and rows; `mapper` places neurons by the distances in them."""
        return flat_axes(self.width, self.height) if self.machine is None else self.machine.axes

    @property
    def hop_axes(self) -> Axes:
        """Coordinates of columns and rows of routers: distances in hops."""
        columns, rows = self.routers
        axes = flat_axes(self.width, self.height)
        torus = "" if self.machine is None else self.machine.torus
        return Axes(
            axes.x // np.int32(self.width // columns),
            axes.y // np.int32(self.height // rows),
            columns if "x" in torus else axes.round_x,
            rows if "y" in torus else axes.round_y,
        )

    @property
    def routers(self) -> tuple[int, int]:
        """Columns and rows of routers: cores of a tile share one."""
        wide, tall = (1, 1) if self.machine is None else self.machine.tile_size
        return self.width // wide, self.height // tall

    @property
    def link_energies(self) -> tuple[float, float]:
        """Energy of a spike on an east-west link, and on a north-south link."""
        return _pair(self.energy_link)

    @property
    def link_latencies(self) -> tuple[float, float]:
        """Latency of a spike on an east-west link, and on a north-south link."""
        return _pair(self.latency_link)

    @property
    def links(self) -> int:
        """Number of directed links that work, with the links that close a torus."""
        return int(working_links(self).sum())

    @property
    def detoured(self) -> bool:
        """True if links are broken, so that routes make detours (`chipsim.detours`)."""
        return bool(self.broken_links or self.broken_routers)

    def coordinates(self) -> tuple[Int32Array, Int32Array]:
        """Return column and row of every core: two arrays of shape (cores,), indexed by core id."""
        y, x = np.divmod(np.arange(self.cores, dtype=np.int32), np.int32(self.width))
        return x, y

    def with_limits(
        self,
        neurons: int | None = None,
        synapses: int | None = None,
        axons_in: int | None = None,
        axons_out: int | None = None,
    ) -> Chip:
        """Return the same chip with other limits per core; None keeps the present one.

        A number of synapses replaces the bits of the memory.
        """
        given = dict(zip(_LIMITS, (neurons, synapses, axons_in, axons_out), strict=True))
        limits: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
        memory: dict[str, Any] = {} if synapses is None else dict(NO_MEMORY)
        return replace(self, **memory, **limits, core_limits=lowered(self.core_limits, limits))

    def to_json(self) -> dict[str, Any]:
        """Return all fields by name for ``json.dumps``; `presets.from_fields` reads them.

        Left out are ``npu``, ``host``, ``time`` and ``energy`` if the chip has none, units if they
        are relative, memory bits if the memory is not counted, and the sources of the numbers. A
        machine contributes the keys of `chipsim.chip.machine.KEYS`.
        """
        hidden = {"origin", FIELD, *TABLES, *(() if self.single_target else ("single_target",))}
        hidden |= {name for name in _UNITS if getattr(self, name) == "relative"}
        hidden |= {name for name, unset in _OMITTED.items() if getattr(self, name) == unset}
        if self.memory_bits is None:
            hidden |= {"memory_bits", *PARTS}
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        out = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in found.items()
            if name not in hidden
        }
        if self.machine is not None:
            out |= self.machine.to_json()
        if self.core_limits:
            out[FIELD] = [one.to_json() for one in self.core_limits]
        tables = {name: found[name] for name in TABLES if name != "machine"}
        return out | {name: one.to_json() for name, one in tables.items() if one is not None}


def _pair(cost: LinkCost) -> tuple[float, float]:
    return (cost[0], cost[1]) if isinstance(cost, tuple) else (cost, cost)
