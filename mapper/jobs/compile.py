"""Analyse a model in place of compiling it: tables of nodes, precisions and passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mapper.compiler.ablation import AblationRow, ablation
from mapper.compiler.artifacts.manifest import is_compiled
from mapper.compiler.artifacts.report import read_report, write_report
from mapper.compiler.calibration import compare_settings
from mapper.compiler.explain import NodeRow, explain_json
from mapper.compiler.job import explained, target_of, works_of_target
from mapper.compiler.model import Model
from mapper.compiler.model_inputs import inputs_of, open_requested
from mapper.compiler.pipeline import compile_model
from mapper.compiler.quantisation.verify import Compared
from mapper.compiler.request import CompileRequest
from mapper.compiler.stages import stage
from mapper.errors import UsageError
from mapper.frames import to_frame
from mapper.inputs.listener import Listener
from mapper.monitoring.resources import all_cores
from mapper.results.output_folder import writing_into

Analysis = Literal["explain", "compare", "ablate"]
COMPARED = ("method", "bits", "scheme", "signal, dB", "points lost")
"""Names of the values of a row of `mapper compile --compare`."""


class CompileAnalysis(NamedTuple):
    """A table on a model, returned by `mapper.compile_model` in place of a compiled model.

    kind : "explain": where each node runs, and why; "compare": signal and loss of all precisions,
        schemes and methods; "ablate": cycles without each pass, and with other tiles or placements
    entries : objects of the rows, with further details
    notes : a line for each option without effect, and for each assumption
    """

    kind: Analysis
    entries: Sequence[NodeRow | Compared | AblationRow]
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows as names and values."""
        found = []
        for one in self.entries:
            row = one._asdict()
            if isinstance(one, Compared):
                row |= {"signal_db": one.score.signal, "loss": one.score.loss}
            found.append(
                {name: value for name, value in row.items() if name not in ("score", "layers")}
            )
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the object that `mapper compile --json` prints."""
        if self.kind == "explain":
            return explain_json([one for one in self.entries if isinstance(one, NodeRow)])
        if self.kind == "compare":
            return {"compared": self._kept()}
        return {"ablation": self._kept()}

    def to_frame(self, library: str = "pandas") -> Any:
        """Return the rows as a data frame of "pandas" or "polars"."""
        return to_frame(self.rows, library)

    def _kept(self) -> list[dict[str, Any]]:
        """Return the rows for report.json."""
        found = []
        for one in self.entries:
            if isinstance(one, Compared):
                signal = one.score.signal or "no error"
                values = (one.method, one.bits, one.scheme, signal, one.score.loss)
                found.append(dict(zip(COMPARED, values, strict=True)))
            elif isinstance(one, AblationRow):
                found.append(one._asdict() | {"layers": [each._asdict() for each in one.layers]})
        return found

    def _repr_html_(self) -> str:
        from mapper.reporting.notebook import rows_html

        return rows_html(self.rows)


def require_analysis(kind: Analysis | None, request: CompileRequest) -> None:
    """Raise `UsageError` for a range of chips."""
    if kind in ("compare", "ablate") and len(request.chips) > 1:
        raise UsageError("--chip: --ablate and --compare need a single chip, not a range")


def open_to_analyse(kind: Analysis | None, request: CompileRequest, listener: Listener) -> Model:
    """Open a requested model; raise `UsageError` if it is quantised and cannot be analysed."""
    with stage("read"):
        return open_requested(request, listener, ["compare"] if kind == "compare" else [])


def analyse(
    kind: Analysis, request: CompileRequest, model: Model, output: Path | None, listener: Listener
) -> CompileAnalysis:
    """Return a table on a model.

    output : a folder with this model compiled, whose report gets the table, unless it explains
    Raises the errors of a compilation, and `MapperError` for a comparison without samples.
    """
    if kind == "explain":
        return CompileAnalysis(kind, explained(request, model))
    with stage("read"):
        inputs = inputs_of(request, model, listener)
    if kind == "compare":
        assert inputs.samples is not None  # else the model is quantised
        compared = compare_settings(model, inputs.samples, request.settings, inputs.test)
        found = CompileAnalysis(kind, compared)
    else:
        target = target_of(request, request.chips[-1])
        works = works_of_target(target)
        listener.compile([*works, *["cores/frames"] * (works != ["cores"])], all_cores())
        compiling = partial(
            compile_model, model, target.shape, inputs.samples, test=inputs.test, chip=target.chip
        )
        found = CompileAnalysis(kind, ablation(compiling, target))
    _keep(output, request.model.name, found.to_json(), listener)
    return found


def _keep(output: Path | None, model: str, table: Mapping[str, Any], listener: Listener) -> None:
    """Add a table to the report of a folder, if it holds this model compiled."""
    if output is None or not is_compiled(output):
        return
    with writing_into(output):
        report = read_report(output)
        if report["model"] == model:
            write_report(output, {**report, **table})
            listener.note(f"note: table added to the report page of {output}")
