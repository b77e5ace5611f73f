"""Run a compiled model on samples: outputs, accuracy, comparisons, cycles and hardware.

`mapper simulate` and Python call `run_folder`; the figures of a run are a JSON object.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.artifacts.contents import Clipped, clipped_inputs
from mapper.compiler.artifacts.cycles import (
    CHECKED,
    FRAMES,
    cycle_rows,
    frames_rows,
    run_cycles,
    run_frames,
)
from mapper.compiler.artifacts.dump import Dump
from mapper.compiler.artifacts.judge.beside import Judgement
from mapper.compiler.artifacts.judge.folders import Judged
from mapper.compiler.artifacts.manifest import CompiledFolder
from mapper.compiler.artifacts.report import read_report
from mapper.compiler.artifacts.simulate import (
    FRAMES_AT_ONCE,
    Compared,
    Digest,
    Machine,
    Maps,
    simulate,
)
from mapper.compiler.partition.hostrun import Data
from mapper.compiler.quantisation.score import require_classes
from mapper.errors import UsageError
from mapper.inputs.listener import Listener
from mapper.results.output_folder import output_folder
from storage.samples import SampleForm, Samples, SampleTable, open_samples

CLOCK = 500.0  # default, MHz
JUDGED_AT_ONCE = 8  # frames per batch whose maps are kept for the comparison

OnOutputs = Callable[[dict[str, Data]], None]
"""Called with the outputs of each batch of samples by name, shape (frames, ...)."""


class RunRequest(NamedTuple):
    """A run of a compiled model.

    samples : their source; None only computes times, which do not depend on data
    limit : number of samples, from the first; None for all
    check : compare all maps with the integer reference, and with ONNX Runtime
    cycles : also run the first samples cycle by cycle
    frames, clock : on several cores, frames of that run, and the clock in MHz; None for the default
    dump : folder for all stored maps
    hardware : also run the first samples in Amaranth
    """

    samples: Path | SampleTable | None
    limit: int | None = None
    check: bool = False
    cycles: bool = False
    frames: int | None = None
    clock: float | None = None
    dump: Path | None = None
    hardware: bool = False
    threads: int = 1

    def require_sound(self, folder: CompiledFolder) -> None:
        """Raise `UsageError` for options that need others, or several cores."""
        timed = self.frames or self.clock
        if timed and not self.cycles:
            raise UsageError("--frames, --clock: need a cycle-accurate run; add --cycles")
        if timed and not folder.is_spread:
            raise UsageError(f"--frames, --clock: need several cores; {folder.path} runs on one")
        for name, given in (("hardware", self.hardware), ("dump", self.dump)):
            if given and self.samples is None:
                raise UsageError(f"--{name}: needs samples; add --input")

    def works(self, folder: CompiledFolder) -> list[str]:
        """Return the tasks whose kernels the run needs."""
        works = ["cores"] if self.samples is not None else []
        if self.cycles or self.hardware:
            works += ["cores/frames" if folder.is_spread else "cores/cycles"]
        return works


class SamplesRun(NamedTuple):
    """Results of the cores on samples.

    sha256 : digest of the results of the cores
    classes : of each sample, shape (frames,)
    accuracy : part of the samples whose class is the label; None without labels
    compared : elements and differences of each layer; None without check and dump
    """

    frames: int
    sha256: str
    classes: NDArray[np.int64]
    accuracy: float | None
    clipped: int | None
    compared: list[Compared] | None
    judgement: Judgement | None

    @property
    def differences(self) -> int:
        """Elements that differ from the integer reference."""
        return sum(one.differences for one in self.compared or ())


class FolderRun(NamedTuple):
    """Results of a run; cycle_run, hardware : JSON objects. None if not requested"""

    samples: SamplesRun | None
    cycle_run: dict[str, Any] | None = None
    hardware: dict[str, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the figures of the run, as in the report."""
        made: dict[str, Any] = {}
        found = self.samples
        if found is not None:
            made |= {"frames": found.frames, "sha256": found.sha256}
            if found.clipped is not None:
                made["clipped"] = found.clipped
        if self.cycle_run is not None:
            made["cycle_run"] = self.cycle_run
        if self.hardware is not None:
            made["hardware"] = self.hardware
        if found is None:
            return made
        if found.accuracy is not None:
            made["accuracy"] = found.accuracy
        if found.judgement is not None:
            made["judge"] = found.judgement.to_json()
        if found.compared is not None:
            made["elements"] = sum(one.elements for one in found.compared)
            made["differences"] = found.differences
        return made


def run_folder(
    folder: CompiledFolder, request: RunRequest, listener: Listener,
    on_outputs: OnOutputs | None = None,
) -> FolderRun:  # fmt: skip
    """Run a compiled model.

    Raises `UsageError` for options that need others, and the errors of samples and of the machine.
    """
    request.require_sound(folder)
    if request.samples is None:
        listener.compile(request.works(folder), request.threads)
        return FolderRun(None, _cycles(folder, request, listener, None))
    given = folder.manifest["input"]
    form = SampleForm.from_json(folder.manifest["samples"])
    shape, last = tuple(given["shape"][1:]), bool(given["channels_last"])
    with open_samples(
        request.samples, shape, form, request.limit, channels_last=last, name=given["name"]
    ) as samples:
        for note in samples.notes:
            listener.note(f"note: {note}")
        listener.compile(request.works(folder), request.threads)
        found, first = _run_samples(folder, request, samples, listener, on_outputs)
    cycles = _cycles(folder, request, listener, first) if request.cycles else None
    hardware = (
        _hardware(folder, listener, first) if request.hardware and first is not None else None
    )
    judgement = found.judgement
    if judgement is not None and judgement.why:
        listener.note(f"note: not compared with ONNX Runtime: {judgement.why}")
    return FolderRun(found, cycles, hardware)


