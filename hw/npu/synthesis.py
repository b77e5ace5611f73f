# amaranth: UnusedElaboratable=no
# (a shape that raises an error is never elaborated)
"""Cell counts of a core, and the contribution of its optional parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hw.errors import NotBuiltError
from hw.flow.netlist import Cells, Netlist, cells, netlist
from hw.flow.yosys import Note, quiet
from hw.noc.mesh import check_size
from hw.npu.chip import ChipParts, MixedChip, Place
from hw.npu.core import NpuCore
from hw.npu.gemm.array import MacArray
from hw.npu.gemm.popcount import BinaryProduct
from hw.npu.gemm.row import ArrayRow
from hw.npu.memories.memories import NOTHING
from hw.npu.shape import NpuShape

ARRAY = (MacArray.module_name, ArrayRow.module_name, BinaryProduct.module_name)
"""Modules of the array."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Contribution of a part to a whole.

    part : the binary unit, or the dual multiplier instead of byte multipliers
    whole : the array, or the core
    without, within : cells of the whole without the part, and with it
    multipliers, memory_bits : multipliers and bits that the part adds
    """

    part: str
    whole: str
    without: int
    within: int
    multipliers: int
    memory_bits: int

    @property
    def share(self) -> float:
        """Cells that the part adds, relative to the cells without it."""
        return self.within / self.without - 1


def core_netlist(shape: NpuShape) -> Netlist:
    """Return the netlist of a core; raise `NotBuiltError` for an unsupported shape."""
    return netlist(NpuCore(shape), NpuCore.module_name)


def chip_netlist(
    width: int, height: int, shape: NpuShape, depth: int, ports: Mapping[Place, Place]
) -> Netlist:
    """Return the netlist of a mesh with a core at every node, and host ports at some.

    ports : for each core, the node of the port that it requests weights from
    """
    check_size(width, height, shared=True)
    places = ((x, y) for y in range(height) for x in range(width))
    hosts = list(dict.fromkeys(ports.values()))
    parts = ChipParts(dict.fromkeys(places, NOTHING), hosts, ports)
    return netlist(MixedChip(width, height, shape, parts, depth), "npu_chip")


def differences(
    shape: Any, design: Netlist, found: list[Cells], keep_multipliers: bool, note: Note = quiet
) -> list[Difference]:
    """Measure binary unit and dual multiplier by synthesising the core without or with them.

    shape : shape of the core, a dataclass
    design, found : the core, and its cells

    Only modules that differ are synthesised again. A part is skipped with a note if the shape is
    not supported without it, or with it.
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
            note(f"no cell counts for the {part}: {error}")
            continue
        without, within = (other, found) if has else (found, other)
        for whole in ("array", "core"):
            names = ARRAY if whole == "array" else None
            less, more = (_sums(modules, names) for modules in (without, within))
            multipliers, bits = (more[name] - less[name] for name in ("multipliers", "memory_bits"))
            result.append(Difference(part, whole, less["cells"], more["cells"], multipliers, bits))
    return result


def _sums(modules: Iterable[Cells], names: Iterable[str] | None) -> Mapping[str, int]:
    """Return sums over all instances of the named modules, or of all modules."""
    chosen = [one for one in modules if names is None or one.module in names]
    return {
        name: sum(one.count * getattr(one, name) for one in chosen)
        for name in ("cells", "multipliers", "memory_bits")
    }
