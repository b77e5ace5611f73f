"""Accuracy of a quantised network compared with the floating-point network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import Host, Quantise
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.numerics.execute import Data, batches, run_graph
from mapper.compiler.numerics.reference import INTEGER, MIXED
from mapper.compiler.quantisation.convert import Converter
from mapper.compiler.quantisation.correction import Correction, correct_biases
from mapper.compiler.quantisation.layers import WeightLayer
from mapper.compiler.quantisation.losses import Signal, real_values, stored_feeds
from mapper.compiler.quantisation.methods import chosen_ends
from mapper.compiler.quantisation.parameters import Precision
from mapper.compiler.quantisation.ranges import Ends, Measure, Range, measure_ranges
from mapper.compiler.quantisation.rest import Rest, is_in_part, without_scales
from mapper.compiler.settings import Method
from mapper.errors import MapperError

TIED = 1e-6  # relative to the largest number: difference of float32 sums
EVERY, LEAST = 4, 16  # verification uses every fourth calibration sample, at least 16

Frames = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Limits:
    """Accuracy limits.

    loss : points of accuracy, or of samples with another top class
    signal : SQNR of the results of the cores, in dB
    """

    loss: float = 1.0
    signal: float = 20.0


class Score(NamedTuple):
    """Accuracy of a quantised network.

    loss : points; accuracy lost if samples have labels, else share of samples of another class
    signal : SQNR of the cores' results in dB; None without error
    real, whole : accuracy of both networks, 0 to 1; None without labels
    outputs : SQNR of each output of the model, by name
    """

    loss: float
    signal: float | None
    real: float | None = None
    whole: float | None = None
    outputs: Mapping[str, float | None] = MappingProxyType({})

    def reaches(self, limits: Limits) -> bool:
        return not self.missed(limits)

    def missed(self, limits: Limits) -> list[str]:
        """Return a text for each limit that is missed, with the measured value."""
        found = []
        if self.signal is not None and self.signal < limits.signal:
            found.append(f"SQNR {self.signal:.1f} dB, limit {limits.signal:g} dB or more")
        if self.loss > limits.loss:
            found.append(f"{self.loss:.1f} points lost, limit {limits.loss:g} or fewer")
        return found

    def rank(self, limits: Limits) -> tuple[float, float]:
        """Return the sort key, larger is better: losses within the limit count equally, then
        SQNR."""
        return -max(self.loss, limits.loss), np.inf if self.signal is None else self.signal


@dataclass(slots=True)
class Quantised:
    """A floating-point graph and its integer graph.

    stored : for each tensor of `source` that has integers, the tensor of `graph`
    """

    source: Graph
    graph: Graph
    stored: dict[Tensor, Tensor]
    layers: list[WeightLayer]
    ranges: dict[Tensor, Range]
    corrections: list[Correction] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Samples of a network.

    feeds : samples of its inputs by name, shape (frames, rows, columns, channels)
    labels : classes of the first output, or None
    measure : measures ranges
    """

    feeds: Mapping[str, Frames]
    labels: NDArray[np.int64] | None = None
    measure: Measure = measure_ranges

    def of(self, graph: Graph) -> dict[Tensor, Frames]:
        return {view.tensor: self.feeds[name] for name, view in graph.inputs.items()}

    def ranges(self, graph: Graph, wanted: Sequence[Tensor]) -> dict[Tensor, Range]:
        """Return the measured ranges of tensors of a floating-point graph."""
        return self.measure(graph, self.of(graph), wanted)

    @property
    def frames(self) -> int:
        return len(next(iter(self.feeds.values())))

    def to_verify(self) -> Dataset:
        """Return every fourth sample, at least 16, or all."""
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
    """Return the integer graph by one method; biases are corrected if there are samples."""
    if is_in_part(source):
        return _rest_quantised(source, ranges, precision, method)
    converter = Converter(source, precision)
    ends: dict[Tensor, Range | Ends] = {}
    ranges = converter.with_copies(ranges)
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
    """Return the integer graph of a partly quantised model; its biases are not corrected."""
    if precision.bits != 8 or precision.is_mixed:
        raise MapperError("the model is partly quantised, in 8 bits; omit --bits")
    rest = Rest(source, precision)
    made = rest.convert(chosen_ends(ranges, method, 8, precision.scheme))
    note = (
        "partly quantised model: the rest gets scales from samples, with the rounding of the model"
    )
    return Quantised(source, made, rest.stored, [], ranges, notes=[note])


def tensors_to_measure(source: Graph, precision: Precision) -> list[Tensor]:
    """Return the maps whose ranges determine their scales."""
    if is_in_part(source):
        return without_scales(source)
    return Converter(source, precision).quantised_tensors()


def _seen(data: Mapping[Tensor, Data], view: View) -> Data:
    """Return the real numbers of an output, in the axis order of the model."""
    return real_values(data[view.tensor], view.tensor).transpose(view.order)


def scored(made: Quantised, test: Dataset) -> Score:
    """Return the accuracy of an integer graph compared with the floating-point graph, on samples.

    Without labels a sample is lost if another class comes first, unless both are equal in the
    floating-point graph. Outputs that are maps have no classes, and lose none.
    """
    feeds = test.of(made.source)
    real_of = {tensor: real for real, tensor in made.stored.items()}
    ends = core_results(made.graph)
    # outputs of one number are labels or probabilities of the selected class
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
            if exact[sources[name].tensor].dtype.kind in "fiub":  # skip class names
                one.add(_seen(exact, sources[name]), _seen(whole, mades[name]))
        for tensor in ends:
            signal.add(
                real_values(exact[real_of[tensor]], real_of[tensor]),
                real_values(whole[tensor], tensor),
            )
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
    """Raise `MapperError` if a label is not a class number."""
    most = int(labels.max(initial=0))
    if most >= classes > 1:
        raise MapperError(
            f"the samples have labels up to {most}, the model {classes} classes (0 to "
            f"{classes - 1}); use labels of its classes, or samples without labels"
        )


def _top(values: Data) -> NDArray[np.int64]:
    """Return the index of the largest value per frame; integers keep the order of real numbers."""
    return values.reshape(values.shape[0], -1).argmax(1)


def _is_vector(shape: Sequence[int]) -> bool:
    """Return whether a result is a vector, with one number per class."""
    return sum(size > 1 for size in shape) == 1


def _is_lost(exact: Data, top: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each frame whether the integer top class is worse in the floating-point graph.

    Differences within the error of float32 sums are ignored.
    """
    flat = exact.reshape(exact.shape[0], -1).astype(np.float64)
    most, picked = flat.max(1), np.take_along_axis(flat, top[:, None], 1)[:, 0]
    return np.asarray(picked < most - TIED * np.abs(flat).max(1))


def core_results(graph: Graph) -> list[Tensor]:
    """Return the last results of cores in a graph of integers: later only the host computes."""
    back: set[Tensor] = set()  # tensors that are quantised again later, directly or by host nodes
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
        raise MapperError("no core computes a result of the model; nothing to verify")
    return found
