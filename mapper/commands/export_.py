"""`mapper export`: a network file to another format."""

from __future__ import annotations

import argparse
from pathlib import Path

from mapper.commands import common

EPILOG = """\
examples:
  mapper export net.bin net.graph
  mapper export net.bin net.csv.gz

METIS graphs are undirected: the two directions of a pair are added. csv holds
one line `source,target,weight` per synapse, with original ids where the
network has them.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", type=Path, metavar="NET", help="network file to read")
    parser.add_argument("destination", type=Path, metavar="DST", help="file to write")
    parser.add_argument("--format", metavar="F", help="metis or csv, if the name does not tell")


def run(options: argparse.Namespace) -> int:
    from mapper.tables import facts
    from storage.formats import export_network
    from storage.network import NetworkFile

    with NetworkFile(options.network) as network:
        export_network(network, options.destination, options.format)
        synapses = network.meta.synapses
    size = options.destination.stat().st_size
    result = {"path": str(options.destination), "synapses": synapses, "bytes": size}
    common.emit(options, result, [facts("exported", result)])
    return 0
