"""The folder of a compiled model from its last stages on: images, their check, dumps, report."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.codegen.cdriver.hoststeps import driver_of
from mapper.compiler.codegen.cdriver.writer import write_driver
from mapper.compiler.explain import Row, write_explain
from mapper.compiler.judge.folders import judge_compiled, require_right
from mapper.compiler.manifest import (
    DRIVER,
    RANGES,
    SourceFile,
    Target,
    read_folder,
    write_folder,
    write_graphs,
    write_loops,
)
from mapper.compiler.pipeline import Compiled
from mapper.compiler.quantise.ranges_file import write_ranges
from mapper.compiler.report import Report, report_of, write_report
from mapper.compiler.stages import Clock, stage
from mapper.compiler.verify import verify_compiled
from storage.formats.layers.onnxgraph import whole_model


class Origin(NamedTuple):
    """Where a compiled model comes from.

    model : its file; form : how samples become its input
    calibrated : samples that ranges were measured with
    command : words of the command line
    samples : float32, shape (frames, ...), that the result is judged with; None takes random ones
    data : the model, serialised, if its shapes differ from the file
    """

    model: Path
    form: dict[str, Any]
    calibrated: int
    command: list[str]
    samples: NDArray[np.float32] | None = None
    data: bytes | None = None


class Dumps(NamedTuple):
    """What is written beside what runs: where nodes run, if it was worked out; the graphs of the
    stages; of `c` and `loops` what was asked for."""

    rows: list[Row]
    graphs: bool = False
    emit: tuple[str, ...] = ()


def write_compiled(
    folder: Path, compiled: Compiled, target: Target, origin: Origin, dumps: Dumps, clock: Clock
) -> Report:
    """Write all files of a compiled model; returns what is in report.json.

    clock : that measured the stages before
    Raises `CheckFailedError` if a program reads or waits for what nothing gives, or makes other
    numbers than the model in ONNX Runtime.
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
