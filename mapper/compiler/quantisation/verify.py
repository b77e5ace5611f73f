"""Verification loop: quantise a network in several ways until one is accurate enough.

Tried in this order: the requested method, or minmax and then percentile, mse and entropy; scales
per channel if they were per tensor; layers in 16 bits, one by one, where cores support it and
`--bits` does not fix them; the worst layers on the host, one by one. The best attempt is kept.

The next layer in 16 bits is the one that loses most per added cycle. Losses of layers add up: 1 /
SQNR of the network is about the sum of 1 / SQNR of its layers, as powers. Lin, Talathi and
Annapureddy, Fixed Point Quantization of Deep Convolutional Networks, ICML 2016, equation 12.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, NamedTuple

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.layer_bits import BITS, rule_of
from mapper.compiler.quantisation.losses import layer_losses
from mapper.compiler.quantisation.methods import METHODS
from mapper.compiler.quantisation.parameters import SCHEMES, Precision
from mapper.compiler.quantisation.ranges import Range, RangesFile
from mapper.compiler.quantisation.rest import is_in_part
from mapper.compiler.quantisation.scales import ScalePlan
from mapper.compiler.quantisation.score import (
    Dataset,
    Limits,
    Quantised,
    Score,
    quantise_graph,
    scored,
    tensors_to_measure,
)
from mapper.compiler.settings import CompileSettings, Method, Scheme
from mapper.compiler.stages import stage

MOST_KEPT = 4  # layers that the loop may move to the host
MOST_SHOWN = 6  # raised layers in a note
MOST_RAISED = 16  # layers that the loop may raise to 16 bits

Build = Callable[[Collection[str]], Graph]
"""Builds a floating-point graph, after its passes, with some ONNX nodes on the host."""


class Attempt(NamedTuple):
    """A row of the report: settings and score of an attempt.

    wide : an ONNX node of each layer raised to 16 bits; kept : ONNX nodes on the host
    """

    method: Method
    per: Literal["tensor", "channel"]
    bits: int
    kept: tuple[str, ...]
    score: Score
    reached: bool
    wide: tuple[str, ...] = ()


class Verified(NamedTuple):
    """The best of all attempts, whether it reaches the limits, and its index.

    Without samples to verify there is no attempt, but a network with the requested settings.

    frames : number of samples used for verification
    """

    best: Quantised
    attempts: list[Attempt]
    number: int
    reached: bool
    frames: int = 0

    def missed(self, limits: Limits) -> list[str]:
        """Return the limits that the best attempt misses, with its values; empty without
        attempts."""
        return self.attempts[self.number].score.missed(limits) if self.attempts else []


@dataclass(frozen=True, slots=True)
class QuantiseRequest:
    """Start settings of the loop.

    method : None tries all of them; kept : ONNX nodes on the host
    most_kept : layers that the loop may additionally move to the host
    most_raised : layers that it may raise to 16 bits
    added : returns the cycles that 16 bits add to a layer of the floating-point graph
    """

    precision: Precision
    method: Method | None = None
    correct: bool = True
    kept: tuple[str, ...] = ()
    most_kept: int = MOST_KEPT
    most_raised: int = 0
    added: Callable[[Node], float] = lambda _: 1.0


def request_of(settings: CompileSettings) -> QuantiseRequest:
    """Return the start settings of a compilation; the loop raises no layer to 16 bits."""
    bits = settings.layer_bits
    precision = Precision(
        bits.default,
        settings.scheme,
        settings.per == "channel",
        settings.headroom,
        settings.rounding,
        settings.zero_point,
        bits.rules,
    )
    return QuantiseRequest(
        precision,
        None if settings.method == "auto" else settings.method,
        settings.bias_correction,
        settings.keep,
        most_kept=0,
    )


def verified(
    build: Build,
    calibration: Dataset | RangesFile,
    request: QuantiseRequest,
    limits: Limits,
    test: Dataset | None = None,
    on_attempt: Callable[[Attempt], None] = lambda _: None,
) -> Verified:
    """Quantise a network, and try other settings while it is not accurate enough.

    calibration : samples, or measured ranges; biases are corrected only with samples
    test : samples to verify with; if None, some of the calibration samples
    Raises `MapperError` for ranges and layers; missed limits are not an error here.
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
    tries = _tries(
        request, lambda raised: _ranked(best, test, request, raised), lambda: attempts[number]
    )
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
            score.reaches(limits), precision.raised,
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
    """Return a floating-point graph, and the ranges of its maps."""
    source = build(kept)
    with stage("quantise"):
        return source, calibration.ranges(source, tensors_to_measure(source, precision))


