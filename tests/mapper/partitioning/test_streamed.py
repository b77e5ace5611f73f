"""The streamed presets on networks of many shapes, held in memory or streamed: valid and equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.limits import violations
from chipsim.chip.model import Chip
from mapper.concurrency.threads import ThreadTeam
from mapper.errors import DoesNotFitError
from mapper.evaluation.verify_mapping import verify_mapping
from mapper.graph.rows import CopiedRows, HeldRows
from mapper.monitoring.context import Context
from mapper.monitoring.monitor import Monitor
from mapper.partitioning.streamed import Task, open_rows, partition_streamed
from mapper.pipeline import map_network
from mapper.planning.plan import Plan
from mapper.planning.strategy import make_plan
from mapper.results.mapping_file import MAPPING
from mapper.results.output import make_report, read_report, scratch_in, write_results
from mapper.resume.checkpoint import Checkpoint
from mapper.settings import Settings, preset
from storage.scratch.scratch import Scratch
from storage.store.memory import MemoryGraph
from storage.store.network import NetworkFile
from tests.mapper.helpers import grid_graph, lists_of, random_graph, random_network, write_network
from tests.reference.partitioning import cut
from tests.seeds import seeds

pytestmark = pytest.mark.usefixtures("light_placement")

SMALL_BLOCKS = {"block_vertices": 64, "bisection_repeats": 2, "smoothing": 4}

Shape = Callable[[Path], tuple[Path, Chip]]
Size = tuple[int, int, int]


@pytest.fixture(autouse=True, params=["levels", "held", "streamed"])
def holding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Select the mode of a test; small networks would always use levels in memory."""
    held = bool(request.param != "streamed")

    def planned(network: NetworkFile, chip: Chip, settings: Settings, tables: int) -> Plan:
        plan = make_plan(network, chip, settings, tables)
        return replace(plan, held=held, levels=plan.levels and request.param == "levels")

    monkeypatch.setattr("mapper.pipeline.make_plan", planned)
    return held


def mapped(path: Path, chip: Chip, folder: Path, name: str = "fast", **changes: Any) -> np.ndarray:
    """Map, write the results into `folder`, verify them by the slow path; return the cores."""
    settings = preset(name, memory_bytes=1 << 30, **{**SMALL_BLOCKS, **changes})
    folder.mkdir()
    with (
        Monitor() as monitor,
        NetworkFile(path) as network,
        scratch_in(folder / "scratch") as scratch,
    ):
        mapping = map_network(network, chip, settings, scratch, monitor)
        report = make_report(network, path, chip, settings, mapping, monitor)
        sizes = network.vertex_sizes()
    write_results(folder, report, mapping, chip)
    verify_mapping(folder, read_report(folder), path)
    assert violations(chip, mapping.traffic.usage) == []
    load = np.bincount(mapping.core, weights=sizes, minlength=chip.cores)
    assert load.max() <= chip.neurons
    assert not load[list(chip.unavailable)].any()
    assert mapping.core.dtype == np.int32
    return mapping.core


# ---------------------------------------------------------------- networks of many shapes


def drawn(chip: Size, neurons: int, synapses: int, /, **options: Any) -> Shape:
    """A random network for a chip of this width, height and neurons per core."""

    def shape(folder: Path) -> tuple[Path, Chip]:
        limits = {name: options[name] for name in ("unavailable", "synapses") if name in options}
        written = {name: value for name, value in options.items() if name not in limits}
        path = random_network(folder / "net.bin", neurons, synapses, **written)
        return path, Chip("c", *chip[:2], neurons=chip[2], **limits)

    return shape


def given(
    chip: tuple[int, int, int], neurons: int, edges: Any, *more: Any, **options: Any
) -> Shape:
    """A network of these edges, and weights if given."""

    def shape(folder: Path) -> tuple[Path, Chip]:
        path = write_network(folder / "net.bin", edges, neurons, *more, **options)
        return path, Chip("c", *chip[:2], neurons=chip[2])

    return shape


def magnitudes() -> Shape:
    rng = np.random.default_rng(3)
    weights = 10.0 ** rng.integers(-6, 7, 900)
    return given((4, 4, 14), 200, rng.integers(0, 200, (900, 2)), weights)


