"""Networks as they are given, opened as network files: imported first, or given rates, if need be.

A network is a file, or an object of Python: arrays of edges, a sparse matrix, a graph of networkx
or NIR. What an import drops, merges or assumes is told to a `Listener`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import ArrayLike

from mapper.errors import MapperError, UsageError
from mapper.inputs.listener import Listener
from mapper.results.output_folder import IMPORTED
from storage.blobs.readahead import buffer_of
from storage.files import writing
from storage.store.network import NetworkFile, is_network_name
from storage.store.traffic import (
    RATES_ERROR,
    RATES_ROUNDED,
    UNIFORM,
    WEIGHTS,
    WEIGHTS_ERROR,
    WEIGHTS_ROUNDED,
    describe,
    sum_error,
    traffic_of,
)

if TYPE_CHECKING:
    from storage.formats.columns import ColumnNames
    from storage.store.meta import NetworkMeta

UNRATED = "unrated.bin"  # before it has rates
RATES_WORDS = (UNIFORM, WEIGHTS)


class Effort(NamedTuple):
    """What work on an input may take; memory in bytes."""

    threads: int
    memory: int


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A network as it is given.

    network : path of a network file, or of a file to import; an open `NetworkFile`; arrays
        (source, target[, weight]), a sparse matrix, a networkx or NIR graph
    columns : of a table in a file, those to use
    rates : firing rates that it is to have: "uniform" or "weights" (`RATES_WORDS`), the path of a
        file of rates, or an array of shape (neurons,); None takes what is known of it
    duration : seconds, of a file of spikes
    weights_are : "rate" or "synapse", what the number of a synapse is where the network is from;
        None for what it is in that format (traffic, of an object of Python but a NIR graph)
    neurons : of arrays, their number; sizes : of an object, of each neuron, shape (neurons,)
    made : the network file that `import_once` has made of all this: it is not imported again
    """

    network: Any
    columns: ColumnNames | None = None
    rates: str | Path | ArrayLike | None = None
    duration: float | None = None
    neurons: int | None = None
    sizes: ArrayLike | None = None
    weights_are: str | None = None
    made: Path | None = None

    @property
    def word(self) -> str | None:
        """What importers are told of traffic; None leaves them their default."""
        return self.rates if isinstance(self.rates, str) else None

    @property
    def is_object(self) -> bool:
        """Whether the network is arrays, a matrix or a networkx graph, which bring rates along."""
        return not isinstance(self.network, NetworkFile | Path) and not is_nir(self.network)

    @property
    def is_network_file(self) -> bool:
        """Whether nothing has to be imported."""
        if isinstance(self.network, Path):
            return is_network_name(self.network)
        return isinstance(self.network, NetworkFile)

    @property
    def wants_rates(self) -> bool:
        """Whether a copy of the network is to be made that has the rates."""
        if self.word is not None:
            return self.word == UNIFORM
        return self.rates is not None and not self.is_object


def is_nir(network: Any) -> bool:
    """Whether an object is a NIR graph."""
    nir = sys.modules.get("nir")  # whoever made such a graph has imported the package
    return nir is not None and isinstance(network, nir.NIRGraph)


@contextmanager
def open_source(
    source: Source,
    effort: Effort,
    listener: Listener,
    keep_in: Path | None = None,
    resume: bool = False,
) -> Iterator[NetworkFile]:
    """The network file that is given, or is made of what is given.

    If rates are given that it has not, the network is a copy that has them.
    keep_in : folder for what is made; a temporary one, removed afterwards, if None
    resume : take what is in that folder from an earlier run
    """
    from mapper.runtime.resume import is_whole

    if source.made is not None:
        with folder_for(keep_in) as folder:
            _link(source.made, folder / IMPORTED)
            with NetworkFile(folder / IMPORTED) as network:
                yield network
        return
    if not source.wants_rates:
        with _open_plain(source, effort, listener, keep_in, IMPORTED, resume) as network:
            yield network
        return
    with folder_for(keep_in) as folder:
        rated = folder / IMPORTED
        if not (resume and is_whole(rated, effort.threads)):
            with _open_plain(source, effort, listener, folder, UNRATED) as network:
                give_rates(source, network, rated, effort)
        (folder / UNRATED).unlink(missing_ok=True)  # a run that was killed may have left it
        with NetworkFile(rated) as network:
            yield network


def import_once(source: Source, effort: Effort, listener: Listener, folder: Path) -> Source:
    """The same source for many runs: what has to be imported is, into the folder, unless it is
    there from an earlier time; else the source itself."""
    if source.is_network_file and not source.wants_rates:
        return source
    with open_source(source, effort, listener, folder, resume=True) as network:
        return replace(source, made=network.path)


def _link(file: Path, name: Path) -> None:
    """Another name for a file, or a copy where the file system knows no links."""
    name.unlink(missing_ok=True)
    try:
        os.link(file, name)
    except OSError:
        with writing(name):
            shutil.copyfile(file, name)


@contextmanager
def _open_plain(
    source: Source,
    effort: Effort,
    listener: Listener,
    keep_in: Path | None,
    name: str,
    resume: bool = False,
) -> Iterator[NetworkFile]:
    """The same without rates; name : of what is made."""
    from mapper.runtime.resume import is_whole

    network = source.network
    if isinstance(network, NetworkFile):
        require_weights(source.word, network)
        yield network
        return
    if isinstance(network, Path) and network.is_dir() and not is_network_name(network):
        raise UsageError(f"{network}: is a folder; name a network file")
    if isinstance(network, Path) and is_network_name(network):
        with NetworkFile(network, buffer_of(effort.memory)) as opened:
            require_weights(source.word, opened)
            yield opened
        return
    with folder_for(keep_in) as folder:
        made = folder / name
        if not (resume and is_whole(made, effort.threads)):
            if source.is_object:
                _write_object(source, made, effort, listener)
            else:
                import_source(source, made, effort, listener)
        with NetworkFile(made) as opened:
            yield opened


