"""The compiler, top to bottom: from a model to a program for each core, in stages.

read -> optimise -> quantise -> partition -> feature memory -> tiles and instructions -> images
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.cycles import Timeline
from hw.npu.isa import Instruction
from mapper.compiler.codegen.operators import Emitter
from mapper.compiler.codegen.steps import Step, with_tokens
from mapper.compiler.codegen.tables import Tables
from mapper.compiler.frontend.float import FLOAT
from mapper.compiler.frontend.onnx import Reader
from mapper.compiler.graph.execute import run_graph
from mapper.compiler.graph.floating import FLOATING
from mapper.compiler.graph.graph import Graph, View
from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.node import Host, Windows
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.integer.formulas import dequantise, quantise
from mapper.compiler.integer.reference import INTEGER
from mapper.compiler.memory.planner import Region, plan_memory
from mapper.compiler.partition.hostplan import Step as HostStep
from mapper.compiler.partition.hostplan import plan_host
from mapper.compiler.passes.few_channels import window_inputs
from mapper.compiler.passes.fuse import fuse, pool_sums_first
from mapper.compiler.passes.registry import optimise
from mapper.compiler.quantise.convert import Converter, Precision
from mapper.compiler.quantise.correction import correct_biases
from mapper.compiler.quantise.ranges import measure_ranges
from mapper.compiler.schedule.units import timeline_of
from mapper.compiler.settings import CompileSettings
from mapper.errors import MapperError


@dataclass(slots=True)
class Compiled:
    """A model as a program for one core, and how it came about.

    graph : of integers; macros : its nodes as a core runs them
    ends : instructions up to the end of each macro node
    signal : of the last results over the calibration samples, in dB; None without error
    """

    graph: Graph
    macros: list[Macro]
    regions: dict[Tensor, Region]
    tables: Tables
    steps: list[Step]
    program: list[Instruction]
    ends: list[int]
    timeline: Timeline
    host: list[HostStep]
    signal: float | None
    seconds: dict[str, float] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)


class Source(NamedTuple):
    """A model as it was read.

    view : its input; opsets : domains and versions of its operators
    """

    path: Path
    graph: Graph
    view: View
    opsets: list[tuple[str, int]]
    seconds: float


def read_model(path: Path) -> Source:
    """An ONNX model in floating point; raises `MapperError` that names file and node."""
    started = time.perf_counter()
    reader = Reader(path, FLOAT)
    graph = reader.read()
    if len(graph.inputs) != 1:
        names = ", ".join(map(repr, graph.inputs))
        raise MapperError(f"{path}: has {len(graph.inputs)} inputs ({names}); one is taken")
    view = next(iter(graph.inputs.values()))
    return Source(path, graph, view, reader.opsets, time.perf_counter() - started)


def compile_model(
    model: Source, shape: NpuShape, samples: NDArray[np.float32], settings: CompileSettings,
    on_stage: Callable[[str], None] = lambda _: None,
) -> Compiled:  # fmt: skip
    """Compile a model for a core. Its graph is changed on the way.

    samples : float32, shape (frames, ...) as the model's input
    Raises `MapperError` that names the node, `DoesNotFitError` that names the memory.
    """
    seconds = {"read": model.seconds}
    log: list[str] = []
    source = model.graph

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        on_stage(name)
        started = time.perf_counter()
        yield
        seconds[name] = time.perf_counter() - started

    with stage("optimise"):
        log += optimise(source)
    with stage("quantise"):
        maps = model.view.stored(samples[: settings.samples])
        feeds = {model.view.tensor: np.ascontiguousarray(maps)}
        precision = Precision(
            settings.bits, settings.scheme, settings.per == "channel", settings.headroom
        )
        converter = Converter(source, precision)
        ranges = measure_ranges(source, feeds, converter.quantised_tensors())
        graph = converter.convert(ranges)
    if settings.bias_correction:
        with stage("correct biases"):
            for one in correct_biases(source, graph, converter.layers, feeds):
                log.append(
                    f"{one.layer.conv.label}: mean error of a channel at most "
                    f"{one.before:.3g} -> {one.after:.3g} steps"
                )
    with stage("verify"):
        signal = _signal(source, graph, converter.stored, feeds)
    with stage("partition"):
        log += window_inputs(graph, shape.columns) + pool_sums_first(graph)
        macros = fuse(graph)
        if not macros:
            raise MapperError(f"{model.path}: no node of it runs on a core; nothing to compile")
        host = plan_host(graph, model.opsets)
    with stage("feature memory"):
        results = _results(graph)
        inputs = inputs_of(graph)
        regions = plan_memory(
            macros, inputs, results, shape.columns, shape.map_vectors, settings.reuse
        )
    with stage("instructions"):
        emitter = Emitter(shape, regions)
        ends = []
        for macro in macros:
            emitter.emit(macro)
            ends.append(len(emitter.steps))
        sizes = {
            "FM": shape.map_vectors, "INP": shape.input_vectors,
            "ACC": shape.entries, "OUT": shape.entries,
        }  # fmt: skip
        program = with_tokens(emitter.steps, sizes)
        program.append(Instruction("CTRL", "END", fields={"drain": 1}))
    with stage("cycles"):
        timeline = timeline_of(program, shape)
    return Compiled(
        graph,
        macros,
        regions,
        emitter.tables,
        emitter.steps,
        program,
        ends,
        timeline,
        host,
        signal,
        seconds,
        log,
    )


def inputs_of(graph: Graph) -> list[Tensor]:
    """The maps that the host writes."""
    made = [node.output for node in graph.nodes if isinstance(node.operator, Windows)]
    return [view.tensor for view in graph.inputs.values() if view.tensor.stored] + made


def _results(graph: Graph) -> list[Tensor]:
    """The maps that the host reads."""
    taken = [view.tensor for view in graph.outputs.values()]
    taken += [t for node in graph.nodes if isinstance(node.operator, Host) for t in node.inputs]
    return [tensor for tensor in dict.fromkeys(taken) if tensor.stored]


def _signal(
    source: Graph,
    graph: Graph,
    stored: dict[Tensor, Tensor],
    feeds: dict[Tensor, NDArray[np.float32]],
) -> float | None:
    """The signal over the error of what the host reads, in dB."""
    real = {made: one for one, made in stored.items() if made.stored}
    results = _results(graph)
    whole = {
        stored[tensor]: quantise(
            data, stored[tensor].scale, stored[tensor].zero_point, stored[tensor].bits
        )
        for tensor, data in feeds.items()
    }
    wanted = run_graph(source, feeds, FLOATING, [real[tensor] for tensor in results])
    found = run_graph(graph, whole, INTEGER, results)
    power = error = 0.0
    for tensor in results:
        exact = wanted[real[tensor]].astype(np.float64)
        near = dequantise(found[tensor], tensor.scale, tensor.zero_point)
        power += float((exact**2).sum())
        error += float(((exact - near) ** 2).sum())
    return None if error == 0 or power == 0 else float(10 * np.log10(power / error))
