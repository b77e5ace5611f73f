"""Adjacency lists of networkx: ``source target target ...`` per line; # starts a comment.

The file does not state directions: each target is a synapse from the source, as in an edge list.
Nodes are ordered by number if all are whole numbers, and by appearance otherwise.
"""

from __future__ import annotations

from itertools import chain, repeat

from storage.formats.base import ImportJob
from storage.formats.compact import EdgeSpool
from storage.formats.losses import ASSUMED
from storage.formats.names import NameTable
from storage.formats.text.namedtable import kept_lines
from storage.formats.text.reader import TextReader
from storage.store.meta import NetworkMeta

READ_BYTES = 1 << 20
ASSUMPTION = "adjacency lists have no directions: each entry is a synapse from its line's node"


def load(job: ImportJob) -> NetworkMeta:
    """Convert an adjacency list to a directed network file."""
    names = NameTable(job.source, job.memory)
    with TextReader(job.source, comments=b"#") as reader, EdgeSpool(job, names) as spool:
        for texts, _ in kept_lines(reader, READ_BYTES):
            lines = [text.partition("#")[0].split() for text in texts]
            names.of_each(list(chain.from_iterable(lines)))  # in order, also without targets
            sources = list(chain.from_iterable(repeat(each[0], len(each) - 1) for each in lines))
            targets = list(chain.from_iterable(each[1:] for each in lines))
            spool.add(*names.pairs(sources, targets), None)
            names.require_memory(reader.fraction)
            job.progress(reader.fraction)
        return spool.write({"format": "adjlist", ASSUMED: ASSUMPTION}, by_number=True)
