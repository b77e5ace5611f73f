"""What report.json says of a compiled model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.node import Conv, Host
from mapper.compiler.manifest import Target
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.pipeline import Compiled
from mapper.compiler.quantise.verify import Attempt
from mapper.compiler.schedule.units import busy_shares
from mapper.errors import MapperError
from mapper.report.compiled.page import render_compiled
from mapper.report.make import PAGE
from mapper.results.output_folder import REPORT
from storage.files import read_input, write_file

Report = dict[str, Any]
MOST_REPORT = 1 << 28  # bytes


def report_of(compiled: Compiled, model: str, target: Target) -> Report:
    """All that the page shows, and more, as an object for JSON."""
    tables, shape = compiled.tables, target.shape
    used = {
        "feature": max(one.first + one.vectors for one in compiled.regions.values()),
        "weight": len(tables.weights),
        "parameter": len(tables.parameters),
        "micro-op": len(tables.micro_ops),
        "instruction": len(compiled.program),
    }
    capacity = {
        "feature": shape.map_vectors,
        "weight": shape.weight_words,
        "parameter": shape.parameter_words,
        "micro-op": shape.micro_ops,
        "instruction": shape.instructions,
    }
    return {
        "schema": 1,
        "kind": "compiled",
        "model": model,
        "chip": target.chip.to_json(),
        "npu": shape.name,
        "settings": target.settings.as_json(),
        "signal_db": compiled.verified.attempts[compiled.verified.number].score.signal,
        "attempts": [attempt_row(one) for one in compiled.verified.attempts],
        "kept": compiled.verified.number,
        "losses": [one._asdict() for one in compiled.losses],
        "cycles": compiled.timeline.cycles,
        "busy": busy_shares(compiled.timeline),
        "layers": [
            _layer(compiled, number, macro, shape) for number, macro in enumerate(compiled.macros)
        ],
        "host": [
            {"nodes": list(node.sources), "op": node.operator.node.kind, "why": node.operator.why}
            for node in compiled.graph.nodes
            if isinstance(node.operator, Host)
        ],
        "memories": {name: {"used": used[name], "capacity": capacity[name]} for name in used},
        "maps": [
            {
                "name": tensor.name,
                "first": region.first,
                "vectors": region.vectors,
                "born": region.born,
                "dies": region.dies,
            }
            for tensor, region in compiled.regions.items()
        ],
        "log": compiled.log,
        "seconds": compiled.seconds,
    }


def write_report(folder: Path, report: Report) -> None:
    """report.json and report.html of a compiled folder."""
    write_file(folder / REPORT, (json.dumps(report, indent=1) + "\n").encode())
    write_file(folder / PAGE, render_compiled(report))


def add_simulation(folder: Path, found: Report) -> None:
    """Keep what a simulation found in report.json, and make the page again."""
    write_report(folder, read_report(folder) | {"simulation": found})


def read_report(folder: Path) -> Report:
    """report.json of a compiled folder; raises `MapperError` if it is damaged."""
    path = folder / REPORT
    try:
        report = json.loads(read_input(path, MOST_REPORT))
    except ValueError as error:
        raise MapperError(f"{path}: is no JSON; compile the model again") from error
    if not isinstance(report, dict) or report.get("kind") != "compiled":
        raise MapperError(f"{path}: is no report of a compiled model; compile the model again")
    return report


def attempt_row(attempt: Attempt) -> Report:
    """An attempt to quantise, as a row."""
    score = attempt.score
    return {
        "method": attempt.method,
        "per": attempt.per,
        "bits": attempt.bits,
        "host": list(attempt.kept),
        "loss": score.loss,
        "signal_db": score.signal,
        "accuracy_float": score.real,
        "accuracy_integer": score.whole,
        "reached": attempt.reached,
    }


def _layer(compiled: Compiled, number: int, macro: Macro, shape: NpuShape) -> Report:
    """A macro node: what it is of, what it makes, and what it takes."""
    first, behind = ([0, *compiled.ends][number], compiled.ends[number])
    steps = compiled.steps[first:behind]
    output = macro.output
    return {
        "nodes": list(macro.sources),
        "operators": [node.kind for node in macro.nodes],
        "shape": list(output.shape),
        "scale": output.scale,
        "zero_point": output.zero_point,
        "products": products(macro),
        "matrix_calls": matrix_calls(macro, shape),
        "start": int(compiled.timeline.start[first:behind].min()),
        "end": int(compiled.timeline.end[first:behind].max()),
        "instructions": {
            unit: sum(step.unit == unit for step in steps)
            for unit in ("LOAD", "GEMM", "ALU", "STORE")
        },
    }


def products(macro: Macro) -> int:
    """Multiplications of a frame that the model asks for."""
    conv = macro.conv
    if conv is None:
        return 0
    outputs, kh, kw, inputs = conv.inputs[1].shape
    return conv.output.height * conv.output.width * outputs * kh * kw * inputs


def matrix_calls(macro: Macro, shape: NpuShape) -> int:
    """Calls of the matrix unit for a frame, without what tiles compute twice."""
    conv = macro.conv
    if conv is None or not isinstance(conv.operator, Conv):
        return 0
    outputs, kh, kw, inputs = conv.inputs[1].shape
    blocks = blocks_of(outputs, shape.rows) * blocks_of(inputs, shape.columns)
    return conv.output.height * conv.output.width * kh * kw * blocks
