"""The result of `mapper.compile_model` for ONNX models: a network on the cores of a chip."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from mapper.compiler.artifacts.judge.beside import Judgement
from mapper.compiler.artifacts.judge.folders import require_right
from mapper.compiler.artifacts.manifest import CompiledFolder, read_folder
from mapper.compiler.artifacts.report import Report, read_report
from mapper.compiler.artifacts.run import RunRequest, run_folder
from mapper.compiler.artifacts.simulate import Compared
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.errors import DoesNotFitError, UsageError, as_argument_errors, shown
from mapper.frames import to_frame
from mapper.inputs.listener import NotesListener
from mapper.inputs.samples import GivenSamples, sample_table
from mapper.monitoring.bars import GivenProgress, progress_of, require_progress
from mapper.monitoring.resources import all_cores, default_memory
from mapper.reporting.notebook import cores_html, table_html
from mapper.results.output_folder import output_folder
from mapper.results.output_folder import read_folder as read_output
from mapper.results.sealed_folder import as_damage
from mapper.results.tables import number
from mapper.results.temporary_folder import with_temporary
from storage.files import RESERVED, write_file
from storage.samples import require_samples

TABLES = ("layers", "cores", "stages", "host", "losses", "attempts")
"""Names of the tables of a compiled network."""


class CheckedNetwork(NamedTuple):
    """Comparison of all stored maps.

    layers : elements and differences of each layer from the integer reference
    judgement : comparison with the model in ONNX Runtime
    """

    layers: tuple[Compared, ...]
    judgement: Judgement

    @property
    def elements(self) -> int:
        """Compared elements of all layers."""
        return sum(one.elements for one in self.layers)

    @property
    def differences(self) -> int:
        """Elements that differ from the integer reference."""
        return sum(one.differences for one in self.layers)


class SimulatedNetwork(NamedTuple):
    """Results of the cores on samples, returned by `CompiledNetwork.simulate`.

    outputs : by name, shape (samples, ...), as the model has them
    classes : ndarray[int64], shape (samples,): the largest element of the output
    accuracy : part of the samples whose class is the label; None without labels
    sha256 : digest of the integers that the cores computed
    clipped : sample values outside the range of the quantised input; None if it has no range
    check : comparison with the integer reference and ONNX Runtime; None without it
    cycle_run : figures of the run cycle by cycle: `cycles`, and on several cores `latency`,
        `period` (cycles from frame to frame), `frames_per_second`, ...; None without it
    hardware : counts of bytes and cycles that are equal in Amaranth; None without it
    notes : a line for each assumption on the samples
    figures : the object of `mapper simulate --json`
    """

    outputs: dict[str, NDArray[Any]]
    classes: NDArray[np.int64]
    accuracy: float | None
    sha256: str
    clipped: int | None
    check: CheckedNetwork | None
    cycle_run: dict[str, Any] | None
    hardware: dict[str, int] | None
    notes: tuple[str, ...]
    figures: dict[str, Any]


@dataclass(frozen=True, eq=False, repr=False)
class CompiledNetwork:
    """An ONNX model on the cores of a chip, returned by `mapper.compile_model`.

    It can be pickled and copied; a copy has its own temporary folder.

    Attributes
    ----------
    folder : with the files of `mapper compile`; a temporary folder lasts as long as this object
    chip : the chip
    report : all figures of report.json
    notes : a line for each option without effect, and for each assumption
    """

    folder: Path
    chip: Chip
    report: Report
    notes: tuple[str, ...]
    _content: CompiledFolder

    @property
    def cycles(self) -> int:
        """Cycles per frame, on several cores of the busiest core."""
        return int(self.report["cycles"])

    @property
    def signal_db(self) -> float | None:
        """SQNR at the outputs of the cores in dB; None without error, or if it is not measured."""
        found = self.report["signal_db"]
        return None if found is None else float(found)

    @property
    def loss(self) -> float | None:
        """Lost accuracy in points, without labels percentage of the samples whose class changes;
        None without samples."""
        kept = self.report["kept"]
        return None if kept is None else float(self.report["attempts"][kept]["loss"])

    @property
    def limits_missed(self) -> tuple[str, ...]:
        """The limits that a result of `keep_going` misses."""
        return tuple(self.report.get("limits_missed", ()))

    @property
    def cores(self) -> list[tuple[int, int]]:
        """Column and row of each core with a program."""
        return list(self._content.images)

    @property
    def layers(self) -> list[dict[str, Any]]:
        """Figures of each layer on each core, as in report.json."""
        return list(self.report["layers"])

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a table: "layers", "cores", "stages", "host", "losses", "attempts"."""
        if name not in TABLES:
            raise UsageError(f"table {shown(name)} is not known; give one of {', '.join(TABLES)}")
        if name == "layers":
            return [_layer_row(one) for one in self.layers]
        if name == "cores":
            return self._core_rows()
        if name == "stages":
            return [
                {"stage": stage, "seconds": seconds}
                for stage, seconds in self.report["seconds"].items()
            ]
        return [{key: _cell(value) for key, value in row.items()} for row in self.report[name]]

    def to_frame(self, name: str = "layers", library: str = "pandas") -> Any:
        """Return a table of `rows` as a data frame of pandas or polars."""
        return to_frame(self.rows(name), library)

    def simulate(
        self, samples: GivenSamples, *, limit: int | None = None, check: bool = False,
        cycles: bool = False, frames: int | None = None, clock: float | None = None,
        threads: int | None = None, progress: GivenProgress = None,
        dump: str | os.PathLike[str] | None = None, hardware: bool = False,
    ) -> SimulatedNetwork:  # fmt: skip
        """Run the cores on samples, as `mapper simulate` does; the folder is not changed.

        Parameters
        ----------
        samples : as `calibrate` of `mapper.compile_model`
        limit : number of samples to run, from the first; default: all
        check : compare all maps with the integer reference, and with the model in ONNX Runtime
        cycles : also run the first samples cycle by cycle
        frames, clock : on several cores, number of frames of that run, and the clock in MHz;
            default: 20 frames, 500 MHz
        threads : number of threads; the results do not depend on it; default: all
        progress : called with a stage and the fraction of its work, 0 .. 1; or True or False, see
            `mapper.map_network`
        dump : folder for all stored maps, which are compared with the integer reference
        hardware : also run the first samples in Amaranth, and compare all bytes and cycles

        Raises `UsageError` for invalid arguments, `CheckFailedError` if an output departs from the
        model in ONNX Runtime, and `MapperError` for invalid samples.
        """
        for name, value in (("limit", limit), ("frames", frames), ("threads", threads)):
            wrong = isinstance(value, bool) or not isinstance(value, int) or value < 1
            if wrong and value is not None:
                raise UsageError(f"{name} is {shown(value)}; give a whole number of 1 or more")
        if clock is not None and (not isinstance(clock, int | float) or not clock > 0):
            raise UsageError(f"clock is {shown(clock)}; give MHz above 0")
        require_progress(progress)
        with as_argument_errors(), progress_of(progress) as on_progress:
            request = RunRequest(
                sample_table(samples, "samples"), limit, check, cycles, frames, clock,
                None if dump is None else Path(dump), hardware, threads or all_cores(),
            )  # fmt: skip
            return self._simulated(request, NotesListener(on_progress))

    def cycles_of_frames(
        self, *, frames: int | None = None, clock: float | None = None
    ) -> dict[str, Any]:
        """Return the times of frames without samples: one frame on one core, else `frames`.

        frames, clock : see `simulate`
        """
        with as_argument_errors():
            request = RunRequest(None, cycles=True, frames=frames, clock=clock)
            found = run_folder(self._content, request, NotesListener()).cycle_run
        assert found is not None
        return found

    def verify(self) -> dict[str, Any]:
        """Check the folder as `mapper verify` does; return the checked amounts.

        Raises `MapperError` that names the damaged file or the wrong instruction.
        """
        with as_argument_errors(), as_damage(self.folder):
            return verify_compiled(read_folder(self.folder))

    def save(self, output: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write the folder of `mapper compile` and return its path; force : replace an output."""
        path = Path(output)
        with as_argument_errors(), output_folder(path, force) as work:
            for each in self.folder.iterdir():
                if each.is_dir():
                    shutil.copytree(each, work.folder / each.name)
                elif not each.name.endswith(RESERVED):
                    shutil.copyfile(each, work.folder / each.name)
        return path

    def _simulated(self, request: RunRequest, listener: NotesListener) -> SimulatedNetwork:
        if request.samples is not None:
            require_samples(request.samples)
        parts: list[dict[str, NDArray[Any]]] = []
        held = 0

        def take(values: dict[str, NDArray[Any]]) -> None:
            nonlocal held
            held += sum(one.nbytes for one in values.values())
            if held > default_memory():
                raise DoesNotFitError(
                    f"samples: their outputs have more than {default_memory():,} bytes; give a "
                    "smaller limit, and run the samples in parts"
                )
            parts.append(values)

        run = run_folder(self._content, request, listener, take)
        found = run.samples
        assert found is not None
        check = None
        if found.judgement is not None:
            require_right(found.judgement, self.folder)
            check = CheckedNetwork(tuple(found.compared or ()), found.judgement)
        outputs = {name: np.concatenate([one[name] for one in parts]) for name in parts[0]}
        return SimulatedNetwork(
            outputs, found.classes, found.accuracy, found.sha256, found.clipped, check,
            run.cycle_run, run.hardware, tuple(listener.notes), run.to_json(),
        )  # fmt: skip

    def _core_rows(self) -> list[dict[str, Any]]:
        cycles: dict[tuple[int, int], int] = {}
        layers: dict[tuple[int, int], int] = {}
        for one in self.layers:
            place = (one["core"][0], one["core"][1])
            cycles[place] = max(cycles.get(place, 0), one["end"])
            layers[place] = layers.get(place, 0) + 1
        return [
            {"x": x, "y": y, "layers": layers.get((x, y), 0), "end": cycles.get((x, y), 0)}
            | image.counts
            for (x, y), image in self._content.images.items()
        ]

    def _facts(self) -> list[tuple[str, str]]:
        """Return the key figures as pairs of name and text."""
        report = self.report
        names = {tuple(one["nodes"]) for one in report["layers"]}  # cores share layers
        rows = [
            ("model", str(report["model"])),
            ("chip", f"{self.chip.name}, {self.chip.width}x{self.chip.height} cores"),
            ("layers", number(len(names))),
            ("cores", number(len(self.cores))),
            ("nodes on the host", number(len(report["host"]))),
            ("cycles", number(self.cycles)),
        ]
        if self.signal_db is not None:
            rows.append(("SQNR", f"{self.signal_db:.1f} dB"))
        if self.loss is not None:
            rows.append(("loss", f"{self.loss:.2f}"))
        return rows + [("misses limits", text) for text in self.limits_missed]

    def __repr__(self) -> str:
        facts = dict(self._facts())
        signal = f", SQNR {facts['SQNR']}" if "SQNR" in facts else ""
        return (
            f"<CompiledNetwork {facts['model']} on {self.chip.name}: {facts['layers']} layers, "
            f"{facts['cores']} cores, {facts['cycles']} cycles{signal}>"
        )

    def _repr_html_(self) -> str:
        rows = self._core_rows()
        last = max([1, *(row["end"] for row in rows)])
        shares = {(row["x"], row["y"]): row["end"] / last for row in rows}
        return table_html(self._facts()) + cores_html(self.chip, shares, "end of the last layer")

    def __reduce__(self) -> tuple[Any, ...]:
        files = {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and not path.name.endswith(RESERVED)
        }
        return _restored, (files, self.notes)


def open_network(folder: Path, notes: tuple[str, ...] = ()) -> CompiledNetwork:
    """Return the compiled network of a folder; raise `MapperError` if it is damaged."""
    report = read_output(folder, lambda: read_report(folder))
    content = read_output(folder, lambda: read_folder(folder))
    return CompiledNetwork(folder, content.chip, report, notes, content)


def _restored(files: dict[str, bytes], notes: tuple[str, ...]) -> CompiledNetwork:
    """Return a pickled network in a new temporary folder."""

    def fill(folder: Path) -> CompiledNetwork:
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_file(folder / name, data)
        return open_network(folder, notes)

    return with_temporary(fill)


def _layer_row(layer: dict[str, Any]) -> dict[str, Any]:
    """Return a layer as a flat row: core, cycles, busy shares of units, and traffic."""
    row = {"layer": layer["nodes"][0], "x": layer["core"][0], "y": layer["core"][1]}
    plain_cells = {key: _cell(value) for key, value in layer.items() if key not in NESTED}
    return (
        row
        | plain_cells
        | {f"tile_{key}": _cell(value) for key, value in layer["tile"].items()}
        | {f"busy_{unit.lower()}": share for unit, share in layer["busy"].items()}
    )


NESTED = ("core", "tile", "busy", "waits", "instructions")


def _cell(value: Any) -> Any:
    """Return a value of a table: numbers and texts; lists become text."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
