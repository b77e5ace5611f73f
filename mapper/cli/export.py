"""`mapper export`: convert a network file, or the mapping of an output folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.budget import require_neurons
from mapper.cli.formats import list_formats
from mapper.cli.hw import CORE_OPTIONS
from mapper.cli.locking import lock_output
from mapper.cli.neurons import add_neurons
from mapper.cli.options import above_zero
from mapper.cli.simulate import add_units
from mapper.cli.stores import add_timeout
from mapper.exports import EXPORTS as MAPPINGS
from storage.address import path_of
from storage.formats import EXPORTS as NETWORKS

if TYPE_CHECKING:
    from storage.formats.losses import Loss

NEURON_BYTES = 16  # of a network, held for an export
FREQUENT = ("format", "moved", "graph", "threshold", "leak", "reset")
EPILOG = f"""\
examples:
  mapper export net.bin net.graph
  mapper export net.bin net.csv.gz
  mapper export net.bin edges.h5
  mapper export result mapping.csv
  mapper export result mapping.yaml --threshold 2
  mapper export result chip.tables.json --threshold 100 --leak 4
  mapper export result mapped.nir --graph model.nir
  mapper export result mapping.noxim
  mapper export out back.nir

The extension of DST selects the format of a network; text may be gzipped (.gz):
{list_formats(NETWORKS.values())}

Attributes that the format cannot store are listed on stderr.

The output folder of a run is exported as a mapping, a compiled spiking model as
tables, sanafe or nir; the extension of DST selects the format:
{list_formats(MAPPINGS.values())}

`mapper docs export` lists the data that each format can store.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s NET|DIR DST [options]"
    parser.add_argument(
        "network", type=path_of, metavar="NET|DIR", help="network file or output folder to read"
    )
    parser.add_argument("destination", type=Path, metavar="DST", help="file to write")
    names = ", ".join(dict.fromkeys((*NETWORKS, *MAPPINGS)))
    parser.add_argument("--format", metavar="F", help=f"{names} (default: by extension)")
    common.add_memory(parser)
    add_timeout(parser)
    group = parser.add_argument_group("output folders")
    group.add_argument(
        "--network",
        dest="moved",
        type=path_of,
        metavar="NET",
        help="network of DIR, if it was moved",
    )
    group.add_argument(
        "--graph",
        type=Path,
        metavar="FILE",
        help=f"NIR file of the network, to add the cores to{_takers('graph')}",
    )
    add_neurons(parser.add_argument_group("neuron parameters"), _takers)
    group = parser.add_argument_group(f"cores, as for mapper hw{_takers('axon_bits')}")
    group.add_argument(
        "--axon-bits", type=common.positive, metavar="N", help="bits per axon number in a packet"
    )
    for name, text in CORE_OPTIONS.items():
        option = f"--{name.replace('_', '-')}"
        group.add_argument(option, type=common.positive, metavar="N", help=text)
    group = parser.add_argument_group(f"traffic, as for mapper simulate{_takers('load_scale')}")
    group.add_argument(
        "--load-scale", type=above_zero, metavar="F", help="factor on the load (default: 1)"
    )
    add_units(group)


def _takers(option: str) -> str:
    """Return the mapping formats with an option, for its help."""
    names = ", ".join(each.name for each in MAPPINGS.values() if option in each.options)
    return f" ({names})"


def run(options: argparse.Namespace) -> int:
    from mapper.results.output_folder import find_folder
    from mapper.results.tables import facts
    from storage.store.sharded import is_sharded

    result = {"path": str(options.destination)}
    folder = find_folder(options.network).is_dir() and not is_sharded(options.network)
    exported = _mapping if folder else _network
    with lock_output(options.destination):
        result |= exported(options)
    result["bytes"] = options.destination.stat().st_size
    shown = {name: value for name, value in result.items() if name != "left_out"}
    terminal.emit(options, result, [facts("exported", shown)])
    return 0


def _mapping_options() -> list[str]:
    """Return the options of all mapping formats, without duplicates."""
    return list(dict.fromkeys(name for each in MAPPINGS.values() for name in each.options))


