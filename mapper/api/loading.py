"""Reads the output folder of a run as a mapping in Python."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from chipsim.chip.presets import from_fields
from mapper.inputs.objects import names_of
from mapper.result import NetworkMapping
from mapper.results.loads import TRAFFIC, load_loads
from mapper.results.mapping_file import load_mapping, load_relays, mapping_in
from mapper.results.output import CONSTRAINTS, LOG, network_of, read_report
from mapper.results.population_file import load_populations
from mapper.settings import Settings, preset
from storage.store.network import NetworkFile


def mapping_of_folder(folder: Path) -> NetworkMapping:
    """Return the mapping of an output folder.

    Raises `MapperError` if the folder is not the output of a run, or is damaged.
    """
    report = read_report(folder)
    chip = from_fields(report["chip"], f"{folder}: chip of the report")
    about, path = report["network"], mapping_in(folder)
    core = load_mapping(path, about["neurons"], chip)
    split = load_relays(path, chip, about["neurons"], about["synapses"])
    placed = core if split is None else np.concatenate([core, split[1]])
    constraints, log = folder / CONSTRAINTS, folder / LOG
    return NetworkMapping(
        core=core,
        chip=chip,
        settings=_settings(report["settings"]),
        metrics=report["metrics"],
        nodes=_names(network_of(folder, None, report)),
        interrupted="interrupted" in report,
        _report=report,
        _log=log.read_text(encoding="utf-8") if log.exists() else "",
        _loads=load_loads(folder / TRAFFIC, chip, report["metrics"]),
        _placed=placed,
        _relays=None if split is None else split[0],
        _constraints=constraints.read_bytes() if constraints.exists() else None,
        _populations=load_populations(folder, chip),
    )


def _settings(stored: dict[str, Any]) -> Settings:
    """Return the settings of a report; it may be of another version, with others."""
    known = {field.name for field in fields(Settings)} - {"preset"}
    return preset(
        stored["preset"], **{name: value for name, value in stored.items() if name in known}
    )


def _names(path: Path) -> Any:
    """Return the names of the neurons in the input; None if the network was moved."""
    if not path.exists():
        return None
    with NetworkFile(path) as network:
        return names_of(path, network)