def _tries(
    request: QuantiseRequest,
    ranked: Callable[[bool], list[tuple[str, ...]]],
    best: Callable[[], Attempt],
) -> Iterator[tuple[Method, Precision, tuple[str, ...]]]:
    """Yield the settings to try; later ones build on the best earlier attempt.

    ranked : returns the layers of the best attempt, largest loss first; True: per added cycle, of
        layers that may be raised to 16 bits
    """
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
    for _ in range(request.most_raised):
        layers = [one for one in ranked(True) if precision.of_layer(one) == 8]
        if not layers:
            break
        precision = replace(precision, raised=(*precision.raised, layers[0][0]))
        yield method, precision, kept
    precision = replace(precision, raised=best().wide)
    layers = ranked(False) if request.most_kept else []
    for names in layers[: request.most_kept]:
        kept = (*kept, *(name for name in names if name not in kept))
        yield method, precision, kept


def _ranked(
    made: Quantised | None, test: Dataset, request: QuantiseRequest, raised: bool
) -> list[tuple[str, ...]]:
    """Return the ONNX nodes of layers with a loss: those with weights, lowest own SQNR first; or
    those that 16 bits change and no rule fixes, largest loss per added cycle first."""
    assert made is not None
    if is_in_part(made.source):
        return []
    losses = layer_losses(made.source, made.graph, made.stored, test.of(made.source))
    own = {loss.tensor: loss.own for loss in losses if loss.own is not None}
    if not raised:
        layers = [layer for layer in made.layers if layer.result.name in own]
        layers.sort(key=lambda layer: own[layer.result.name])
        return [layer.conv.sources for layer in layers]
    plan = ScalePlan(made.source, request.precision)
    found = []
    for node in plan.raisable():
        names, result = plan.sources(node), made.stored[plan.result(node)].name
        if result in own and rule_of(request.precision.rules, names) is None:
            loss = 10.0 ** (-own[result] / 10)
            found.append((-loss / request.added(node), names))
    return [names for _, names in sorted(found, key=lambda one: one[0])]


def raised_note(found: Verified) -> list[str]:
    """Return a note on the layers that the loop raised to 16 bits; empty if there are none."""
    if not found.attempts or not (best := found.attempts[found.number]).wide:
        return []
    before = [one for one in found.attempts if not one.wide and one.method == best.method][-1]
    names, more = best.wide[:MOST_SHOWN], len(best.wide) - MOST_SHOWN
    return [
        f"raised to 16 bits: {', '.join(names)}{f' and {more} more' if more > 0 else ''} (SQNR "
        f"{_text(before.score.signal)} before, {_text(best.score.signal)} after)"
    ]


def output_notes(found: Verified, least: float) -> list[str]:
    """Return a note on each output that the host computes with a low SQNR.

    least : SQNR in dB that the results of the cores reach
    """
    if not found.attempts or not (best := found.attempts[found.number]).reached:
        return []
    return [
        f"output {name!r}: SQNR {signal:.1f} dB after the nodes on the host, below the "
        f"{least:g} dB of --min-signal; keep the nodes before it on the host, too (--keep)"
        for name, signal in best.score.outputs.items()
        if signal is not None and signal < least
    ]


def _text(signal: float | None) -> str:
    return "without error" if signal is None else f"{signal:.1f} dB"


class Compared(NamedTuple):
    """A row of the comparison: settings and score."""

    bits: int
    scheme: Scheme
    method: Method
    score: Score


def compared(
    source: Graph, calibration: Dataset | RangesFile, request: QuantiseRequest, test: Dataset
) -> list[Compared]:
    """Compare 8 and 16 bits, with and without zero points, by all methods.

    calibration : samples, or measured ranges; biases are corrected only with samples
    request : its other precision settings are used; its method and `kept` are not
    test : samples to compare with
    """
    ranges = calibration.ranges(source, tensors_to_measure(source, request.precision))
    samples = calibration if isinstance(calibration, Dataset) else None
    rows = []
    for bits, scheme, method in product(BITS.values(), SCHEMES, METHODS):
        if method == "entropy" and bits > 8:
            continue
        precision = replace(request.precision, bits=bits, rules=(), scheme=scheme)
        correcting = samples if request.correct else None
        made = quantise_graph(source, ranges, correcting, precision, method)
        rows.append(Compared(bits, scheme, method, scored(made, test)))
    return rows
