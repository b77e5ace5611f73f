"""Check compiled models: run their programs and compare the stored maps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.artifacts.contents import clipped_inputs, input_step
from mapper.compiler.artifacts.judge.beside import Frames, Judge, Judgement, Predicted
from mapper.compiler.artifacts.judge.compare import EXACT, LEAST, MARGIN, StoredMap
from mapper.compiler.artifacts.judge.cut import input_type
from mapper.compiler.artifacts.manifest import RANGES, CompiledFolder
from mapper.compiler.artifacts.simulate import Machine, Maps, simulate
from mapper.errors import CheckFailedError

Array = NDArray[Any]
MOVED = re.compile(r"\.(windows|moved|narrowed|copy\d+)$")
"""Names of maps that hold the numbers of others, in another order or in fewer bits."""
WHOLE_BYTES = 255
BEYOND = 0.05  # relative to the range
WORK = 1 << 22
"""Cycles of one core simulated for the comparison at the end of a compilation."""
MOST_FRAMES = 8


def frames_for(cycles: int) -> int:
    """Return how many frames are compared when a model is compiled."""
    return int(np.clip(WORK // max(1, cycles), 1, MOST_FRAMES))


class Judged:
    """A compiled model that runs, and its judge.

    report : report.json of the compilation, with the losses of its layers
    most : upper limit in dB of the required SQNR; above `LEAST` only for the samples of these
        losses
    """

    def __init__(
        self, machine: Machine, model: bytes, report: Mapping[str, Any], most: float = LEAST
    ) -> None:
        layers = {layer["map"]: tuple(layer["nodes"]) for layer in machine.layers}
        taken = [name for one in machine.functions for name in one["inputs"]]
        self._maps = []
        self._channels: dict[str, list[int]] = {}
        for name in dict.fromkeys([*taken, *layers]):
            if name not in machine.results and name not in machine.maps:
                continue  # concatenated from parts, and read along with other parts
            if not machine.is_whole(name):
                continue  # some elements are only in the host's copy, others only in cores
            one = machine.parts(name)[0]
            channels = one.get("of_model") or list(range(one["whole"][3]))
            mask = machine.covered(name)[:, :, channels]
            self._channels[name] = channels
            how = one["scale"] or 1.0, one["zero_point"], one["bits"]
            host = name in taken and name not in layers  # it has all elements
            gaps = None if host or mask.all() else mask
            self._maps.append(StoredMap(name, layers.get(name, ()), *how, gaps))
        moved = {
            MOVED.sub("", one.name): 2.0**-one.bits
            for one in self._maps
            if MOVED.search(one.name) and one.bits > 1
        }
        self._maps = [one for one in self._maps if not MOVED.search(one.name)]
        losses = {one["tensor"]: one["own"] for one in report["losses"]}
        calibrated = (machine.folder.path / RANGES).is_file()
        others = LEAST + MARGIN if calibrated else None
        silent = frozenset(one["tensor"] for one in report["losses"] if one["silent"])
        predicted = Predicted(losses, report.get("outputs_db", {}), others, most, moved, silent)
        step = input_step(machine.folder)
        read = None
        if step is not None:
            read = StoredMap(step["value"], (), step["scale"], step["zero_point"], step["bits"])
        self._judge = Judge(model, self._maps, predicted, read)
        self._frames: dict[int, Maps] = {}

    def take(self, number: int, maps: Maps) -> None:
        """Keep the maps of a frame, by its index; may be called from threads."""
        self._frames[number] = maps

    def add(self, samples: Array, outputs: Mapping[str, Array]) -> None:
        """Compare the kept frames, of samples of shape (frames, ...)."""
        frames = [self._frames[at] for at in range(len(samples))]
        self._frames = {}
        stored = {
            one.name: np.concatenate(
                [maps[one.name][..., self._channels[one.name]] for maps in frames]
            )
            for one in self._maps
        }
        self._judge.add(Frames(samples, stored, outputs))

    def judgement(self) -> Judgement:
        return self._judge.judgement()


def judge_compiled(
    folder: CompiledFolder, samples: Array | None, report: Mapping[str, Any]
) -> Judgement:
    """Check a model that was just compiled, on a few frames.

    samples : the first ones are used; None generates random samples
    """
    if samples is None and (folder.path / RANGES).is_file():
        why = "there are no samples, and random ones would exceed the measured ranges"
        return Judgement(0, [], [], why)
    frames = frames_for(report["cycles"])
    machine = Machine(folder)
    some = random_samples(machine, frames) if samples is None else samples[:frames]
    return judged(machine, folder.model, some, report)


def random_samples(machine: Machine, frames: int) -> Array:
    """Return random samples that fill the range of a model's input, and slightly exceed it.

    These are whole numbers if the model reads integers.
    """
    random = np.random.default_rng(0)
    shape = (frames, *machine.folder.manifest["input"]["shape"][1:])
    kind = input_type(machine.folder.model)
    if kind.kind in "iu":
        ends = np.iinfo(kind) if kind.itemsize == 1 else np.iinfo(np.uint8)
        return random.integers(ends.min, ends.max + 1, shape).astype(np.float32)
    known = clipped_inputs(machine.folder, np.zeros((0, 1), np.float32))
    if known is None:
        return random.normal(size=shape).astype(np.float32)
    if known.high - known.low == WHOLE_BYTES:  # scale 1: it represents whole numbers
        return random.integers(int(known.low), int(known.high) + 1, shape).astype(np.float32)
    beyond = BEYOND * (known.high - known.low)
    return random.uniform(known.low - beyond, known.high + beyond, shape).astype(np.float32)


def require_right(found: Judgement, model: Path) -> None:
    """Raise `CheckFailedError` that names the first map or output that departs from the model."""
    row = found.departure
    if row is not None:
        what = f"layer {row.nodes[0]!r}" if row.nodes else "output"
        raise CheckFailedError(
            f"{model}: {what} (value {row.name!r}) departs from the model in ONNX Runtime: "
            f"{row.told}; this is a fault of mapper: please report it with the model"
        )


def judged(
    machine: Machine, model: bytes, samples: Array, report: Mapping[str, Any], threads: int = 1
) -> Judgement:
    """Run samples, float32 of shape (frames, ...), and compare the results."""
    one = Judged(machine, model, report, EXACT)
    found = simulate(machine, samples, threads, check=False, on_frame=one.take)
    one.add(samples, found.values)
    return one.judgement()