@contextmanager
def folder_for(keep_in: Path | None) -> Iterator[Path]:
    """That folder, or else a temporary one."""
    with nullcontext(keep_in) if keep_in else tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def import_source(
    source: Source,
    destination: Path,
    effort: Effort,
    listener: Listener,
    format: str | None = None,
    extra: dict[str, Any] | None = None,
) -> NetworkMeta:
    """Convert a file or a NIR graph to a network file; tells what was lost.

    format : of the file, if neither its name nor its content tells
    extra : what single formats take beside columns
    """
    memory, traffic = effort.memory // 2, source.word
    if not isinstance(source.network, Path):
        from storage.formats import FORMATS
        from storage.formats.base import ImportJob
        from storage.formats.hdf5.nirfile import load_graph

        listener.compile(["import/nir"], effort.threads)
        with listener.task("importing a NIR graph") as progress:
            weights, traffic = FORMATS["nir"].kept_weights(source.weights_are, traffic)
            job = ImportJob(
                Path("NIR graph"), destination, memory, effort.threads, progress, weights
            )
            meta = load_graph(source.network, job, traffic)
    else:
        from storage.formats import import_network, recognise

        path = source.network
        listener.compile([f"import/{recognise(path, format).name}"], effort.threads)
        with listener.task(f"importing {path.name}") as progress:
            meta = import_network(
                path,
                destination,
                format,
                memory=memory,
                threads=effort.threads,
                progress=progress,
                traffic=traffic,
                weights_are=source.weights_are,
                extra={"columns": source.columns, **(extra or {})},
            )
    for line in losses_of(meta, asked=source.rates is not None):
        listener.note(line)
    return meta


def _write_object(source: Source, path: Path, effort: Effort, listener: Listener) -> None:
    from mapper.inputs.objects import write_object

    listener.compile(["generate"], effort.threads)
    with listener.task("importing arrays") as progress:
        progress(0.0)
        write_object(source, path, effort)
        progress(1.0)


def give_rates(
    source: Source, network: NetworkFile, destination: Path, effort: Effort
) -> NetworkMeta:
    """Write the network with the rates of the source; returns what was written."""
    import numpy as np

    from storage.formats.rates import read_rates
    from storage.store.rates import write_rated, write_uniform

    threads = effort.threads
    if source.word == UNIFORM:
        return write_uniform(network, destination, threads)
    if isinstance(source.rates, Path):
        rates = read_rates(source.rates, network, source.duration)
        return write_rated(network, destination, rates, source=source.rates.name, threads=threads)
    return write_rated(network, destination, np.asarray(source.rates), threads=threads)


def require_weights(wanted: str | None, network: NetworkFile) -> None:
    """Raise `MapperError` if weights are wanted as traffic of a network that has lost them."""
    traffic = traffic_of(network.meta)
    if wanted == WEIGHTS and traffic["source"] != WEIGHTS:
        raise MapperError(
            f"{network.path}: its traffic is {describe(traffic)}, and traffic by weights is not "
            "kept beside it; import its source again with rates `weights`, or leave them out"
        )


def losses_of(meta: NetworkMeta, asked: bool) -> Iterator[str]:
    """Lines on what a table was taken for, and what was dropped, merged or changed.

    asked : the user said what the rates are
    """
    from storage.formats.columns import said as said_of_columns

    columns = said_of_columns(meta.provenance)
    if columns is not None:
        yield f"note: {columns}"
    layers = meta.provenance.get
    left_out = layers("nodes_left_out", [])
    uniform = traffic_of(meta)["source"] == UNIFORM
    synaptic = meta.synaptic
    magnitudes = synaptic is None or traffic_of(meta)["source"] == WEIGHTS
    negative = 0 if uniform or not magnitudes else layers("weights_negative", 0)
    said = [
        f"{count:,} {what}"
        for count, what in (
            (
                meta.self_loops,
                "self-loops dropped" if synaptic is None else "self-loops without traffic",
            ),
            (meta.repeated, "duplicate synapses merged (weights summed)"),
            (meta.weights_clamped, "weights below the unit raised to one unit"),
            (layers("weights_zero", 0), "zero weights skipped"),
            (
                0 if uniform and synaptic is None else layers("weights_missing", 0),
                "synapses without a weight weigh 1 each",
            ),
            (layers("delays_left_out", 0), "delays left out"),
            (negative, "negative weights: absolute value used"),
            (len(left_out), f"nodes at the end left out ({', '.join(left_out)})"),
        )
        if count
    ]
    if said:
        yield f"note: {'; '.join(said)}"
    rounded = layers(WEIGHTS_ROUNDED, 0)
    if rounded:
        weights = "weight" if rounded == 1 else "weights"
        yield (
            f"note: {rounded:,} {weights} rounded to units of {meta.weight_unit:.6g}: relative "
            f"error at most {layers(WEIGHTS_ERROR, 0.0):.2g}; the cut and other sums of weights "
            f"are off by at most {sum_error(meta):.3g}"
        )
    rates = layers(RATES_ROUNDED, 0)
    if rates:
        yield (
            f"note: {rates:,} {'rate' if rates == 1 else 'rates'} rounded to units: relative error "
            f"at most {layers(RATES_ERROR, 0.0):.2g}"
        )
    if uniform and not asked:
        kept = "weights are not kept" if synaptic is None else "weights are kept beside that"
        yield (
            f"note: no firing rates: every neuron fires at rate 1, and {kept}; "
            "--rates FILE gives rates, --rates weights takes the weights as traffic"
        )
