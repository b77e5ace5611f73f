"""`mapper hw --npu`: generate a core of the NPU, or a mesh of NPUs, as Verilog."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from rich.table import Table

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from hw.flow.netlist import Cells, Netlist, cells
from hw.flow.yosys import require_yosys
from hw.npu.memories.memories import NpuMemories
from hw.npu.synthesis import Difference, chip_netlist, core_netlist, differences
from mapper.cli import options as common
from mapper.cli.hw_cells import DEPTH, cells_row, cells_table, teller
from mapper.compiler.multicore.job import nearest, ports_of
from mapper.errors import MapperError, UsageError
from mapper.jobs.locking import lock_output
from mapper.results.tables import columns, facts

OTHERS = ("axon_bits", "mesh_only", "borders", "machine", "host_output")
"""Options for chips without NPUs."""


def named_npu(text: str) -> NpuShape:
    """Return the NPU of a preset or chip file; raise `UsageError` for an unknown name."""
    if text in NPU_SHAPES:
        return NPU_SHAPES[text]
    if not text.strip().lower().endswith(".toml"):
        presets = ", ".join(NPU_SHAPES)
        raise UsageError(f"--npu {text!r} is not known; give one of {presets}, or a chip FILE.toml")
    found = common.named_chip(text).npu
    if found is None:
        raise MapperError(f"{text}: its cores have no NPU; add a table [npu]")
    return found


def core_result(
    options: argparse.Namespace, write: Any, others: tuple[str, ...]
) -> tuple[dict[str, Any], list[Table]]:
    """Return the result and tables of `mapper hw --npu` for a core, or with --chip for a mesh.

    write : function that writes the Verilog of a netlist and returns its size in bytes
    others : options of cores with neurons, which must not be given
    """
    for name in (*OTHERS, *others):
        if getattr(options, name) not in (None, False, []):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} is for chips without NPUs; omit it or --npu")
    if options.chip is None and options.depth is not None:
        raise UsageError("--depth sets buffers of the mesh; add --chip, or omit it")
    shape = named_npu(options.npu)
    bits = NpuMemories(shape).bits()
    described = asdict(shape)
    result: dict[str, Any] = {"npu": described, "memory_bits": bits}
    result |= {"chip": None, "verilog": None, "modules": None, "differences": None}
    tables = [facts(f"NPU {shape.name}", described), facts("memory bits", bits)]
    chip = None if options.chip is None else common.named_chip(options.chip)
    if chip is not None:
        ports = ports_of(chip)
        result["chip"] = {
            "name": chip.name, "width": chip.width, "height": chip.height,
            "ports": [list(port) for port in ports],
        }  # fmt: skip
        tables.append(facts("chip", result["chip"]))
    if options.verilog is None and not options.stats:
        return result, tables
    require_yosys()
    with lock_output(options.verilog):
        if chip is None:
            design = core_netlist(shape)
        else:
            x, y = (column.tolist() for column in chip.coordinates())
            asked = {place: nearest(ports, place) for place in zip(x, y, strict=True)}
            design = chip_netlist(chip.width, chip.height, shape, options.depth or DEPTH, asked)
        size = None if options.verilog is None else write(design)
    if size is not None:
        result["verilog"] = {"path": str(options.verilog), "bytes": size}
        tables.append(facts("files written", [(str(options.verilog), f"{size:,} B")]))
    if options.stats:
        _count(options, shape, design, result, tables)
    return result, tables


def _count(
    options: argparse.Namespace, shape: NpuShape, design: Netlist, result: dict[str, Any],
    tables: list[Table],
) -> None:  # fmt: skip

    note, keep = teller(options), options.keep_multipliers
    counted: list[Cells] = cells(design, note, keep)
    result["modules"] = [cells_row(module) for module in counted]
    tables.append(cells_table(counted, keep))
    if options.chip is not None:
        return
    found: list[Difference] = differences(shape, design, counted, keep, note)
    result["differences"] = [
        {
            "part": one.part, "of": one.whole, "cells_without": one.without,
            "cells_with": one.within, "share": one.share, "multipliers": one.multipliers,
            "memory_bits": one.memory_bits,
        }
        for one in found
    ]  # fmt: skip
    heads = ["part", "of the", "cells\nwithout", "with", "more", "multipliers\nmore",
             "memory bits\nmore"]  # fmt: skip
    rows = [
        (
            one.part, one.whole, one.without, one.within, f"{100 * one.share:+.1f} %",
            one.multipliers, one.memory_bits,
        )
        for one in found
    ]  # fmt: skip
    tables.append(columns("cost of optional parts", heads, rows))
