"""`mapper import`: convert a file of any known format to a network file."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.formats import list_formats
from mapper.cli.locking import lock_output
from mapper.cli.stores import add_timeout
from storage.address import RemotePath, path_of
from storage.formats import FORMATS

if TYPE_CHECKING:
    from mapper.inputs.source import Source
    from storage.store.meta import NetworkMeta

FREQUENT = ("format", "columns", "files", "rates", "weights_are", "memory", "threads")
EPILOG = f"""\
examples:
  mapper import 4elt.graph 4elt.bin
  mapper import connectome.csv.gz net.bin --memory 1GiB
  mapper import table.txt net.bin --format edgelist
  mapper import table.csv net.bin --columns source=a,target=b,weight=strength
  mapper import circuit_config.json net.bin --rates spikes.h5 --rates-duration 3
  mapper import net.bin rated.bin --rates rates.csv
  mapper import model.nir net.bin --rates weights
  mapper import net.bin net.shards --files 16
  mapper import s3://lab/net.shards net.bin

The format is detected from content and file name:
{list_formats(FORMATS.values())}

Neurons are renumbered from 0: sparse ids in increasing order (kept as the
attribute `id`), names in order of appearance, populations one after another.
SRC may also be a network file, to set its rates or to split it into files, or a
network in several files or in an object store, to write one file.

A network file stores the traffic of each synapse and optionally its weight.
NIR, ONNX and SONATA files have synapse weights but no firing rates: every
neuron gets rate 1, and the weights are kept. --rates FILE sets rates; --rates
weights uses the weight magnitudes as traffic. Values of other formats are
traffic; `mapper docs formats` explains --weights-are.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s SRC NET [options]"
    parser.add_argument("source", type=path_of, metavar="SRC", help="file to read")
    parser.add_argument("network", type=Path, metavar="NET", help="network file to write")
    parser.add_argument(
        "--format",
        metavar="F",
        help=f"{', '.join(FORMATS)} (default: by content and name)",
    )
    common.add_columns(parser)
    parser.add_argument(
        "--files", type=common.positive, metavar="N", help="write NET as a folder of N files"
    )
    parser.add_argument(
        "--nodes", type=Path, metavar="FILE", help="SONATA nodes file, if SRC is an edges file"
    )
    common.add_rates(parser)
    add_timeout(parser)
    common.add_effort(parser, seed=False)


def run(options: argparse.Namespace) -> int:
    from mapper.results.tables import facts
    from storage.store.traffic import describe, describe_weights, traffic_of

    common.require_format(options.format, FORMATS)
    source = common.source_of(options, options.source)
    with lock_output(options.network, bool(options.files)):
        meta = _import_cut(options, source) if options.files else _made(options, source)
    result = {"path": str(options.network), **asdict(meta)}
    shown = ("neurons", "synapses", "synapses_read", "undirected", "total_size")
    rows = [(name.replace("_", " "), result[name]) for name in shown]
    rows.append(("traffic", describe(traffic_of(meta))))
    rows.append(("synaptic weights", describe_weights(meta)))
    rows.append(("attributes", ", ".join(meta.attributes) or "none"))
    terminal.emit(options, result, [facts(str(options.network), rows)])
    return 0


def _made(options: argparse.Namespace, source: Source, whole: Path | None = None) -> NetworkMeta:
    """Write one network file: `whole`, or NET of the command line."""
    destination = whole or options.network
    if source.wants_rates:
        return _import_rated(options, source, destination)
    apart = options.source.is_dir() or isinstance(options.source, RemotePath)
    if source.is_network_file and apart:
        return _join(options, destination)
    return _import(options, source, destination)


def _join(options: argparse.Namespace, destination: Path) -> NetworkMeta:
    """Write one file of a network in several files or in an object store."""
    from storage.store.network import NetworkFile
    from storage.store.resharding import write_joined

    with NetworkFile(options.source) as network:
        write_joined(network, destination, common.effort_of(options).threads)
        return network.meta


def _import_cut(options: argparse.Namespace, source: Source) -> NetworkMeta:
    """Write a folder of several files; import SRC first if it is not a network."""
    from storage.store.network import NetworkFile
    from storage.store.resharding import write_sharded

    # fixed name, guarded by the lock: a file left by a killed process is overwritten
    whole = options.network.with_name(f".{options.network.name}.whole")
    ready = source.is_network_file and not source.wants_rates
    try:
        if not ready:
            _made(options, source, whole)
        with NetworkFile(options.source if ready else whole) as network:
            write_sharded(
                network, options.network, options.files, common.effort_of(options).threads
            )
            return network.meta
    finally:
        whole.unlink(missing_ok=True)


def _import(options: argparse.Namespace, source: Source, destination: Path) -> NetworkMeta:
    """Convert the file, and report losses."""
    from mapper.inputs.opening import import_source

    extra = {"nodes": options.nodes}
    effort, listener = common.effort_of(options), common.listener(options)
    return import_source(source, destination, effort, listener, options.format, extra)


def _import_rated(options: argparse.Namespace, source: Source, destination: Path) -> NetworkMeta:
    """Write the network with rates; convert SRC first if it is not a network."""
    from mapper.inputs.opening import give_rates
    from storage.store.network import NetworkFile, is_network_name

    effort = common.effort_of(options)
    if is_network_name(options.source):
        with NetworkFile(options.source) as network:
            return give_rates(source, network, destination, effort)
    # fixed name, guarded by the lock: a file left by a killed process is overwritten
    unrated = destination.with_name(f".{destination.name}.unrated")
    try:
        _import(options, source, unrated)
        with NetworkFile(unrated) as network:
            return give_rates(source, network, destination, effort)
    finally:
        unrated.unlink(missing_ok=True)
