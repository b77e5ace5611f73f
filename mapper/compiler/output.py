"""Last stages of a compilation: write the folder, check it, and write dumps and report."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.artifacts.cdriver.hoststeps import driver_of
from mapper.compiler.artifacts.cdriver.writer import write_driver
from mapper.compiler.artifacts.judge.folders import judge_compiled, require_right
from mapper.compiler.artifacts.manifest import (
    DRIVER,
    RANGES,
    SourceFile,
    Target,
    read_folder,
    write_folder,
)
from mapper.compiler.artifacts.report import Report, report_of, write_report
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.compiled import Compiled
from mapper.compiler.dumps import write_graphs, write_loops
from mapper.compiler.explain import NodeRow, write_explain
from mapper.compiler.quantisation.ranges_file import write_ranges
from mapper.compiler.stages import Clock, stage
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
