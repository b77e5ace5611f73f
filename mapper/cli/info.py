"""`mapper info`: show the contents of a file or an output folder."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.stores import add_timeout
from storage.address import path_of

if TYPE_CHECKING:
    from rich.table import Table

EPILOG = """\
examples:
  mapper info net.bin
  mapper info graph.gexf  (any file that import reads: format and counts)
  mapper info result      (output folder of run, with its scratch if kept)
  mapper info out         (output folder of compile)
  mapper info out/core_0_0.npc
  mapper info out/macros.bin
"""
SHOWN = 40  # maximum populations in the table; JSON has all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=path_of, metavar="NET|DIR|NPC",
                        help="network file or file to import, output folder, program")  # fmt: skip
    common.add_memory(parser)
    add_timeout(parser)


def run(options: argparse.Namespace) -> int:
    from mapper.jobs.info import info

    found = info(options.path, common.effort_of(options), common.listener(options))
    terminal.emit(options, found.facts, TABLES[found.kind](str(options.path), found.facts))
    return 0


def _importable(title: str, found: dict[str, Any]) -> list[Table]:
    from mapper.results.tables import facts, size
    from storage.formats.outline import CONTENT, HEADER

    counted = {HEADER: "the header of the file", CONTENT: "an import of the file"}
    rows = {
        "format": f"{found['format']}: {found['about']}",
        **{name: found[name] for name in ("neurons", "synapses", "undirected")},
        "counted by": counted.get(found["counted"] or "", "not counted: an import takes longer"),
        "size": size(found["bytes"]),
        "next": f"mapper import {title} net.bin",
    }
    shown = {name: "unknown" if value is None else value for name, value in rows.items()}
    return [facts(title, shown)]


def _network(title: str, found: dict[str, Any]) -> list[Table]:
    from msgspec import convert

    from mapper.results.tables import columns, facts, size
    from storage.store.meta import SynapticMeta
    from storage.store.traffic import describe, describe_weights

    stored, per_connection = found["stored_bytes"], found["bytes_per_connection"]
    rows = [
        ("neurons", found["neurons"]),
        ("synapses", found["synapses"]),
        ("synapses read", found["synapses_read"]),
        ("self-loops dropped" if found["synaptic"] is None else "self-loops", found["self_loops"]),
        ("duplicate synapses merged (weights summed)", found["repeated"]),
        ("undirected", found["undirected"]),
        ("traffic", describe(found["traffic"])),
        ("synaptic weights", describe_weights(convert(found["synaptic"], SynapticMeta | None))),
        ("total weight", found["total_weight"] * found["weight_unit"]),
        ("total size", found["total_size"]),
        ("blocks", f"{found['blocks']:,} of {found['block_size']:,} neurons"),
        ("connections on disk", f"{size(stored)}, {per_connection:.2f} bytes per connection"),
    ]
    tables = [facts(title, rows)]
    if populations := list(found.get("populations", {}).items()):
        shown = populations[:SHOWN]
        if rest := populations[SHOWN:]:
            shown.append((f"... and {len(rest):,} more", sum(count for _, count in rest)))
        tables.append(columns("populations", ("name", "neurons"), shown))
    if found["attributes"]:
        about = [(name, _attribute(each)) for name, each in found["attributes"].items()]
        tables.append(facts("attributes", about))
    if given := found["provenance"]:
        # as text: settings such as a seed are not counts, and get no thousands separators
        as_given = {k: str(v) if isinstance(v, int) else v for k, v in given.items()}
        tables.append(facts("provenance", as_given))
    return tables


def _attribute(about: dict[str, Any]) -> str:
    """Return the storage of an attribute as text."""
    if about["labels"]:
        return f"{len(about['labels'])} names"
    return "real" if about["real"] else f"unit {about['unit']:g}"


def _spiking(title: str, found: dict[str, Any]) -> list[Table]:
    from msgspec import convert

    from mapper.cli.spiking_tables import compiled_tables
    from mapper.spiking.artifacts.manifest_file import Manifest

    return compiled_tables(convert(found, Manifest))


def _compiled(title: str, found: dict[str, Any]) -> list[Table]:
    from mapper.results.tables import columns, facts, size

    chip, samples = found["chip"], found["samples"]
    rows = {
        "model": found["model"]["name"],
        "compiled by": found["tool"],
        "chip": f"{chip['name']}, {chip['width']} x {chip['height']} cores",
        "NPU": ", ".join(sorted({str(core["npu"]) for core in found["cores"]})),
        "input": f"{found['input']['name']}, {'x'.join(map(str, found['input']['shape']))}",
        "samples": ", ".join(f"{name} {value}" for name, value in samples.items() if value),
        "outputs": ", ".join(found["outputs"]),
        "layers": found["layers"],
        "macro records": found["macro_records"],
        "maps": found["maps"],
        "nodes on the host": found["host_nodes"],
    }
    heads = ("core", "instructions", "micro-ops", "weight words", "parameter words")
    cores = [
        (one["file"], *(one[name.replace(" ", "_").replace("-", "_")] for name in heads[1:]))
        for one in found["cores"]
    ]
    files = [(name, size(count)) for name, count in found["files"].items()]
    return [
        facts(title, rows), columns("cores", heads, cores),
        columns("files", ("file", "size"), files),
    ]  # fmt: skip


def _program(title: str, found: dict[str, Any]) -> list[Table]:
    return _file(title, found, "kinds", "instructions", "kind")


def _records(title: str, found: dict[str, Any]) -> list[Table]:
    return _file(title, found, "ops", "records", "op")


def _file(title: str, found: dict[str, Any], counts: str, counted: str, head: str) -> list[Table]:
    """Return the tables of a program or of macro records; counts : name of their counts."""
    from mapper.results.tables import columns, facts

    rows = {
        name.replace("_", " "): value
        for name, value in found.items()
        if name not in ("path", counts)
    }
    return [facts(title, rows), columns(counted, (head, "number"), list(found[counts].items()))]


def _mapping(title: str, report: dict[str, Any]) -> list[Table]:
    from mapper.results.activity import traffic_in
    from mapper.results.population_table import population_tables
    from mapper.results.tables import columns, facts, levels, quality, stages

    network, chip = report["network"], report["chip"]
    limits = ("neurons", "synapses", "axons_in", "axons_out")
    rows = {name: network[name] for name in ("path", "neurons", "synapses")}
    rows["chip"] = f"{chip['name']}, {chip['width']}x{chip['height']} cores"
    rows |= {
        f"{name.replace('_', ' ')} per core, at most": chip[name]
        for name in limits if chip.get(name) is not None
    }  # fmt: skip
    rows |= {name: report["settings"][name] for name in ("preset", "objective", "seed")}
    tables = [
        facts(title, rows),
        levels(report["levels"]),
        stages(report["stages"]),
        *quality(report["metrics"], traffic_in(report), chip.get("delivery", "synapse")),
        *population_tables(report.get("populations"), SHOWN),
    ]
    if kept := report["scratch"]:
        heads = ("graph", "vertices", "connections", "blocks")
        tables.append(columns("scratch", heads, [list(entry.values()) for entry in kept]))
    return tables


TABLES: dict[str, Callable[[str, dict[str, Any]], list[Table]]] = {
    "network": _network, "importable": _importable, "mapping": _mapping, "compiled": _compiled,
    "spiking": _spiking, "program": _program, "records": _records,
}  # fmt: skip
"""Functions that return the tables of each kind of file, from its path and facts."""
