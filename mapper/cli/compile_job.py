"""The work of `mapper compile`: a compilation for a chip, or its result from the cache."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

from chipsim.chip.model import Chip
from mapper.cache.cache import Cache
from mapper.cache.catalogue import Catalogue
from mapper.cli import compile_tables, terminal
from mapper.cli import options as common
from mapper.cli.caching import cache_of
from mapper.compiler.artifacts.manifest import Target
from mapper.compiler.caching import CompileInputs, slot_of
from mapper.compiler.kept_folder import KIND, keep_folder, kept_folder
from mapper.compiler.multicore.placement import PRESETS, effort
from mapper.compiler.outcome import CompileOutcome
from mapper.compiler.output import Dumps, Origin, write_compiled
from mapper.compiler.pipeline import compile_model
from mapper.compiler.settings import CompileSettings
from mapper.compiler.stages import Clock
from mapper.errors import DoesNotFitError, HostNodeError, MapperError
from mapper.kernels.warmup import works_of_compilation

Result = tuple[CompileOutcome, dict[str, Any]]
"""CompileOutcome, and contents of report.json."""


class CompileTask(NamedTuple):
    """A model to compile. clock : clock of the stages so far"""

    inputs: CompileInputs
    settings: CompileSettings
    origin: Origin
    dumps: Dumps
    clock: Clock


def compile_into(
    options: argparse.Namespace, job: CompileTask, chips: list[Chip], folder: Path
) -> Result:
    """Compile a model for the first chip that it fits, and write the folder."""
    cache = cache_of(options)
    for number, chip in enumerate(chips):
        assert chip.npu is not None
        target = Target(chip, chip.npu, job.settings)
        try:
            return _compiled(options, job, (target, chips[:number]), folder, cache)
        except DoesNotFitError as error:
            if len(chips) == 1:
                raise
            if chip is chips[-1]:
                tried = f"the model fits no chip from {chips[0].name} to {chip.name}"
                raise DoesNotFitError(f"{tried}; {chip.name}: {error}") from error
    raise AssertionError


def _compiled(
    options: argparse.Namespace, job: CompileTask, where: tuple[Target, list[Chip]], folder: Path,
    cache: Cache,
) -> Result:  # fmt: skip
    """Compile a model for a chip, or take the result from the cache, and write the folder.

    where : the chip, and the chips that are too small
    """
    (inputs, settings, origin, dumps, clock), (target, _) = job, where
    slot = slot_of(
        cache, KIND, inputs, target.chip, settings, target.shape, origin.model.name, origin.form,
        bool(dumps.rows), *dumps[1:],
    )  # fmt: skip
    kept = kept_folder(slot)
    if kept is not None:
        _say_notes(options, kept.outcome, where)
        changed = {"command": origin.command, "seconds": clock.seconds}
        return kept.outcome, kept.write(folder, changed)
    compile_kernels_for(options, target)
    model, samples, test = inputs
    compiled = compile_model(model, target.shape, samples, settings, test, target.chip, cache)
    outcome = CompileOutcome.of(compiled, settings.pack)
    _say_notes(options, outcome, where)
    try:
        report = write_compiled(folder, compiled, target, origin, dumps, clock)
    except HostNodeError as error:
        raise MapperError(f"{origin.model}: {error}") from error
    keep_folder(slot, folder, report, outcome)
    return outcome, report


def _say_notes(
    options: argparse.Namespace, outcome: CompileOutcome, where: tuple[Target, list[Chip]]
) -> None:
    """Print the notes of a compilation; raise `CheckFailedError` if it misses a limit."""
    target, small = where
    if small:
        names = ", ".join(one.name for one in small)
        terminal.say(options, f"note: {target.chip.name} is used; too small: {names}")
    for note in outcome.notes:
        terminal.say(options, f"note: {note}")
    compile_tables.require_limits(options, outcome)


def compile_kernels_for(options: argparse.Namespace, target: Target) -> None:
    """Compile the kernels of a compilation: placement, and simulation of some frames."""
    chip, _, settings = target
    cores = min(chip.usable_count, settings.cores or chip.usable_count)
    if cores == 1:
        common.compile_kernels(options, "cores")
        return
    presets = {PRESETS["fast"], PRESETS[settings.effort]}
    works = works_of_compilation([effort(preset=one) for one in sorted(presets)], cores)
    common.compile_kernels(options, "cores", *works, *["cores/frames"] * options.ablate)


def catalogue_compilation(
    options: argparse.Namespace, report: dict[str, Any], seconds: float
) -> None:
    """Add a compiled model to the catalogue."""
    figures = {"cycles": report["cycles"], "signal_db": report["signal_db"]}
    if report["kept"] is not None:
        figures["loss"] = report["attempts"][report["kept"]]["loss"]
    settings = {"npu": report["npu"], **report["settings"]}
    Catalogue.of_user().add(
        "compile", options.model, options.output, report["chip"]["name"], settings, figures, seconds
    )
