"""Settings of a compilation."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from mapper.compiler.layer_bits import AUTO, LayerBits
from mapper.errors import UsageError

Scheme = Literal["asym", "sym"]
Method = Literal["minmax", "percentile", "mse", "entropy"]
Dual = Literal["off", "pixels", "kernels", "auto"]
Schedule = Literal["search", "rows", "plane8", "plane16"]
WeightRule = Literal["optimal", "greedy"]
FewChannels = Literal["auto", "core", "host", "off"]
"""Where the windows of layers of few channels are built."""
Placement = Literal["mapper", "row-major", "serpentine"]
Objective = Literal["throughput", "latency"]
SearchEffort = Literal["fast", "default", "strong"]

EMITTED = ("c", "loops")
"""Further outputs of a compilation: a C driver, and loop listings."""


@dataclass(frozen=True, slots=True)
class CompileSettings:
    """Settings of the compiler; raises `UsageError` that names a value out of range.

    scheme : zero points of activations, or none
    per : one scale for all kernels of a layer, or one per kernel
    method : calibration method; auto tries all in order until the limits are reached
    headroom : factor on the default headroom of ranges
    samples : maximum number of calibration samples
    bias_correction : whether the mean error of each channel is subtracted from its bias
    keep : ONNX nodes that stay on the host
    max_loss, min_signal : limits of the verification, in points and dB
    rounding : rounding of shifts; zero_point : added after the shift, or in the bias
    bits : bits of activations and weights, as in `--bits`; 16 needs a core with a dual multiplier
    bias : initial value of sums, or added by the ALU; dual : operands of paired products
    reuse : whether maps with disjoint lifetimes share memory
    padding : whether loads pad maps, or padding is stored around them
    schedule : how layers are tiled: by search, or by a fixed rule
    first_tile : columns and rows of the tiles of the first layer, or None
    pack : where the cycle count includes packing of signs into bits; pack_chunk : bytes per
        transfer to the host
    weights : rule that selects layers whose weights are streamed from the host
    few_channels : where windows of layers of few channels are built: core, host, off, or the option
        with the fewest cycles
    cores : maximum number of cores; None uses all of the chip
    effort : extent of the search for a distribution over several cores
    time_limit : seconds after which that search ends with its best result, or None
    objective : optimise a split over several cores for throughput or for latency of a frame
    placement : placement of parts on cores: by the mapper, row by row, or row by row in alternating
        direction
    off : passes that are switched off
    """

    scheme: Scheme = "asym"
    per: Literal["tensor", "channel"] = "channel"
    method: Method | Literal["auto"] = "auto"
    headroom: float = 1.0
    samples: int = 100
    bias_correction: bool = True
    keep: tuple[str, ...] = ()
    max_loss: float = 1.0
    min_signal: float = 20.0
    rounding: Literal["away", "up", "even"] = "away"
    zero_point: Literal["shift", "bias"] = "shift"
    reuse: bool = True
    bits: int | str = AUTO
    bias: Literal["init", "alu"] = "init"
    dual: Dual = "auto"
    schedule: Schedule = "search"
    first_tile: tuple[int, int] | None = None
    pack: Literal["core", "host"] = "core"
    pack_chunk: int = 16
    weights: WeightRule = "optimal"
    padding: Literal["load", "stored"] = "load"
    few_channels: FewChannels = "auto"
    cores: int | None = None
    placement: Placement = "mapper"
    objective: Objective = "throughput"
    effort: SearchEffort = "default"
    time_limit: float | None = None
    off: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        LayerBits.parse(self.bits)
        if not 0.1 <= self.headroom <= 10:
            raise UsageError(f"--headroom is {self.headroom:g}; give a number from 0.1 to 10")
        if not 0 <= self.max_loss <= 100:
            raise UsageError(f"--max-loss is {self.max_loss:g}; give points from 0 to 100")
        if not math.isfinite(self.min_signal):
            raise UsageError(f"--min-signal is {self.min_signal:g}; give a number of dB")
        if self.cores is not None and self.cores < 1:
            raise UsageError(f"--cores is {self.cores}; give a number from 1")
        if self.time_limit is not None and not 0 < self.time_limit < math.inf:
            raise UsageError(f"--time-limit is {self.time_limit:g}; give seconds above 0")
        if self.first_tile is not None and min(self.first_tile) < 1:
            sizes = "x".join(map(str, self.first_tile))
            raise UsageError(f"--first-tile is {sizes}; give columns and rows of at least 1")

    @property
    def layer_bits(self) -> LayerBits:
        return LayerBits.parse(self.bits)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
