"""`mapper import`: convert a file of any known format to a network file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.formats import list_added, list_formats
from mapper.cli.parser import Topic
from mapper.cli.stores import add_timeout
from mapper.cli.streams import is_standard, read_standard_input, require_stream
from mapper.jobs.locking import lock_output
from storage.address import path_of
from storage.formats import FORMATS, added_importers

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
  zcat net.graph.gz | mapper import - net.bin --format metis

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


def topic(words: Sequence[str]) -> Topic:
    """Return the help, with the formats of other packages if the words ask for help."""
    return Topic(FREQUENT, EPILOG + list_added(words, added_importers))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s SRC NET [options]"
    parser.add_argument(
        "source", type=path_of, metavar="SRC", help="file to read, - for standard input"
    )
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
    from mapper.jobs.import_network import ImportRequest, require_format, write_network
    from mapper.results.tables import facts
    from storage.store.traffic import describe, describe_weights, traffic_of

    require_format(options.format)
    with ExitStack() as stack:
        if is_standard(options.source):
            stack.enter_context(lock_output(options.network, bool(options.files)))
            options.source = stack.enter_context(read_standard_input(options.network))
            require_stream(options, options.source, options.format)
            source = common.source_of(options, options.source)
        else:
            source = common.source_of(options, options.source)
            stack.enter_context(lock_output(options.network, bool(options.files)))
        request = ImportRequest(
            source, common.effort_of(options), options.format, {"nodes": options.nodes}
        )
        meta = write_network(request, options.network, common.listener(options), options.files)
    result = {"path": str(options.network), **asdict(meta)}
    shown = ("neurons", "synapses", "synapses_read", "undirected", "total_size")
    rows = [(name.replace("_", " "), result[name]) for name in shown]
    rows.append(("traffic", describe(traffic_of(meta))))
    rows.append(("synaptic weights", describe_weights(meta.synaptic)))
    rows.append(("attributes", ", ".join(meta.attributes) or "none"))
    terminal.emit(options, result, [facts(str(options.network), rows)])
    return 0
