"""Open inputs as network files: import them and assign firing rates if necessary.

An input is a file or a Python object: arrays of edges, a sparse matrix, a graph of networkx or NIR.
A `Listener` receives notes on values that an import drops, merges or assumes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mapper.errors import MapperError, UsageError
from mapper.inputs.cached_import import cached_import
from mapper.inputs.listener import Listener
from mapper.inputs.source import Effort, Source, is_table
from mapper.results.output_folder import IMPORTED
from mapper.resume.resume import is_whole
from storage.blobs.readahead import buffer_of
from storage.errors import StorageError
from storage.files import writing
from storage.formats.columns import said as said_of_columns
from storage.formats.losses import ASSUMED
from storage.formats.rates import name_of_rates, read_rates
from storage.store.meta import NetworkMeta
from storage.store.network import NetworkFile, is_network_name
from storage.store.rates import write_rated, write_uniform
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
from storage.system.files import hard_link

UNRATED = "unrated.bin"  # the network before rates are assigned


@contextmanager
def open_source(
    source: Source,
    effort: Effort,
    listener: Listener,
    keep_in: Path | None = None,
    resume: bool = False,
) -> Iterator[NetworkFile]:
    """Open the input as a network file, importing it first if necessary.

    If rates must be assigned, the network file is a copy that has them.
    keep_in : folder for files that are written; None uses a temporary folder
    resume : use files of an earlier run in that folder
    """
    if source.made is not None:
        with folder_for(keep_in) as folder:
            link(source.made, folder / IMPORTED)
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
        (folder / UNRATED).unlink(missing_ok=True)  # may remain from a killed run
        with NetworkFile(rated) as network:
            yield network


def import_once(source: Source, effort: Effort, listener: Listener, folder: Path) -> Source:
    """Import an input for many runs, into the folder, and return it as a source.

    Uses an earlier import in the folder. Returns the source itself if it needs no import.
    """
    if source.is_network_file and not source.wants_rates:
        return source
    with open_source(source, effort, listener, folder, resume=True) as network:
        return replace(source, made=network.path)


def link(file: Path, name: Path) -> None:
    """Hard-link a file, or copy it if the file system has no links."""
    name.unlink(missing_ok=True)
    if not hard_link(file, name):
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
    """Open the input without assigning rates; name : of the file that is written."""
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
                import_object(source, made, effort, listener)
            else:
                import_source(source, made, effort, listener)
        with NetworkFile(made) as opened:
            yield opened


@contextmanager
def folder_for(keep_in: Path | None) -> Iterator[Path]:
    """Yield the folder, or a temporary one if it is None."""
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
    """Convert a file or a NIR graph to a network file; report losses to the listener.

    format : of the file, if neither its name nor its content identifies it
    extra : options of single formats, in addition to columns
    """
    if is_table(source.network):
        return _import_table(source, destination, effort, listener, format)
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
        importer = recognise(path, format, table=source.columns is not None)
        name = importer.name
        more = {"columns": source.columns, **(extra or {})}

        def write() -> NetworkMeta:
            listener.compile([importer.kernels], effort.threads)
            with listener.task(f"importing {path.name}") as progress:
                return import_network(
                    path,
                    destination,
                    format,
                    memory=memory,
                    threads=effort.threads,
                    progress=progress,
                    traffic=traffic,
                    weights_are=source.weights_are,
                    extra=more,
                )

        meta = cached_import(source, destination, effort, name, more, write)
    for line in losses_of(meta, asked=source.rates is not None):
        listener.note(line)
    return meta


def _import_table(
    source: Source, destination: Path, effort: Effort, listener: Listener, format: str | None
) -> NetworkMeta:
    """Convert a data frame of edges, as the csv file that its package writes."""
    from mapper.inputs.objects import write_table

    table = destination.with_name(f".{destination.name}.csv")
    try:
        with writing(table):
            write_table(source.network, table)
        given = replace(source, network=table)
        return import_source(given, destination, effort, listener, format)
    except (MapperError, StorageError) as error:
        raise type(error)(str(error).replace(str(table), "table")) from error
    finally:
        table.unlink(missing_ok=True)


def import_object(source: Source, path: Path, effort: Effort, listener: Listener) -> NetworkMeta:
    """Convert arrays, a matrix or a networkx graph to a network file; report losses."""
    from mapper.inputs.objects import write_object

    listener.compile(["generate"], effort.threads)
    with listener.task("importing arrays") as progress:
        progress(0.0)
        write_object(source, path, effort)
        progress(1.0)
    with NetworkFile(path) as network:
        meta = network.meta
    for line in losses_of(meta, asked=source.rates is not None):
        listener.note(line)
    return meta


def give_rates(
    source: Source, network: NetworkFile, destination: Path, effort: Effort
) -> NetworkMeta:
    """Write the network with the rates of the source; return the metadata of the copy."""
    threads = effort.threads
    if source.word == UNIFORM:
        return write_uniform(network, destination, threads)
    if isinstance(source.rates, Path):
        rates = read_rates(source.rates, network, source.duration)
        return write_rated(
            network, destination, rates, source=name_of_rates(source.rates), threads=threads
        )
    return write_rated(network, destination, np.asarray(source.rates), threads=threads)


def require_weights(wanted: str | None, network: NetworkFile) -> None:
    """Raise `MapperError` if weights are requested as traffic but were not stored."""
    traffic = traffic_of(network.meta)
    if wanted == WEIGHTS and traffic["source"] != WEIGHTS:
        raise MapperError(
            f"{network.path}: its traffic is {describe(traffic)}, without traffic by weights; "
            "import its source again with rates `weights`, or leave them out"
        )


def losses_of(meta: NetworkMeta, asked: bool) -> Iterator[str]:
    """Yield notes on the interpretation of a table, and on values dropped, merged or changed.

    asked : the user specified the rates
    """
    columns = said_of_columns(meta.provenance)
    if columns is not None:
        yield f"note: {columns}"
    if ASSUMED in meta.provenance:
        yield f"note: {meta.provenance[ASSUMED]}"
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
            (len(left_out), f"nodes at the end ignored ({', '.join(left_out)})"),
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
        kept = "weights are discarded" if synaptic is None else "weights are stored separately"
        yield (
            f"note: no firing rates: every neuron fires at rate 1, and {kept}; "
            "--rates FILE sets rates, --rates weights uses the weights as traffic"
        )
