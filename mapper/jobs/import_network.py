"""Write an input as a network file: import it, give it rates, join or cut its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mapper.errors import UsageError, shown
from mapper.inputs.listener import Listener
from mapper.inputs.opening import give_rates, import_object, import_source
from mapper.inputs.source import Effort, Source
from storage.address import RemotePath
from storage.formats import FORMATS
from storage.formats.added import find_reader
from storage.plugins import FORMATS as ADDED
from storage.plugins import known_names
from storage.store.meta import NetworkMeta
from storage.store.network import NetworkFile
from storage.store.resharding import write_joined, write_sharded


class ImportRequest(NamedTuple):
    """An input to import.

    format : of the file, if neither its name nor its content identifies it
    extra : options of single formats
    """

    source: Source
    effort: Effort
    format: str | None = None
    extra: Mapping[str, Any] = {}  # never changed


def require_format(name: str | None) -> None:
    """Raise `UsageError` if there is no format of this name to read, None for a detected one."""
    if name is not None and name not in FORMATS and find_reader(name) is None:
        known = known_names(ADDED, FORMATS)
        raise UsageError(f"unknown format {shown(name)}; choose from {known}")


def write_network(
    request: ImportRequest, destination: Path, listener: Listener, files: int | None = None
) -> NetworkMeta:
    """Write the network file; report losses to the listener.

    files : write a folder of so many files instead of one file
    """
    if files is not None:
        return _write_cut(request, destination, listener, files)
    source, effort = request.source, request.effort
    if source.wants_rates:
        return _write_rated(request, destination, listener)
    path = source.network
    apart = isinstance(path, Path) and (path.is_dir() or isinstance(path, RemotePath))
    if source.is_network_file and apart:  # several files, or in an object store
        with NetworkFile(path) as network:
            write_joined(network, destination, effort.threads)
            return network.meta
    return _write_plain(request, destination, listener)


def _write_plain(request: ImportRequest, destination: Path, listener: Listener) -> NetworkMeta:
    """Write the network without giving it rates."""
    source, effort = request.source, request.effort
    if source.is_object:
        return import_object(source, destination, effort, listener)
    return import_source(source, destination, effort, listener, request.format, dict(request.extra))


def _write_cut(
    request: ImportRequest, destination: Path, listener: Listener, files: int
) -> NetworkMeta:
    """Write a folder of several files; import the input first if it is not a network."""
    # fixed name, guarded by the lock: a file left by a killed process is overwritten
    whole = destination.with_name(f".{destination.name}.whole")
    source = request.source
    ready = source.is_network_file and not source.wants_rates
    try:
        if not ready:
            write_network(request, whole, listener)
        with NetworkFile(source.network if ready else whole) as network:
            write_sharded(network, destination, files, request.effort.threads)
            return network.meta
    finally:
        whole.unlink(missing_ok=True)


def _write_rated(request: ImportRequest, destination: Path, listener: Listener) -> NetworkMeta:
    """Write the network with rates; convert the input first if it is not a network."""
    source, effort = request.source, request.effort
    if source.is_network_file:
        with NetworkFile(source.network) as network:
            return give_rates(source, network, destination, effort)
    # fixed name, guarded by the lock: a file left by a killed process is overwritten
    unrated = destination.with_name(f".{destination.name}.unrated")
    try:
        _write_plain(request, unrated, listener)
        with NetworkFile(unrated) as network:
            return give_rates(source, network, destination, effort)
    finally:
        unrated.unlink(missing_ok=True)