def _run_samples(
    folder: CompiledFolder, request: RunRequest, samples: Samples, listener: Listener,
    on_outputs: OnOutputs | None,
) -> tuple[SamplesRun, NDArray[np.float32] | None]:  # fmt: skip
    """Run the samples, compare their maps and write them if requested.

    Also return the first samples, if they run again.
    """
    parts: list[list[Compared]] = []
    classes: list[NDArray[np.int64]] = []
    clipped: list[Clipped | None] = []
    digest, machine = Digest(folder), Machine(folder)
    judged = None
    if request.check:
        judged = Judged(machine, folder.model, read_report(folder.path))
    at_once = FRAMES_AT_ONCE if judged is None else JUDGED_AT_ONCE
    with (
        output_folder(request.dump, force=False) if request.dump else nullcontext() as work,
        listener.task("simulating") as progress,
    ):
        labels, frames = samples.labels, len(samples)
        dump = None if work is None else Dump(work.folder, machine, frames)
        for some in samples.batches(at_once):
            takers = [dump.from_frame(sum(map(len, classes)))] if dump else []
            takers += [judged.take] if judged else []
            found = simulate(machine, some, request.threads, request.check, _to_all(takers))
            digest.add(found)
            if judged is not None:
                judged.add(some, found.values)
            if on_outputs is not None:
                on_outputs(found.values)
            clipped.append(clipped_inputs(folder, some))
            parts.append(found.compared)
            classes.append(classes_of(found.values))
            if labels is not None:
                require_classes(labels, next(iter(found.values.values()))[0].size)
            progress(sum(map(len, classes)) / frames)
        again = request.cycles or request.hardware
        first = samples.read(0, min(CHECKED, frames)) if again else None
        compared = [
            Compared(
                rows[0].name,
                sum(one.elements for one in rows),
                sum(one.differences for one in rows),
            )
            for rows in zip(*parts, strict=True)
        ]
        if dump is not None:
            dump.finish(compared)
    made = np.concatenate(classes)
    run = SamplesRun(
        frames,
        digest.text,
        made,
        None if labels is None else float((made == labels).mean()),
        _note_clipped([one for one in clipped if one is not None], listener),
        compared if request.check or request.dump else None,
        None if judged is None else judged.judgement(),
    )
    return run, first


def _note_clipped(clipped: list[Clipped], listener: Listener) -> int | None:
    """Return the number of sample values outside the range of the quantised input, and report them;
    None if the input has no scale."""
    if not clipped:
        return None
    count, one = sum(each.values for each in clipped), clipped[0]
    if count:
        listener.note(
            f"note: {count:,} sample values clipped to the range of the model's input, "
            f"{one.low:.4g} to {one.high:.4g}"
        )
    return count


def _to_all(takers: list[Callable[[int, Maps], None]]) -> Callable[[int, Maps], None] | None:
    """Return a callback that passes the maps of a frame to all `takers`; None if there are none."""
    if not takers:
        return None

    def give(number: int, maps: Maps) -> None:
        for take in takers:
            take(number, maps)

    return give


def _hardware(
    folder: CompiledFolder, listener: Listener, samples: NDArray[np.float32]
) -> dict[str, int]:
    """Run samples in the Amaranth simulator; return the counts of equal bytes and cycles."""
    from mapper.compiler.artifacts.chip_hardware import check_core, check_hardware

    if folder.is_spread:
        return check_hardware(folder, samples)._asdict()
    with listener.task("running in Amaranth") as progress:
        return check_core(folder, samples, progress)._asdict()


def _cycles(
    folder: CompiledFolder, request: RunRequest, listener: Listener,
    samples: NDArray[np.float32] | None,
) -> dict[str, Any]:  # fmt: skip
    """Run a frame on one core, or several on several cores, cycle by cycle; return JSON."""
    if not folder.is_spread:
        return cycle_rows(run_cycles(folder, None if samples is None else samples[:1]))
    frames = request.frames or FRAMES
    with listener.task("running frames") as progress:
        run = run_frames(folder, samples, frames, lambda done: progress(done / frames))
    return frames_rows(run, request.clock or CLOCK)


def classes_of(values: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    """Return the class of each sample: argmax of its outputs, or the class output of the model."""
    rows = [one.reshape(len(one), -1) for one in values.values() if one.dtype.kind in "biuf"]
    for row in rows:
        if row.shape[1] > 1:
            return row.argmax(1)
    if rows and rows[0].dtype.kind in "iu":
        return rows[0][:, 0].astype(np.int64)
    return np.zeros(len(next(iter(values.values()))), np.int64)
