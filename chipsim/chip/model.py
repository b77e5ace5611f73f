"""The chip: a mesh of identical cores, their limits, and what a hop costs."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
import numpy as np
from msgspec import Meta

from chipsim.chip.energy import ChipEnergy
from chipsim.chip.host import ChipHost
from chipsim.chip.machine import Axes, Machine, flat_axes
from chipsim.chip.npu_shape import NpuShape
from chipsim.chip.provenance import Provenance
from chipsim.chip.time import ChipTime
from chipsim.errors import ChipError
from chipsim.protocols import BoolArray, Int32Array

MAX_CORES = 2**31 - 1
"""Core ids are int32."""
MAX_LIMIT = 2**62
"""Sums of what cores hold are int64."""

Delivery = Literal["synapse", "core", "tree"]
"""What a chip sends for a spike: a packet for each synapse, one for each other core with a synapse,
or one that branches on the way to these cores (multicast)."""

_LIMITS = ("neurons", "synapses", "axons_in", "axons_out")
_MEMORY = ("memory_bits", "weight_bits", "index_bits", "axon_bits")
TABLES = ("npu", "host", "time", "energy", "machine")
"""Fields that are tables of a chip file, behind all other keys; of a machine, several."""
EnergyUnit = Literal["relative", "pJ"]
LatencyUnit = Literal["relative", "ns"]

_ASKED = {
    "name": "a non-empty text",
    **dict.fromkeys(("width", "height"), "a whole number, at least one core"),
    **dict.fromkeys((*_LIMITS, "memory_bits"), "a whole number, 1 or more"),
    **dict.fromkeys(("weight_bits", "index_bits", "axon_bits"), "a whole number of bits to 65536"),
    "delivery": "synapse, core or tree",
    "single_target": "true or false",
    "energy_unit": "relative or pJ",
    "latency_unit": "relative or ns",
    **dict.fromkeys(
        ("energy_link", "latency_link"),
        "a finite number, 0 or more, or two: east-west and north-south",
    ),
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

    name: Annotated[str, Meta(min_length=1, description="what the chip is called in reports")]
    width: Annotated[Count, Meta(description="cores in a row")]
    height: Annotated[Count, Meta(description="cores in a column")]
    neurons: Annotated[
        Count, Meta(description="sum of the sizes of the neurons that a core holds")
    ] = 1024
    synapses: Annotated[Count | None, Meta(description="incoming synapses that a core stores")] = (
        None
    )
    axons_in: Annotated[
        Count | None, Meta(description="distinct source neurons with a synapse in a core")
    ] = None
    axons_out: Annotated[
        Count | None,
        Meta(
            description="distinct pairs of a neuron and another core that it reaches, "
            "leaving a core"
        ),
    ] = None
    memory_bits: Annotated[
        Count | None, Meta(description="bits of the memory of a core for synapses")
    ] = None
    weight_bits: Annotated[
        Bits | None, Meta(description="bits of a weight in that memory; goes with memory_bits")
    ] = None
    index_bits: Annotated[
        Bits, Meta(description="bits of a synapse beside its weight: target, delay, type")
    ] = 0
    axon_bits: Annotated[
        Bits, Meta(description="bits of the list of synapses of a source neuron, beside these")
    ] = 0
    unavailable: Annotated[
        tuple[int, ...],
        Meta(description="cores that stay empty: ids y * width + x, or [x, y] pairs"),
    ] = ()
    delivery: Annotated[
        Delivery,
        Meta(
            description="packets of a spike: one per synapse (synapse), one per core that it is "
            "for (core), or one that branches on its way to them (tree)"
        ),
    ] = "synapse"
    single_target: Annotated[
        bool,
        Meta(
            description="whether a neuron sends to one core alone, be it its own: one with more "
            "targets takes a copy in its core for each, and axons_out counts neurons and copies"
        ),
    ] = False
    energy_router: Annotated[Cost, Meta(description="energy of a spike in a router")] = 1.0
    energy_link: Annotated[
        LinkCost,
        Meta(
            description="energy of a spike on a link between routers: a number, or "
            "[east-west, north-south]"
        ),
    ] = 0.1
    energy_unit: Annotated[EnergyUnit, Meta(description="unit of these energies")] = "relative"
    latency_router: Annotated[Cost, Meta(description="time of a spike in a router")] = 1.0
    latency_link: Annotated[
        LinkCost,
        Meta(
            description="time of a spike on a link between routers: a number, or "
            "[east-west, north-south]"
        ),
    ] = 0.01
    latency_unit: Annotated[LatencyUnit, Meta(description="unit of these times")] = "relative"
    npu: Annotated[
        NpuShape | None, Meta(description="the matrix processor (NPU) of each core, for `compile`")
    ] = None
    host: Annotated[
        ChipHost | None,
        Meta(description="where frames enter and leave, and the memory of weights, for `compile`"),
    ] = None
    time: Annotated[
        ChipTime | None, Meta(description="cycles that the parts of a tick take, for `tick_cycles`")
    ] = None
    energy: Annotated[ChipEnergy | None, Meta(description="energies of what the cores do")] = None
    machine: Annotated[
        Machine | None, Meta(description="tiles, chips and boards, tori, and what steps cost")
    ] = None
    origin: Annotated[
        Provenance | None, Meta(description="what the chip is, and where its numbers are from")
    ] = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name, kind in _kinds().items():
            if name not in ("unavailable", "origin", *TABLES):
                self._check(name, kind)
        if self.width * self.height > MAX_CORES:
            raise ChipError(
                f"chip {self.name}: {self.width}x{self.height} is more than {MAX_CORES} cores; "
                "try a smaller mesh"
            )
        if self.single_target and self.delivery != "core":
            raise ChipError(
                f"chip {self.name}: single_target is for chips that send packets to cores; "
                'add delivery = "core"'
            )
        self._check_unavailable()
        self._check_memory()
        if self.npu is not None and not isinstance(self.npu, NpuShape):
            raise ChipError(f"chip {self.name}: npu is {self.npu!r}; give an NpuShape")
        if self.time is not None and not isinstance(self.time, ChipTime):
            raise ChipError(f"chip {self.name}: time is {self.time!r}; give a ChipTime")
        if self.energy is not None and not isinstance(self.energy, ChipEnergy):
            raise ChipError(f"chip {self.name}: energy is {self.energy!r}; give a ChipEnergy")
        self._check_host()
        if self.machine is not None:
            if not isinstance(self.machine, Machine):
                raise ChipError(f"chip {self.name}: machine is {self.machine!r}; give a Machine")
            size = self.machine.width, self.machine.height
            if size != (self.width, self.height):
                raise ChipError(
                    f"chip {self.name}: the machine has {size[0]}x{size[1]} cores, the mesh "
                    f"{self.width}x{self.height}; give both the same size"
                )
            if not self.machine.to_json():
                object.__setattr__(self, "machine", None)  # nothing is said of it

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

    def _check_unavailable(self) -> None:
        for core in self.unavailable:
            whole = isinstance(core, int | np.integer) and not isinstance(core, bool)
            if not whole or not 0 <= core < self.cores:
                raise ChipError(
                    f"chip {self.name}: unavailable core {core!r} is outside the "
                    f"{self.width}x{self.height} mesh; core ids run from 0 to {self.cores - 1}"
                )
        ids = tuple(sorted({int(core) for core in self.unavailable}))
        if len(ids) == self.cores:
            raise ChipError(f"chip {self.name}: all {self.cores} cores are unavailable; leave one")
        object.__setattr__(self, "unavailable", ids)

    def _check_memory(self) -> None:
        """Bits say how many synapses there may be only if a synapse has some."""
        where = f"chip {self.name}"
        if self.memory_bits is None:
            for name in ("weight_bits", "index_bits", "axon_bits"):
                if getattr(self, name):
                    raise ChipError(
                        f"{where}: {name} is {getattr(self, name)}, but there is no memory_bits; "
                        "add the bits of the memory of a core"
                    )
            return
        if not self.weight_bits:
            raise ChipError(
                f"{where}: memory_bits is given without weight_bits, the precision of weights; "
                "add it, as weight_bits = 8"
            )
        if self.axon_bits and self.axons_in is None:
            raise ChipError(
                f"{where}: axon_bits is given without axons_in, the most lists of a core; add it"
            )
        if not self.synapse_limit:
            raise ChipError(
                f"{where}: memory_bits is {self.memory_bits}, less than a synapse takes "
                f"({self.synapse_bits}) with the lists of all axons_in ({self._axon_memory}); "
                "give more"
            )

    def _check_host(self) -> None:
        if self.host is None:
            return
        if not isinstance(self.host, ChipHost):
            raise ChipError(f"chip {self.name}: host is {self.host!r}; give a ChipHost")
        faulty = set(self.unavailable)
        for core in self.host.ports:
            if not 0 <= core < self.cores:
                raise ChipError(
                    f"chip {self.name}: host: port {core!r} is outside the "
                    f"{self.width}x{self.height} mesh; core ids run from 0 to {self.cores - 1}"
                )
            if core in faulty:
                raise ChipError(
                    f"chip {self.name}: host: port [{core % self.width}, {core // self.width}] is "
                    "at an unavailable core; give cores that may be used"
                )

    @property
    def synapse_bits(self) -> int:
        """Bits of a synapse in the memory of its core."""
        return (self.weight_bits or 0) + self.index_bits

    @property
    def _axon_memory(self) -> int:
        return self.axon_bits * (self.axons_in or 0)

    @property
    def synapse_limit(self) -> int | None:
        """Synapses of a core that mappings keep to: `synapses`, and what its memory has room for.

        Room for the lists of all `axons_in` is set aside, so that no mapping within both limits is
        above that of the memory.
        """
        if self.memory_bits is None:
            return self.synapses
        room = max(0, self.memory_bits - self._axon_memory) // self.synapse_bits
        return room if self.synapses is None else min(room, self.synapses)

    @property
    def out_limit(self) -> int | None:
        """The limit of `axons_out` that mappings keep to; copies take the place of neurons."""
        if not self.single_target:
            return self.axons_out
        return self.neurons if self.axons_out is None else min(self.neurons, self.axons_out)

    @property
    def host_ports(self) -> tuple[int, ...]:
        """Cores with a port of the host: those that `host` lists, or the first that may be used."""
        if self.host is not None and self.host.ports:
            return self.host.ports
        return (int(self.usable.argmax()),)

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
    def axes(self) -> Axes:
        """Coordinates of columns and rows: `mapper` lays neurons out by the distances in them."""
        return flat_axes(self.width, self.height) if self.machine is None else self.machine.axes

    @property
    def hop_axes(self) -> Axes:
        """Columns and rows of routers as coordinates, so that distances are in hops."""
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
        """Energy of a spike on a link east-west, and on one north-south."""
        return _pair(self.energy_link)

    @property
    def link_latencies(self) -> tuple[float, float]:
        """Time of a spike on a link east-west, and on one north-south."""
        return _pair(self.latency_link)

    @property
    def links(self) -> int:
        """Number of directed links between neighbouring routers."""
        columns, rows = self.routers
        torus = "" if self.machine is None else self.machine.torus
        # One more, where the last router is beside the first.
        east = columns - 1 + ("x" in torus and columns > 1)
        south = rows - 1 + ("y" in torus and rows > 1)
        return 2 * (east * rows + columns * south)

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
        """The same chip with other limits per core; None keeps the present one.

        A number of synapses stands in place of the bits of the memory.
        """
        given = dict(zip(_LIMITS, (neurons, synapses, axons_in, axons_out), strict=True))
        kept = self
        if synapses is not None:
            kept = replace(self, memory_bits=None, weight_bits=None, index_bits=0, axon_bits=0)
        return replace(kept, **{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """All fields by name, for ``json.dumps``; `chipsim.chip.presets.from_fields` undoes it.

        A chip without an NPU has no ``npu``, one that says nothing of its host no ``host``, one
        whose cycles are not known no ``time``, one of unknown energies no ``energy``, one of
        relative units no units, one whose memory is not counted no bits; a machine has keys of
        `chipsim.chip.machine.KEYS`. Where the numbers are from is not said.
        """
        out = {each.name: getattr(self, each.name) for each in fields(self)}
        del out["origin"]
        out["unavailable"] = list(self.unavailable)
        for name in ("energy_unit", "latency_unit"):
            if out[name] == "relative":
                del out[name]
        if self.memory_bits is None:
            for name in _MEMORY:
                del out[name]
        if not self.single_target:
            del out["single_target"]
        for name in ("energy_link", "latency_link"):
            if isinstance(out[name], tuple):
                out[name] = list(out[name])
        tables = {name: out.pop(name) for name in TABLES}
        if (machine := tables.pop("machine")) is not None:
            out |= machine.to_json()
        return out | {name: one.to_json() for name, one in tables.items() if one is not None}


def _pair(cost: LinkCost) -> tuple[float, float]:
    return (cost[0], cost[1]) if isinstance(cost, tuple) else (cost, cost)


@cache
def _kinds() -> dict[str, Any]:
    """Of every field what it must be."""
    return get_type_hints(Chip, include_extras=True)


def meanings() -> dict[str, str]:
    """What each field of a chip is, in the order in which a chip file has them."""
    return {name: kind.__metadata__[-1].description for name, kind in _kinds().items()}
