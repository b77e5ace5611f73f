"""Python interface: `map_network` maps a network, `compile_model` compiles a spiking model.

Nothing is printed, and every error is one of `mapper.errors`. Compiled kernels and packages such as
SciPy are imported by the call, not with this module.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from mapper.errors import UsageError, as_argument_errors, as_mapper_errors, shown
from mapper.monitoring.callbacks import OnProgress, ignore

if TYPE_CHECKING:
    import nir

    from chipsim.chip.model import Chip
    from mapper.inputs.source import Source
    from mapper.result import NetworkMapping
    from mapper.session import MapRequest
    from mapper.settings import Settings
    from mapper.spiking.artifacts.compiled_model import CompiledModel, Samples
    from mapper.spiking.discretise import ResetMode
    from mapper.spiking.scales import Per
    from storage.samples.encoding import EncodingMethod

_PATH = (str, os.PathLike)
_WANTED: dict[str, tuple[tuple[type, ...], str]] = {
    "preset": ((str,), "the name of a preset"),
    "objective": ((str,), '"unicast", "cut" or "multicast"'),
    "seed": ((Integral,), "a whole number"),
    "threads": ((Integral,), "a whole number of 1 or more, or None for all cores"),
    "memory": ((str, Real), 'bytes, or a text such as "1GiB"'),
    "constraints": (_PATH, "the path of a TOML file"),
    "split_neurons": ((bool,), "True or False"),
    "neurons": ((Integral,), "a whole number"),
    "columns": ((Mapping,), 'names by role, as in {"source": "pre"}'),
    "workdir": (_PATH, "the path of a folder"),
    "shared": (_PATH, "the path of a folder"),
}


def map_network(
    network: Any,
    chip: Any,
    *,
    preset: str = "default",
    objective: str | None = None,
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    neurons_per_core: int | None = None,
    synapses_per_core: int | None = None,
    axons_per_core: int | None = None,
    axons_out_per_core: int | None = None,
    constraints: str | os.PathLike[str] | None = None,
    split_neurons: bool = False,
    neurons: int | None = None,
    sizes: ArrayLike | None = None,
    rates: ArrayLike | str | None = None,
    columns: Mapping[str, str] | None = None,
    weights_are: str | None = None,
    progress: OnProgress | None = None,
    workdir: str | os.PathLike[str] | None = None,
    workers: Any = None,
    shared: str | os.PathLike[str] | None = None,
    **method: Any,
) -> NetworkMapping:
    """Map a network onto a chip, as `mapper run` does; the same input gives the same mapping.

    Parameters
    ----------
    network : path of a network file or of any file that `mapper import` reads; an open
        `storage.store.network.NetworkFile`; a square scipy.sparse matrix (entry (i, j) is a synapse
        from i to j); a tuple (source, target) or (source, target, weight) of arrays of shape
        (synapses,); a networkx graph (edge attribute `weight`, default 1); a nir.NIRGraph
    chip : "16x16", the name of a preset, the path of a TOML file, or a `Chip`
    preset : "fast", "default", "strong" or "classic"
    objective : "unicast", "cut" or "multicast"; default: set by the preset
    seed : the same seed gives the same mapping for any number of threads
    threads : number of threads; default: all cores of the processor
    memory : bytes, or a text such as "1GiB"; default: three quarters of the free memory
    neurons_per_core, synapses_per_core, axons_per_core, axons_out_per_core : replace the limits
        of the chip
    constraints : path of a TOML file of neurons that are pinned or kept together
    split_neurons : spread synapses over relay neurons where they exceed the capacity of a core
    neurons : number of neurons, for a tuple of arrays; default: the largest id + 1
    sizes : capacity that each neuron uses, whole numbers, shape (neurons,); for a network without a
        file
    rates : spikes of each neuron per unit of time, shape (neurons,), in the order of the network;
        "uniform": every neuron fires at rate 1 (the default for NIR, ONNX and SONATA, which have no
        rates); "weights": the traffic of a synapse is the magnitude of its weight
    columns : names of the columns to use of a table in a file: `source`, `target`, `weight`,
        `source-population`, `target-population`, as in `mapper run --columns`
    weights_are : meaning of the number of a synapse in the input: "rate", its traffic, or
        "synapse", its weight, while the traffic follows from the rates; default: "synapse" for
        NIR, ONNX and SONATA, otherwise "rate"
    progress : called with the name of a stage and the fraction 0 .. 1 of its present pass, from
        any thread, one call at a time. An exception that it raises ends the run and is raised here,
        except `KeyboardInterrupt`, which counts as Ctrl-C
    workdir : folder for temporary files; default: the system's. A network without a file uses
        space there, in an unnamed file, as long as its mapping is in use
    workers : processes that scan a streamed network: the number to start on this machine, the
        address of a Dask scheduler, its file, or a `distributed.Client`, which stays open. The
        mapping is the same as without workers
    shared : with workers, a folder that they and this process can access, for data exchanged
        between workers; default: a temporary folder in `workdir`
    method : values that override the preset, by the names of `mapper.settings.Settings`

    Ctrl-C ends the run as soon as the running kernel has ended. Once all neurons have cores within
    the limits, the best mapping so far is returned with `interrupted` True; before that,
    `KeyboardInterrupt` is raised and no files remain.

    Raises
    ------
    DoesNotFitError
            If a limit of the chip cannot be met.
        UsageError
            If an argument is invalid.
        MapperError
            Base of both, for all other invalid input. A message is one line.
    """
    from mapper.distributed.start import ask_workers
    from mapper.limits.constraints import ConstraintFile
    from mapper.session import MapRequest

    _check_arguments(
        preset=preset, objective=objective, seed=seed, threads=threads, memory=memory,
        constraints=constraints, split_neurons=split_neurons, neurons=neurons,
        columns=columns, progress=progress, workdir=workdir, shared=shared,
    )  # fmt: skip
    if objective is not None:
        method["objective"] = objective
    with as_mapper_errors():
        # nothing of a mapping depends on NPU and host
        cores = replace(_chip(chip), npu=None, host=None).with_limits(
            neurons_per_core, synapses_per_core, axons_per_core, axons_out_per_core
        )
        settings = _settings(preset, seed, threads, memory, method)
        file = None if constraints is None else ConstraintFile.read(Path(constraints))
        source = _source(network, neurons, sizes, rates, columns, weights_are)
        folder = None if shared is None else Path(shared)
        asked = ask_workers(workers, settings.threads, shared=folder)
        return _map(
            MapRequest(source, cores, settings, file, split_neurons, (), asked), workdir, progress
        )


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
        cores, folder = _chip(chip), None if output is None else Path(output)
        options = spiking_options(given, cores, samples is not None)
        return compile_folder(model, cores, samples, options, folder, force)


def _check_arguments(**given: Any) -> None:
    """Raise `UsageError` for an argument of a wrong type.

    given : arguments by name: the names in `_WANTED`, where None stands for an omitted argument,
        and `progress`, a callable
    """
    for name, value in given.items():
        if name == "progress":
            if value is not None and not callable(value):
                raise UsageError(
                    f"progress is {shown(value)}; give a function (stage, fraction) -> None"
                )
            continue
        kinds, words = _WANTED[name]
        wrong = not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)
        if wrong and (value is not None or name == "seed"):
            raise UsageError(f"{name} is {shown(value)}; give {words}")
    if given.get("threads") is not None and given["threads"] < 1:
        raise UsageError(f"threads is {given['threads']}; give {_WANTED['threads'][1]}")


def _settings(
    preset: str, seed: int, threads: int | None, memory: int | str | None, method: dict[str, Any]
) -> Settings:
    """Return the settings of a call, with the defaults of this machine."""
    from mapper.monitoring.resources import all_cores, default_memory, parse_bytes
    from mapper.settings import preset as preset_of

    try:
        budget = None if memory is None else parse_bytes(str(memory))
    except ValueError as error:
        raise UsageError(f"memory: {error}") from error
    return preset_of(
        preset,
        **method,
        seed=seed,
        threads=threads or all_cores(),
        memory_bytes=default_memory() if budget is None else budget,
    )


def _map(
    request: MapRequest, workdir: str | os.PathLike[str] | None, progress: OnProgress | None
) -> NetworkMapping:
    """Run a request, with temporary files in `workdir`."""
    from mapper.inputs.listener import ProgressListener
    from mapper.inputs.objects import names_of
    from mapper.monitoring.monitor import Monitor
    from mapper.result import NetworkMapping
    from mapper.results.loads import Loads
    from mapper.results.output import LOG
    from mapper.session import Workspace, mapped
    from storage.blobs.access import StoreAccess, store_access
    from storage.scratch.nameless import NamelessFile

    with (
        store_access(StoreAccess()),
        tempfile.TemporaryDirectory(
            prefix="mapper-", dir=workdir, ignore_cleanup_errors=True
        ) as name,
    ):
        folder = Path(name)
        place = Workspace(folder, lasting=False)
        monitor: Monitor
        with (
            Monitor(log=folder / LOG, on_progress=progress) as monitor,
            mapped(request, place, monitor, ProgressListener(progress or ignore)) as session,
        ):
            report = session.report
            if session.imported:
                report["network"]["path"] = None
            return NetworkMapping(
                core=session.mapping.core[: session.network.vertices],
                chip=request.chip,
                settings=request.settings,
                metrics=report["metrics"],
                nodes=names_of(request.source.network, session.network),
                interrupted=bool(session.mapping.interrupted),
                _report=report,
                _loads=Loads.of(session.mapping.traffic),
                _log=(folder / LOG).read_text(encoding="utf-8"),
                _placed=session.mapping.core,
                _relays=session.relays,
                _constraints=None if request.constraints is None else request.constraints.raw,
                _network=NamelessFile(session.network.path) if session.imported else None,
            )


def _source(
    network: Any,
    neurons: int | None,
    sizes: ArrayLike | None,
    rates: ArrayLike | str | None,
    columns: Mapping[str, str] | None,
    weights_are: str | None,
) -> Source:
    """Return the network as a `Source`; raise `UsageError` for misplaced arguments."""
    from mapper.inputs.source import RATES_WORDS, Source
    from storage.address import path_of
    from storage.formats.columns import name_columns
    from storage.store.network import is_network_name

    if neurons is not None and not isinstance(network, tuple | list):
        raise UsageError("neurons is for a network of edge arrays only; leave it out")
    if columns is not None and not isinstance(network, str | os.PathLike):
        raise UsageError("columns are for a table in a file; leave them out")
    if isinstance(rates, str) and rates not in RATES_WORDS:
        raise UsageError(f'rates is {rates!r}; give an array of rates, "uniform" or "weights"')
    if weights_are not in (None, "rate", "synapse"):
        raise UsageError(f'weights_are is {weights_are!r}; give "rate" or "synapse"')
    chosen = None
    if isinstance(network, str | os.PathLike):
        network = path_of(network)
        if columns is not None and is_network_name(network):
            raise UsageError(f"{network}: is a network file, not a table; leave out columns")
        try:
            chosen = None if columns is None else name_columns(columns)
        except ValueError as error:
            raise UsageError(f"columns: {error}") from error
    source = Source(network, chosen, rates, neurons=neurons, sizes=sizes, weights_are=weights_are)
    if weights_are is not None and source.is_network_file:
        raise UsageError(
            "weights_are is for imported networks, not for a network file; leave it out"
        )
    if sizes is not None and not source.is_object:
        raise UsageError("sizes are for a network without a file; leave them out")
    return source


def _chip(chip: Any) -> Chip:
    from chipsim.chip.model import Chip
    from chipsim.chip.presets import parse_chip

    if isinstance(chip, Chip):
        return chip
    if isinstance(chip, str | os.PathLike):
        return parse_chip(os.fspath(chip))
    raise UsageError(f'chip is {chip!r}; give "16x16", a preset, the path of a .toml, or a Chip')
