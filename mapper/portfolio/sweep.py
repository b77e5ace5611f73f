"""Sweeps: run all combinations of the values in a file, and write sweep.csv with a row per run."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from mapper.cache.cache import OFF, Cache
from mapper.errors import MapperError, as_mapper_errors
from mapper.inputs.chips import find_chip
from mapper.inputs.source import RATES_WORDS, Source
from mapper.limits.constraints import ConstraintFile
from mapper.monitoring.resources import LEAST_MEMORY, all_cores, default_memory
from mapper.portfolio.figures import Figures
from mapper.portfolio.portfolio_file import TABLE_FILE, PortfolioFile
from mapper.portfolio.runner import Many, RunJob
from mapper.portfolio.sweep_file import LIMITS, SweepFile
from mapper.session import MapRequest
from mapper.settings import SETTINGS, preset
from mapper.version import version
from storage.csvcells import guarded
from storage.files import write_file
from storage.store.network import is_network_name


class Share(NamedTuple):
    """Default threads and memory (bytes) of a run, where the file sets none."""

    threads: int
    memory: int

    @classmethod
    def of(
        cls, threads: int | None, memory: int | None, at_once: int, planned: int | None = None
    ) -> Share:
        """Return the given numbers, or a share of this machine.

        at_once : number of runs in parallel; planned : memory per run of an earlier start
        """
        room = memory or planned or max(LEAST_MEMORY, default_memory() // at_once)
        return cls(threads or max(1, all_cores() // at_once), room)


def sweep_jobs(
    sweep: SweepFile, share: Share, command: tuple[str, ...] = (), cached: Cache = OFF
) -> Many:
    """Return the runs of a sweep.

    cached : earlier imports
    Raises `MapperError` that names the key of a missing file, or the values of incompatible
    settings.
    """

    @cache
    def source_of(network: str, rates: str | None, weights_are: str | None) -> Source:
        path = sweep.place_of(network)
        if not path.is_file() and not (path.is_dir() and is_network_name(path)):
            raise MapperError(f"{sweep.path}: network: {path} is not a file; name a network file")
        given: Any = rates if rates in (None, *RATES_WORDS) else sweep.place_of(rates)
        return Source(path, rates=given, weights_are=weights_are)

    @cache
    def constraints_of(name: str) -> ConstraintFile:
        return ConstraintFile.read(sweep.place_of(name))

    combinations = sweep.combinations()
    digits = len(str(len(combinations)))
    jobs = []
    for number, given in enumerate(combinations, 1):
        with as_mapper_errors():
            request = MapRequest(
                source_of(given["network"], given.get("rates"), given.get("weights_are")),
                _chip(sweep, given),
                _settings(sweep, given, share),
                constraints_of(given["constraints"]) if "constraints" in given else None,
                given.get("split_neurons", False),
                command,
                cache=cached,
            )
        jobs.append(RunJob(f"run-{number:0{digits}}", given, request))
    request_of_all = {"version": version(), "memory_bytes": share.memory, **sweep.lists}
    return Many(request_of_all, jobs, _table_of(jobs))


def _chip(sweep: SweepFile, given: dict[str, Any]) -> Any:
    name = given["chip"]
    if name.strip().lower().endswith((".toml", ".yaml", ".yml")):
        name = str(sweep.place_of(name))
    limits = {LIMITS[key]: value for key, value in given.items() if key in LIMITS}
    return replace(find_chip(name), npu=None, host=None).with_limits(**limits)


def _settings(sweep: SweepFile, given: dict[str, Any], share: Share) -> Any:
    chosen = {key: value for key, value in given.items() if key in SETTINGS and key != "preset"}
    taken = {"threads": share.threads, "memory_bytes": given.get("memory", share.memory)}
    try:
        return preset(given.get("preset", "default"), **taken | chosen)
    except MapperError as error:
        told = {key: given[key] for key in ("preset", "method", "objective") if key in given}
        values = ", ".join(f"{key} {value}" for key, value in told.items())
        raise MapperError(f"{sweep.path}: {values}: {error}") from error


def _table_of(jobs: list[RunJob]) -> Callable[[PortfolioFile], None]:
    """Return the function that writes sweep.csv next to portfolio.json."""

    def write(portfolio: PortfolioFile) -> None:
        write_file(portfolio.folder / TABLE_FILE, csv_text(jobs, portfolio).encode())

    return write


def csv_text(jobs: list[RunJob], portfolio: PortfolioFile) -> str:
    """Return sweep.csv: per run its given values, all settings, its figures and its end state."""
    beside = dict.fromkeys(key for job in jobs for key in job.given if key not in SETTINGS)
    figures = [each.name for each in msgspec.structs.fields(Figures)]
    ends = ("state", "exit_code", "error", "best", "front", "kept")
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["folder", *beside, *SETTINGS, *figures, *ends])
    for job in jobs:
        run = portfolio.run(job.name)
        settings = job.request.settings.to_json()
        found = {} if run.figures is UNSET else msgspec.to_builtins(run.figures)
        end = {name: getattr(run, name) for name in ends}
        if run.state == "done":
            end["exit_code"] = 0
        rows.writerow(
            [_cell(run.folder), *(_cell(job.given.get(name)) for name in beside)]
            + [_cell(settings[name]) for name in SETTINGS]
            + [_cell(found.get(name)) for name in figures]
            + [_cell(value) for value in end.values()]
        )
    return text.getvalue()


def _cell(value: Any) -> str:
    if value is None or value is UNSET:
        return ""
    return guarded(str(value).lower() if isinstance(value, bool) else str(value))
