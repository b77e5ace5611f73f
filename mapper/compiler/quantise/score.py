"""A quantised network beside the float one: how near its results are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.graph.batches import batches
from mapper.compiler.graph.execute import Data, run_graph
from mapper.compiler.graph.graph import Graph, View
from mapper.compiler.graph.node import Host, Quantise
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.integer.formulas import dequantise
from mapper.compiler.integer.mixed import MIXED
from mapper.compiler.integer.reference import INTEGER
from mapper.compiler.quantise.convert import Converter
from mapper.compiler.quantise.correction import Correction, correct_biases
from mapper.compiler.quantise.layers import Layer
from mapper.compiler.quantise.losses import Signal, stored_feeds
from mapper.compiler.quantise.methods import Method, chosen_ends
from mapper.compiler.quantise.parameters import Precision
from mapper.compiler.quantise.ranges import Ends, Range, measure_ranges
from mapper.compiler.quantise.rest import Rest, is_in_part, without_scales
from mapper.errors import MapperError

TIED = 1e-6  # of the largest number: what sums in float32 differ by
EVERY, LEAST = 4, 16  # calibration samples that are verified with: every fourth, 16 or more

Frames = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Limits:
    """What is good enough.

    loss : points of accuracy, or of samples with another top class
    signal : dB of the results of the cores over their error
    """

    loss: float = 1.0
    signal: float = 20.0


class Score(NamedTuple):
    """How near a quantised network is.

    loss : points; accuracy lost if samples have labels, else share of samples of another class
    signal : of the cores' results over their error in dB; None without error
    real, whole : accuracy of both networks, 0 to 1; None without labels
    outputs : the same as signal of each output of the model, by its name
    """

    loss: float
    signal: float | None
    real: float | None = None
    whole: float | None = None
    outputs: Mapping[str, float | None] = MappingProxyType({})

    def reaches(self, limits: Limits) -> bool:
        return not self.missed(limits)

    def missed(self, limits: Limits) -> list[str]:
        """Name each limit that is missed, with the value found."""
        found = []
        if self.signal is not None and self.signal < limits.signal:
            found.append(f"SQNR {self.signal:.1f} dB, limit {limits.signal:g} dB or more")
        if self.loss > limits.loss:
            found.append(f"{self.loss:.1f} points lost, limit {limits.loss:g} or fewer")
        return found

    def rank(self, limits: Limits) -> tuple[float, float]:
        """Larger is better: losses within the limit are alike, then the signal decides."""
        return -max(self.loss, limits.loss), np.inf if self.signal is None else self.signal


@dataclass(slots=True)
class Quantised:
    """A float graph and the graph of integers made of it.

    stored : of each tensor of `source` that has integers, the tensor of `graph`
    """

    source: Graph
    graph: Graph
    stored: dict[Tensor, Tensor]
    layers: list[Layer]
    ranges: dict[Tensor, Range]
    corrections: list[Correction] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Dataset of a network.

    feeds : of its inputs by name, shape (frames, rows, columns, channels)
    labels : of the first output's classes, or None
    """

    feeds: Mapping[str, Frames]
    labels: NDArray[np.int64] | None = None

    def of(self, graph: Graph) -> dict[Tensor, Frames]:
        return {view.tensor: self.feeds[name] for name, view in graph.inputs.items()}

    def ranges(self, graph: Graph, wanted: Sequence[Tensor]) -> dict[Tensor, Range]:
        """Of some tensors of a graph of floats, measured."""
        return measure_ranges(graph, self.of(graph), wanted)

    @property
    def frames(self) -> int:
        return len(next(iter(self.feeds.values())))

    def to_verify(self) -> Dataset:
        """Every fourth of them, at least 16, or all."""
        step = max(min(EVERY, self.frames // LEAST), 1)
        labels = None if self.labels is None else self.labels[::step]
        return Dataset({name: data[::step] for name, data in self.feeds.items()}, labels)


def quantise_graph(
    source: Graph,
    ranges: dict[Tensor, Range],
    calibration: Dataset | None,
    precision: Precision,
    method: Method,
) -> Quantised:
    """The graph of integers by one method; biases are corrected if there are samples."""
    if is_in_part(source):
        return _rest_quantised(source, ranges, precision, method)
    converter = Converter(source, precision)
    ends: dict[Tensor, Range | Ends] = {}
    for bits in (8, 16):
        some = {one: ranges[one] for one in ranges if converter.bits_of(one) == bits}
        how = "minmax" if bits > precision.bits and method == "entropy" else method
        ends |= chosen_ends(some, how, bits, precision.scheme)
    made = Quantised(source, converter.convert(ends), converter.stored, converter.layers, ranges)
    made.notes = converter.notes
    if calibration is not None:
        feeds = calibration.of(source)
        made.corrections = correct_biases(source, made.graph, made.layers, feeds)
    return made


def _rest_quantised(
    source: Graph, ranges: dict[Tensor, Range], precision: Precision, method: Method
) -> Quantised:
    """The same of a model that is quantised in part; its biases are not corrected."""
    if precision.bits != 8 or precision.wide:
        raise MapperError("the model is quantised in part, in 8 bits; leave out --bits 16")
    rest = Rest(source, precision.scheme, precision.per_channel, precision.headroom)
    made = rest.convert(chosen_ends(ranges, method, 8, precision.scheme))
    note = "quantised in part: the rest has scales by samples, and is rounded as the model is"
    return Quantised(source, made, rest.stored, [], ranges, notes=[note])


def tensors_to_measure(source: Graph, precision: Precision) -> list[Tensor]:
    """The maps whose ranges decide their scales."""
    if is_in_part(source):
        return without_scales(source)
    return Converter(source, precision).quantised_tensors()


def _real(data: Data, tensor: Tensor) -> Data:
    """Numbers of a map, whatever it is stored as."""
    if tensor.type == "float32":
        return data
    return dequantise(data, tensor.scale, tensor.zero_point)


def _seen(data: Mapping[Tensor, Data], view: View) -> Data:
    """Real numbers of an output, in the order in which the model has them."""
    return _real(data[view.tensor], view.tensor).transpose(view.order)


def scored(made: Quantised, test: Dataset) -> Score:
    """How near a graph of integers is to the float graph, on some samples.

    Without labels a sample is lost if another class comes first, unless both are as good in the
    float graph; results that are maps have no classes, and lose none.
    """
    feeds = test.of(made.source)
    real_of = {tensor: real for real, tensor in made.stored.items()}
    ends = core_results(made.graph)
    # outputs of one number are labels or probabilities of a class that was picked
    classes = [name for name, one in made.source.outputs.items() if _is_vector(one.shape)]
    tops: list[list[NDArray[np.int64]]] = [[], []]
    lost: list[NDArray[np.bool_]] = []
    signal = Signal()
    exact_view, whole_view = (
        (made.source.outputs[classes[0]], made.graph.outputs[classes[0]])
        if classes
        else (View(real_of[ends[-1]]), View(ends[-1]))
    )
    if test.labels is not None:
        require_classes(test.labels, math.prod(exact_view.shape))
    outputs = {name: Signal() for name in made.source.outputs}
    sources, mades = made.source.outputs, made.graph.outputs
    exact_wanted = [*(real_of[one] for one in ends), exact_view.tensor]
    exact_wanted += [view.tensor for view in sources.values()]
    whole_wanted = [*ends, whole_view.tensor, *(view.tensor for view in mades.values())]
    for _, some in batches(made.source, feeds):
        exact = run_graph(made.source, some, MIXED, exact_wanted)
        whole = run_graph(made.graph, stored_feeds(some, made.stored), INTEGER, whole_wanted)
        for name, one in outputs.items():
            if exact[sources[name].tensor].dtype.kind in "fiub":  # not names of classes
                one.add(_seen(exact, sources[name]), _seen(whole, mades[name]))
        for tensor in ends:
            signal.add(_real(exact[real_of[tensor]], real_of[tensor]), _real(whole[tensor], tensor))
        for list_, view, data in zip(tops, (exact_view, whole_view), (exact, whole), strict=True):
            list_.append(_top(data[view.tensor].transpose(view.order)))
        real = exact[exact_view.tensor].transpose(exact_view.order)
        lost.append(_is_lost(real, tops[1][-1]))
    signals = {name: one.decibels for name, one in outputs.items()}
    exact_top, whole_top = (np.concatenate(pieces) for pieces in tops)
    if test.labels is None:
        counted = classes or _is_vector(ends[-1].shape)
        share = float(np.concatenate(lost).mean()) if counted else 0.0
        return Score(100 * share, signal.decibels, outputs=signals)
    before, after = (float((one == test.labels).mean()) for one in (exact_top, whole_top))
    return Score(100 * (before - after), signal.decibels, before, after, signals)


def require_classes(labels: NDArray[np.int64], classes: int) -> None:
    """Raise `MapperError` if a label is not the number of a class."""
    most = int(labels.max(initial=0))
    if most >= classes > 1:
        raise MapperError(
            f"the samples have labels up to {most}, the model {classes} classes (0 to "
            f"{classes - 1}); take labels of its classes, or samples without"
        )


def _top(values: Data) -> NDArray[np.int64]:
    """The number of the largest value of each frame; the order of integers is that of reals."""
    return values.reshape(values.shape[0], -1).argmax(1)


def _is_vector(shape: Sequence[int]) -> bool:
    """Whether a result has numbers along one axis alone, one for each class."""
    return sum(size > 1 for size in shape) == 1


def _is_lost(exact: Data, top: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Of each frame, whether the largest number of the float graph is larger than that of a class
    that comes first in integers, by more than sums in float32 differ."""
    flat = exact.reshape(exact.shape[0], -1).astype(np.float64)
    most, picked = flat.max(1), np.take_along_axis(flat, top[:, None], 1)[:, 0]
    return np.asarray(picked < most - TIED * np.abs(flat).max(1))


def core_results(graph: Graph) -> list[Tensor]:
    """What the cores of a graph of integers make last: behind it only the host computes."""
    back: set[Tensor] = set()  # what becomes integers again, or is computed of by such a node
    for node in reversed(graph.nodes):
        hosted = isinstance(node.operator, Host) and back & set(node.outputs)
        if hosted or isinstance(node.operator, Quantise):
            back |= set(node.inputs)
    taken = [view.tensor for view in graph.outputs.values()]
    for node in graph.nodes:
        if isinstance(node.operator, Host):
            taken += [tensor for tensor in node.inputs if tensor not in back]
    found = [tensor for tensor in dict.fromkeys(taken) if tensor.stored]
    if not found:
        raise MapperError("no result of the model is made by a core; nothing to verify")
    return found
