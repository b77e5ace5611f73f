"""What a compilation is asked for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from mapper.errors import UsageError

SCHEMES = ("asym", "sym")


@dataclass(frozen=True, slots=True)
class CompileSettings:
    """Settings of the compiler; raises `UsageError` that names a value out of range.

    bits : of activations and weights
    scheme : zero points of activations, or none
    per : one scale for all kernels of a layer, or one for each
    headroom : factor on that which ranges have
    samples : that ranges are measured with, at most
    bias_correction : whether the mean error of each channel is taken off its bias
    reuse : whether maps whose lives do not meet share memory
    """

    bits: Literal[8, 16] = 8
    scheme: Literal["asym", "sym"] = "asym"
    per: Literal["tensor", "channel"] = "channel"
    headroom: float = 1.0
    samples: int = 100
    bias_correction: bool = True
    reuse: bool = True

    def __post_init__(self) -> None:
        if not 0.1 <= self.headroom <= 10:
            raise UsageError(f"--headroom is {self.headroom:g}; give a number from 0.1 to 10")

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
