"""`mapper chips`: list chip presets, or print a chip as a file."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.errors import UsageError

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from chipsim.chip.npu_shape import NpuShape

EPILOG = """\
examples:
  mapper chips
  mapper chips show loihi > mine.toml
  mapper run net.bin --chip mine.toml
  mapper chips show 4x4 > npus.toml
  mapper chips show arch.yaml > mine.toml

The list includes the presets of the NPU, the matrix processor that `mapper
compile` targets. They are values of its option --npu and of [npu] in a chip
file. Chips given by size, such as 4x4, have the first one.

`show` prints any chip that --chip accepts as a TOML file: each limit and
constant with meaning, unit and, for presets, source; and the features that the
chip model omits. It also converts SANA-FE architectures (.yaml). `mapper docs
chips` documents the file format.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "show"),
        default="list",
        help="list presets, or show a chip (default: list)",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="chip to show")
    common.add_memory(parser)


def run(options: argparse.Namespace) -> int:
    if options.action == "show":
        if options.name is None:
            raise UsageError("show needs the name of a chip; `mapper chips` lists them")
        return _show(options)
    if options.name is not None:
        raise UsageError(f"list takes no name; did you mean: mapper chips show {options.name}")
    return _list(options)


def _show(options: argparse.Namespace) -> int:
    from chipsim.chip.file import chip_toml, unit_of
    from chipsim.chip.provenance import sources_of

    chip = common.named_chip(options.name)
    common.tell_left_out(options, options.name, chip)
    if options.json:
        fields = chip.to_json()
        units = {field: unit for field in fields if (unit := unit_of(chip, field))}
        sources = sources_of(chip.origin, fields)
        npu = {} if chip.npu is None else {"npu": asdict(chip.npu)}
        about = {"about": chip.origin.about, "notes": chip.origin.notes} if chip.origin else {}
        shown = {"chip": fields, **about, "units": units, "sources": sources}
        terminal.emit(options, shown | npu, [])
    else:
        terminal.write(chip_toml(chip))
    return 0


def _list(options: argparse.Namespace) -> int:
    from chipsim.chip.file import unit_of
    from chipsim.chip.limits import LIMITS
    from chipsim.chip.npu_shape import NPU_SHAPES
    from chipsim.chip.provenance import Provenance, sources_of
    from mapper.inputs.chips import named_chips, packages_of_chips
    from mapper.results.tables import columns

    chips: list[dict[str, Any]] = []
    limits: list[tuple[Any, ...]] = []
    costs: list[tuple[Any, ...]] = []
    known = named_chips()
    packages = {name: added for name, added in packages_of_chips().items() if name in known}
    for name, chip in known.items():
        fields = chip.to_json()
        units = {field: unit for field in fields if (unit := unit_of(chip, field))}
        origin = chip.origin or Provenance()
        chips.append(
            {"about": origin.about, "notes": origin.notes, "cores": chip.cores}
            | {"package": packages.get(name)}
            | {"chip": fields, "units": units, "sources": sources_of(origin, fields)}
        )
        held = ["" if fields[limit] is None else fields[limit] for limit in LIMITS]
        if chip.memory_bits is not None:
            held[1] = f"{chip.memory_bits:,} b"
        limits.append((name, f"{chip.width}x{chip.height}", *held))
        energy = cost_text(chip.energy_router, chip.link_energies)
        latency = cost_text(chip.latency_router, chip.link_latencies)
        costs.append((name, chip.delivery, energy, latency, unit_of_costs(chip)))
    about = "costs per spike in a router and on a link"
    tables = [
        columns("limits per core (b: bits for synapses)", ["chip", "mesh", *LIMITS], limits),
        columns(about, ["chip", "packet per", "energy", "latency", "units"], costs),
        columns("NPU presets", list(_NPU), list(map(_npu_row, NPU_SHAPES.values()))),
    ]
    if packages:
        added = list(packages.items())
        tables.append(columns("chips of other packages", ("chip", "package"), added))
    shapes = [asdict(shape) for shape in NPU_SHAPES.values()]
    terminal.emit(options, {"chips": chips, "npus": shapes}, tables)
    return 0


_NPU = ("NPU", "array", "multiplier", "binary", "ALU lanes", "maps", "weights")


def _npu_row(shape: NpuShape) -> tuple[Any, ...]:
    """Return the main parameters of an NPU, in the columns of `_NPU`."""
    from mapper.results.tables import size

    maps = size(shape.map_vectors * shape.columns) if shape.map_vectors else "external"
    weights = size(shape.weight_words * shape.rows * shape.columns)
    binary = "yes" if shape.binary else "no"
    return (
        shape.name, f"{shape.rows}x{shape.columns}", shape.multiplier, binary,
        shape.multiply_lanes, maps, weights,
    )  # fmt: skip


def cost_text(router: float, links: tuple[float, float]) -> str:
    """Return the costs of a router and of links as text; two link costs (x | y) if they differ."""
    each = dict.fromkeys(f"{cost:g}" for cost in links)
    return f"{router:g}, {' | '.join(each)}"


def unit_of_costs(chip: Chip) -> str:
    """Return the unit of energy and latency, or both if they differ."""
    energy, latency = chip.energy_unit, chip.latency_unit
    return energy if energy == latency else f"{energy}, {latency}"
