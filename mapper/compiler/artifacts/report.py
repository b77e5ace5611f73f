"""Read and write report.json of a compiled model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chipsim.chip.host import ChipHost
from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.artifacts.layers import ProgramRun, layer_row, parts_of, timeline_rows
from mapper.compiler.artifacts.manifest import Target
from mapper.compiler.artifacts.rings import ring_rows
from mapper.compiler.codegen.code import CoreCode
from mapper.compiler.compiled import Compiled
from mapper.compiler.ir.node import Host
from mapper.compiler.partition.hostwork import node_cycles
from mapper.compiler.program.tables import MICRO_OPS, PARAMETERS
from mapper.compiler.quantisation.verify import Attempt, Verified
from mapper.compiler.tiling.units import busy_shares
from mapper.reporting.compiled.page import render_compiled
from mapper.reporting.compiled.report_file import require_report
from mapper.reporting.make import PAGE
from mapper.results.output_folder import REPORT
from mapper.results.sealed_folder import read_model_report
from storage.files import write_file

Report = dict[str, Any]


def report_of(compiled: Compiled, model: str, target: Target, command: list[str]) -> Report:
    """Return the report as a JSON object, without the time of stages.

    command : words of the command line
    """
    shape = target.shape
    busiest = max(compiled.codes, key=lambda one: one.timeline.cycles)
    return {
        "schema": 1,
        "kind": "compiled",
        "model": model,
        "chip": target.chip.to_json(),
        "npu": shape.name,
        "command": command,
        "settings": target.settings.as_json(),
        **_verification(compiled.verified),
        "limits_missed": compiled.missed,
        "losses": [one._asdict() for one in compiled.losses],
        "cycles": busiest.timeline.cycles,
        "busy": busy_shares(busiest.timeline),
        "packing": compiled.packing._asdict() | {"by_host": compiled.packing.by_host},
        "layers": [row for code in compiled.codes for row in core_layers(code, shape)],
        "host": _host(compiled, target),
        **({"host_cycles": work} if (work := sum(compiled.stages.cycles)) else {}),
        "memories": _memories(compiled, shape),
        "maps": [row for code in compiled.codes for row in _maps(code)],
        **({"rings": rings} if (rings := _rings(compiled)) else {}),
        "timelines": [
            {"core": list(code.place), "units": timeline_rows(code.program, code.timeline)}
            for code in compiled.codes
        ],
        "log": compiled.log,
        "seconds": {},
    }


def _host(compiled: Compiled, target: Target) -> list[Report]:
    """Return the nodes of the host, with the cycles of those between functions of the cores."""
    cycles = node_cycles(compiled.partition, (target.chip.host or ChipHost()).operations)
    return [
        {"nodes": list(node.sources), "op": node.operator.node.kind, "why": node.operator.why}
        | ({"cycles": cycles[node.sources]} if node.sources in cycles else {})
        for node in compiled.graph.nodes
        if isinstance(node.operator, Host)
    ]


def core_layers(code: CoreCode, shape: NpuShape) -> list[Report]:
    """Return the report rows of the layers of a core."""
    run = ProgramRun.of(code.steps, code.program, code.timeline, shape)
    regions = {one.region.tensor: one.region for one in code.maps}
    return [
        {"core": list(code.place)} | layer_row(macro, part, regions.get(macro.output), run)
        for macro, part in zip(code.macros, parts_of(code.steps, len(code.macros)), strict=True)
    ]


def _maps(code: CoreCode) -> list[Report]:
    """Return the places of maps in a core, from the layer that writes each to its last reader."""
    return [
        {
            "core": list(code.place),
            "name": one.tensor.name,
            "first": one.region.first if one.region.owner else one.region.base,
            "vectors": one.region.vectors if one.region.owner else one.region.size,
            "born": one.region.born,
            "dies": one.region.dies,
        }
        for one in code.maps
    ]


def _rings(compiled: Compiled) -> list[Report]:
    return [row for code in compiled.codes for row in ring_rows(code)]


def _memories(compiled: Compiled, shape: NpuShape) -> Report:
    """Return the largest use of each memory on any core, and its capacity."""
    capacity = {
        "feature": shape.map_vectors,
        "weight": shape.weight_words,
        "parameter": shape.parameter_words,
        "micro-op": shape.micro_ops,
        "instruction": shape.instructions,
    }
    used = [
        {
            "feature": code.used,
            "weight": shape.weight_words if _streams(code) else len(code.tables.weights),
            "parameter": code.tables.words(PARAMETERS),
            "micro-op": code.tables.words(MICRO_OPS),
            "instruction": len(code.program),
        }
        for code in compiled.codes
    ]
    return {
        name: {"used": max(one[name] for one in used), "capacity": most}
        for name, most in capacity.items()
    }


def _streams(code: CoreCode) -> bool:
    """Return whether weights come from the host at run time."""
    return any(one.kind == "WSTREAM" for one in code.program)


def write_report(folder: Path, report: Report) -> None:
    """Write report.json and report.html of a compiled folder."""
    write_file(folder / REPORT, (json.dumps(report, indent=1) + "\n").encode())
    write_file(folder / PAGE, render_compiled(report))


def add_simulation(folder: Path, found: Report) -> None:
    """Add a simulation to report.json, and render the page again."""
    write_report(folder, read_report(folder) | {"simulation": found})


def read_report(folder: Path) -> Report:
    """Read report.json of a compiled folder; raise `MapperError` if it is damaged."""
    return read_model_report(folder, "compiled", "compiled model", require_report)


def attempt_row(attempt: Attempt) -> Report:
    """Return a quantisation attempt as a report row."""
    score = attempt.score
    return {
        "method": attempt.method,
        "per": attempt.per,
        "bits": attempt.bits,
        "wide": list(attempt.wide),
        "host": list(attempt.kept),
        "loss": score.loss,
        "signal_db": score.signal,
        "accuracy_float": score.real,
        "accuracy_integer": score.whole,
        "reached": attempt.reached,
    }


def _verification(found: Verified | None) -> dict[str, Any]:
    """Return attempts and the best score; empty for quantised models or without verification."""
    if found is None or not found.attempts:
        return {"signal_db": None, "outputs_db": {}, "attempts": [], "kept": None}
    score = found.attempts[found.number].score
    return {
        "signal_db": score.signal,
        "outputs_db": dict(score.outputs),
        "attempts": [attempt_row(one) for one in found.attempts],
        "kept": found.number,
    }
