"""`mapper info`: what a file or a folder holds."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mapper.cli import options as common
from mapper.errors import MapperError

if TYPE_CHECKING:
    from rich.table import Table

EPILOG = """\
examples:
  mapper info net.bin
  mapper info result      (an output folder; with its scratch, if that was kept)
"""
SHOWN = 40  # populations in the table; all are in the JSON


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="NET|DIR", help="network file or output folder")


def run(options: argparse.Namespace) -> int:
    from mapper.results.output_folder import find_folder, read_folder

    if find_folder(options.path).is_dir():
        found = read_folder(options.path, lambda: _folder(options))
        common.emit(options, *found)
        return 0
    from mapper.inputs.source import is_network_name
    from mapper.results.tables import columns, facts, size
    from storage.formats import recognise
    from storage.store.network import POPULATION, NetworkFile
    from storage.store.traffic import describe, traffic_of

    if not is_network_name(options.path):
        importer = recognise(options.path)
        raise MapperError(
            f"{options.path}: is a file of the format {importer.name}, not a network file; "
            f"mapper import {options.path} net.bin, then mapper info net.bin"
        )
    populations: dict[str, int] = {}
    with NetworkFile(options.path) as network:
        meta, stored = network.meta, network.stored_bytes()
        if POPULATION in meta.attributes:
            population = network.attribute(POPULATION)
            labels = population.labels or []
            counts = np.bincount(population.stored, minlength=len(labels)).tolist()
            populations = dict(zip(labels, counts, strict=True))
        result = {"path": str(options.path), **asdict(meta), "blocks": network.block_count}
        result["traffic"] = traffic_of(meta)
    per_connection = stored / max(1, meta.connections)
    result |= {"stored_bytes": stored, "bytes_per_connection": per_connection}
    rows = [
        ("neurons", meta.neurons),
        ("synapses", meta.synapses),
        ("synapses read", meta.synapses_read),
        ("self-loops dropped", meta.self_loops),
        ("duplicate synapses merged (weights summed)", meta.repeated),
        ("undirected", meta.undirected),
        ("traffic", describe(traffic_of(meta))),
        ("total weight", meta.total_weight * meta.weight_unit),
        ("total size", meta.total_size),
        ("blocks", f"{network.block_count:,} of {meta.block_size:,} neurons"),
        ("connections on disk", f"{size(stored)}, {per_connection:.2f} bytes per connection"),
    ]
    about = [
        (name, f"{len(a.labels)} names" if a.labels else f"unit {a.unit:g}")
        for name, a in meta.attributes.items()
    ]
    tables = [facts(str(options.path), rows)]
    if populations:
        result["populations"] = populations
        shown = list(populations.items())[:SHOWN]
        if len(populations) > SHOWN:
            rest = list(populations.values())[SHOWN:]
            shown.append((f"... and {len(rest):,} more", sum(rest)))
        tables.append(columns("populations", ("name", "neurons"), shown))
    if about:
        tables.append(facts("attributes", about))
    if meta.provenance:
        # settings such as a seed are no counts: they are shown as they were given
        as_given = {k: str(v) if isinstance(v, int) else v for k, v in meta.provenance.items()}
        tables.append(facts("provenance", as_given))
    common.emit(options, result, tables)
    return 0


def _folder(options: argparse.Namespace) -> tuple[dict[str, Any], list[Table]]:
    """What an output folder holds, as an object and as tables."""
    from mapper.results.activity import traffic_in
    from mapper.results.output import SCRATCH, read_report
    from mapper.results.tables import columns, facts, levels, quality, stages
    from storage.scratch.scratch import Scratch, ScratchGraph

    report = read_report(options.path)
    network = report["network"]
    rows = {name: network[name] for name in ("path", "neurons", "synapses")}
    rows |= {name: report["settings"][name] for name in ("preset", "objective", "seed")}
    tables = [
        facts(str(options.path), rows),
        levels(report["levels"]),
        stages(report["stages"]),
        *quality(report["metrics"], traffic_in(report)),
    ]
    kept = []
    if (options.path / SCRATCH).is_dir():
        with Scratch(options.path / SCRATCH, read_only=True) as scratch:
            for name in scratch.names():
                if name.endswith("/graph"):
                    graph = ScratchGraph(scratch, name.removesuffix("/graph"))
                    kept.append(
                        {
                            "name": name.removesuffix("/graph"),
                            "vertices": graph.vertices,
                            "connections": graph.connections // 2,
                            "blocks": graph.block_count,
                        }
                    )
        heads = ("graph", "vertices", "connections", "blocks")
        tables.append(columns("scratch", heads, [list(entry.values()) for entry in kept]))
    return {**report, "scratch": kept}, tables
