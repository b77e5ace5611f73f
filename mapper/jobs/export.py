"""Export of a network, of the mapping of an output folder, or of a compiled spiking model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mapper.errors import UsageError
from mapper.exports import EXPORTS as MAPPINGS
from mapper.exports import (
    SPIKING_EXPORTS,
    choose_exporter,
    export_mapping,
    export_spiking,
    open_run,
)
from mapper.exports.added import find_export
from mapper.exports.synaptic import TAKEN
from mapper.inputs.listener import Listener
from mapper.inputs.source import Effort
from mapper.monitoring.resources import require_neurons
from mapper.results.output_folder import find_folder, read_folder
from mapper.spiking.artifacts.folder import is_spiking
from mapper.spiking.artifacts.folder import read_folder as read_spiking
from storage.formats import EXPORTS as NETWORKS
from storage.formats import FORMATS
from storage.formats import choose_exporter as choose_network_exporter
from storage.formats.added import find_reader, find_writer
from storage.formats.losses import Loss
from storage.plugins import FORMATS as ADDED
from storage.plugins import known_names
from storage.store.network import NetworkFile
from storage.store.sharded import is_sharded

NEURON_BYTES = 16  # of a network, held for an export


class ExportRequest(NamedTuple):
    """A network or output folder to export.

    path : network file or output folder
    format : of the new file; None: by the extension of the destination
    options : of single formats by name; None stands for an omitted option
    network : network of an output folder, if it was moved
    """

    path: Path
    destination: Path
    format: str | None
    options: Mapping[str, Any]
    network: Path | None
    effort: Effort


def export(request: ExportRequest, listener: Listener) -> dict[str, Any]:
    """Write the file; return facts about it, and report losses.

    Raises `UsageError` for an unknown format or option; see `export_mapping` for others.
    """
    path = request.path
    folder = find_folder(path).is_dir() and not is_sharded(path)
    facts = (_mapping if folder else _network)(request, listener)
    return {"path": str(request.destination), **facts}


def _given(request: ExportRequest) -> list[str]:
    """Return the options that are given, as options of the command."""
    found = ["network"] if request.network is not None else []
    names = dict.fromkeys(name for each in MAPPINGS.values() for name in each.options)
    found += [name for name in names if request.options.get(name) is not None]
    return [name.replace("_", "-") for name in found]


def _network(request: ExportRequest, listener: Listener) -> dict[str, Any]:
    _refuse_mappings(request)
    for option in _given(request):
        raise UsageError(f"--{option} is for output folders of a run")
    exporter = choose_network_exporter(request.destination, request.format)
    with NetworkFile(request.path) as network:
        require_neurons(network, NEURON_BYTES)
        listener.compile([f"export/{exporter.name}"], request.effort.threads)
        losses = exporter.save(network, request.destination)
        result: dict[str, Any] = {"format": exporter.name, "synapses": network.meta.synapses}
    if exporter.nodes:
        from storage.formats.hdf5.sonataconfig import nodes_beside

        result["nodes"] = str(nodes_beside(request.destination))
    result["left_out"] = _told(listener, exporter.name, losses)
    return result


def _told(listener: Listener, format: str, losses: list[Loss]) -> dict[str, int]:
    """Report data that a format cannot store; return the counts by kind."""
    for loss in losses:
        listener.note(f"note: {format} has {loss.text}")
    return {loss.kind: loss.count for loss in losses}


def _refuse_mappings(request: ExportRequest) -> None:
    """Raise `UsageError` for a format that cannot store a network."""
    name, format = request.destination.name.lower(), request.format
    if format is None:
        taken = [each.name for each in MAPPINGS.values() if name.endswith(each.extensions)]
        format = taken[0] if taken and taken[0] not in NETWORKS else None
    if format is None or format in NETWORKS or find_writer(format) is not None:
        return
    names = known_names(ADDED, NETWORKS)
    known = f"a network as {names}"
    if format in MAPPINGS or find_export(format) is not None:
        raise UsageError(
            f"{request.path}: is not the output folder of a run; only a mapping can be "
            f"exported as {format}, {known}"
        )
    if format in FORMATS or find_reader(format) is not None:
        raise UsageError(f"{format} files can be read but not written; export {known}")
    raise UsageError(f"unknown format {format!r}; choose from {names}")


def _spiking(request: ExportRequest, listener: Listener) -> dict[str, Any]:
    """Export a compiled spiking model."""
    exporter = choose_exporter(request.destination, request.format)
    if exporter.name not in SPIKING_EXPORTS:
        endings = ", ".join(MAPPINGS[name].extensions[0] for name in SPIKING_EXPORTS)
        raise UsageError(
            f"{request.destination}: compiled spiking models are exported as "
            f"{', '.join(SPIKING_EXPORTS)}; give a name that ends with {endings}"
        )
    for option in _given(request):
        raise UsageError(f"--{option} is for output folders of a run; leave it out")
    found = {"format": exporter.name} | read_folder(
        request.path,
        lambda: export_spiking(read_spiking(request.path), request.destination, exporter.name),
    )
    if "losses" in found:
        found["left_out"] = _told(listener, exporter.name, found.pop("losses"))
    return found


def _mapping(request: ExportRequest, listener: Listener) -> dict[str, Any]:
    if is_spiking(request.path):
        return _spiking(request, listener)
    exporter = choose_exporter(request.destination, request.format)  # fail before reading

    def write() -> tuple[dict[str, Any], int]:
        with open_run(request.path, request.network) as run:
            found = export_mapping(run, request.destination, request.format, request.options)
            return found, run.relays

    found, relays = read_folder(request.path, write)
    if relays and not exporter.relays:
        listener.note(f"note: {relays:,} relay neurons of split neurons left out")
    if "weights" in found:
        listener.note(f"note: {exporter.name} {TAKEN[found['weights']]}")
    if "losses" in found:
        found["left_out"] = _told(listener, exporter.name, found.pop("losses"))
    return found
