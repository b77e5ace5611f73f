"""Generation of a synthetic network file: edges are drawn, sorted, and written in blocks.

Everything runs here, in threads; slow steps can run in other processes (`spread`).
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.generate.base import Folder, Helpers, NetworkSpec, Progress, renamed
from storage.generate.draws import VERSIONS, Draws

if TYPE_CHECKING:
    from storage.store.meta import NetworkMeta
    from storage.store.writer import NetworkWriter

DRAWN = 0.5  # fraction of the time after which all edges are drawn


def generate(
    spec: NetworkSpec,
    path: Path | Folder,
    seed: int = 0,
    shuffle: bool = False,
    *,
    draws: int = max(VERSIONS),
    memory: int | None = None,
    threads: int | None = None,
    progress: Progress = lambda _: None,
    helpers: Helpers | None = None,
) -> NetworkMeta:
    """Write the network of `spec` to `path`; the output depends only on `spec`, `seed`, `shuffle`
    and `draws`, not on memory, threads or helpers.

    path : of the network file, or the folder of several
    shuffle : permute ids at random; the network and its attributes stay the same otherwise
    draws : 2: a stream of random numbers per `draws.CHUNK` of a purpose, drawn by all threads;
        1: one stream per purpose, reproduces networks of earlier versions
    memory : bytes for all data that grows with the synapses; the writer's default if None
    progress : called with the fraction of the work done so far, 0 .. 1
    helpers : other processes that draw, sort and encode, for draws 2
    Raises `BadInputError` for a seed below 0 or an unknown version of draws.
    """
    from storage.store.sharded_writer import ShardedWriter
    from storage.store.writer import DEFAULT_MEMORY, NetworkWriter

    drawn = Draws(seed, draws)
    if helpers is not None and not drawn.by_chunk:
        raise BadInputError("draws is 1, which supports only one process; use draws 2")
    names = drawn.names(spec.neurons) if shuffle else None
    with ExitStack() as held:
        where: Path | ShardedWriter
        if isinstance(path, Folder):
            where, path = held.enter_context(ShardedWriter(*path)), path.path
        else:
            where = path
        writer = held.enter_context(
            NetworkWriter(where, spec.neurons, memory=memory or DEFAULT_MEMORY, threads=threads)
        )
        elsewhere = None
        if helpers is not None:
            from storage.generate.spread import spread

            elsewhere = held.enter_context(spread(spec, drawn, names, path, helpers))
            for share in elsewhere.draw():
                progress(DRAWN * share)
        else:
            done, total = 0, max(spec.synapses, 1)
            make = partial(renamed, names)
            for count in writer.add_made(spec.edges(drawn), make, in_order=not drawn.by_chunk):
                done += count
                progress(DRAWN * min(done / total, 1.0))
        _set_attributes(writer, spec, drawn, names)
        said = {"generator": spec.kind, **asdict(spec), "seed": seed, "shuffle": shuffle}
        if drawn.by_chunk:
            said["draws"] = draws
        return writer.finish(
            said,
            elsewhere=elsewhere,
            progress=lambda share: progress(DRAWN + (1 - DRAWN) * share),
        )


def _set_attributes(
    writer: NetworkWriter, spec: NetworkSpec, drawn: Draws, names: NDArray[np.int32] | None
) -> None:
    for name, (values, labels) in spec.attributes(drawn).items():
        if names is not None:
            moved = np.empty_like(values)
            moved[names] = values
            values = moved
        writer.set_attribute(name, values, labels)
