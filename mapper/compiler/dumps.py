"""Optional files of a compiled folder: loop listings, and the graph after each stage."""

from __future__ import annotations

from pathlib import Path

from mapper.compiler.artifacts.loops.listing import listing_text
from mapper.compiler.artifacts.manifest import GRAPHS, LOOPS, json_bytes, program_file
from mapper.compiler.compiled import Compiled
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.text import graph_text, graph_to_json
from mapper.compiler.partition.functions import Partition
from mapper.compiler.partition.packing import packing_lists, packing_text, parts_of
from mapper.compiler.partition.patterns import functions_text, lowered, quantised_functions
from storage.files import write_file


def write_loops(folder: Path, compiled: Compiled) -> None:
    """Write the schedules of all cores as loop listings."""
    (folder / LOOPS).mkdir()
    for one in compiled.codes:
        text = listing_text(one.steps, one.tables, [macro.label for macro in one.macros])
        name = Path(program_file(one.place)).with_suffix(".txt")
        write_file(folder / LOOPS / name, text.encode())


def write_graphs(folder: Path, graphs: dict[str, Graph], partition: Partition) -> None:
    """Write the graph after each stage as text and JSON, functions at two levels, and packing
    lists.
    """
    (folder / GRAPHS).mkdir()
    functions = quantised_functions(partition)
    texts = {
        "functions": functions_text(functions),
        "functions_lowered": functions_text(lowered(functions)),
        "packing": packing_text(packing_lists(parts_of(partition))),
    }
    for name, text in texts.items():
        write_file(folder / GRAPHS / f"{name}.txt", text.encode())
    for name, graph in graphs.items():
        write_file(folder / GRAPHS / f"{name}.txt", graph_text(graph).encode())
        write_file(folder / GRAPHS / f"{name}.json", json_bytes(graph_to_json(graph)[0]))
