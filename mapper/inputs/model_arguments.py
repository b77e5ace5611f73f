"""Models and options of `mapper.compile_model`: types for checkers, and the names of options."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypedDict

from mapper.inputs.samples import GivenSamples
from mapper.monitoring.bars import GivenProgress

Names = str | Sequence[str]
"""Names in one text, separated by commas, or one per entry."""


class NirGraph(Protocol):
    """A spiking model, such as nir.NIRGraph."""

    nodes: Any
    edges: Any


class OnnxModel(Protocol):
    """A model that protobuf serialises, such as onnx.ModelProto."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802  # the name in protobuf


class CommonArguments(TypedDict, total=False):
    """Arguments of all kinds of models."""

    output: str | os.PathLike[str] | None
    force: bool
    calibrate: GivenSamples | None
    max_loss: float
    keep_going: bool
    memory: int | str | None
    progress: GivenProgress


class SpikingArguments(CommonArguments, total=False):
    """Arguments of spiking models."""

    tick_length: float | None
    reset: Literal["zero", "subtract"]
    weight_bits: int | Sequence[int] | None
    per: Literal["neuron", "population"]
    min_agreement: float | None
    bin: Literal[1, 5, 20] | None
    encode: Literal["current", "rate", "latency"] | None
    ticks: int | None
    seed: int


class OnnxArguments(CommonArguments, total=False):
    """Arguments of ONNX models."""

    input_shape: Sequence[int] | Mapping[str, Sequence[int]] | None
    npu: str | None
    samples: int | None
    verify: GivenSamples | None
    normalise: str | None
    layout: Literal["nchw", "nhwc"] | None
    bits: int | str
    scheme: Literal["asym", "sym"]
    per: Literal["tensor", "channel"]
    method: Literal["auto", "minmax", "percentile", "mse", "entropy"]
    headroom: float
    rounding: Literal["away", "up", "even"]
    zero_point: Literal["shift", "bias"]
    min_signal: float
    keep: Names
    cores: int | None
    objective: Literal["throughput", "latency"]
    effort: Literal["fast", "default", "strong"]
    time_limit: float | None
    first_tile: tuple[int, int] | None
    bias: Literal["init", "alu"]
    dual: Literal["off", "pixels", "kernels", "auto"]
    few_channels: Literal["auto", "core", "host", "off"]
    padding: Literal["load", "stored"]
    pack: Literal["core", "host"]
    pack_chunk: int
    disable: Names
    baseline: Names
    explain: bool
    keep_graphs: bool
    emit: Names
    no_cache: bool