def _network(options: argparse.Namespace) -> dict[str, Any]:
    from mapper.errors import UsageError
    from storage.formats import choose_exporter
    from storage.store.network import NetworkFile

    _refuse_mappings(options)
    for option in ("moved", *_mapping_options()):
        if getattr(options, option) is not None:
            shown = "network" if option == "moved" else option.replace("_", "-")
            raise UsageError(f"--{shown} is for output folders of a run")
    exporter = choose_exporter(options.destination, options.format)
    with NetworkFile(options.network) as network:
        require_neurons(network, NEURON_BYTES)
        common.compile_kernels(options, f"export/{exporter.name}")
        losses = exporter.save(network, options.destination)
        result: dict[str, Any] = {"format": exporter.name, "synapses": network.meta.synapses}
    if exporter.nodes:
        from storage.formats.hdf5.sonataconfig import nodes_beside

        result["nodes"] = str(nodes_beside(options.destination))
    result["left_out"] = _told(options, exporter.name, losses)
    return result


def _told(options: argparse.Namespace, format: str, losses: list[Loss]) -> dict[str, int]:
    """Report data that a format cannot store; return the counts by kind."""
    for loss in losses:
        terminal.say(options, f"note: {format} has {loss.text}")
    return {loss.kind: loss.count for loss in losses}


def _refuse_mappings(options: argparse.Namespace) -> None:
    """Raise `UsageError` for a format that cannot store a network."""
    from mapper.errors import UsageError
    from storage.formats import FORMATS

    name, format = options.destination.name.lower(), options.format
    if format is None:
        taken = [each.name for each in MAPPINGS.values() if name.endswith(each.extensions)]
        format = taken[0] if taken and taken[0] not in NETWORKS else None
    if format in NETWORKS or format is None:
        return
    known = f"a network as {', '.join(NETWORKS)}"
    if format in MAPPINGS:
        raise UsageError(
            f"{options.network}: is not the output folder of a run; only a mapping can be "
            f"exported as {format}, {known}"
        )
    if format in FORMATS:
        raise UsageError(f"{format} files can be read but not written; export {known}")
    common.require_format(format, NETWORKS)


def _spiking(options: argparse.Namespace) -> dict[str, Any]:
    """Export a compiled spiking model."""
    from mapper.errors import UsageError
    from mapper.exports import SPIKING_EXPORTS, choose_exporter, export_spiking
    from mapper.results.output_folder import read_folder
    from mapper.spiking.artifacts.folder import read_folder as read_spiking

    exporter = choose_exporter(options.destination, options.format)
    if exporter.name not in SPIKING_EXPORTS:
        endings = ", ".join(MAPPINGS[name].extensions[0] for name in SPIKING_EXPORTS)
        raise UsageError(
            f"{options.destination}: compiled spiking models are exported as "
            f"{', '.join(SPIKING_EXPORTS)}; give a name that ends with {endings}"
        )
    for name in ("moved", *_mapping_options()):
        if getattr(options, name) is not None:
            option = "network" if name == "moved" else name.replace("_", "-")
            raise UsageError(f"--{option} is for output folders of a run; leave it out")
    found = {"format": exporter.name} | read_folder(
        options.network,
        lambda: export_spiking(read_spiking(options.network), options.destination, exporter.name),
    )
    if "losses" in found:
        found["left_out"] = _told(options, exporter.name, found.pop("losses"))
    return found


def _mapping(options: argparse.Namespace) -> dict[str, Any]:
    from mapper.exports import choose_exporter, export_mapping, open_run
    from mapper.exports.synaptic import TAKEN
    from mapper.results.output_folder import read_folder
    from mapper.spiking.artifacts.folder import is_spiking

    if is_spiking(options.network):
        return _spiking(options)
    exporter = choose_exporter(options.destination, options.format)  # fail before reading
    given = {name: getattr(options, name) for name in _mapping_options()}

    def export() -> tuple[dict[str, Any], int]:
        with open_run(options.network, options.moved) as run:
            return export_mapping(run, options.destination, options.format, given), run.relays

    found, relays = read_folder(options.network, export)
    if relays and not exporter.relays:
        terminal.say(options, f"note: {relays:,} relay neurons of split neurons left out")
    if "weights" in found:
        terminal.say(options, f"note: {exporter.name} {TAKEN[found['weights']]}")
    if "losses" in found:
        found["left_out"] = _told(options, exporter.name, found.pop("losses"))
    return found
