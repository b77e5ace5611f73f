"""The result of a mapping in Python: arrays, metrics, and the folder that `save` writes."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mapper.errors import UsageError, as_mapper_errors, shown

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from mapper.limits.split_neurons import RelayNeurons
    from mapper.reporting.members import PageNeurons
    from mapper.results.loads import Loads
    from mapper.scoring.populations import PopulationTraffic
    from mapper.settings import Settings
    from storage.scratch.nameless import NamelessFile


@dataclass(frozen=True, eq=False, repr=False)
class NetworkMapping:
    """A network mapped onto a chip, returned by `mapper.map_network`.

    Attributes
    ----------
    core : ndarray[int32], shape (neurons,), core id (y * width + x) of every neuron
    chip : the chip, with the limits of the run
    settings : all settings of the method
    metrics : numbers by name as in report.json: hops, link loads, energy, ...
    nodes : the name of each neuron in the input, shape (neurons,): the nodes of a networkx graph,
        the ids of a file whose ids have gaps; None if the names are 0 .. neurons-1
    interrupted : Ctrl-C ended the run early; the mapping is valid, the best found so far
    """

    core: NDArray[np.int32]
    chip: Chip
    settings: Settings
    metrics: dict[str, Any]
    nodes: Sequence[Any] | NDArray[np.int64] | None
    interrupted: bool
    _report: dict[str, Any]
    _log: str
    _loads: Loads  # loads of cores and links for the report page
    _placed: NDArray[np.int32] = field()  # cores of neurons, then of relays
    _relays: RelayNeurons | None = None
    _constraints: bytes | None = None
    _network: NamelessFile | None = None  # for a network that the user has no file of
    _populations: PopulationTraffic | None = None

    @property
    def x(self) -> NDArray[np.int32]:
        """Column of every neuron's core, shape (neurons,)."""
        return self.core % np.int32(self.chip.width)

    @property
    def y(self) -> NDArray[np.int32]:
        """Row of every neuron's core, shape (neurons,)."""
        return self.core // np.int32(self.chip.width)

    def to_json(self) -> dict[str, Any]:
        """Return a copy of the content of `report.json`; a network without a file has path None."""
        return copy.deepcopy(self._report)

    def save(self, folder: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write the output folder of `mapper run`, which `mapper verify` and other commands read.

        It holds mapping.npz (for more than 2^28 neurons mapping.json and core/), report.json,
        report.html, traffic.npz and run.log, populations.npz if the network has populations,
        constraints.toml if constraints were given, and network.bin if the network had no file. The
        folder appears when it is complete, and gets a row in the catalogue that `mapper.runs`
        lists.

        force : replace the folder of an earlier mapping

        Raises `MapperError` if the folder exists, or cannot be written.
        """
        from msgspec import to_builtins

        from mapper.cache.catalogue import Catalogue
        from mapper.portfolio.figures import figures_of

        path = Path(folder)
        report = self._write(path, force)
        Catalogue.of_user().add(
            "run", Path(report["network"]["path"]), path, self.chip.name, report["settings"],
            to_builtins(figures_of(report)), report["resources"]["seconds"],
        )  # fmt: skip
        return path

    @contextmanager
    def in_folder(self) -> Iterator[Path]:
        """Yield a temporary output folder of this mapping."""
        with tempfile.TemporaryDirectory(prefix="mapper-") as name:
            folder = Path(name, "result")
            self._write(folder, force=False)
            yield folder

    def _write(self, path: Path, force: bool) -> dict[str, Any]:
        """Write the output folder; return its report."""
        from mapper.reporting.make import PAGE, write_page
        from mapper.reporting.view import make_view
        from mapper.results.loads import TRAFFIC, save_loads
        from mapper.results.mapping_file import save_mapping_in
        from mapper.results.output import CONSTRAINTS, LOG, write_report
        from mapper.results.output_folder import IMPORTED, output_folder
        from mapper.results.population_file import save_populations
        from storage.files import write_file

        report = self.to_json()
        with as_mapper_errors(), output_folder(path, force) as work:
            partial = work.folder
            if self._network is not None:
                self._network.copy_to(partial / IMPORTED)
                report["network"]["path"] = str((path / IMPORTED).resolve())
            save_mapping_in(partial, self._placed, self.chip, self._relays)
            write_report(partial, report)
            save_loads(partial / TRAFFIC, self._loads)
            save_populations(partial, self._populations)
            view = make_view(path.resolve().name, report, self._loads, self._members())
            write_page(partial / PAGE, [view])
            write_file(partial / LOG, self._log.encode())
            if self._constraints is not None:
                write_file(partial / CONSTRAINTS, self._constraints)
        return report

    def report(self, path: str | os.PathLike[str] = "report.html") -> Path:
        """Write the report page, one file that opens offline in any browser; return its path.

        Raises `MapperError` if the file cannot be written.
        """
        from mapper.reporting.make import write_page
        from mapper.reporting.view import make_view

        path = Path(path)
        with as_mapper_errors():
            view = make_view(path.stem, self.to_json(), self._loads, self._members())
            write_page(path, [view])
        return path

    def _members(self) -> PageNeurons:
        from mapper.reporting.members import PageNeurons

        return PageNeurons(self._placed, self.core.size, self._populations)

    def columns(self, name: str) -> dict[str, NDArray[Any]]:
        """Return a table as arrays by name.

        name : "cores", "links", "neurons", "populations" or "stages"

        Every core and link of the chip is a row, also unused ones. Raises `UsageError` for another
        name, and for "populations" of a network without populations.
        """
        from mapper.frames import to_columns
        from mapper.results.columns import core_columns, link_columns, neuron_columns

        if name == "cores":
            return core_columns(self.chip, self._loads, self._populations)
        if name == "links":
            return link_columns(self.chip, self._loads)
        if name == "neurons":
            return neuron_columns(self.chip, self.core, self.nodes, self._populations)
        if name == "stages":
            return to_columns(self._report["stages"])
        if name != "populations":
            known = "cores, links, neurons, populations or stages"
            raise UsageError(f"table {shown(name)} is not known; give {known}")
        if self._populations is None:
            raise UsageError("table 'populations': the network has none; give another table")
        from mapper.results.population_table import population_columns

        return population_columns(self._populations)

    def to_frame(self, name: str = "cores", library: str = "pandas") -> Any:
        """Return a table of `columns` as a data frame of "pandas" or "polars"."""
        from mapper.frames import to_frame

        return to_frame(self.columns(name), library)

    def _facts(self) -> list[tuple[str, str]]:
        """Return the key figures as pairs of name and text."""
        from mapper.results.activity import traffic_in
        from mapper.results.tables import number
        from storage.store.traffic import describe

        network, metrics = self._report["network"], self.metrics
        return [
            ("neurons", number(network["neurons"])),
            ("synapses", number(network["synapses"])),
            ("chip", f"{self.chip.name}, {self.chip.width}x{self.chip.height} cores"),
            ("cores used", number(metrics["cores_used"])),
            ("traffic", describe(traffic_in(self._report))),
            ("hops, mean", number(metrics["hops_mean"])),
            ("cut fraction", number(metrics["cut_fraction"])),
            ("link load, max", number(metrics["link_load_max"])),
            ("NoC energy", number(metrics["energy"])),
            ("preset", self.settings.preset),
            ("seconds", number(self._report["resources"]["seconds"])),
        ]

    def __repr__(self) -> str:
        facts = dict(self._facts())
        return (
            f"<NetworkMapping: {facts['neurons']} neurons on {facts['cores used']} cores of chip "
            f"{self.chip.name}, {facts['hops, mean']} hops on average>"
        )

    def _repr_html_(self) -> str:
        from mapper.reporting.notebook import map_html, table_html
        from mapper.reporting.view import make_view

        view = make_view(self.chip.name, self.to_json(), self._loads, self._members())
        return f"{table_html(self._facts())}{map_html(view)}"
