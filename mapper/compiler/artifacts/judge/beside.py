"""Compare the maps and outputs of a compiled model with the model in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.artifacts.judge.compare import (
    EXACT,
    LEAST,
    TIE,
    Beside,
    MapSums,
    OutputSums,
    StoredMap,
    as_stored,
    as_value,
    differs,
    is_ambiguous,
    order_of,
)
from mapper.compiler.artifacts.judge.cut import CutModel
from storage.errors import BadInputError

Array = NDArray[Any]


class Frames(NamedTuple):
    """Results of a compiled model for some samples.

    samples : float32, shape (frames, ...), as the model reads them
    stored : integers by the names of maps, shape (frames, rows, columns, channels)
    outputs : by name, shape (frames, ...)
    """

    samples: Array
    stored: Mapping[str, Array]
    outputs: Mapping[str, Array]


class Predicted(NamedTuple):
    """Predicted quantisation loss.

    own : SQNR in dB of each map by itself, by its name; None without error
    outputs : SQNR in dB of the model's outputs, by their names
    others : SQNR in dB of unnamed maps, None if these are whole numbers of the model
    most : upper limit in dB of the required SQNR
    rounded : relative errors of values that cores store in another form
    silent : maps that are 0 in all samples of the prediction, and so have no SQNR
    """

    own: Mapping[str, float | None]
    outputs: Mapping[str, float | None] = MappingProxyType({})
    others: float | None = None
    most: float = EXACT
    rounded: Mapping[str, float] = MappingProxyType({})
    silent: frozenset[str] = frozenset()


class Judgement(NamedTuple):
    """Result of a comparison.

    rows : the maps in execution order, then the outputs
    left_out : names of maps that are not values of the model, such as maps with padding channels
    why : reason why ONNX Runtime does not run the model; then nothing is compared
    """

    frames: int
    rows: list[Beside]
    left_out: list[str]
    why: str = ""

    @property
    def departure(self) -> Beside | None:
        """The first map or output that differs from the model."""
        return next((row for row in self.rows if row.departs), None)

    @property
    def ties(self) -> int:
        return sum(row.ties for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        return {
            "frames": self.frames,
            "why": self.why,
            "left_out": self.left_out,
            "rows": [row._asdict() | {"departs": row.departs} for row in self.rows],
        }


class _Placed(NamedTuple):
    """Maps of a frame in the shapes of the model: stored integers, values, and where they are
    stored."""

    stored: dict[str, Array]
    values: dict[str, Array]
    masks: dict[str, Array]


class Judge:
    """Compares the results of a compiled model with the model's results for the same numbers."""

    def __init__(
        self, model: bytes, maps: Sequence[StoredMap], predicted: Predicted,
        read: StoredMap | None = None,
    ) -> None:  # fmt: skip
        """read : how the cores store the input; None if only the host reads it"""
        self._model, self._predicted, self._read = model, predicted, read
        self._maps = {one.name: one for one in maps}
        self._cut: CutModel | None = None
        self._orders: dict[str, tuple[int, ...]] = {}
        self._unsure: set[str] = set()
        self._sums: dict[str, MapSums] = {}
        self._outputs: dict[str, OutputSums] = {}
        self._frames, self._why = 0, ""

    def add(self, made: Frames) -> None:
        """Compare further frames."""
        self._frames += len(made.samples)
        if self._why:
            return
        try:
            if self._cut is None:
                self._cut = self._begin(made)
            for at in range(len(made.samples)):
                self._frame(self._cut, made, at)
        except BadInputError as error:
            self._why = str(error)

    def _begin(self, made: Frames) -> CutModel:
        """Cut the model at values that the cores store."""
        own = self._predicted.own
        errors = {name: 10 ** (-signal / 20) for name, signal in own.items() if signal is not None}
        errors |= self._predicted.rounded
        cut = CutModel(self._model, list(self._maps), made.samples[:1], errors)
        self._order(cut.values, made.stored, cut.first)
        if len(self._orders) < len(cut.values):  # a map of more elements, which pad its blocks
            cut = CutModel(self._model, list(self._orders), made.samples[:1], errors)
        self._order_by_layers(cut, made, 0, list(self._orders))
        whole = [name for name in self._orders if self._maps[name].mask is None]
        for name in self._orders:
            others = self._predicted.others
            known = name in own or others is not None
            # layers whose maps are not stored on cores also lose signal
            before = cut.between(name, self._orders, own) if name in own else set()
            lost = [own.get(name, others), *(own.get(one) for one in before)]
            predicted = min((one for one in lost if one is not None), default=None)
            silent = not self._predicted.silent.isdisjoint({name, *before})
            partly = others is not None and cut.first[name].dtype.kind in "iu"
            rounded = partly and not cut.integers.are(name, whole)
            self._sums[name] = MapSums(
                self._maps[name], predicted, known, self._predicted.most, silent, name not in own,
                rounded,
            )  # fmt: skip
        self._outputs = {name: OutputSums(name, *self._wanted(cut, name)) for name in made.outputs}
        return cut

    def _order_by_layers(
        self, cut: CutModel, made: Frames, at: int, names: Collection[str]
    ) -> None:
        """Find the axis orders of maps from the values that the model computes from stored maps.

        The model's own values may differ a lot from the maps, as after a clipped sample or many
        layers. The orders of the first maps are right anyway, and each pass makes those right that
        are computed from them.
        """
        stored = {name: made.stored[name][at : at + 1] for name in names}
        sample = self._inputs(made.samples[at : at + 1])[-1]
        for _ in names:
            before = dict(self._orders)
            self._order(names, stored, cut.run(sample, self._placed(cut, made, at).values))
            if self._orders == before:
                return

    def _order(
        self, names: Iterable[str], stored: Mapping[str, Array], values: Mapping[str, Array]
    ) -> None:
        """Find the axis orders of maps from values of the model for a frame."""
        for name in names:
            both = stored[name][:1], values[name], self._maps[name]
            order = order_of(*both)
            if order is not None:
                self._orders[name] = order
                (self._unsure.add if is_ambiguous(*both) else self._unsure.discard)(name)

    def _wanted(self, cut: CutModel, name: str) -> tuple[float | None, float]:
        """Return the predicted SQNR of an output, and the upper limit of the required SQNR."""
        if name in self._sums:
            return None, EXACT
        predicted = self._predicted.outputs.get(name)
        if predicted is not None:
            return predicted, self._predicted.most
        lossy = any(one is not None for one in self._predicted.own.values())
        return None, LEAST if lossy or self._left_out(cut) else EXACT

    def _left_out(self, cut: CutModel | None) -> list[str]:
        given = None if cut is None else cut.input
        return [name for name in self._maps if name not in self._sums and name != given]

    def _frame(self, cut: CutModel, made: Frames, at: int) -> None:
        if self._unsure:
            self._order_by_layers(cut, made, at, tuple(self._unsure))
        maps = self._placed(cut, made, at)
        placed, given, masks = maps.stored, maps.values, maps.masks
        left_out = bool(self._left_out(cut))  # these may be off by one at their own ties
        inputs, feeds = self._inputs(made.samples[at : at + 1]), [given]
        hosted = [name for name in given if not self._maps[name].nodes]
        if hosted:  # the host continues with its own real values, and stores them for cores
            computed = cut.run(inputs[0], given)
            feeds.append(given | {name: computed[name] for name in hosted})
        runs = [
            cut.run(one, some, sign=sign) | {cut.input: one}
            for some in feeds
            for one in inputs
            for sign in cut.signs
        ]

        def found(name: str, ours: Array) -> dict[str, Array]:
            """Return the run nearer to our result: host and cores read the sample in real or stored
            form.
            """
            return min(runs, key=lambda run: _distance(run[name], ours))

        values = {name: found(name, given[name])[name] for name in self._sums}
        nudged: list[dict[str, Array]] = []
        if any(
            differs(placed[name], value, self._maps[name])
            for name, value in values.items()
            if value.dtype.kind in "iu" or name in cut.signed
        ):
            ends = (-TIE, TIE)  # a result may be halfway, and so a value before it
            both = [(a, b) for a in ends for b in (*ends, 0.0)]
            nudged = [cut.run(one, given, shares) for shares in both for one in inputs]
        for name, sums in self._sums.items():
            some = masks[name]
            around = [run[name][some] for run in nudged]
            sums.add(placed[name][some], values[name][some], around, left_out)
        for name, output in self._outputs.items():
            ours = made.outputs[name][at]
            # a stored map is compared as a map, but the host keeps its own numbers
            stored = name in given and name not in hosted
            output.add(ours, given[name] if stored else found(name, ours)[name])

    def _placed(self, cut: CutModel, made: Frames, at: int) -> _Placed:
        """Return the maps of a frame as the model has them."""
        placed, given, masks = {}, {}, {}
        partial = any(self._maps[name].mask is not None for name in self._orders)
        own = cut.uncut(made.samples[at : at + 1]) if partial else cut.first
        for name, order in self._orders.items():
            value = own[name]
            one = self._maps[name]
            placed[name] = made.stored[name][at : at + 1].transpose(order).reshape(value.shape)
            masks[name] = np.ones(value.shape, bool)
            if one.mask is not None:  # no layer takes the rest
                masks[name] = one.mask[None].transpose(order).reshape(value.shape)
                placed[name] = np.where(masks[name], placed[name], as_stored(value, one))
            given[name] = as_value(placed[name], value.dtype, self._maps[name])
        return _Placed(placed, given, masks)

    def _inputs(self, sample: Array) -> list[Array]:
        """Return a sample, and the real numbers of its stored form, also where cores store only its
        windows."""
        if self._read is None:
            return [sample]
        one = self._read
        half = 1 << (one.bits - 1)
        whole = np.rint(sample / np.float32(one.scale)) + one.zero_point
        return [sample, as_value(np.clip(whole, -half, half - 1), sample.dtype, one)]

    def judgement(self) -> Judgement:
        """Return the result for all frames."""
        if self._why:
            return Judgement(self._frames, [], list(self._maps), self._why)
        filled = {one.one.range for one in self._sums.values() if one.fills_range}
        rows = [one.beside(one.one.range in filled) for one in self._sums.values()]
        rows += [one.beside() for one in self._outputs.values()]
        return Judgement(self._frames, rows, self._left_out(self._cut))


def _distance(value: Array, ours: Array) -> float:
    """Return the distance of two arrays; infinite for different sizes or without numbers."""
    if value.size != ours.size or value.dtype.kind not in "fiub":
        return float("inf")
    near, far = (np.asarray(one, np.float64).ravel() for one in (ours, value))
    with np.errstate(invalid="ignore"):  # the difference of two infinities
        return float(np.nansum(np.abs(near - far)))
