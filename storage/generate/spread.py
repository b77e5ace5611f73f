"""Distributed generation of networks: workers draw, sort and encode; the driver assembles the file.

Each call of `draw_runs` draws some of the parts and stores them as sorted runs in a shared folder.
Each call of `encode_blocks` merges its range of neurons from the runs of all workers and stores the
encoded blocks. A call repeated after the loss of a worker writes a new file; only the file that a
completed call returns is used.
"""

from __future__ import annotations

import glob
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.files import writing
from storage.generate.base import Helpers, NetworkSpec, renamed
from storage.generate.draws import Draws
from storage.sorting.shared import equal_loads
from storage.sorting.sorter import ConnectionSorter, MadeRuns, check_total
from storage.store.archive import ArchivePiece
from storage.store.encoding import BlockEncoder, Totals
from storage.store.given import Given, add_given
from storage.store.pieces import PieceWriter

FOLDER = ".partial-runs-"  # between the network's name and a unique suffix
SPANS = 1 << 12  # most ranges of blocks to distribute
_NAMES, _RATES = "names.npy", "rates.npy"


class DrawJob(NamedTuple):
    """Parameters of drawing; memory : bytes; shuffled : new ids are stored in a file."""

    spec: NetworkSpec
    draws: Draws
    memory: int
    shuffled: bool


class EncodingPlan(NamedTuple):
    """Parameters of encoding.

    encoder : without its rates; rated : its rates are stored in a file
    paths : of all runs
    spans : ndarray[int64], shape (spans, 2), first and last + 1 of consecutive blocks
    """

    encoder: BlockEncoder
    rated: bool
    paths: list[Path]
    spans: NDArray[np.int64]


def draw_runs(some: range, folder: Path, job: DrawJob) -> tuple[MadeRuns, Given]:
    """Draw some of the parts and store them in the folder as sorted runs."""
    names = _loaded(folder / _NAMES) if job.shuffled else None
    given, neurons = Given(), job.spec.neurons
    with ConnectionSorter(neurons, folder, job.memory, shared="runs-") as sorter:
        parts = islice(job.spec.edges(job.draws), some.start, some.stop)
        for each in add_given(sorter, parts, partial(renamed, names), undirected=False):
            given.join(each)
        return sorter.leave(), given


def encode_blocks(
    some: range, folder: Path, job: DrawJob, plan: EncodingPlan
) -> tuple[ArchivePiece, Totals]:
    """Encode the blocks of some spans, and store them in the folder."""
    encoder, totals, neurons = plan.encoder, Totals(), job.spec.neurons
    if plan.rated:
        encoder = replace(encoder, rates=_loaded(folder / _RATES))
    first, last = plan.spans[some.start, 0], plan.spans[some.stop - 1, 1]
    size = encoder.block_size
    vertices = range(int(first) * size, min(int(last) * size, neurons))
    # no edges are added here, so the memory for buffers and runs is free for blocks
    with (
        ConnectionSorter(neurons, folder, 2 * job.memory) as sorter,
        PieceWriter(folder, "blocks-") as piece,
    ):
        sorter.read_from(plan.paths, vertices.start, vertices.stop)
        for member, counted in sorter.map_blocks(encoder, size, encoder.unit, vertices):
            piece.add(member)
            totals.count(counted)
        return piece.leave(), totals


def _loaded(path: Path) -> NDArray[Any]:
    """Memory-map an array copy-on-write, shared by all threads of a process."""
    return np.asarray(np.load(path, mmap_mode="c"))


class Spread:
    """The connections of a network drawn by helpers: see `Elsewhere`."""

    def __init__(self, job: DrawJob, folder: Path, helpers: Helpers) -> None:
        self.given, self.entries = Given(), 0
        self._job, self._folder, self._helpers = job, folder, helpers
        self._made: list[MadeRuns] = []

    def draw(self) -> Iterator[float]:
        """Let the helpers draw all edges; yield the completed fraction."""
        spec = self._job.spec
        count = sum(1 for _ in spec.edges(self._job.draws))
        for made, given in self._helpers.ranges(draw_runs, count, self._folder, self._job):
            self._made.append(made)
            self.given.join(given)
            self.entries += int(made.loads[-1])
            yield min(self.given.read / max(spec.synapses, 1), 1.0)

    def encode(self, encoder: BlockEncoder) -> Iterator[tuple[ArchivePiece, Totals, float]]:
        """Yield the blocks in order, in pieces, with the completed fraction."""
        check_total(sum(made.total for made in self._made), encoder.unit)
        rated = encoder.rates is not None
        if encoder.rates is not None:
            _save(self._folder / _RATES, encoder.rates)
            encoder = replace(encoder, rates=None)
        bounds = self._made[0].bounds
        # a neuron without connections also occupies space in a block
        loads = bounds / 4 + np.sum([made.loads for made in self._made], axis=0)
        neurons = self._job.spec.neurons
        blocks = np.append(np.arange(0, neurons, encoder.block_size), neurons)
        spans = np.array(equal_loads(np.interp(blocks, bounds, loads), SPANS))
        plan = EncodingPlan(encoder, rated, [made.path for made in self._made], spans)
        done = 0
        for piece, totals in self._helpers.ranges(
            encode_blocks, len(spans), self._folder, self._job, plan
        ):
            done += len(piece.entries)
            yield piece, totals, done / (blocks.size - 1)


@contextmanager
def spread(
    spec: NetworkSpec,
    draws: Draws,
    names: NDArray[np.int32] | None,
    path: Path,
    helpers: Helpers,
) -> Iterator[Spread]:
    """Open a network drawn by helpers, for a locked file; their files are deleted at the end."""
    with _shared_folder(path) as folder:
        if names is not None:
            _save(folder / _NAMES, names)
        yield Spread(DrawJob(spec, draws, helpers.memory, names is not None), folder, helpers)


@contextmanager
def _shared_folder(path: Path) -> Iterator[Path]:
    """Create a folder next to a file, shared with helpers; delete folders of killed runs.

    Each folder has a unique name: a worker of an earlier run finds its folder missing.
    """
    beside = path.absolute().parent
    for earlier in beside.glob(f"{glob.escape(path.name)}{FOLDER}*"):
        shutil.rmtree(earlier, ignore_errors=True)
    with writing(beside):
        folder = Path(tempfile.mkdtemp(dir=beside, prefix=f"{path.name}{FOLDER}"))
    try:
        yield folder
    finally:
        for _ in range(2):  # a worker that is stopping may write another file meanwhile
            shutil.rmtree(folder, ignore_errors=True)


def _save(path: Path, values: NDArray[Any]) -> None:
    with writing(path):
        np.save(path, values)
