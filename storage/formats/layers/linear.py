"""Layers of neural networks as sparse linear maps, built a block of rows at a time.

A layer maps a tensor to a tensor. Both are numbered row-major, so a layer is a matrix with a row
for each output element and a column for each input element. The whole matrix is never built:
`LinearLayer.rows` builds requested rows, `pull` composes layers row by row, and `SynapseWriter`
passes the result to a network writer, as synapses from the neurons of the columns to the neurons of
the rows. Working arrays have about `ENTRIES` elements, unless a single neuron has more synapses.

Zero weights stay in the rows, so that they can be counted when they are dropped.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from storage.errors import BadInputError
from storage.formats.losses import WEIGHTS_NEGATIVE, Magnitudes
from storage.quantise import UnitFinder
from storage.store.network import RATE
from storage.store.traffic import UNIFORM, from_weights, uniform

if TYPE_CHECKING:
    from storage.store.writer import NetworkWriter

ENTRIES = 1 << 18  # entries of the rows built at a time

Ids = NDArray[np.int64]
Rows = Any  # csr_array[float64], shape (rows, inputs), without repeated columns in a row
Shape = tuple[int, ...]


class LinearLayer(ABC):
    """A linear map from a tensor of `inputs` elements to one of `outputs` elements.

    fan_in : largest number of entries in a row
    """

    inputs: int
    outputs: int
    fan_in: int

    @abstractmethod
    def rows(self, wanted: Ids) -> Rows:
        """Return the rows `wanted`, shape (rows,), in that order: csr_array (rows, inputs)."""


class Same(LinearLayer):
    """Identity map, optionally with a factor per element."""

    def __init__(self, size: int, factors: NDArray[Any] | None = None) -> None:
        """factors : shape (size,), or None for 1 each"""
        self.inputs = self.outputs = size
        self.fan_in = 1
        self._factors = factors

    def rows(self, wanted: Ids) -> Rows:
        data = np.ones(wanted.size) if self._factors is None else self._factors[wanted]
        return _csr(data, wanted, np.arange(wanted.size + 1), self.inputs)


class Dense(LinearLayer):
    """Matrix products: y[..., o] is the sum over i of weight[..., o, i] * x[..., i]."""

    def __init__(self, weight: NDArray[Any]) -> None:
        """weight : shape (..., out, in); may be broadcast, it is only read"""
        self._weight = weight
        *copies, self._out, self.fan_in = weight.shape
        self._copies: Shape = tuple(copies)
        self.inputs = math.prod(copies) * self.fan_in
        self.outputs = math.prod(copies) * self._out

    def rows(self, wanted: Ids) -> Rows:
        copy, out = np.divmod(wanted, self._out)
        place = (*np.unravel_index(copy, self._copies), out) if self._copies else (out,)
        data = self._weight[place]
        columns = (copy * self.fan_in)[:, None] + np.arange(self.fan_in)
        starts = np.arange(wanted.size + 1) * self.fan_in
        return _csr(data.ravel(), columns.ravel(), starts, self.inputs)


@dataclass(frozen=True, slots=True)
class WindowPositions:
    """Positions of the windows of a convolution or pooling; one entry per spatial axis.

    The window of output p covers the inputs p * stride - before + dilation * (0 .. kernel-1);
    inputs outside 0 .. size-1 do not exist.
    """

    size: Shape
    kernel: Shape
    stride: Shape
    dilation: Shape
    before: Shape
    after: Shape
    ceil: bool = False  # also count a last window that fits only partly

    @property
    def count(self) -> Shape:
        """Return the number of windows; raise `BadInputError` for invalid parameters."""
        found = []
        for axis in range(len(self.size)):
            low, high = self.before[axis], self.after[axis]
            size, kernel, stride = self.size[axis], self.kernel[axis], self.stride[axis]
            if min(stride, kernel, self.dilation[axis]) < 1 or min(low, high) < 0:
                raise BadInputError(
                    f"kernel {kernel}, stride {stride}, dilation {self.dilation[axis]}, padding "
                    f"{low} and {high}: they must be positive, the padding not negative"
                )
            spare = size + low + high - self.dilation[axis] * (kernel - 1) - 1
            if spare < 0:
                extent = self.dilation[axis] * (kernel - 1) + 1
                raise BadInputError(f"a window of {extent} does not fit in {size + low + high}")
            windows = (-(-spare // stride) if self.ceil else spare // stride) + 1
            # a window that begins in the padding after the input does not count
            if self.ceil and (windows - 1) * stride >= size + low:
                windows -= 1
            found.append(windows)
        return tuple(found)

    def inside(self, windows: Ids) -> tuple[Ids, NDArray[np.bool_]]:
        """Return the inputs of each window, and which of them exist; shapes (windows, kernel).

        windows : numbers of windows, row-major. Windows, kernel and inputs are flattened.
        """
        flat = np.zeros((windows.size, 1), np.int64)
        exist = np.ones((windows.size, 1), np.bool_)
        for axis, place in enumerate(np.unravel_index(windows, self.count)):
            first = place * self.stride[axis] - self.before[axis]
            at = first[:, None] + np.arange(self.kernel[axis]) * self.dilation[axis]
            good = (at >= 0) & (at < self.size[axis])
            flat = (flat[:, :, None] * self.size[axis] + at[:, None, :]).reshape(windows.size, -1)
            exist = (exist[:, :, None] & good[:, None, :]).reshape(windows.size, -1)
        return flat, exist


class Convolution(LinearLayer):
    """A convolution as in machine learning (kernel not flipped), with any number of axes.

    Inputs are (channels, *size), outputs (out, *count). At the border an output has fewer inputs,
    since padding has no neurons.
    """

    def __init__(self, weight: NDArray[Any], windows: WindowPositions, groups: int = 1) -> None:
        """weight : shape (out, channels / groups, *kernel)

        Raises `BadInputError` if the groups do not divide the channels.
        """
        self._out, self._channels = weight.shape[:2]
        if groups < 1 or self._out % groups:
            raise BadInputError(f"{groups} groups do not divide {self._out} output channels")
        self._weight = weight.reshape(self._out, self._channels, -1)
        self._windows, self._groups = windows, groups
        self._size, self._count = math.prod(windows.size), math.prod(windows.count)
        self.inputs = self._channels * groups * self._size
        self.outputs = self._out * self._count
        self.fan_in = self._channels * math.prod(windows.kernel)

    def rows(self, wanted: Ids) -> Rows:
        out, window = np.divmod(wanted, self._count)
        at, exist = self._windows.inside(window)
        first = out // (self._out // self._groups) * self._channels
        channel = first[:, None] + np.arange(self._channels)
        columns = channel[:, :, None] * self._size + at[:, None, :]
        kept = np.broadcast_to(exist[:, None, :], columns.shape)
        starts = np.append(0, np.cumsum(exist.sum(axis=1) * self._channels))
        return _csr(self._weight[out][kept], columns[kept], starts, self.inputs)


class Pooling(LinearLayer):
    """Pooling per channel: inputs and outputs are (channels, *size) as above."""

    def __init__(self, channels: int, windows: WindowPositions, mean: str = "") -> None:
        """mean : "" for weights of 1; for an average the weight is 1 over the number of inputs
        of the whole window ("kernel"), or of the existing inputs ("inside")
        """
        self._windows, self._mean = windows, mean
        self._size, self._count = math.prod(windows.size), math.prod(windows.count)
        self.inputs, self.outputs = channels * self._size, channels * self._count
        self.fan_in = math.prod(windows.kernel)

    def rows(self, wanted: Ids) -> Rows:
        channel, window = np.divmod(wanted, self._count)
        at, exist = self._windows.inside(window)
        columns = (channel[:, None] * self._size + at)[exist]
        counts = exist.sum(axis=1)
        data = np.ones(columns.size)
        if self._mean == "kernel":
            data /= self.fan_in
        elif self._mean == "inside":
            data /= np.repeat(counts, counts)
        return _csr(data, columns, np.append(0, np.cumsum(counts)), self.inputs)


def _csr(data: NDArray[Any], columns: Ids, starts: Ids, inputs: int) -> Rows:
    shape = (starts.size - 1, inputs)
    return csr_array((data.astype(np.float64, copy=False), columns, starts), shape=shape)


def pull(rows: Rows, layer: LinearLayer) -> Rows:
    """Return the matrix product of `rows`, shape (n, layer.outputs), and the layer: (n, inputs).

    Only the needed rows of the layer are built. Unlike a product of scipy it keeps zero entries.
    """
    wanted, place = np.unique(rows.indices, return_inverse=True)
    made = layer.rows(wanted.astype(np.int64))
    counts = np.diff(made.indptr)[place]
    starts = np.append(0, np.cumsum(counts))
    entry = np.arange(starts[-1]) + np.repeat(made.indptr[place] - starts[:-1], counts)
    data = np.repeat(rows.data, counts) * made.data[entry]
    found = _csr(data, made.indices[entry], starts[rows.indptr], layer.inputs)
    found.sum_duplicates()
    return found


def add(first: Rows, second: Rows) -> Rows:
    """Return the sum of two matrices of the same shape, keeping zero entries, unlike scipy."""
    one, two = first.tocoo(), second.tocoo()
    data = np.concatenate((one.data, two.data))
    places = [np.concatenate(pair) for pair in zip(one.coords, two.coords, strict=True)]
    return coo_array((data, tuple(places)), shape=first.shape).tocsr()


def row_blocks(outputs: int, fan_in: int) -> Iterator[Ids]:
    """Yield consecutive rows 0 .. outputs-1, in pieces of about `ENTRIES` entries."""
    step = max(1, ENTRIES // max(fan_in, 1))
    for first in range(0, outputs, step):
        yield np.arange(first, min(first + step, outputs))


class SynapseWriter:
    """Writes rows as synapses with the requested traffic.

    With `traffic.UNIFORM` each neuron has the rate 1, and so has each of its synapses; with
    `traffic.WEIGHTS` a synapse carries the magnitude of its weight, and neurons have no rates.
    A writer that keeps weights receives them with their signs.

    zeros : number of zero weights, for which no synapse is created
    magnitudes : counts the synapses with a negative weight
    """

    def __init__(self, writer: NetworkWriter, traffic: str) -> None:
        self._writer = writer
        self._uniform = traffic == UNIFORM
        self.zeros = 0
        self.magnitudes = Magnitudes(writer.keeps_weights)

    @property
    def losses(self) -> dict[str, Any]:
        """Return the provenance entries on dropped or changed weights."""
        return {"weights_zero": self.zeros, WEIGHTS_NEGATIVE: self.magnitudes.negative}

    def add(self, rows: Rows, source: Ids, target: Ids) -> None:
        """source : shape (columns,), the neuron of each column, -1 for none
        target : shape (rows,), the neuron of each row
        Raises `BadInputError` for weights that are not finite.
        """
        ends = np.repeat(target, np.diff(rows.indptr)), source[rows.indices]
        kept = ends[1] >= 0
        zero = kept & (rows.data == 0)
        self.zeros += int(np.count_nonzero(zero))
        kept &= ~zero
        weights = self.magnitudes.of(rows.data[kept])
        if self._writer.keeps_weights:
            self._writer.add(ends[1][kept], ends[0][kept], weights)
            return
        if self._uniform:
            UnitFinder().observe(weights, "weight")  # raises for weights that are not finite
        self._writer.add(ends[1][kept], ends[0][kept], None if self._uniform else weights)

    def finish(self) -> dict[str, Any]:
        """Set the rates, if any; return the provenance entries on traffic."""
        if not self._uniform:
            return self.losses | from_weights()
        self._writer.set_attribute(RATE, np.ones(self._writer.neurons, np.int64))
        return self.losses | uniform()


def same_pads(
    size: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[Shape, Shape]:
    """Return the padding before and after each axis that gives ceil(size / stride) windows.

    An odd element of padding is added after.
    """
    total = [
        max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
        for n, k, s, d in zip(size, kernel, stride, dilation, strict=True)
    ]
    return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
