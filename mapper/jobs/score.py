"""Score an existing mapping: its metrics, and the limits that it exceeds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chipsim.chip.limits import violations
from chipsim.chip.model import Chip
from chipsim.traffic.metrics import summarise
from mapper.errors import nothing_kept
from mapper.evaluation.mapped import open_mapped
from mapper.inputs.listener import Listener
from mapper.inputs.opening import open_source
from mapper.inputs.source import Effort, Source
from mapper.limits.constraints import ConstraintFile, faults
from mapper.limits.fill_bounds import below_least
from mapper.monitoring.monitor import Monitor
from mapper.results.output import network_facts
from mapper.scoring.measure import measure_network
from mapper.scoring.worked import sweep_on

if TYPE_CHECKING:
    from mapper.executors.worker_interface import Workers


class ScoreRequest(NamedTuple):
    """A mapping to score.

    path : of the network in the report
    constraints : where neurons must be, and which must be together or apart
    min_fill : least share of the neuron limit of each core in use
    """

    source: Source
    path: Path
    mapping: Path
    chip: Chip
    effort: Effort
    constraints: ConstraintFile | None = None
    min_fill: float = 0.0


class Scored(NamedTuple):
    """The score of a mapping.

    network : facts about the network, as in report.json
    metrics : as in report.json
    violations : a line for each core and limit that it exceeds
    broken : a line for each constraint that it breaks
    below : a line for each core in use with less than the least fill
    """

    network: dict[str, Any]
    chip: dict[str, Any]
    metrics: dict[str, Any]
    violations: list[str]
    broken: list[str]
    below: list[str]

    @property
    def valid(self) -> bool:
        """Whether the mapping keeps all limits of the chip, all constraints, and the least fill."""
        return not self.violations and not self.broken and not self.below

    def to_json(self) -> dict[str, Any]:
        """Return the object that `mapper score --json` prints."""
        found = self._asdict()
        violations, broken, below = (found.pop(key) for key in ("violations", "broken", "below"))
        return {
            **found, "valid": self.valid, "violations": violations, "broken_constraints": broken,
            "below_min_fill": below,
        }  # fmt: skip


def no_workers(use: bool) -> AbstractContextManager[Workers | None]:
    """Start no workers."""
    return nullcontext()


def score(
    request: ScoreRequest,
    listener: Listener,
    workers: Callable[[bool], AbstractContextManager[Workers | None]] = no_workers,
) -> Scored:
    """Score a mapping; see `mapper score`.

    workers : starts the workers, if there are any and they are used
    Raises `MapperError` if the mapping does not match the network and the chip.
    """
    source, path, mapping, chip, effort, constraints, min_fill = request
    threads = effort.threads
    with open_source(source, effort, listener) as network:
        with open_mapped(network, mapping, chip, effort.memory // 4, threads) as (whole, core):
            broken = [] if constraints is None else faults(constraints, chip, network, core)
            listener.compile(["score"], threads)
            with workers(whole is network) as found, nothing_kept():
                swept = None
                if found is not None:
                    swept = sweep_on(found, network, chip, core, Monitor())
                traffic = measure_network(whole, chip, core, threads, swept=swept)
        about = network_facts(network, path)
    exceeded = list(map(str, violations(chip, traffic.usage)))
    below = below_least(chip, min_fill, traffic.usage)
    return Scored(about, chip.to_json(), summarise(chip, traffic), exceeded, broken, below)
