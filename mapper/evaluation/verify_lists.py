"""Words of shared synapse lists, counted by an independent implementation (`verify`).

The list of a source in a core holds the neurons that it reaches there, numbered by id in the core,
relative to the first, with their weights. A core stores equal lists once.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from mapper.evaluation.verify import Connections, SlowReader
from mapper.evaluation.verify_split import SplitReader
from mapper.evaluation.verify_weights import has_weights, read_weights

Int64 = NDArray[np.int64]


def stored_words(reader: SlowReader | SplitReader, core: Int64, cores: int) -> Int64:
    """Return the list words that each core stores, shape (cores,).

    core : core of every neuron, with helpers
    """
    by_core = np.lexsort((np.arange(core.size), core))
    number = np.empty_like(core)
    number[by_core] = np.arange(core.size) - np.searchsorted(core[by_core], core[by_core])
    stored: set[tuple[int, int, bytes]] = set()
    for part, weight in _weighted(reader):
        ahead = part.incoming == 0
        source, target = part.owner[ahead], part.other[ahead]
        order = np.lexsort((number[target], core[target], source))
        source, target, weight = source[order], target[order], weight[order]
        new = np.diff(source * cores + core[target], prepend=-1) != 0
        begin = np.append(np.flatnonzero(new), source.size)
        base = number[target[begin[:-1]]]
        relative = number[target] - np.repeat(base, np.diff(begin))
        raw = memoryview(np.column_stack([relative, weight]).tobytes())
        for at, (first, end) in enumerate(
            zip(begin[:-1].tolist(), begin[1:].tolist(), strict=True)
        ):
            words = blake2b(raw[16 * first : 16 * end], digest_size=16).digest()
            stored.add((int(core[target[begin[at]]]), end - first, words))
    found = np.zeros(cores, np.int64)
    for one, count, _ in stored:
        found[one] += count
    return found


def _weighted(reader: SlowReader | SplitReader) -> Iterator[tuple[Connections, Int64]]:
    """Yield connections block by block, with the bits of the weights of the outgoing ones."""
    for index, part in enumerate(reader.connections()):
        ahead = part.incoming == 0
        if isinstance(reader, SlowReader) and has_weights(reader.meta):
            count = int(np.count_nonzero(ahead))
            found = read_weights(reader.path, reader.meta, index, count, reader.read)
            yield part, (found.values[:count] + 0.0).view(np.int64)
        else:
            yield part, part.weight[ahead]
