"""Last stages of a compilation: write the folder, check it, and write dumps and report."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.artifacts.cdriver.hoststeps import driver_of
from mapper.compiler.artifacts.cdriver.writer import write_driver
from mapper.compiler.artifacts.judge.folders import judge_compiled, require_right
from mapper.compiler.artifacts.loops.listing import listing_text
from mapper.compiler.artifacts.manifest import (
    DRIVER,
    GRAPHS,
    LOOPS,
    RANGES,
    SourceFile,
    Target,
    program_file,
    read_folder,
    write_folder,
)
from mapper.compiler.artifacts.report import Report, report_of, write_report
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.compiled import Compiled
from mapper.compiler.explain import NodeRow, write_explain
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.text import graph_text, graph_to_json
from mapper.compiler.partition.functions import Partition
from mapper.compiler.partition.packing import packing_lists, packing_text, parts_of
from mapper.compiler.partition.patterns import functions_text, lowered, quantised_functions
from mapper.compiler.quantisation.ranges import write_ranges
from mapper.compiler.stages import Clock, stage
from mapper.results.sealed_folder import json_bytes
from storage.files import write_file, write_text
from storage.formats.layers.onnxgraph import whole_model


class Origin(NamedTuple):
    """Source of a compiled model.

    model : its file; form : description of how samples become its input
    calibrated : number of samples that ranges were measured with
    command : words of the command line
    samples : float32, shape (frames, ...), to compare results with; None generates random ones
    data : serialised model, if its shapes differ from the file
    """

    model: Path
    form: dict[str, Any]
    calibrated: int
    command: list[str]
    samples: NDArray[np.float32] | None = None
    data: bytes | None = None


class Dumps(NamedTuple):
    """Optional files.

    rows : where nodes run, if computed; graphs : write the graph after each stage
    emit : requested outputs, `c` or `loops`
    """

    rows: list[NodeRow]
    graphs: bool = False
    emit: tuple[str, ...] = ()


def write_compiled(
    folder: Path, compiled: Compiled, target: Target, origin: Origin, dumps: Dumps, clock: Clock
) -> Report:
    """Write all files of a compiled model; return the contents of report.json.

    clock : clock of the previous stages
    Raises `CheckFailedError` if a program reads or waits for data that is never written, or
    computes other numbers than the model in ONNX Runtime.
    """
    with stage("memory images"):
        data = origin.data or whole_model(origin.model)
        write_folder(folder, SourceFile(origin.model, data), target, compiled, origin.form)
        if compiled.verified is not None:
            ranges = compiled.verified.best.ranges
            write_ranges(folder / RANGES, ranges, origin.model, origin.calibrated)
    with stage("check"):
        written = read_folder(folder)
        verify_compiled(written, made=True)
    with stage("usage report"):
        report = report_of(compiled, origin.model.name, target, origin.command)
    with stage("judge"):
        judgement = judge_compiled(written, origin.samples, report)
        report["judge"] = judgement.to_json()
        require_right(judgement, origin.model)
    with stage("dumps"):
        if dumps.rows:
            write_explain(folder, dumps.rows)
        if dumps.graphs:
            write_graphs(folder, compiled.graphs, compiled.partition)
        if "loops" in dumps.emit:
            write_loops(folder, compiled)
        if "c" in dumps.emit:
            write_driver(folder / DRIVER, driver_of(read_folder(folder)))
    report["seconds"] = clock.seconds
    write_report(folder, report)
    return report


def write_loops(folder: Path, compiled: Compiled) -> None:
    """Write the schedules of all cores as loop listings."""
    (folder / LOOPS).mkdir()
    for one in compiled.codes:
        text = listing_text(one.steps, one.tables, [macro.label for macro in one.macros])
        name = Path(program_file(one.place)).with_suffix(".txt")
        write_text(folder / LOOPS / name, text)


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
        write_text(folder / GRAPHS / f"{name}.txt", text)
    for name, graph in graphs.items():
        write_text(folder / GRAPHS / f"{name}.txt", graph_text(graph))
        write_file(folder / GRAPHS / f"{name}.json", json_bytes(graph_to_json(graph)[0]))
