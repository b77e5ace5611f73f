"""Execution of the host plan of a compiled model (see `hostplan`)."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.graph import View
from mapper.compiler.ir.node import Levels, Node, Operator, Sign, Window
from mapper.compiler.ir.tensor import BITS, Pad, Tensor
from mapper.compiler.numerics.binary import stored_input
from mapper.compiler.numerics.formulas import dequantise, quantise, real_numbers
from mapper.compiler.numerics.windows import pixels_of_windows
from mapper.compiler.partition.hostplan import Step
from mapper.errors import HostNodeError
from storage.errors import BadInputError
from storage.formats.layers.onnxruns import NodeSession

Data = NDArray[Any]
Maps = dict[str, Data]
"""Stored integers by tensor name, shape (1, rows, columns, channels)."""


class CoreAccess(Protocol):
    """Interface of the host to the cores of a chip in a frame."""

    def write(self, tensor: str, maps: Data) -> None:
        """Write stored integers to the memory of a core."""

    def start(self, function: int) -> None:
        """Run a function to its end."""

    def read(self, tensor: str) -> Data:
        """Read stored integers from the memory of a core."""

    def put(self, tensor: str, vectors: Data) -> None:
        """Write vectors to a core: shape (1, rows, columns, blocks, channels per block)."""

    def take(self, tensor: str) -> Data:
        """Read vectors from a core, in the shape of `put`."""


def view_of(step: Step) -> View:
    """Return the view of a quantise or dequantise step."""
    kind = {bits: name for name, bits in reversed(BITS.items())}[step["bits"]]
    tensor = Tensor(
        step["tensor"], tuple(step["tensor_shape"]), cast(Any, kind), step["scale"],
        step["zero_point"],
    )  # fmt: skip
    return View(tensor, tuple(step["order"]), tuple(step["shape"]))


class HostPlan:
    """The steps of a compiled model, ready to run; thread-safe."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        taken = {step["tensor"] for step in steps if step["do"] == "dequantise"}
        laid_out = {step["tensor"] for step in steps if step["do"] == "windows"}
        self._inner = laid_out - taken
        """Feature maps from cores to cores that the host only rearranges (im2col)."""
        self._ready: dict[int, NodeSession] = {}
        self._lock = Lock()

    def run(self, values: Mapping[str, Data], cores: CoreAccess) -> tuple[dict[str, Data], Maps]:
        """Run a frame. Return all values by name, in ONNX layout, and the feature maps that cores
        sent to the host, as stored integers.

        values : model inputs, float32, shape (1, ...)
        """
        known: dict[str, Data] = dict(values)
        stored: Maps = {}
        results: Maps = {}
        vectors = Vectors()
        for number, step in enumerate(self.steps):
            if step.get("packed"):
                self._on_vectors(number, step, vectors)
                continue
            match step["do"]:
                case "quantise":
                    view = view_of(step)
                    maps, to = _map_of(view, known[step["value"]]), view.tensor
                    stored[to.name] = (
                        _stored_by_levels(step["levels"], maps)
                        if step.get("levels")
                        else quantise(maps, to.scale, to.zero_point, to.bits)
                    )
                case "windows":
                    stored[step["result"]] = _windows(step, (stored | results)[step["tensor"]])
                case "slice":
                    whole = (stored | results)[step["tensor"]]
                    part = range(step["first"], step["stop"])
                    stored[step["result"]] = whole.take(part, step["axis"])
                case "concat":
                    parts = [(stored | results)[name] for name in step["tensors"]]
                    stored[step["result"]] = np.concatenate(parts, step["axis"])
                case "pack":
                    cores.write(step["tensor"], stored[step["tensor"]])
                case "start":
                    cores.start(step["function"])
                case "unpack":
                    results[step["tensor"]] = cores.read(step["tensor"])
                case "put":
                    cores.put(step["tensor"], vectors.stored[step["tensor"]])
                case "take":
                    found = vectors.stored[step["tensor"]] = cores.take(step["tensor"])
                    results[step["tensor"]] = without_gaps(found, step["shape"])
                case "dequantise":
                    view = view_of(step)
                    of = view.tensor
                    real = real_numbers((stored | results)[of.name], of)
                    known[step["value"]] = view.frame(real)
                case "view":
                    seen, made = _view(step["seen"]), _view(step["as"])
                    known[step["result"]] = made.frame(_map_of(seen, known[step["value"]]))
                case _:
                    known |= self._node(number, step, known)
        return known, {name: one for name, one in results.items() if name not in self._inner}

    def _on_vectors(self, number: int, step: Step, vectors: Vectors) -> None:
        """Run a step on feature maps in vectors."""
        if step["do"] == "node":
            names = zip(step["inputs"], step["values"], strict=True)
            given = {name: vectors.real[value] for name, value in names}
            with np.errstate(all="ignore"):  # padding after the last channel may be invalid
                (made,) = self._node(number, step, given).values()
            vectors.real[step["results"][0]] = made
            return
        of = view_of(step).tensor
        if step["do"] == "dequantise":
            real = dequantise(vectors.stored[of.name], of.scale, of.zero_point)
            vectors.real[step["value"]] = real
            return
        with np.errstate(invalid="ignore"):  # padding after the last channel is arbitrary
            made = quantise(vectors.real[step["value"]], of.scale, of.zero_point, of.bits)
        vectors.stored[of.name] = with_filled_blocks(made, of.channels, of.zero_point)

    def _node(self, number: int, step: Step, known: Mapping[str, Data]) -> dict[str, Data]:
        """Return the outputs of a host node; its session is cached."""
        try:
            with self._lock:
                if number not in self._ready:
                    self._ready[number] = NodeSession(base64.b64decode(step["model"]))
            made = self._ready[number].run(known)
        except BadInputError as error:
            name = f"node {step['sources'][0]!r} ({step['op']})"
            raise HostNodeError(f"{name}: {error}") from error
        return dict(zip(step["outputs"], made, strict=True))


