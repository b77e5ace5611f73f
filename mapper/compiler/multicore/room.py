"""Early checks of memory demand: reject models that cannot fit before cuts are searched."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from chipsim.chip.model import Chip
from mapper.compiler.ir.node import Conv, Requantise
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import (
    PlannedMaps,
    blocks_of,
    map_capacity,
    memory_use,
    plan_memory,
)
from mapper.compiler.multicore.areas import Homes, taken_rows
from mapper.compiler.multicore.job import CompileJob, Whole
from mapper.compiler.multicore.line_buffers.lines import lines_of
from mapper.compiler.multicore.slices import slice_macro
from mapper.compiler.program.inputs import Span, constants_of
from mapper.compiler.program.tables import PARAMETER_BYTES, Tables
from mapper.errors import DoesNotFitError


def require_room_on_one(job: CompileJob) -> None:
    """Raise `DoesNotFitError` if the feature maps alive at once do not fit in a core."""
    shape, partition = job.shape, job.partition
    stored = PlannedMaps(partition.macros, partition.written(), partition.read(), job.places)
    regions = plan_memory(stored, shape.columns, 0, job.settings.reuse)
    use = memory_use(regions)
    if shape.map_vectors and use.bound > shape.map_vectors:
        plan_memory(stored, shape.columns, shape.map_vectors, job.settings.reuse)
    words = _parameter_words(job)
    if shape.map_vectors and words > shape.parameter_words:  # all are stored after the maps
        vectors = blocks_of(words * PARAMETER_BYTES, shape.columns)
        needed = use.bound + vectors
        if needed > shape.map_vectors:
            raise DoesNotFitError(
                f"feature memory: at least {needed:,} vectors needed, {vectors:,} of them for "
                f"parameters that are reloaded while the program runs; a core has "
                f"{shape.map_vectors:,} ({needed - shape.map_vectors:,} short); use a larger "
                "core"
            )


def _parameter_words(job: CompileJob) -> int:
    """Return the parameter words of all biases and scales, if each is loaded as a whole."""
    tables = Tables(job.shape, bounded=False)
    for macro in job.partition.macros:
        for node in macro.nodes:
            how = node.operator.how if isinstance(node.operator, Requantise) else None
            if how is not None and how.factor.m0.ndim < 3:
                channels = node.output.channels
                stop = blocks_of(channels, job.shape.rows)
                tables.add_record(how, channels, 0, stop, macro.label)
            elif isinstance(node.operator, Conv) and node.inputs[0].type != "bits":
                tables.add_bias(constants_of(node)[1], macro.label)
    return len(tables.parameters)


def require_room_on_several(job: CompileJob, chip: Chip, lines: bool = False) -> None:
    """Raise `DoesNotFitError` if the inputs of all layers do not fit in all cores: in a pipeline a
    core works at several frames at once, so feature maps cannot share memory.

    lines : whether cores may keep some columns of each map
    """
    whole, lanes = Whole.of(job), job.shape.columns
    homes = Homes(whole.places, lanes)
    cores = min(chip.usable_count, job.settings.cores or chip.usable_count)
    columns: Mapping[tuple[int, Tensor], int] = {}
    if lines:
        with suppress(DoesNotFitError):  # parts of typical size have no tile: only whole maps fit
            columns = lines_of(whole, job.shape, cores, tight=True).columns

    def taken(number: int, rows: Span) -> int:
        """Return the vectors of the inputs of some rows of a layer."""
        macro = whole.macros[number]
        blocks = Span(0, blocks_of(macro.output.channels, lanes))
        inputs = {homes.kept(one) for one in slice_macro(macro, rows, blocks, lanes).inputs}
        return sum(homes.size(one, columns.get((number, one.owner), 0)) for one in inputs)

    sizes = []
    for number, rows in enumerate(taken_rows(whole, homes, lanes)):
        middle = (rows.first + rows.stop) // 2
        single = rows.size * taken(number, Span(middle, middle + 1))  # less if strides skip rows
        sizes.append(min(taken(number, rows), single))
    needed, capacity = sum(sizes), cores * map_capacity(job.shape)
    if needed > capacity:
        most = whole.macros[sizes.index(max(sizes))]
        raise DoesNotFitError(
            f"feature memory: inputs of layers need at least {needed:,} vectors, {cores} cores "
            f"have {capacity:,} ({needed - capacity:,} short); largest demand: {most.label}; use "
            "more cores, or cores with more memory"
        )