SIZES = np.random.default_rng(1).integers(1, 8, 240).tolist()
STAR = [(0, leaf) for leaf in range(1, 400)]
GRID = [(v, u) for v, row in enumerate(lists_of(grid_graph(16, 16))) for u, _ in row if u > v]
SHAPES: dict[str, Shape] = {
    "random": drawn((5, 5, 13), 300, 1500, block_size=16),
    "undirected": drawn((6, 6, 6), 200, 900, undirected=True, unavailable=(0, 8)),
    "grid": given((4, 4, 17), 256, GRID),
    "sized": drawn((5, 5, -(-sum(SIZES) // 25) + 4), 240, 1000, sizes=SIZES, block_size=32),
    # six neurons need at least half a core each; the others are small or have size 0
    "a_few_large_ones": drawn(
        (3, 5, 40), 156, 700, sizes=[30, 25, 30, 21, 20, 28] + [0, 1, 2] * 50
    ),
    "disconnected": given((5, 5, 9), 210, [(i, i // 9 * 9 + (i + 1) % 9) for i in range(180)]),
    "edgeless": given((4, 4, 13), 200, []),
    "star": given((5, 5, 17), 400, STAR, block_size=64),
    "complete": given((3, 3, 9), 80, np.argwhere(~np.eye(80, dtype=bool))),
    "no_slack": drawn((6, 5, 8), 240, 900),
    "one_neuron_a_core": drawn((10, 10, 1), 100, 300),
    "two_vertices": given((2, 1, 1), 2, [(0, 1)]),
    "one_vertex": given((1, 1, 1), 1, []),
    "weights_of_nothing": given(
        (4, 4, 10), 150, [(i, (i + 1) % 150) for i in range(150)], [0] * 150
    ),
    "weights_of_all_magnitudes": magnitudes(),
    "two_limits": drawn((4, 4, 14), 150, 600, synapses=60),
}
PLAIN = (
    "a_few_large_ones", "disconnected", "edgeless", "two_vertices", "one_vertex",
    "weights_of_nothing", "two_limits",
)  # fmt: skip
"""Small or unusual shapes that are also mapped with the JIT off, which checks array bounds."""


def runs() -> Iterator[Any]:
    for label, shape in SHAPES.items():
        for name, plain in (("fast", PLAIN), ("default", ("two_limits",))):
            marks = () if label in plain else (pytest.mark.jit,)
            yield pytest.param(shape, name, id=f"{label}-{name}", marks=marks)


@pytest.mark.sample(4)
@pytest.mark.parametrize(("shape", "name"), [*runs()])
def test_every_mapping_is_valid(shape: Shape, name: str, folder: Path) -> None:
    path, chip = shape(folder)
    mapped(path, chip, folder / "out", name)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize("shape", ["random", "sized", "star"])
def test_the_result_does_not_depend_on_threads(shape: str, folder: Path) -> None:
    path, chip = SHAPES[shape](folder)
    for threads in (1, 2, 3):
        mapped(path, chip, folder / f"{threads}", threads=threads, seed=3)
    found = {(folder / f"{threads}" / MAPPING).read_bytes() for threads in (1, 2, 3)}
    assert len(found) == 1
    other = mapped(path, chip, folder / "other", seed=4)
    with np.load(folder / "1" / MAPPING) as file:
        assert file["core"].tolist() != other.tolist()


@pytest.mark.jit
def test_a_hub_with_thousands_of_leaves(folder: Path) -> None:
    leaves = np.arange(1, 5000)
    edges = np.column_stack([np.zeros_like(leaves), leaves])
    path = write_network(folder / "net.bin", edges, 5000, block_size=512)
    core = mapped(path, Chip("c", 8, 8, neurons=80), folder / "out", block_vertices=512)
    assert np.bincount(core, minlength=64).max() <= 80


@pytest.mark.jit
def test_parts_of_a_grid_are_much_better_than_random_ones(folder: Path) -> None:
    path, chip = SHAPES["grid"](folder)
    core = mapped(path, chip, folder / "out", "default").tolist()
    links = lists_of(grid_graph(16, 16))
    mixed = np.random.default_rng(0).permutation(core).tolist()
    assert cut(links, core) < 0.45 * cut(links, mixed)
    assert cut(links, core) < 1.8 * 96  # 96 for squares of 4 x 4


def test_unpackable_sizes_are_reported(folder: Path) -> None:
    path = random_network(folder / "net.bin", 9, 30, sizes=[3] * 9)
    with pytest.raises(DoesNotFitError, match="could not be packed into 6 cores"):
        mapped(path, Chip("c", 6, 1, neurons=5), folder / "out")


# ---------------------------------------------------------------- steps


def partition(
    graph: MemoryGraph,
    capacity: int,
    cores: int,
    folder: Path,
    held: bool,
    stop_after: int | None = None,
    **changes: Any,
) -> tuple[np.ndarray, int, Monitor]:
    """Run `partition_streamed` with its scratch in `folder`; optionally killed after some steps."""
    settings = preset("fast", **{**SMALL_BLOCKS, **changes})
    plan = Plan(1 << 30, {}, 0, 0, held, 1 << 16, 1 << 16, 1 << 20, settings.threads)
    monitor = Monitor()
    with Scratch(folder) as scratch, ThreadTeam(settings.threads) as team:
        steps = Checkpoint(scratch)
        if stop_after is not None:
            steps = Killed(scratch, stop_after)
        rows = open_rows(graph, 0, held, scratch, monitor, team)
        assert isinstance(rows, HeldRows if held else CopiedRows)
        part, count = partition_streamed(
            Task(graph, rows, capacity, cores),
            Context(settings, plan, steps, monitor, team),
        )
    return part, count, monitor


class Killed(Checkpoint):
    """Steps of a run that is killed after some of them."""

    def __init__(self, scratch: Scratch, after: int) -> None:
        super().__init__(scratch)
        self.left = after

    def run_once(self, name: str, work: Any) -> Any:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        return super().run_once(name, work)


@pytest.mark.parametrize("seed", seeds(6, plain=2))
def test_parts_are_numbered_without_gaps_and_within_the_capacity(
    seed: int, holding: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(2, 400)), sizes=3, block_size=32)
    sizes = graph.vertex_sizes()
    cores = int(rng.integers(1, 30))
    capacity = int(sizes.sum() // cores + 3)
    part, count, monitor = partition(graph, capacity, cores, tmp_path / "s", holding, seed=seed)
    assert np.unique(part).tolist() == list(range(count))
    assert count <= cores
    assert np.bincount(part, weights=sizes).max() <= capacity
    names = [stage["name"] for stage in monitor.stages]
    assert names[-1] == "uncoarsen and refine"
    assert names[-2] in ("split blocks", "refine blocks")  # blocks of one core are not split


def test_small_networks_are_one_block(holding: bool, tmp_path: Path) -> None:
    graph = random_graph(np.random.default_rng(0), 100)
    for block, stages in ((8192, 2), (64, 5)):
        _, _, monitor = partition(
            graph, 10, 12, tmp_path / str(block), holding, block_vertices=block
        )
        assert len(monitor.stages) == stages


@pytest.mark.jit
def test_held_and_streamed_parts_are_equally_good(tmp_path: Path) -> None:
    graph = grid_graph(24, 24, block_size=64)
    cuts = []
    for held in (True, False):
        part, _, _ = partition(graph, 40, 16, tmp_path / str(held), held)
        cuts.append(cut(lists_of(graph), part.tolist()))
    assert max(cuts) < 1.5 * min(cuts)


@pytest.mark.sample(13)
@pytest.mark.parametrize("done", seeds(5, plain=2))
def test_a_killed_run_resumes_to_the_same_result(done: int, holding: bool, tmp_path: Path) -> None:
    graph = random_graph(np.random.default_rng(1), 300, sizes=2, block_size=32)
    whole, count, _ = partition(graph, 30, 20, tmp_path / "whole", holding)
    with pytest.raises(KeyboardInterrupt):
        partition(graph, 30, 20, tmp_path / "killed", holding, stop_after=done)
    resumed, again, _ = partition(graph, 30, 20, tmp_path / "killed", holding)
    assert (resumed.tolist(), again) == (whole.tolist(), count)


def test_the_number_of_cores_leaves_some_slack() -> None:
    def wanted(vertices: int, capacity: int, cores: int) -> int:
        none = np.empty(0, np.int32)
        rows = HeldRows(np.zeros(vertices + 1, np.int64), none, none, np.ones(vertices, np.int64))
        return Task(grid_graph(1, 1), rows, capacity, cores).wanted

    assert wanted(970, 100, 64) == 10
    assert wanted(971, 100, 64) == 11
    assert wanted(6400, 100, 64) == 64  # no slack on the chip
    assert wanted(5, 1, 64) == 5
    assert wanted(1, 100, 64) == 1
