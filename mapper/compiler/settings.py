"""What a compilation is asked for."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from mapper.compiler.codegen.builder import Dual, Schedule
from mapper.compiler.integer.formulas import Rounding
from mapper.compiler.memory.weights import Rule
from mapper.compiler.passes.base import FewChannels
from mapper.compiler.quantise.methods import Method
from mapper.compiler.quantise.parameters import Precision
from mapper.compiler.quantise.score import Limits
from mapper.compiler.quantise.verify import MOST_WIDE, QuantiseRequest
from mapper.errors import UsageError

Placement = Literal["mapper", "row-major", "serpentine"]
Objective = Literal["throughput", "latency"]


@dataclass(frozen=True, slots=True)
class CompileSettings:
    """Settings of the compiler; raises `UsageError` that names a value out of range.

    scheme : zero points of activations, or none
    per : one scale for all kernels of a layer, or one for each
    method : how ranges are chosen; auto tries one after the other until the limits are reached
    headroom : factor on that which ranges have
    samples : that ranges are measured with, at most
    bias_correction : whether the mean error of each channel is taken off its bias
    keep : ONNX nodes that stay on the host
    max_loss, min_signal : limits of the verification, in points and dB
    rounding : of shifts; zero_point : added behind the shift, or in the bias
    bits : of stored integers; 16 need a core whose multiplier is dual
    bias : what sums begin with, or added to them behind; dual : pairs of products at once
    reuse : whether maps whose lives do not meet share memory
    padding : whether loads write the padding of maps, or it is stored around them
    schedule : how layers are cut into tiles: by search, or by a fixed rule
    first_tile : columns and rows of the tiles of the first layer, if they are given
    pack : who packs signs into bits, in the count of cycles; pack_chunk : bytes that the host gets
        at once
    weights : how layers are chosen whose weights come from the host
    few_channels : who makes the windows of layers of few channels: the core, the host, nobody, or
        whatever takes the fewest cycles
    cores : that are used, at most; None is all of the chip
    objective : what layers are cut over several cores for: frames that follow each other fast, or
        one that is done early
    placement : which core of several gets which part: as the mapper places them, or in their order,
        row by row, perhaps every second row backwards
    off : passes that are not applied
    """

    scheme: Literal["asym", "sym"] = "asym"
    per: Literal["tensor", "channel"] = "channel"
    method: Method | Literal["auto"] = "auto"
    headroom: float = 1.0
    samples: int = 100
    bias_correction: bool = True
    keep: tuple[str, ...] = ()
    max_loss: float = 1.0
    min_signal: float = 20.0
    rounding: Rounding = "away"
    zero_point: Literal["shift", "bias"] = "shift"
    reuse: bool = True
    bits: Literal[8, 16] = 8
    bias: Literal["init", "alu"] = "init"
    dual: Dual = "auto"
    schedule: Schedule = "search"
    first_tile: tuple[int, int] | None = None
    pack: Literal["core", "host"] = "core"
    pack_chunk: int = 16
    weights: Rule = "optimal"
    padding: Literal["load", "stored"] = "load"
    few_channels: FewChannels = "auto"
    cores: int | None = None
    placement: Placement = "mapper"
    objective: Objective = "throughput"
    off: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0.1 <= self.headroom <= 10:
            raise UsageError(f"--headroom is {self.headroom:g}; give a number from 0.1 to 10")
        if not 0 <= self.max_loss <= 100:
            raise UsageError(f"--max-loss is {self.max_loss:g}; give points from 0 to 100")
        if not math.isfinite(self.min_signal):
            raise UsageError(f"--min-signal is {self.min_signal:g}; give a number of dB")
        if self.cores is not None and self.cores < 1:
            raise UsageError(f"--cores is {self.cores}; give a number from 1")
        if self.first_tile is not None and min(self.first_tile) < 1:
            sizes = "x".join(map(str, self.first_tile))
            raise UsageError(f"--first-tile is {sizes}; give columns and rows of at least 1")

    @property
    def limits(self) -> Limits:
        """What the verification asks for."""
        return Limits(self.max_loss, self.min_signal)

    def quantise_request(self, dual: bool = False) -> QuantiseRequest:
        """What the verification loop begins with; dual : whether cores have 16 bits."""
        precision = Precision(
            self.bits,
            self.scheme,
            self.per == "channel",
            self.headroom,
            self.rounding,
            self.zero_point,
        )
        method = None if self.method == "auto" else self.method
        return QuantiseRequest(
            precision,
            method,
            self.bias_correction,
            self.keep,
            most_kept=0,
            most_wide=MOST_WIDE if dual else 0,
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
