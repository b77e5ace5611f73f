"""`from_nir` and `to_nir`: the functions by which back ends of NIR read and write graphs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from mapper.api.arguments import path_of_source
from mapper.api.exporting import export
from mapper.api.models import compile_spiking, require_known
from mapper.errors import MapperError, UsageError, as_argument_errors, shown

if TYPE_CHECKING:
    import nir

    from mapper.api.network import Network
    from mapper.api.types import ChipLike
    from mapper.inputs.model_arguments import NirGraph, SpikingArguments
    from mapper.result import NetworkMapping
    from mapper.spiking.artifacts.compiled_model import CompiledModel


def from_nir(
    graph: NirGraph | str | os.PathLike[str], chip: ChipLike, **options: Unpack[SpikingArguments]
) -> CompiledModel:
    """Compile a NIR graph for the spiking cores of a chip: `mapper.compile_model` of such a graph.

    To map its neurons without compiling them, give the graph to `mapper.map_network`.

    Parameters
    ----------
    graph : a nir.NIRGraph, or the path of a file with one
    chip : as for `mapper.map_network`
    options : as for spiking models of `mapper.compile_model`: `tick_length`, `calibrate`, ...

    Raises
    ------
    CheckFailedError
        If no integers agree with the model on the samples.
    DoesNotFitError
        If the model does not fit the chip.
    UsageError
        If an argument is invalid.
    MapperError
        If the graph has nodes that cores cannot run; the message names one.
    """
    given: dict[str, Any] = {**options}
    if isinstance(graph, str | os.PathLike):
        graph = Path(graph)
    elif not (hasattr(graph, "nodes") and hasattr(graph, "edges")):
        raise UsageError(f"graph is {shown(graph)}; give a nir.NIRGraph, or the path of a file")
    require_known(given, spiking=True)
    return compile_spiking(graph, chip, given)


def to_nir(
    source: NetworkMapping | CompiledModel | str | os.PathLike[str],
    *,
    graph: NirGraph | str | os.PathLike[str] | None = None,
    threshold: float | None = None,
    magnitudes: bool = False,
    network: str | os.PathLike[str] | Network | None = None,
    memory: int | str | None = None,
) -> nir.NIRGraph:
    """Return a mapping or a compiled spiking model as a NIR graph, as `mapper export` writes it.

    A compiled model becomes the network of its integers, in the units of the model. A mapping
    becomes the given graph with the core of each neuron in the metadata of its nodes, or without
    `graph` a node for each core.

    Parameters
    ----------
    source : a mapping, a compiled spiking model, or the output folder of one
    graph : source of the network of a mapping: a nir.NIRGraph, or its file
    threshold : of all neurons, for networks without neuron parameters
    magnitudes : use the traffic of synapses as their weights
    network : network of an output folder, if it was moved
    memory : bytes, or a text such as "1GiB"; default: three quarters of the free memory

    Raises
    ------
    UsageError
        If an argument is invalid, or the package nir is missing.
    MapperError
        If the graph is of another network, or too large for the dense matrices of NIR.
    """
    from mapper.results.output_folder import IMPORTED
    from storage.extras import require

    options: dict[str, Any] = {"threshold": threshold, "magnitudes": magnitudes or None}
    with (
        as_argument_errors(),
        tempfile.TemporaryDirectory(prefix="mapper-", ignore_cleanup_errors=True) as name,
    ):
        path, given = Path(name, "graph.nir"), Path(name, "source.nir")
        package = require("nir", "nir", path, "NIR graphs")
        if graph is not None and not isinstance(graph, str | os.PathLike):
            if not (hasattr(graph, "nodes") and hasattr(graph, "edges")):
                raise UsageError(f"graph is {shown(graph)}; give a nir.NIRGraph, or its file")
            package.write(given, graph)
            graph = given
        known = {key: value for key, value in options.items() if value is not None}
        if graph is not None:
            known["graph"] = Path(graph)
        with path_of_source(source) as folder:
            names = {str(path): "to_nir", str(given): "graph"}
            if not isinstance(source, str | os.PathLike):
                names[str((folder / IMPORTED).resolve())] = "the mapping"
            try:
                export(folder, path, format="nir", network=network, memory=memory, **known)
            except MapperError as error:
                text = str(error)
                for temporary, word in names.items():
                    text = text.replace(temporary, word)
                raise type(error)(text) from error
        return package.read(path)
