"""Judging a compiled model: its maps and outputs beside those of the model in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.judge.compare import (
    EXACT,
    LEAST,
    TIE,
    Beside,
    OutputSums,
    StoredMap,
    Sums,
    as_stored,
    as_value,
    differs,
    order_of,
)
from mapper.compiler.judge.cut import CutModel
from storage.errors import BadInputError

Array = NDArray[Any]


class Frames(NamedTuple):
    """What a compiled model makes of some samples.

    samples : float32, shape (frames, ...), as the model takes them
    stored : integers by the names of maps, shape (frames, rows, columns, channels)
    outputs : by name, shape (frames, ...)
    """

    samples: Array
    stored: Mapping[str, Array]
    outputs: Mapping[str, Array]


class Predicted(NamedTuple):
    """What the quantisation loses: signal over error in dB of each map by itself, None without
    error, by its name; of the model's outputs by theirs; and of maps that are not named, None if
    those are whole numbers of the model. most : dB that are asked for, whatever is predicted;
    rounded : relative errors of values that cores store in another form."""

    own: Mapping[str, float | None]
    outputs: Mapping[str, float | None] = MappingProxyType({})
    others: float | None = None
    most: float = EXACT
    rounded: Mapping[str, float] = MappingProxyType({})


class Judgement(NamedTuple):
    """rows : the maps in the order in which they are made, then the outputs
    left_out : names of maps that are no values of the model, as those with gaps between channels
    why : ONNX Runtime does not run the model; nothing is compared then
    """

    frames: int
    rows: list[Beside]
    left_out: list[str]
    why: str = ""

    @property
    def departure(self) -> Beside | None:
        """The first map or output that is not what the model makes."""
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


class Judge:
    """Compares what a compiled model makes with what the model makes of the same numbers."""

    def __init__(self, model: bytes, maps: Sequence[StoredMap], predicted: Predicted) -> None:
        self._model, self._predicted = model, predicted
        self._maps = {one.name: one for one in maps}
        self._cut: CutModel | None = None
        self._orders: dict[str, tuple[int, ...]] = {}
        self._sums: dict[str, Sums] = {}
        self._outputs: dict[str, OutputSums] = {}
        self._frames, self._why = 0, ""

    def add(self, made: Frames) -> None:
        """Compare some more frames."""
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
        """Cut the model where it has values that the cores store."""
        own = self._predicted.own
        errors = {name: 10 ** (-signal / 20) for name, signal in own.items() if signal is not None}
        errors |= self._predicted.rounded
        cut = CutModel(self._model, list(self._maps), made.samples[:1], errors)
        for name in cut.values:
            order = order_of(made.stored[name][:1], cut.first[name], self._maps[name])
            if order is not None:
                self._orders[name] = order
        if len(self._orders) < len(cut.values):  # a map of more elements, which fill its blocks
            cut = CutModel(self._model, list(self._orders), made.samples[:1], errors)
        for name in self._orders:
            others = self._predicted.others
            known = name in own or others is not None
            lost = [own.get(name, others)]
            if name in own:  # layers whose maps the cores do not store lose something as well
                lost += [own.get(one) for one in cut.between(name, self._orders)]
            predicted = min((one for one in lost if one is not None), default=None)
            self._sums[name] = Sums(self._maps[name], predicted, known, self._predicted.most)
        self._outputs = {name: OutputSums(name, *self._wanted(cut, name)) for name in made.outputs}
        return cut

    def _wanted(self, cut: CutModel, name: str) -> tuple[float | None, float]:
        """The predicted signal of an output, and what is asked for at most."""
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
        placed, given, masks = {}, {}, {}
        left_out = bool(self._left_out(cut))  # which may be off by one, at a tie of their own
        for name, order in self._orders.items():
            value = cut.first[name]
            one = self._maps[name]
            placed[name] = made.stored[name][at : at + 1].transpose(order).reshape(value.shape)
            masks[name] = np.ones(value.shape, bool)
            if one.mask is not None:  # no layer takes the rest
                masks[name] = one.mask[None].transpose(order).reshape(value.shape)
                placed[name] = np.where(masks[name], placed[name], as_stored(value, one))
            given[name] = as_value(placed[name], value.dtype, self._maps[name])
        inputs, feeds = self._inputs(cut, made, at), [given]
        hosted = [name for name in given if not self._maps[name].nodes]
        if hosted:  # the host goes on with what it computed, and stores it for cores
            computed = cut.run(inputs[0], given)
            feeds.append(given | {name: computed[name] for name in hosted})
        runs = [
            cut.run(one, some, sign=sign) | {cut.input: one}
            for some in feeds
            for one in inputs
            for sign in cut.signs
        ]

        def found(name: str, ours: Array) -> dict[str, Array]:
            """The run that is nearer to what was made of the sample: host and cores take it as it
            is, or as it is stored."""
            return min(runs, key=lambda run: _distance(run[name], ours))

        values = {name: found(name, given[name])[name] for name in self._sums}
        nudged: list[dict[str, Array]] = []
        if any(
            differs(placed[name], value, self._maps[name])
            for name, value in values.items()
            if value.dtype.kind in "iu" or name in cut.signed
        ):
            nudged = [cut.run(one, given, share) for one in inputs for share in (-TIE, TIE)]
        for name, sums in self._sums.items():
            fused = left_out or name not in cut.quantised
            some = masks[name]
            around = [run[name][some] for run in nudged]
            sums.add(placed[name][some], values[name][some], around, fused)
        for name, output in self._outputs.items():  # a stored map is judged as such
            ours = made.outputs[name][at]
            output.add(ours, given[name] if name in given else found(name, ours)[name])

    def _inputs(self, cut: CutModel, made: Frames, at: int) -> list[Array]:
        """A sample as it is, and as the real numbers of what is stored of it, if cores store it."""
        sample, one = made.samples[at : at + 1], self._maps.get(cut.input)
        if one is None:
            return [sample]
        stored = made.stored[cut.input]
        order = order_of(stored[:1], made.samples[:1], one)
        if order is None:
            return [sample]
        placed = stored[at : at + 1].transpose(order).reshape(sample.shape)
        return [sample, as_value(placed, sample.dtype, one)]

    def judgement(self) -> Judgement:
        """Of all frames."""
        if self._why:
            return Judgement(self._frames, [], list(self._maps), self._why)
        rows = [one.beside() for one in self._sums.values()]
        rows += [one.beside() for one in self._outputs.values()]
        return Judgement(self._frames, rows, self._left_out(self._cut))


def _distance(value: Array, ours: Array) -> float:
    """How far two arrays are from each other; infinite if they have other sizes, or no numbers."""
    if value.size != ours.size or value.dtype.kind not in "fiub":
        return float("inf")
    near, far = (np.asarray(one, np.float64).ravel() for one in (ours, value))
    return float(np.nansum(np.abs(near - far)))
