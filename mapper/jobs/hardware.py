"""Generate the hardware of a chip, or of an NPU: sizes, RTLIL, Verilog and cell counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from mapper.errors import UsageError
from mapper.jobs.locking import lock_output

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from chipsim.chip.npu_shape import NpuShape
    from hw.chip import Borders
    from hw.core.shape import CoreShape
    from hw.flow.netlist import Cells, Netlist
    from mapper.inputs.listener import Listener

DEPTH = 4
"""Packets per router input buffer, by default."""
NO_SIZES: Mapping[str, int] = MappingProxyType({})


class HardwareRequest(NamedTuple):
    """Hardware to generate: a chip, an NPU, or a chip whose cores are NPUs.

    depth : packets per router input buffer; None for `DEPTH`
    axon_bits : bits per axon number in a packet; None for the bits of the chip
    mesh_only : routers without cores
    borders : sides with ports to other chips; machine : all joined chips
    host_output : add a port for packets to the host
    sizes : of a core, by the names of the options; others follow from the limits of the chip
    verilog : file to write; stats : count cells; keep_multipliers : without the gates of those
    """

    chip: Chip | None = None
    npu: NpuShape | None = None
    depth: int | None = None
    axon_bits: int | None = None
    mesh_only: bool = False
    borders: tuple[str, ...] = ()
    machine: Chip | None = None
    host_output: bool = False
    sizes: Mapping[str, int] = NO_SIZES
    verilog: Path | None = None
    stats: bool = False
    keep_multipliers: bool = False

    @property
    def buffers(self) -> int:
        """Packets per router input buffer."""
        return self.depth or DEPTH

    def require_sound(self) -> None:
        """Raise `UsageError` for options that exclude or need others."""
        if self.keep_multipliers and not self.stats:
            raise UsageError("--keep-multipliers: needs --stats")
        if self.npu is None:
            if self.chip is None:
                raise UsageError("--chip or --npu is required; `mapper chips` lists both")
            if self.mesh_only and self.sizes:
                option = next(iter(self.sizes)).replace("_", "-")
                raise UsageError(f"--{option} sets a size of the cores; omit it or --mesh-only")
            return
        others = ("axon_bits", "mesh_only", "borders", "machine", "host_output")
        for name in (*(one for one in others if getattr(self, one)), *self.sizes):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} is for chips without NPUs; omit it or --npu")
        if self.chip is None and self.depth is not None:
            raise UsageError("--depth sets buffers of the mesh; add --chip, or omit it")


@dataclass(frozen=True, eq=False)
class Hardware:
    """Hardware of a chip or an NPU, returned by `mapper.hw`.

    facts : sizes, and the requested cell counts, by name, as `mapper hw --json` prints them
    notes : a line for each property of the chip that the hardware does not have
    """

    facts: dict[str, Any]
    notes: tuple[str, ...]
    _request: HardwareRequest

    def to_rtlil(self) -> str:
        """Return the design in RTLIL, the format of Yosys."""
        return netlist_of(self._request).text

    def to_verilog(self) -> str:
        """Return the design as Verilog 2005; needs Yosys."""
        from hw.flow.netlist import verilog
        from mapper.errors import as_mapper_errors

        with as_mapper_errors():
            return verilog(netlist_of(self._request))

    def _repr_html_(self) -> str:
        from mapper.reporting.notebook import table_html
        from mapper.results.tables import number

        rows = [(name, value) for name, value in self.facts.items() if value is not None]
        return table_html([(name, number(value)) for name, value in rows if value != []])


def hardware(request: HardwareRequest, listener: Listener) -> dict[str, Any]:
    """Generate hardware; write its Verilog and count its cells if requested; return the facts.

    Raises `UsageError` for options that contradict each other, `HwError` for unsupported sizes, and
    without Yosys if it is needed.
    """
    from hw.flow.yosys import require_yosys
    from mapper.inputs.chips import require_all_links

    request.require_sound()
    if request.chip is not None:
        require_all_links(request.chip, "routers of the hardware")
    found = _chip_facts(request, listener) if request.npu is None else _npu_facts(request)
    if request.verilog is None and not request.stats:
        return found
    require_yosys()
    with lock_output(request.verilog):  # lock, or fail, before the long synthesis
        design = netlist_of(request)
        if request.verilog is not None:
            size = _write(request.verilog, design, listener)
            found["verilog"] = {"path": str(request.verilog), "bytes": size}
    if request.stats:
        found |= _counts(request, design, listener)
    return found


def netlist_of(request: HardwareRequest) -> Netlist:
    """Return the netlist; invalid sizes raise before the long synthesis."""
    from hw.chip import ChipDesign
    from hw.flow.netlist import netlist
    from hw.noc.mesh import Mesh, check_size, mesh_layout

    if request.npu is not None:
        return _npu_netlist(request, request.npu)
    chip, borders = _chip(request), _borders(request)
    check_size(chip.width, chip.height, shared=True)
    axon_bits, shape = _shape(request)
    if shape is None:
        layout = mesh_layout(*borders.addressed, axon_bits)
        mesh = Mesh(
            chip.width, chip.height, depth=request.buffers, layout=layout, open_sides=borders.sides
        )
        return netlist(mesh, "mesh")
    design = ChipDesign(chip.width, chip.height, shape, request.buffers, borders=borders)
    return netlist(design, "chip")


def _npu_netlist(request: HardwareRequest, shape: NpuShape) -> Netlist:
    from hw.npu.synthesis import chip_netlist, core_netlist
    from mapper.compiler.multicore.job import nearest, ports_of

    chip = request.chip
    if chip is None:
        return core_netlist(shape)
    ports = ports_of(chip)
    x, y = (column.tolist() for column in chip.coordinates())
    asked = {place: nearest(ports, place) for place in zip(x, y, strict=True)}
    return chip_netlist(chip.width, chip.height, shape, request.buffers, asked)


def _chip(request: HardwareRequest) -> Chip:
    assert request.chip is not None  # see `HardwareRequest.require_sound`
    return request.chip


def _chip_facts(request: HardwareRequest, listener: Listener) -> dict[str, Any]:
    from mapper.exports.core_shape import describe_core

    chip = _chip(request)
    if chip.machine is not None:
        listener.note(
            f"note: chip {chip.name} is built as one mesh with a router per core and identical "
            "links; tiles, chip boundaries and torus links are not modelled"
        )
    borders, mesh = _borders(request), _mesh(request)
    _, shape = _shape(request)
    return {
        "chip": chip.name, "width": chip.width, "height": chip.height,
        "borders": list(borders.sides), "host_output": borders.output, **mesh,
        "core": None if shape is None else describe_core(shape), "verilog": None, "modules": None,
    }  # fmt: skip


def _mesh(request: HardwareRequest) -> dict[str, int]:
    from mapper.exports.core_shape import describe_mesh

    addressed = _borders(request).addressed
    return describe_mesh(_chip(request), request.buffers, request.axon_bits, addressed)


def _shape(request: HardwareRequest) -> tuple[int, CoreShape | None]:
    """Return the bits of an axon number, and the shape of a core, None for a mesh alone."""
    from mapper.exports.core_shape import core_shape

    axon_bits = _mesh(request)["axon_bits"]
    if request.mesh_only:
        return axon_bits, None
    return axon_bits, core_shape(_chip(request), axon_bits, dict(request.sizes))


def _borders(request: HardwareRequest) -> Borders:
    """Return the ports of the mesh: open sides, machine size and host output."""
    from hw.chip import Borders

    chip, machine = _chip(request), request.machine
    if request.host_output and request.mesh_only:
        raise UsageError("--host-output needs cores; with --mesh-only use --borders south")
    if request.host_output and "south" in request.borders:
        raise UsageError("--borders south already sends packets for the host there; omit it or "
                         "--host-output")  # fmt: skip
    columns, rows = chip.width, chip.height
    if machine is not None:
        if not request.borders:
            raise UsageError("--machine: needs --borders")
        columns, rows = machine.width, machine.height
        if columns < chip.width or rows < chip.height:
            raise UsageError(
                f"--machine {machine.name} is smaller than the chip, {chip.width}x{chip.height}"
            )
    return Borders(request.borders, columns, rows, request.host_output)


def _npu_facts(request: HardwareRequest) -> dict[str, Any]:
    from hw.npu.memories.memories import NpuMemories
    from mapper.compiler.multicore.job import ports_of

    shape, chip = request.npu, request.chip
    assert shape is not None
    found: dict[str, Any] = {"npu": asdict(shape), "memory_bits": NpuMemories(shape).bits()}
    found |= {"chip": None, "verilog": None, "modules": None, "differences": None}
    if chip is not None:
        found["chip"] = {
            "name": chip.name, "width": chip.width, "height": chip.height,
            "ports": [list(port) for port in ports_of(chip)],
        }  # fmt: skip
    return found


def _write(path: Path, design: Netlist, listener: Listener) -> int:
    """Write the Verilog; return its size in bytes."""
    from hw.flow.netlist import verilog
    from storage.files import PartialFile

    with PartialFile(path) as file:  # open first, to fail before the long conversion
        file.write(verilog(design, lambda line: listener.note(f"note: {line}")).encode())
        file.commit()
        return file.position


def _counts(request: HardwareRequest, design: Netlist, listener: Listener) -> dict[str, Any]:
    """Return the cells of each module, and for a core of an NPU the cost of its optional parts."""
    from hw.flow.netlist import cells
    from hw.npu.synthesis import differences

    def note(line: str) -> None:
        listener.note(f"note: {line}")

    keep = request.keep_multipliers
    counted = cells(design, note, keep)
    found: dict[str, Any] = {"modules": [cells_row(module) for module in counted]}
    if request.npu is not None and request.chip is None:
        found["differences"] = [
            {
                "part": one.part, "of": one.whole, "cells_without": one.without,
                "cells_with": one.within, "share": one.share, "multipliers": one.multipliers,
                "memory_bits": one.memory_bits,
            }
            for one in differences(request.npu, design, counted, keep, note)
        ]  # fmt: skip
    return found


def cells_row(module: Cells) -> dict[str, Any]:
    """Return the values of a module."""
    return {
        "module": module.module,
        "instances": module.count,
        "cells_of_one": module.cells,
        "flip_flops_of_one": module.flip_flops,
        "memory_bits_of_one": module.memory_bits,
        "multipliers_of_one": module.multipliers,
        "cells": module.count * module.cells,
        "memory_bits": module.count * module.memory_bits,
        "multipliers": module.count * module.multipliers,
    }
