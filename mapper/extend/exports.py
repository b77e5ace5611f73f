"""Contract of exports of mappings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mapper.errors import MapperError
from mapper.exports.base import MappedRun, MappingExporter, open_run
from mapper.extend.contract import ContractError, contents, own_folder, require
from storage.errors import StorageError
from storage.formats.added import fault_of_extensions
from storage.formats.losses import Loss


def check_mapping_exporter(
    exporter: MappingExporter, options: Mapping[str, Any] | None = None
) -> None:
    """Check an export with a mapping of a small network.

    Parameters
    ----------
    exporter : the export
    options : values of its options by name, if it needs some

    Raises
    ------
    ContractError
        If two exports of the mapping differ, if the facts that it returns are not JSON (`losses`
        may be a list of `Loss`), or if files remain after an error.
    """
    name, given = exporter.name, dict(options or {})
    fault = fault_of_extensions(exporter.extensions)
    require(not fault, f"{name}: {fault}")
    unknown = set(given) - set(exporter.options)
    require(not unknown, f"{name}: does not declare the options {', '.join(sorted(unknown))}")
    with own_folder() as folder:
        _map(folder / "result")
        with open_run(folder / "result") as run:
            _check_exports(exporter, run, folder, given)


def _map(folder: Path) -> None:
    """Write the output folder of a run: 40 neurons on 2x3 cores, one of them unusable."""
    from chipsim.chip.model import Chip
    from mapper.api.mapping import map_network

    rng = np.random.default_rng(4)
    edges = (*rng.integers(0, 40, (2, 160)), rng.integers(1, 20, 160))
    chip = Chip("contract", 3, 2, neurons=16, unavailable=(4,))
    map_network(edges, chip, preset="fast", neurons=40, seed=1, threads=1).save(folder)


def _check_facts(name: str, facts: dict[str, Any]) -> None:
    """Check that the returned facts can be printed as JSON; `losses` are objects of `Loss`."""
    losses = facts.get("losses", [])
    require(all(isinstance(loss, Loss) for loss in losses), f"{name}: losses are not of Loss")
    try:
        json.dumps({key: value for key, value in facts.items() if key != "losses"})
    except (TypeError, ValueError) as error:
        raise ContractError(f"{name}: returns facts that are not JSON: {error}") from error


def _check_exports(
    exporter: MappingExporter, run: MappedRun, folder: Path, options: dict[str, Any]
) -> None:
    """Check the exports of a mapping."""
    name = exporter.name
    for ending in exporter.extensions:
        written = []
        for attempt in ("first", "second"):
            into = folder / f"{attempt}{ending}"
            into.mkdir()
            facts = exporter.save(run, into / f"a{ending}", dict(options))
            _check_facts(name, facts)
            written.append(contents(into))
        require(written[0] == written[1], f"{name}: two exports of a mapping differ")
        require(f"a{ending}" in written[0], f"{name}: the file does not have the given name")
        nowhere = folder / "nowhere" / f"a{ending}"
        try:
            exporter.save(run, nowhere, dict(options))
        except (MapperError, StorageError, OSError) as error:
            require(str(nowhere.parent) in str(error), f"{name}: an error does not name the file")
        else:
            require(False, f"{name}: writes into a missing folder")
        require(not nowhere.parent.exists(), f"{name}: creates folders")