class Vectors:
    """Feature maps in vectors, shape (1, rows, columns, blocks, channels per block), by name: as
    stored integers, and as real numbers."""

    def __init__(self) -> None:
        self.stored: Maps = {}
        self.real: Maps = {}


def without_gaps(vectors: Data, shape: Sequence[int]) -> Data:
    """Return feature maps from vectors, without the padding of the last block of a pixel."""
    return vectors.reshape(*shape[:3], -1)[..., : shape[3]]


def with_filled_blocks(vectors: Data, channels: int, zero_point: int) -> Data:
    """Return the vectors with the zero point after the last channel."""
    whole = vectors.reshape(*vectors.shape[:3], -1).copy()
    whole[..., channels:] = zero_point
    return whole.reshape(vectors.shape)


def _stored_by_levels(how: Step, maps: Data) -> Data:
    fields = {name: value for name, value in how.items() if name not in ("kind", "steps")}
    operator: Operator = (Sign if how["kind"] == Sign.name else Levels)(**fields)
    parts = [np.array(part) for pair in how["steps"] for part in pair]
    tensors = [Tensor("", part.shape, value=part) for part in parts]
    return stored_input(Node(operator, [Tensor("", maps.shape), *tensors], [], ()), maps)


def _map_of(view: View, array: Data) -> Data:
    """Return a tensor's data for one frame; the batch need not be the first axis of `array`."""
    return array.reshape(view.ordered).transpose(np.argsort(view.order))


def _view(step: Step) -> View:
    tensor = Tensor("", tuple(step["tensor_shape"]))
    return View(tensor, tuple(step["order"]), tuple(step["shape"]))


def _windows(step: Step, maps: Data) -> Data:
    made = step["window"]
    window = Window(
        tuple(made["size"]), tuple(made["stride"]), Pad(*made["pad"]), tuple(made["dilation"])
    )
    return pixels_of_windows(maps, window, step["value"])
