"""Python interface of compiled models: `compile_model`.

Nothing is printed, and every error is one of `mapper.errors`. Compiled kernels and packages such as
ONNX are imported by the call, not with this module.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack, overload

from mapper.errors import MapperError, UsageError, as_argument_errors, name_arguments, shown
from mapper.monitoring.bars import progress_of, require_progress
from mapper.monitoring.callbacks import OnProgress

if TYPE_CHECKING:
    from mapper.api.types import ChipLike
    from mapper.compiler.artifacts.compiled_network import CompiledNetwork
    from mapper.compiler.request import CompileRequest
    from mapper.compiler.stages import Clock
    from mapper.inputs.listener import NotesListener
    from mapper.inputs.model_arguments import (
        CommonArguments,
        NirGraph,
        OnnxArguments,
        OnnxModel,
        SpikingArguments,
    )
    from mapper.jobs.compile import Analysis, CompileAnalysis
    from mapper.spiking.artifacts.compiled_model import CompiledModel

COMMAND = ("mapper.compile_model",)
ANALYSES: dict[str, Analysis] = {
    "explain_only": "explain", "compare": "compare", "ablate": "ablate",
}  # fmt: skip
"""Arguments that return a table in place of a compiled model."""


class _Target(NamedTuple):
    """Result of a call. kind : table to return, or None; in_memory : the model has no file"""

    output: Path | None
    force: bool
    kind: Analysis | None
    in_memory: bool


@overload  # the options determine the kind of a file, unless all are for both kinds
def compile_model(  # type: ignore[overload-overlap]
    model: str | os.PathLike[str],
    chip: ChipLike,
    **options: Unpack[CommonArguments],
) -> CompiledModel | CompiledNetwork: ...


@overload
def compile_model(  # type: ignore[overload-overlap]
    model: NirGraph | str | os.PathLike[str],
    chip: ChipLike,
    **options: Unpack[SpikingArguments],
) -> CompiledModel: ...


@overload
def compile_model(
    model: OnnxModel | bytes | str | os.PathLike[str],
    chip: ChipLike,
    *,
    explain_only: Literal[False] = False,
    compare: Literal[False] = False,
    ablate: Literal[False] = False,
    **options: Unpack[OnnxArguments],
) -> CompiledNetwork: ...


@overload
def compile_model(
    model: OnnxModel | bytes | str | os.PathLike[str],
    chip: ChipLike,
    *,
    explain_only: bool = False,
    compare: bool = False,
    ablate: bool = False,
    **options: Unpack[OnnxArguments],
) -> CompileAnalysis: ...


def compile_model(
    model: Any, chip: Any, **options: Any
) -> CompiledModel | CompiledNetwork | CompileAnalysis:
    """Compile a trained model for the cores of a chip, as `mapper compile` does.

    Parameters
    ----------
    model : ONNX: the path of a file, an onnx.ModelProto, or its bytes; spiking: the path of a
        .nir file, or a nir.NIRGraph
    chip : "16x16", the name of a preset, the path of a TOML file, or a `Chip`; for ONNX also a
        range such as "4x4..16x16", of which the smallest chip that fits is used
    output : folder to write; default: a temporary folder that lasts as long as the result
    force : replace an existing output
    calibrate : samples that show how large numbers get: the path of a file or folder; an array of
        shape (samples, *shape of the input), for spikes (samples, ticks, *shape); or arrays by the
        names of the file, such as `x` and the labels `y`. For ONNX also the path of a ranges.json
    max_loss : points of accuracy, or percentage of the samples whose class may change
    keep_going : return the best result if none keeps the limits
    memory : budget, bytes or a text such as "1GiB"
    progress : called with the name of a stage and the fraction of its work, 0.0 at its start and
        1.0 at its end. An exception that it raises ends the compilation and is raised here. True
        shows a bar in a notebook or on a terminal, False shows none; default: a bar in notebooks
        only

    All other options of the command have its names, with underscores, and its defaults.

    ONNX models
    -----------
    input_shape : sizes of the open axes of the input, or sizes by input
    npu : name of a preset, replaces the NPU of the cores
    samples : number of calibration samples to use; default: 100
    verify : test samples, as `calibrate`; default: a quarter of `calibrate`
    normalise, layout : how samples become input: "mean=0.5,std=0.25", "nhwc"
    bits : 8, 16, "auto", or with exceptions by layer, "8,conv1=16"
    scheme, per, method, headroom, rounding, zero_point : quantisation
    min_signal : minimum SQNR in dB
    keep : ONNX nodes to keep on the host, names in a list or one text
    cores, objective, effort, time_limit : search over several cores
    first_tile, bias, dual, few_channels, padding, pack, pack_chunk : schedule and memory
    disable, baseline : passes to switch off, and fixed rules in place of a search
    explain, keep_graphs, emit : further files in the folder
    no_cache : use no results of earlier compilations, and keep none
    explain_only, compare, ablate : True returns a table in place of a compiled model: where each
        node runs, and why; signal and loss of all precisions and methods; or cycles without each
        pass. If `output` holds this model, its report gets the last two

    Spiking models
    --------------
    tick_length : duration of a tick in the time unit of the model; default: its `dt`
    reset : after a spike, "zero" (to `v_reset`) or "subtract" (the threshold)
    weight_bits : width or widths to try; default: 8, 10, 12 and 16, as far as the chip has them
    per : what shares a scale of weights, "neuron" or "population"
    min_agreement : minimum mean cosine of the spike trains of a population; default: 0.95
    bin : ticks per bin in which the trains are counted, 1 (default), 5 or 20
    encode, ticks, seed : turn real numbers into spikes, "current", "rate" or "latency", during so
        many ticks; seed of the random spikes of "rate"

    Ctrl-C ends the compilation and leaves no files.

    Returns
    -------
    CompiledNetwork for ONNX models, or a CompileAnalysis; CompiledModel for spiking models

    Raises
    ------
    CheckFailedError
        If the result misses a limit.
    DoesNotFitError
        If the model does not fit the chip.
    UsageError
        If an argument is invalid.
    MapperError
        Base of all, for all other invalid input. A message is one line.
    """
    from storage.address import path_of

    if isinstance(model, str | os.PathLike):
        model = path_of(model)
        spiking = model.suffix.lower() == ".nir"
    elif isinstance(model, bytes | bytearray | memoryview) or hasattr(model, "SerializeToString"):
        spiking = False
    elif hasattr(model, "nodes") and hasattr(model, "edges"):
        spiking = True
    else:
        raise UsageError(
            f"model is {shown(model)}; give the path of an .onnx or .nir file, an onnx.ModelProto, "
            "its bytes, or a nir.NIRGraph"
        )
    kind = _analysis(options, spiking)
    require_known(options, spiking)
    if spiking:
        return compile_spiking(model, chip, options)
    return _compile_onnx(model, chip, options, kind)


def _analysis(options: dict[str, Any], spiking: bool) -> Analysis | None:
    """Remove the arguments that request a table from the options; return the requested one.

    Raises `UsageError` for two of them, and for spiking models.
    """
    found = []
    for name, kind in ANALYSES.items():
        if name not in options:
            continue
        if spiking:
            raise UsageError(f"{name}: applies to ONNX models only; omit it")
        value = options.pop(name)
        if not isinstance(value, bool):
            raise UsageError(f"{name} is {shown(value)}; give True or False")
        found += [kind] * value
    if len(found) > 1:
        raise UsageError(f"{', '.join(ANALYSES)}: each returns a table; give one of them")
    return found[0] if found else None


def require_known(options: Mapping[str, Any], spiking: bool) -> None:
    """Raise `UsageError` for options that do not apply to a kind of model."""
    from mapper.inputs.model_arguments import OnnxArguments, SpikingArguments

    known: Mapping[str, Any] = OnnxArguments.__annotations__
    others: Mapping[str, Any] = SpikingArguments.__annotations__
    if spiking:
        known, others = others, known
    kinds = "spiking models (.nir)", "ONNX models"
    for name in options:
        if name in known:
            continue
        if name in others:
            raise UsageError(f"{name}: applies to {kinds[spiking]} only; omit it")
        near = get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"there is no argument {name!r} for {kinds[not spiking]}{hint}")
    require_progress(options.get("progress"))


def compile_spiking(model: Any, chip: Any, options: dict[str, Any]) -> CompiledModel:
    """Compile a NIR graph, or the file of one."""
    from mapper.inputs.chips import given_chip
    from mapper.inputs.listener import NotesListener
    from mapper.spiking.artifacts.compile import add_to_catalogue
    from mapper.spiking.artifacts.compiled_model import compile_folder, sample_source
    from mapper.spiking.options import CompileOptions, spiking_options

    output, calibrate = options.pop("output", None), options.pop("calibrate", None)
    force, begin = options.pop("force", False), time.monotonic()
    with as_argument_errors(), progress_of(options.pop("progress", None)) as on_progress:
        with _budget(options):
            samples = None if calibrate is None else sample_source(calibrate, "calibrate")
            cores, folder = given_chip(chip), None if output is None else Path(output)
            given = CompileOptions(**options)
            asked = spiking_options(given, cores, samples is not None)
            listener = NotesListener(on_progress)
            found = compile_folder(model, cores, samples, asked, (folder, force), listener)
        if folder is not None:
            path = model if isinstance(model, Path) else folder
            seconds = time.monotonic() - begin
            add_to_catalogue(path, folder, found.manifest, given._asdict(), seconds)
    return found


def _compile_onnx(
    model: Any, chip: Any, options: dict[str, Any], kind: Analysis | None
) -> CompiledNetwork | CompileAnalysis:
    """Compile or analyse the file of an ONNX model, or a model in memory."""
    output, in_memory = options.pop("output", None), not isinstance(model, Path)
    folder = None if output is None else Path(output)
    target = _Target(folder, options.get("force", False), kind, in_memory)
    with (
        as_argument_errors(),
        progress_of(options.pop("progress", None)) as on_progress,
        _budget(options),
    ):
        if isinstance(model, Path):
            return _of_file(model, chip, options, target, on_progress)
        with tempfile.TemporaryDirectory(prefix="mapper-", ignore_cleanup_errors=True) as name:
            path = Path(name, "model.onnx")
            path.write_bytes(_serialised(model))
            try:
                return _of_file(path, chip, options, target, on_progress)
            except MapperError as error:
                raise type(error)(str(error).replace(str(path), "model")) from error


def _of_file(
    path: Path, chip: Any, options: dict[str, Any], target: _Target, on_progress: OnProgress
) -> CompiledNetwork | CompileAnalysis:
    """Compile or analyse the file of an ONNX model."""
    from mapper.compiler.arguments import RequestedFile, request_of_arguments
    from mapper.compiler.stages import clock_of
    from mapper.inputs.chips import chips_in, given_chip, with_npu
    from mapper.inputs.listener import NotesListener

    sizes = chips_in(chip) if isinstance(chip, str) else [chip]
    npu = options.pop("npu", None)
    if not isinstance(npu, str | None):
        raise UsageError(f"npu is {shown(npu)}; give the name of a preset")
    chips = [with_npu(given_chip(one), npu) for one in sizes]
    request = request_of_arguments(RequestedFile(path, chips), options, COMMAND)
    listener, clock = NotesListener(on_progress), clock_of(on_progress)
    if target.kind is None:
        request.require_sound()
        return _compiled(request, target, listener, clock, bool(options.get("explain")))
    from mapper.jobs.compile import analyse, open_to_analyse, require_analysis

    require_analysis(target.kind, request)
    request.require_sound()
    with clock.running():
        model = open_to_analyse(target.kind, request, listener)
        found = analyse(target.kind, request, model, target.output, listener)
    return found._replace(notes=tuple(listener.notes))


def _compiled(
    request: CompileRequest, target: _Target, listener: NotesListener, clock: Clock, explain: bool
) -> CompiledNetwork:
    from mapper.compiler.artifacts.compiled_network import open_network
    from mapper.compiler.job import add_to_catalogue, compile_requested
    from mapper.results.temporary_folder import with_folder

    begin, output = time.monotonic(), target.output
    found = with_folder(
        output,
        target.force,
        lambda folder: compile_requested(request, folder, listener, clock, explain),
        lambda folder, _: open_network(folder, tuple(listener.notes)),
    )
    if output is not None:
        model = output if target.in_memory else request.model
        add_to_catalogue(model, output, found.report, time.monotonic() - begin)
    return found


def _serialised(model: Any) -> bytes:
    """Return the bytes of a model in memory; raise `MapperError` if it has too many."""
    if isinstance(model, bytes | bytearray | memoryview):
        return bytes(model)
    try:
        return bytes(model.SerializeToString())
    except Exception as error:  # protobuf has several classes of errors
        raise MapperError(
            f"model: cannot be serialised: {name_arguments(str(error))}; save it with "
            "onnx.save_model and external data, and give the path"
        ) from error


def _budget(options: dict[str, Any]) -> AbstractContextManager[None]:
    """Return a context with the argument `memory` as the budget, and replace it by bytes."""
    from mapper.monitoring.resources import memory_budget, parse_bytes

    memory = options.get("memory")
    if memory is None:
        return nullcontext()
    try:
        options["memory"] = size = parse_bytes(str(memory))
    except ValueError as error:
        raise UsageError(f"memory: {error}") from error
    return memory_budget(size)
