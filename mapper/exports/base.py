"""Interface of exporters, and their input: the opened output folder of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.errors import MapperError
from storage.plugins import blaming

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from chipsim.chip.model import Chip
    from storage.store.network import NetworkFile
    from storage.store.populations import Populations


CORE_OPTIONS = (
    "axon_bits", "neurons", "routes", "synapses", "profiles", "delay_slots", "state_bits",
    "decay_bits", "weight_bits", "sum_bits", "shift_bits", "refractory_bits",
)  # fmt: skip
"""Sizes of a core of the hardware, as in `mapper hw`."""
WIDTHS = ("state_bits", "decay_bits", "weight_bits", "sum_bits", "shift_bits")
"""Bit widths of the core's numbers."""
NEURON_OPTIONS = ("threshold", "leak", "bias", "reset", "tick_length", "quantise", "magnitudes")
"""Neuron behaviour that the network lacks or cores do not support."""


@dataclass(frozen=True, slots=True)
class MappingExporter:
    """A format of exported mappings.

    extensions : of file names, in lower case
    saver : module and function(run, destination, options), as "package.module:function"; returns
        facts about the file by name for the terminal and `--json`, among them `losses`, a list of
        `Loss`, if the format cannot hold everything
    options : names of its options
    relays : whether it can represent relays of split neurons
    routers : routers that route x first, then y, and would read the file; "" if none do
    package : name and version of the package that adds it, "" for this one
    """

    name: str
    about: str
    extensions: tuple[str, ...]
    saver: str
    options: tuple[str, ...] = ()
    relays: bool = False
    routers: str = ""
    package: str = ""

    def require_routes(self, chip: Chip) -> None:
        """Raise `MapperError` if the routers that read the file cannot avoid broken links."""
        if self.routers:
            from mapper.inputs.chips import require_all_links

            require_all_links(chip, self.routers)

    def save(self, run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
        """Write the file; it appears under its name only when it is complete."""
        module, _, name = self.saver.partition(":")
        with blaming(self.package, f"{destination}: export {self.name}"):
            save: Any = getattr(import_module(module), name)
            return dict(save(run, destination, options))


@dataclass(frozen=True)
class MappedRun:
    """Output folder of a run, with its network open.

    report : contents of report.json
    core : ndarray[int32], shape (neurons,), core id of every neuron
    relays : number of relays of split neurons, which are not neurons of the network
    """

    folder: Path
    report: dict[str, Any]
    chip: Chip
    core: NDArray[np.int32]
    relays: int
    network: NetworkFile

    @property
    def x(self) -> NDArray[np.int32]:
        """Column of every neuron's core, shape (neurons,)."""
        return self.core % self.chip.width

    @property
    def y(self) -> NDArray[np.int32]:
        """Row of every neuron's core, shape (neurons,)."""
        return self.core // self.chip.width

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the table of the mapping, arrays of shape (neurons,): neuron, core, x, y.

        If the network has them, also `id`, the ids of a file with gaps, and `size`; with
        populations or layers, also the number of the `population` and `population_index`, the
        number of the neuron there, each from 0.
        """
        import numpy as np

        from mapper.scoring.list_words import numbers_in_cores
        from storage.store.network import ID, SIZE

        table: dict[str, NDArray[Any]] = {
            "neuron": np.arange(self.core.size),
            "core": self.core,
            "x": self.x,
            "y": self.y,
        }
        known = self.network.meta.attributes
        for name in (ID, SIZE):
            if name in known:
                table[name] = self.network.attribute(name).stored
        found = self.populations
        if found is not None:
            table["population"] = found.of
            table["population_index"] = numbers_in_cores(found.of, len(found.names))
        return table

    @cached_property
    def populations(self) -> Populations | None:
        """The populations of the network, None if it has none."""
        from storage.store.populations import read_populations

        return read_populations(self.network)

    def by_core(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return neurons ordered by core, then by id, and the bounds of each core.

        Shapes (neurons,) and (cores + 1,).
        """
        import numpy as np

        order = np.argsort(self.core, kind="stable")
        ends = np.cumsum(np.bincount(self.core, minlength=self.chip.cores))
        return order, np.concatenate([[0], ends])

    def require_whole(self, what: str) -> None:
        """Raise `MapperError` if neurons were split: `what` cannot represent relays."""
        if self.relays:
            raise MapperError(
                f"{self.folder}: has {self.relays} relay neurons of split neurons, which {what} "
                "cannot hold; map the network without splitting neurons"
            )


@contextmanager
def open_run(folder: Path, network: Path | None = None) -> Iterator[MappedRun]:
    """Open the output folder of a run; network : its new path, if it was moved.

    Raises `MapperError` if the folder or the mapping is invalid, or belongs to another network.
    """
    from chipsim.chip.presets import from_fields
    from mapper.results.mapping_file import load_mapping, load_relays, mapping_in
    from mapper.results.output import network_of, read_report
    from storage.store.network import NetworkFile
    from storage.store.populations import called

    report = read_report(folder)
    chip = from_fields(report["chip"], f"{folder}: chip of the report")
    path = mapping_in(folder)
    with NetworkFile(network_of(folder, network, report)) as opened:
        core = load_mapping(path, opened.vertices, chip, partial(called, opened))
        found = load_relays(path, chip, opened.vertices, opened.meta.synapses)
        relays = 0 if found is None else found[0].count
        yield MappedRun(folder, report, chip, core, relays, opened)
