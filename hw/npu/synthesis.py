# amaranth: UnusedElaboratable=no
# (a shape that is refused is never elaborated)
"""What a core takes as gates, and what parts of it that a shape may leave out add to that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hw.errors import NotBuiltError
from hw.flow.netlist import Cells, Netlist, cells, netlist
from hw.flow.yosys import Note, quiet
from hw.noc.mesh import check_size
from hw.npu.array import MacArray
from hw.npu.chip import ChipParts, MixedChip, Place
from hw.npu.core import NpuCore
from hw.npu.memories import NOTHING
from hw.npu.popcount import BinaryProduct
from hw.npu.row import ArrayRow
from hw.npu.shape import NpuShape

ARRAY = (MacArray.module_name, ArrayRow.module_name, BinaryProduct.module_name)
"""Modules of the array."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What a part adds to a whole.

    part : the binary unit, or the dual multiplier in place of that of bytes
    whole : the array, or the core
    without, within : cells of the whole without the part, and with it
    multipliers, memory_bits : that the part adds
    """

    part: str
    whole: str
    without: int
    within: int
    multipliers: int
    memory_bits: int

    @property
    def share(self) -> float:
        """Cells that the part adds, of those without it."""
        return self.within / self.without - 1


def core_netlist(shape: NpuShape) -> Netlist:
    """Raises `NotBuiltError` for a shape that is not built."""
    return netlist(NpuCore(shape), NpuCore.module_name)


def chip_netlist(
    width: int, height: int, shape: NpuShape, depth: int, ports: Mapping[Place, Place]
) -> Netlist:
    """A mesh with a core at every node, and at some a port of the host. ports : of each core the
    node of the port that it asks for weights"""
    check_size(width, height, shared=True)
    places = ((x, y) for y in range(height) for x in range(width))
    hosts = list(dict.fromkeys(ports.values()))
    parts = ChipParts(dict.fromkeys(places, NOTHING), hosts, ports)
    return netlist(MixedChip(width, height, shape, parts, depth), "npu_chip")


def differences(
    shape: Any, design: Netlist, found: list[Cells], keep_multipliers: bool, note: Note = quiet
) -> list[Difference]:
    """The binary unit and the dual multiplier, by synthesising the core without or with them.

    shape : of the core, a dataclass; design, found : the core, and its cells
    Only modules that differ are made again. A part without which, or with which, the shape is not
    built is noted and left out.
    """
    result = []
    known = {design.part(one.module): one for one in found}
    others = {
        "binary unit": (replace(shape, binary=not shape.binary), shape.binary),
        "dual multiplier": (
            replace(shape, multiplier="int8" if shape.multiplier == "dual" else "dual"),
            shape.multiplier == "dual",
        ),
    }
    for part, (changed, has) in others.items():
        try:
            other = cells(core_netlist(changed), note, keep_multipliers, known)
        except NotBuiltError as error:
            note(f"no figures of the {part}: {error}")
            continue
        without, within = (other, found) if has else (found, other)
        for whole in ("array", "core"):
            names = ARRAY if whole == "array" else None
            less, more = (_sums(modules, names) for modules in (without, within))
            multipliers, bits = (more[name] - less[name] for name in ("multipliers", "memory_bits"))
            result.append(Difference(part, whole, less["cells"], more["cells"], multipliers, bits))
    return result


def _sums(modules: Iterable[Cells], names: Iterable[str] | None) -> Mapping[str, int]:
    """Of all instances of some modules, or of all."""
    chosen = [one for one in modules if names is None or one.module in names]
    return {
        name: sum(one.count * getattr(one, name) for one in chosen)
        for name in ("cells", "multipliers", "memory_bits")
    }
