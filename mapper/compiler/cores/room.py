"""Models whose maps fit no plan are refused before cuts are searched."""

from __future__ import annotations

from chipsim.chip.model import Chip
from mapper.compiler.cores.areas import Homes, Kept
from mapper.compiler.cores.job import Job
from mapper.compiler.cores.period import taken_rows
from mapper.compiler.cores.pieces import Whole
from mapper.compiler.cores.slices import slice_macro
from mapper.compiler.graph.macro import Macro
from mapper.compiler.memory.planner import Stored, blocks_of, memory_use, plan_memory
from mapper.compiler.schedule.inputs import Span
from mapper.errors import DoesNotFitError


def whole_of(job: Job) -> Whole:
    """A model of one function, to be spread over cores."""
    function = job.partition.functions[0]
    return Whole(job.partition.macros, job.places, function.inputs, function.results)


def require_room_on_one(job: Job) -> None:
    """Raises `DoesNotFitError` if the maps that are alive at once do not fit a core."""
    shape, partition = job.shape, job.partition
    stored = Stored(partition.macros, partition.written(), partition.read(), job.places)
    regions = plan_memory(stored, shape.columns, 0, job.settings.reuse)
    if shape.map_vectors and memory_use(regions).bound > shape.map_vectors:
        plan_memory(stored, shape.columns, shape.map_vectors, job.settings.reuse)


def require_room_on_several(job: Job, chip: Chip) -> None:
    """Raises `DoesNotFitError` if the maps that layers take do not fit all cores: a core of a
    pipeline works at several frames at once, so that maps do not share memory."""
    whole, lanes = whole_of(job), job.shape.columns
    homes = Homes(whole.places, lanes)

    def taken(macro: Macro, rows: Span) -> int:
        """Vectors of the parts of maps that some rows of a layer take."""
        blocks = Span(0, blocks_of(macro.output.channels, lanes))
        inputs = slice_macro(macro, rows, blocks, lanes).inputs
        kept = {Kept(homes.of(one.whole).owner, homes.box(one.whole, one.held)) for one in inputs}
        return sum(map(homes.size, kept))

    sizes = []
    for macro, rows in zip(whole.macros, taken_rows(whole, homes, lanes), strict=True):
        middle = (rows.first + rows.behind) // 2
        single = rows.size * taken(macro, Span(middle, middle + 1))  # less if strides skip rows
        sizes.append(min(taken(macro, rows), single))
    cores = min(chip.usable_count, job.settings.cores or chip.usable_count)
    needed, capacity = sum(sizes), cores * job.shape.map_vectors
    if needed > capacity:
        most = whole.macros[sizes.index(max(sizes))]
        raise DoesNotFitError(
            f"feature memory: layers take at least {needed:,} vectors at a time, {cores} cores "
            f"have {capacity:,} ({needed - capacity:,} short); most of them: {most.label}; take "
            "more cores, or cores with more memory"
        )
