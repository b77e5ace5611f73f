"""Compile a requested model for the first chip that it fits, or take the result from the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chipsim.chip.host import ChipHost
from chipsim.chip.model import Chip
from mapper.cache.catalogue import Catalogue
from mapper.compiler.artifacts.kept_folder import KIND, keep_folder, kept_folder
from mapper.compiler.artifacts.manifest import Target
from mapper.compiler.artifacts.report import Report
from mapper.compiler.caching import CompileInputs, slot_of
from mapper.compiler.explain import NodeRow, explain
from mapper.compiler.model import Model
from mapper.compiler.model_inputs import (
    calibrated_samples,
    inputs_of,
    open_requested,
    seen_samples,
)
from mapper.compiler.multicore.placement import PRESETS, effort
from mapper.compiler.outcome import CompileOutcome
from mapper.compiler.output import Dumps, Origin, write_compiled
from mapper.compiler.pipeline import compile_model
from mapper.compiler.request import CompileRequest
from mapper.compiler.stages import Clock, stage
from mapper.errors import CheckFailedError, DoesNotFitError, HostNodeError, MapperError
from mapper.inputs.listener import Listener
from mapper.kernels.warmup import works_of_compilation
from mapper.monitoring.resources import all_cores


class CompileResult(NamedTuple):
    """Outcome of a compilation, and contents of report.json."""

    outcome: CompileOutcome
    report: Report


class CompileTask(NamedTuple):
    """A request with its inputs open.

    rows : where nodes run, if requested; clock : clock of the stages so far
    """

    request: CompileRequest
    inputs: CompileInputs
    rows: list[NodeRow]
    clock: Clock
    listener: Listener


def compile_requested(
    request: CompileRequest, folder: Path, listener: Listener, clock: Clock, explain: bool = False
) -> CompileResult:
    """Open a requested model and its samples, compile it, and write the folder.

    explain : write where each node runs, and why
    Raises the errors of `compile_into`, and `UsageError` for options without effect.
    """
    with clock.running():
        with stage("read"):
            model = open_requested(request, listener)
        rows = explained(request, model) if explain else []
        with stage("read"):
            inputs = inputs_of(request, model, listener)
        return compile_into(CompileTask(request, inputs, rows, clock, listener), folder)


def explained(request: CompileRequest, model: Model) -> list[NodeRow]:
    """Return where each node of a model runs on the largest requested chip."""
    return explain(model, request.settings, (request.chips[-1].host or ChipHost()).operations)


def compile_into(task: CompileTask, folder: Path) -> CompileResult:
    """Compile a model for the first chip that it fits, and write the folder.

    Raises `DoesNotFitError` if it fits no chip, `CheckFailedError` if it misses a limit.
    """
    chips = task.request.chips
    for number, chip in enumerate(chips):
        try:
            return _compiled(task, target_of(task.request, chip), chips[:number], folder)
        except DoesNotFitError as error:
            if len(chips) == 1:
                raise
            if chip is chips[-1]:
                tried = f"the model fits no chip from {chips[0].name} to {chip.name}"
                raise DoesNotFitError(f"{tried}; {chip.name}: {error}") from error
    raise AssertionError


def target_of(request: CompileRequest, chip: Chip) -> Target:
    """Return a requested chip with its core and the settings."""
    assert chip.npu is not None
    return Target(chip, chip.npu, request.settings)


def _compiled(
    task: CompileTask, target: Target, small: Sequence[Chip], folder: Path
) -> CompileResult:
    """Compile a model for a chip, or take the result from the cache, and write the folder.

    small : the chips that are too small
    """
    request, inputs, rows, clock, listener = task
    outputs, form = request.outputs, request.samples.form.to_json()
    dumps = Dumps(rows, outputs.graphs, outputs.emit)
    slot = slot_of(
        request.cache, KIND, inputs, target.chip, request.settings, target.shape,
        request.model.name, form, bool(rows), *dumps[1:],
    )  # fmt: skip
    kept = kept_folder(slot)
    if kept is not None:
        _report_notes(task, kept.outcome, target, small)
        changed = {"command": list(outputs.command), "seconds": clock.seconds}
        return CompileResult(kept.outcome, kept.write(folder, changed))
    listener.compile(works_of_target(target), all_cores())
    model, samples, test = inputs
    compiled = compile_model(
        model, target.shape, samples, request.settings, test, target.chip, request.cache
    )
    outcome = CompileOutcome.of(compiled, request.settings.pack)
    _report_notes(task, outcome, target, small)
    origin = Origin(
        request.model, form, calibrated_samples(inputs), list(outputs.command),
        seen_samples(inputs), model.data,
    )  # fmt: skip
    try:
        report = write_compiled(folder, compiled, target, origin, dumps, clock)
    except HostNodeError as error:
        raise MapperError(f"{request.model}: {error}") from error
    keep_folder(slot, folder, report, outcome)
    return CompileResult(outcome, report)


def _report_notes(
    task: CompileTask, outcome: CompileOutcome, target: Target, small: Sequence[Chip]
) -> None:
    """Report the notes of a compilation; raise `CheckFailedError` if it misses a limit."""
    note = task.listener.note
    if small:
        names = ", ".join(one.name for one in small)
        note(f"note: {target.chip.name} is used; too small: {names}")
    for line in outcome.notes:
        note(f"note: {line}")
    if not outcome.missed or task.request.outputs.keep_going:
        return
    many = outcome.attempts
    raise CheckFailedError(
        f"{task.request.model}: {' and '.join(outcome.missed)} (the best of {many} "
        f"attempt{'s' * (many != 1)}); change --min-signal or --max-loss, or keep the result with "
        "--keep-going"
    )


def works_of_target(target: Target) -> list[str]:
    """Return the tasks whose kernels a compilation needs: placement, and simulation of frames."""
    chip, _, settings = target
    cores = min(chip.usable_count, settings.cores or chip.usable_count)
    if cores == 1:
        return ["cores"]
    presets = {PRESETS["fast"], PRESETS[settings.effort]}
    works = works_of_compilation([effort(preset=one) for one in sorted(presets)], cores)
    return ["cores", *works]


def add_to_catalogue(model: Path, output: Path, report: Mapping[str, Any], seconds: float) -> None:
    """Add a compiled model to the catalogue.

    model : path of its file; output : the folder; report : its report.json
    """
    figures = {"cycles": report["cycles"], "signal_db": report["signal_db"]}
    if report["kept"] is not None:
        figures["loss"] = report["attempts"][report["kept"]]["loss"]
    settings = {"npu": report["npu"], **report["settings"]}
    Catalogue.of_user().add(
        "compile", model, output, report["chip"]["name"], settings, figures, seconds
    )
