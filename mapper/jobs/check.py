"""Check whether a network fits a chip, and estimate the cost of a run."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from chipsim.chip.model import Chip
from mapper.errors import DoesNotFitError
from mapper.graph.disk import with_disk
from mapper.inputs.listener import Listener
from mapper.limits.axons import make_job
from mapper.limits.capacity import Demand, demands
from mapper.limits.combined_constraints import Constraints, item_sizes
from mapper.limits.fill_bounds import bounded_chip, limited_chip, on_cores
from mapper.planning.plan import Plan
from mapper.planning.processor_time import processor_seconds, slowness
from mapper.planning.strategy import enough_memory, make_plan
from mapper.planning.worker_plan import WorkerPlan, looked_at_here, plan_workers
from mapper.session import MapRequest, constraints_on, open_inputs
from mapper.settings import Settings
from storage.store.populations import called

if TYPE_CHECKING:
    from storage.store.network import NetworkFile


class WorkersAsked(NamedTuple):
    """Workers to estimate for. memory : bytes of each, None if it is not limited"""

    number: int
    threads: int | None
    memory: int | None


class WorkersFound(NamedTuple):
    """Estimates for workers.

    plan : None if a run would not use them; `unused` is the reason
    shortage : error if the memory of a worker is too small, or ""
    """

    plan: WorkerPlan | None = None
    unused: str = ""
    shortage: str = ""


class Checked(NamedTuple):
    """Whether a network fits a chip, and the cost of a run.

    demands : of each limit: needed and available
    plan : memory, scratch and strategy of a run
    seconds : processor seconds of each stage
    split : facts about the relays of split neurons, None if neurons were not split
    note : a line on a sample that is too small, or ""
    fill : why cores cannot have the least fill, or ""
    """

    demands: list[Demand]
    plan: Plan
    seconds: dict[str, float]
    sample: dict[str, Any] | None
    split: dict[str, Any] | None
    workers: WorkersFound
    note: str
    asked: WorkersAsked | None
    fill: str = ""

    @property
    def reasons(self) -> list[str]:
        """A line for each reason why the network does not fit; empty if it does."""
        said = [self.plan.shortage, self.workers.shortage, self.fill]
        return [one for one in said if one] + [str(one) for one in self.demands if not one.fits]

    @property
    def fits(self) -> bool:
        """Whether all limits and the memory budget are kept."""
        return not self.reasons

    def to_json(self) -> dict[str, Any]:
        """Return the object that `mapper check --json` prints."""
        found = self.workers.plan
        given = None if self.asked is None else self.asked.memory
        return {
            "fits": self.fits,
            "demands": [
                {**asdict(d), "fits": d.fits, "lacking": max(0, d.needed - d.available)}
                for d in self.demands
            ],
            "run": {
                **asdict(self.plan),
                "memory": self.plan.memory,
                "strategy": self.plan.strategy,
                "processor_seconds": self.seconds,
                "sample": self.sample,
            },
            "split": self.split,
            "workers": None if found is None else found.facts(given),
        }


def check(request: MapRequest, listener: Listener, asked: WorkersAsked | None = None) -> Checked:
    """Check whether a network fits a chip.

    Raises `DoesNotFitError` for constraints that cannot be met.
    """
    chip, settings = request.chip, request.settings
    with open_inputs(request, listener) as inputs:
        network, relays = inputs.network, inputs.relays
        listener.compile(["check"], settings.threads)
        found = demands(network, chip, settings.threads)
        constraints = constraints_on(request, inputs)
        tables = 0
        if constraints is not None:
            tables = constraints.bytes
            job = make_job(network, chip, settings.threads, constraints)
            constraints.require_fit(chip, job.load.sizes, job.fans, partial(called, network))
        plan = with_disk(make_plan(network, chip, settings, tables), network, chip, settings)
        slow = slowness()
        seconds = {
            stage: round(slow * value, 2)
            for stage, value in processor_seconds(network, chip, settings, plan).items()
        }
        sample, enough = plan.sample, None
        if sample is not None and sample.thin:
            enough = enough_memory(network, chip, settings)
        workers = _workers(request, network, plan, constraints is not None, asked)
    return Checked(
        found, plan, seconds, None if sample is None else sample.facts(enough),
        None if relays is None else relays.facts(), workers,
        "" if sample is None else sample.describe(enough), asked,
        _fill(network, chip, settings, constraints),
    )  # fmt: skip


def _fill(
    network: NetworkFile, chip: Chip, settings: Settings, constraints: Constraints | None
) -> str:
    """Return why cores cannot have the least fill of the settings, or ""."""
    settings = on_cores(settings, chip.usable_count)
    sizes = item_sizes(network, constraints, settings)
    try:
        bounded_chip(chip, limited_chip(chip, settings, sizes), settings, sizes, free=False)
    except DoesNotFitError as error:
        return str(error)
    return ""


def _workers(
    request: MapRequest, network: NetworkFile, plan: Plan, constrained: bool,
    asked: WorkersAsked | None,
) -> WorkersFound:  # fmt: skip
    if asked is None:
        return WorkersFound()
    chip, settings = request.chip, request.settings
    unused = looked_at_here(settings.resolved(chip.delivery), plan, chip, constrained)
    if unused:
        return WorkersFound(unused=unused)
    threads = asked.threads or max(1, settings.threads // asked.number)
    found = plan_workers(network, chip, settings, plan, asked.number, threads)
    shortage = "" if asked.memory is None else found.shortage(asked.memory)
    return WorkersFound(found, "", shortage)
