"""`compile_model` compiles a spiking model for the cores of a chip."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mapper.api.arguments import chip_of
from mapper.errors import UsageError, as_argument_errors, shown

if TYPE_CHECKING:
    import nir

    from chipsim.chip.model import Chip
    from mapper.spiking.artifacts.compiled_model import CompiledModel, Samples
    from mapper.spiking.discretise import ResetMode
    from mapper.spiking.scales import Per
    from storage.samples.encoding import EncodingMethod


def compile_model(
    model: nir.NIRGraph | str | os.PathLike[str],
    chip: Chip | str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    calibrate: Samples | None = None,
    tick_length: float | None = None,
    reset: ResetMode = "zero",
    weight_bits: int | Sequence[int] | None = None,
    per: Per = "neuron",
    max_loss: float = 1.0,
    min_agreement: float | None = None,
    bin: int | None = None,
    encode: EncodingMethod | None = None,
    ticks: int | None = None,
    seed: int = 0,
    keep_going: bool = False,
) -> CompiledModel:
    """Compile a spiking model for the cores of a chip, as `mapper compile` does.

    Parameters
    ----------
    model : nir.NIRGraph, or the path of a .nir file
    chip : "16x16", the name of a preset, the path of a TOML file, or a `Chip`
    output : folder to write; default: a temporary folder that lasts as long as the result
    force : replace an existing output
    calibrate : samples that show how large potentials get, and on which `weight_bits` are tried:
        the path of an .npz file; an array of shape (samples, ticks, *shape) of spikes per tick, or
        with `encode` of shape (samples, *shape) of real numbers; or arrays by the names of the
        file, such as the inputs of the model, lists `sample`, `tick` and `neuron`, labels `y`
    tick_length : duration of a tick in the time unit of the model; default: its `dt`
    reset : after a spike, "zero" (to `v_reset`) or "subtract" (the threshold)
    weight_bits : width or widths to try; default: 8, 10, 12 and 16, as far as the chip has them
    per : what shares a scale of weights, "neuron" or "population"
    max_loss : percentage of the samples whose class may change
    min_agreement : minimum mean cosine of the spike trains of a population; default: 0.95
    bin : ticks per bin in which the trains are counted, 1 (default), 5 or 20
    encode, ticks, seed : turn real numbers into spikes, "current", "rate" or "latency", during so
        many ticks; seed of the random spikes of "rate"
    keep_going : return the best result if none keeps the limits; `manifest.limits_missed` has them

    Raises
    ------
    CheckFailedError
        If no weights agree with the model within the limits.
    DoesNotFitError
        If a limit of the chip cannot be met.
    UsageError
        If an argument is invalid.
    MapperError
        Base of all, for all other invalid input. A message is one line.
    """
    from mapper.spiking.artifacts.compiled_model import compile_folder, sample_source
    from mapper.spiking.options import CompileOptions, spiking_options
    from storage.address import path_of

    if isinstance(model, str | os.PathLike):
        model = path_of(model)
        if model.suffix.lower() != ".nir":
            raise UsageError(f"{model}: is not a .nir file; use `mapper compile` for ONNX models")
    elif not hasattr(model, "nodes") or not hasattr(model, "edges"):
        raise UsageError(f"model is {shown(model)}; give a nir.NIRGraph or the path of a .nir file")
    given = CompileOptions(
        tick_length, reset, weight_bits, per, max_loss, min_agreement, bin, encode, ticks, seed,
        keep_going,
    )  # fmt: skip
    with as_argument_errors():
        samples = None if calibrate is None else sample_source(calibrate, "calibrate")
        cores, folder = chip_of(chip), None if output is None else Path(output)
        options = spiking_options(given, cores, samples is not None)
        return compile_folder(model, cores, samples, options, folder, force)
