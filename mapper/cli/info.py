"""`mapper info`: show the contents of a file or an output folder."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.stores import add_timeout
from storage.address import RemotePath, path_of

if TYPE_CHECKING:
    from rich.table import Table

    from storage.formats.base import Importer

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
    from mapper.compiler.artifacts.manifest import is_compiled
    from mapper.results.output_folder import find_folder, read_folder
    from mapper.spiking.artifacts.folder import is_spiking
    from storage.store.sharded import is_sharded

    if find_folder(options.path).is_dir() and not is_sharded(options.path):
        if is_spiking(options.path):
            return _spiking(options)
        if is_compiled(options.path):
            return _compiled(options)
        found = read_folder(options.path, lambda: _folder(options))
        terminal.emit(options, *found)
        return 0
    from mapper.compiler.artifacts.contents import (
        is_program,
        is_records,
        program_contents,
        record_contents,
    )
    from storage.formats import recognise
    from storage.store.network import is_network_name

    local = options.path.is_file() and not isinstance(
        options.path, RemotePath
    )  # object stores hold only networks
    if local and is_program(options.path):
        return _file(options, program_contents(options.path), "kinds", "instructions", "kind")
    if local and is_records(options.path):
        return _file(options, record_contents(options.path), "ops", "records", "op")
    if not is_network_name(options.path):
        return _foreign(options, recognise(options.path))
    return _network(options)


def _foreign(options: argparse.Namespace, importer: Importer) -> int:
    """Print the format of a file that import reads, and its counts if they are cheap."""
    from mapper.results.tables import facts, size
    from storage.formats.outline import CONTENT, HEADER, outline

    path, memory = options.path, common.memory_of(options) // 2
    common.compile_kernels(options, importer.kernels)
    found = outline(path, importer, memory)
    result = {"path": str(path), "format": importer.name, **found._asdict()}
    result |= {"bytes": path.stat().st_size, "is_network": False}
    counted = {HEADER: "the header of the file", CONTENT: "an import of the file"}
    rows = {
        "format": f"{importer.name}: {importer.about}",
        "neurons": found.neurons,
        "synapses": found.synapses,
        "undirected": found.undirected,
        "counted by": counted.get(found.counted or "", "not counted: an import takes longer"),
        "size": size(result["bytes"]),
        "next": f"mapper import {path} net.bin",
    }
    shown = {name: "unknown" if value is None else value for name, value in rows.items()}
    terminal.emit(options, result, [facts(str(path), shown)])
    return 0


def _network(options: argparse.Namespace) -> int:
    """Print the contents of a network file."""
    from mapper.results.tables import columns, facts, size
    from storage.store.network import NetworkFile
    from storage.store.traffic import describe, describe_weights, traffic_of

    with NetworkFile(options.path) as network:
        meta, stored = network.meta, network.stored_bytes()
        populations = network.populations()
        result = {"path": str(options.path), **asdict(meta), "blocks": network.block_count}
        result["traffic"] = traffic_of(meta)
    per_connection = stored / max(1, meta.connections)
    result |= {"stored_bytes": stored, "bytes_per_connection": per_connection}
    rows = [
        ("neurons", meta.neurons),
        ("synapses", meta.synapses),
        ("synapses read", meta.synapses_read),
        ("self-loops dropped" if meta.synaptic is None else "self-loops", meta.self_loops),
        ("duplicate synapses merged (weights summed)", meta.repeated),
        ("undirected", meta.undirected),
        ("traffic", describe(traffic_of(meta))),
        ("synaptic weights", describe_weights(meta)),
        ("total weight", meta.total_weight * meta.weight_unit),
        ("total size", meta.total_size),
        ("blocks", f"{network.block_count:,} of {meta.block_size:,} neurons"),
        ("connections on disk", f"{size(stored)}, {per_connection:.2f} bytes per connection"),
    ]
    about = [
        (name, f"{len(a.labels)} names" if a.labels else "real" if a.real else f"unit {a.unit:g}")
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
        # as text: settings such as a seed are not counts, and get no thousands separators
        as_given = {k: str(v) if isinstance(v, int) else v for k, v in meta.provenance.items()}
        tables.append(facts("provenance", as_given))
    terminal.emit(options, result, tables)
    return 0


def _spiking(options: argparse.Namespace) -> int:
    """Print the contents of the folder of a compiled spiking model."""
    from msgspec import to_builtins

    from mapper.cli.spiking_tables import compiled_tables
    from mapper.results.output_folder import read_folder
    from mapper.spiking.artifacts.folder import read_folder as read_spiking

    manifest = read_folder(options.path, lambda: read_spiking(options.path)).manifest
    terminal.emit(options, to_builtins(manifest), compiled_tables(manifest))
    return 0


def _compiled(options: argparse.Namespace) -> int:
    """Print the contents of the folder of a compiled model."""
    from mapper.compiler.artifacts.contents import folder_contents
    from mapper.compiler.artifacts.manifest import read_folder
    from mapper.results.sealed_folder import as_damage
    from mapper.results.tables import columns, facts, size

    with as_damage(options.path):
        found = folder_contents(read_folder(options.path))
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
    tables = [
        facts(str(options.path), rows), columns("cores", heads, cores),
        columns("files", ("file", "size"), files),
    ]  # fmt: skip
    terminal.emit(options, found, tables)
    return 0


def _file(
    options: argparse.Namespace, found: dict[str, Any], counts: str, title: str, head: str
) -> int:
    """Print the contents of a program or of macro records; counts : name of its table."""
    from mapper.results.tables import columns, facts

    rows = {
        name.replace("_", " "): value
        for name, value in found.items()
        if name not in ("path", counts)
    }
    table = columns(title, (head, "number"), list(found[counts].items()))
    terminal.emit(options, found, [facts(str(options.path), rows), table])
    return 0


def _folder(options: argparse.Namespace) -> tuple[dict[str, Any], list[Table]]:
    """Return the contents of an output folder for JSON, and as tables."""
    from mapper.results.activity import traffic_in
    from mapper.results.output import SCRATCH, read_report
    from mapper.results.tables import columns, facts, levels, quality, stages
    from storage.scratch.scratch import Scratch, ScratchGraph

    report = read_report(options.path)
    network = report["network"]
    chip = report["chip"]
    limits = ("neurons", "synapses", "axons_in", "axons_out")
    rows = {name: network[name] for name in ("path", "neurons", "synapses")}
    rows["chip"] = f"{chip['name']}, {chip['width']}x{chip['height']} cores"
    rows |= {
        f"{name.replace('_', ' ')} per core, at most": chip[name]
        for name in limits if chip.get(name) is not None
    }  # fmt: skip
    rows |= {name: report["settings"][name] for name in ("preset", "objective", "seed")}
    tables = [
        facts(str(options.path), rows),
        levels(report["levels"]),
        stages(report["stages"]),
        *quality(report["metrics"], traffic_in(report), report["chip"].get("delivery", "synapse")),
    ]
    kept = []
    if (options.path / SCRATCH).is_dir():
        with Scratch(options.path / SCRATCH, read_only=True) as scratch:
            for name in sorted(scratch.names()):
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
