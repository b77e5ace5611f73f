"""tiles.bin contains every flit of a frame: the link loads of the mesh."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from chipsim.npu.mesh.run import run_mesh
from mapper.compiler.artifacts.cycles import chip_of
from mapper.compiler.artifacts.manifest import Target
from mapper.compiler.multicore.tiles import flits_of
from mapper.compiler.pipeline import compile_model
from mapper.errors import DoesNotFitError
from tests.compiler.codegen.test_programs import random_network
from tests.compiler.multicore.test_programs import CHIP, HOW, anywhere
from tests.compiler.programs import SHAPE, folder_of, source_of

pytestmark = pytest.mark.jit
EAST, WEST, SOUTH, NORTH = range(4)
FRAMES = 3


def routed(flits: dict[tuple[int, int], int], places: list[tuple[int, int]]) -> np.ndarray:
    """Return the flits on each link, columns first; shape (4, rows, columns)."""
    found = np.zeros((4, CHIP.height, CHIP.width), np.int64)
    for (source, target), count in flits.items():
        (x, y), (to_x, to_y) = places[source], places[target]
        while x != to_x:
            found[EAST if to_x > x else WEST, y, x] += count
            x += 1 if to_x > x else -1
        while y != to_y:
            found[SOUTH if to_y > y else NORTH, y, x] += count
            y += 1 if to_y > y else -1
    return found


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(8))
def test_links_of_a_run(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random parts: results, credits and the host's inputs by its ports, on every link."""
    monkeypatch.setattr("mapper.compiler.pipeline.spread", lambda *a: anywhere(seed, *a))
    source, samples = source_of(deepcopy(random_network(seed)))
    try:
        made = compile_model(source, SHAPE, samples, HOW, chip=CHIP)
    except DoesNotFitError as error:
        pytest.skip(str(error))
    assert len(made.ports) == 1 + seed % 3
    flits = flits_of(made.codes, SHAPE, made.ports)
    places = [code.place for code in made.codes for _ in code.macros] + made.ports
    folder = folder_of(made, Target(CHIP, SHAPE, HOW))
    links = run_mesh(chip_of(folder), FRAMES).links
    assert links.sum() > 0
    assert np.array_equal(links, FRAMES * routed(flits, places))
