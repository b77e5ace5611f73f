"""The verification loop: a network is quantised in several ways until one is good enough.

Tried in this order: the method that was asked for, or minmax and then percentile, mse and entropy;
scales of each channel if they were of whole tensors; the worst layers in 16 bits, one by one, where
cores have them; the worst layers on the host, one by one. The best is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, NamedTuple

import numpy as np

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.quantise.losses import LayerLoss, layer_losses
from mapper.compiler.quantise.methods import METHODS, Method
from mapper.compiler.quantise.parameters import SCHEMES, Precision, Scheme
from mapper.compiler.quantise.ranges import Range
from mapper.compiler.quantise.ranges_file import RangesFile
from mapper.compiler.quantise.score import (
    Dataset,
    Limits,
    Quantised,
    Score,
    quantise_graph,
    scored,
    tensors_to_measure,
)
from mapper.compiler.stages import stage

MOST_KEPT = 4  # layers that the loop moves to the host
MOST_WIDE = 8  # layers that the loop gives 16 bits

Build = Callable[[Collection[str]], Graph]
"""A float graph, passes done, with some ONNX nodes on the host."""


class Attempt(NamedTuple):
    """A row of the report: what was tried, and how it went.

    wide : ONNX nodes in 16 bits; kept : ONNX nodes on the host
    """

    method: Method
    per: Literal["tensor", "channel"]
    bits: int
    kept: tuple[str, ...]
    score: Score
    reached: bool
    wide: tuple[str, ...] = ()


class Verified(NamedTuple):
    """The best of all attempts, whether it reaches the limits, and its number among them; without
    samples to verify with there is no attempt, but a network as it was asked for.

    frames : it was verified with
    """

    best: Quantised
    attempts: list[Attempt]
    number: int
    reached: bool
    frames: int = 0

    def missed(self, limits: Limits) -> list[str]:
        """Name the limits that the best attempt misses, with its values; none without attempts."""
        return self.attempts[self.number].score.missed(limits) if self.attempts else []


@dataclass(frozen=True, slots=True)
class QuantiseRequest:
    """What the loop begins with.

    method : None tries all of them; kept : ONNX nodes on the host
    most_kept : layers that the loop may move there as well
    most_wide : layers that it may give 16 bits
    """

    precision: Precision
    method: Method | None = None
    correct: bool = True
    kept: tuple[str, ...] = ()
    most_kept: int = MOST_KEPT
    most_wide: int = 0


def verified(
    build: Build,
    calibration: Dataset | RangesFile,
    request: QuantiseRequest,
    limits: Limits,
    test: Dataset | None = None,
    on_attempt: Callable[[Attempt], None] = lambda _: None,
) -> Verified:
    """Quantise a network, and try again in other ways while it is not good enough.

    calibration : samples, or ranges of some; biases are corrected with samples alone
    test : samples to verify with; if None, some of the calibration samples
    Raises `MapperError` of ranges and layers; that no attempt reaches the limits is no error here.
    """
    samples = calibration if isinstance(calibration, Dataset) else None
    correcting = samples if request.correct else None
    test = test or (None if samples is None else samples.to_verify())
    if test is None:
        source, ranges = _measured(build, calibration, request.precision, request.kept)
        with stage("quantise"):
            made = quantise_graph(
                source, ranges, None, request.precision, request.method or METHODS[0]
            )
        return Verified(made, [], 0, reached=True)
    sources: dict[tuple[str, ...], tuple[Graph, dict[Tensor, Range]]] = {}
    attempts: list[Attempt] = []
    best: Quantised | None = None
    number = 0
    tries = _tries(request, lambda: _worst(best, test), lambda: attempts[number])
    for method, precision, kept in tries:
        if kept not in sources:
            sources[kept] = _measured(build, calibration, precision, kept)
        source, ranges = sources[kept]
        with stage("quantise"):
            made = quantise_graph(source, ranges, correcting, precision, method)
        with stage("verify"):
            score = scored(made, test)
        attempt = Attempt(
            method, "channel" if precision.per_channel else "tensor", precision.bits, kept, score,
            score.reaches(limits), precision.wide,
        )  # fmt: skip
        attempts.append(attempt)
        on_attempt(attempt)
        if best is None or score.rank(limits) > attempts[number].score.rank(limits):
            best, number = made, len(attempts) - 1
        if attempt.reached:
            break
    assert best is not None
    return Verified(best, attempts, number, attempts[number].reached, test.frames)


def _measured(
    build: Build, calibration: Dataset | RangesFile, precision: Precision, kept: Collection[str]
) -> tuple[Graph, dict[Tensor, Range]]:
    """A float graph, and the ranges of its maps."""
    source = build(kept)
    with stage("quantise"):
        return source, calibration.ranges(source, tensors_to_measure(source, precision))


def _tries(
    request: QuantiseRequest,
    worst: Callable[[], list[tuple[str, ...]]],
    best: Callable[[], Attempt],
) -> Iterator[tuple[Method, Precision, tuple[str, ...]]]:
    """What is tried, a finite list, whose later entries follow the best of the earlier ones."""
    precision = request.precision
    methods = METHODS if request.method is None else (request.method,)
    for method in methods:
        if method == "entropy" and precision.bits > 8 and request.method is None:
            continue
        yield method, precision, request.kept
    if not precision.per_channel:
        precision = replace(precision, per_channel=True)
        yield best().method, precision, request.kept
    precision = replace(precision, per_channel=best().per == "channel")
    method, kept = best().method, request.kept
    if precision.bits == 8:
        for names in worst()[: request.most_wide]:
            more = (name for name in names if name not in precision.wide)
            precision = replace(precision, wide=(*precision.wide, *more))
            yield method, precision, kept
    precision = replace(precision, wide=best().wide)
    for names in worst()[: request.most_kept]:
        kept = (*kept, *(name for name in names if name not in kept))
        yield method, precision, kept


def _worst(made: Quantised | None, test: Dataset) -> list[tuple[str, ...]]:
    """The ONNX nodes of the layers with weights, those that lose most signal of their own first."""
    assert made is not None
    if not made.layers:
        return []  # of a model that is quantised in part
    losses = layer_losses(made.source, made.graph, made.stored, test.of(made.source))
    own = {loss.tensor: loss for loss in losses}
    layers = [layer for layer in made.layers if own[layer.result.name].own is not None]
    layers.sort(key=lambda layer: _decibels(own[layer.result.name]))
    return [layer.conv.sources for layer in layers]


def _decibels(loss: LayerLoss) -> float:
    return np.inf if loss.own is None else loss.own


class Compared(NamedTuple):
    """A row of the comparison: a way to quantise, and how near it is."""

    bits: int
    scheme: Scheme
    method: Method
    score: Score


def compared(
    source: Graph, calibration: Dataset | RangesFile, request: QuantiseRequest, test: Dataset
) -> list[Compared]:
    """8 and 16 bits, with zero points and without, by all methods.

    calibration : samples, or ranges of some; biases are corrected with samples alone
    request : of its precision the rest is kept; its method and `kept` are not used
    test : samples to compare with
    """
    ranges = calibration.ranges(source, tensors_to_measure(source, request.precision))
    samples = calibration if isinstance(calibration, Dataset) else None
    rows = []
    for bits, scheme, method in product((8, 16), SCHEMES, METHODS):
        if method == "entropy" and bits > 8:
            continue
        precision = replace(request.precision, bits=bits, scheme=scheme)
        correcting = samples if request.correct else None
        made = quantise_graph(source, ranges, correcting, precision, method)
        rows.append(Compared(bits, scheme, method, scored(made, test)))
    return rows
