"""R6.2, R6.3: elementwise host nodes between functions work on packed maps."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from mapper.compiler.artifacts.manifest import read_folder
from mapper.compiler.artifacts.simulate import Machine, simulate
from mapper.compiler.partition.functions import Partition
from mapper.compiler.partition.hostplan import plan_host
from mapper.compiler.partition.hostrun import with_filled_blocks, without_gaps
from mapper.compiler.partition.packing import PackingLists, packing_lists, parts_of
from tests.compiler.partition.test_hostplan import checked
from tests.compiler.partition.test_packing import fewest
from tests.compiler.programs import DUAL, SHAPE, Made, compiled_model
from tests.mapper.conftest import Run
from tests.storage.formats.onnx_models import model, node, onnx

pytestmark = pytest.mark.jit
CHANNELS = 31  # not whole blocks; too many for windows on the host
HOW = ["--min-signal", "-99", "--max-loss", "100"]


def chain(kinds: str) -> list[Any]:
    """Return layers (c), elementwise host nodes (e), and other host nodes (o)."""
    made = {"c": ("Conv", "w", {"pads": [1, 1, 1, 1]}), "e": ("Asinh", "", {}),
            "o": ("Softmax", "", {"axis": 1})}  # fmt: skip
    names = ["x", *(f"v{at}" for at in range(len(kinds) - 1)), "y"]
    nodes = []
    for kind, (given, result) in zip(kinds, pairwise(names), strict=True):
        operator, more, attributes = made[kind]
        nodes.append(node(operator, f"{given} {more}", result, **attributes))
    return nodes


def samples(frames: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1, (frames, CHANNELS, 6, 5)).astype(np.float32)


def made_of(
    nodes: list[Any], folder: Path, shape: NpuShape = SHAPE, outputs: tuple[str, ...] = ("y",),
    **settings: Any,
) -> Made:  # fmt: skip
    random = np.random.default_rng(0)
    weights = {"w": random.normal(0, 0.2, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32)}
    onnx.save(
        model(nodes, weights, {"x": (1, CHANNELS, 6, 5)}, outputs), str(folder / "model.onnx")
    )
    return compiled_model(folder / "model.onnx", samples(8), shape, **settings)


def steps(made: Made) -> list[str]:
    return [step["do"] for step in made.folder.host]


def changes(made: Made) -> int:
    """Return the number of maps whose layout the host changes."""
    return sum(step in ("pack", "unpack") for step in steps(made))


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("kinds", ["cec", "ceec", "coc", "cecoc", "ecece", "oceeceoc", "ccec"])
def test_plans_have_the_fewest_packs(kinds: str, tmp_path: Path) -> None:
    """D04: consecutive layers are one function; compared with brute force over all flags."""
    made = made_of(chain(kinds), tmp_path)
    runs = "".join(a for a, b in pairwise(kinds + " ") if (a, b) != ("c", "c"))
    assert len(made.folder.manifest["functions"]) == runs.count("c")
    assert changes(made) == fewest(runs)
    checked(made, samples(3, 7))


NODES = {
    "one": chain("cec"),
    "several at once": [
        node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
        node("Asinh", "a", "s"),
        node("Softplus", "a", "p"),
        node("Mul", "s p", "m"),
        node("Conv", "m w", "b", pads=[1, 1, 1, 1]),
        node("Conv", "s w", "c", pads=[1, 1, 1, 1]),
        node("Add", "b c"),
    ],
    "of zero no number": [
        node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
        node("Asinh", "a", "h"),
        node("Exp", "h", "e"),
        node("Reciprocal", "e", "r"),
        node("Log", "r", "l"),
        node("Asinh", "l", "m"),
        node("Conv", "m w"),
    ],
}


def always(partition: Partition) -> PackingLists:
    """Return lists that change layouts around every function."""
    lists = packing_lists(parts_of(partition))
    return lists._replace(packing=[one._replace(pack=True, unpack=True) for one in lists.packing])


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("name", NODES)
def test_results_equal_unpacked_work(name: str, bits: int, tmp_path: Path) -> None:
    """Every stored map, and all outputs are equal."""
    made = made_of(NODES[name], tmp_path, DUAL if bits == 16 else SHAPE, bits=bits)
    whole, given = made.compiled, samples(3, 7)
    assert {"take", "put"} <= set(steps(made))
    lain = checked(made, given)
    made.folder.host[:] = plan_host(
        whole.graph, whole.partition, whole.code.regions, always(whole.partition)
    )
    assert not {"take", "put"} & set(steps(made))
    plain = simulate(Machine(made.folder), given, 1, check=True)
    for mine, other in ((lain.stored, plain.stored), (lain.values, plain.values)):
        for tensor in {*mine, *other} & {*lain.stored, "y"}:
            assert mine[tensor].tobytes() == other[tensor].tobytes(), tensor


KEPT = {
    "the user gets it": ("cec", ("v0", "y")),
    "the user gets a host result": ("cec", ("v1", "y")),
}


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", KEPT)
def test_values_of_the_user_are_not_packed(name: str, tmp_path: Path) -> None:
    kinds, outputs = KEPT[name]
    made = made_of(chain(kinds), tmp_path, outputs=outputs)
    assert changes(made) == 4
    assert outputs[0] in [
        part for part, _ in packing_lists(parts_of(made.compiled.partition)).parts
    ]
    checked(made, samples(2))


@pytest.mark.heavy
def test_values_read_by_later_work_are_not_packed(tmp_path: Path) -> None:
    nodes = [*chain("cecoc")[:4], node("Add", "v0 v3", "z"), node("Conv", "z w")]
    made = made_of(nodes, tmp_path)
    assert steps(made).count("take") < len(made.folder.manifest["functions"])
    checked(made, samples(2))


@pytest.mark.heavy
def test_filled_blocks_hold_the_zero_point(tmp_path: Path) -> None:
    """D03: also where the host writes vectors in storage layout."""
    made = made_of(chain("cec"), tmp_path)
    machine = Machine(made.folder)
    place = next(step for step in made.folder.host if step["do"] == "put")
    written = {}

    class Cores:
        """Returns zeros as results."""

        def start(self, function: int) -> None:
            pass

        def write(self, tensor: str, maps: np.ndarray) -> None:
            pass

        def take(self, tensor: str) -> np.ndarray:
            return np.zeros((1, 6, 5, 2, 16), np.int64)

        def read(self, tensor: str) -> np.ndarray:
            return np.zeros((1, 6, 5, CHANNELS), np.int64)

        def put(self, tensor: str, vectors: np.ndarray) -> None:
            written[tensor] = vectors

    machine.run(Cores(), samples(1))
    (one,) = machine.maps[place["tensor"]]
    vectors = written[place["tensor"]].reshape(6, 5, -1)
    assert vectors.shape[2] == 32
    assert (vectors[..., CHANNELS:] == one["zero_point"]).all()
    assert (vectors[..., :CHANNELS] != one["zero_point"]).any()


def test_vectors_and_maps() -> None:
    """Literal example."""
    vectors = np.arange(1 * 1 * 2 * 2 * 4).reshape(1, 1, 2, 2, 4)
    assert without_gaps(vectors, (1, 1, 2, 6)).tolist() == [
        [[[0, 1, 2, 3, 4, 5], [8, 9, 10, 11, 12, 13]]]
    ]
    filled = with_filled_blocks(vectors, 6, -5)
    assert filled[0, 0, :, 1].tolist() == [[4, 5, -5, -5], [12, 13, -5, -5]]
    assert (filled[:, :, :, 0] == vectors[:, :, :, 0]).all()


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_commands(folder: Path, run: Run) -> None:
    """The cycle-accurate simulation and the checker support it; the lists show it."""
    made_of(chain("cec"), folder)
    np.savez(folder / "samples.npz", x=samples(6))
    how = ["--chip", "1x1", "--calibrate", "samples.npz", "--keep-graphs", *HOW]
    found = run("compile", "model.onnx", *how, "-o", "out")
    assert found.code == 0, found.err
    assert "npu_1_n_y: pack no, unpack yes" in (folder / "out/graphs/packing.txt").read_text()
    assert run("verify", "out").code == 0
    found = run("simulate", "out", "--input", "samples.npz", "--check", "--cycles", "--json")
    assert found.code == 0, found.err
    assert found.json()["differences"] == 0
    assert "take" in [step["do"] for step in read_folder(folder / "out").host]


def test_blocks_are_as_wide_as_the_core(tmp_path: Path) -> None:
    """`ref32` has blocks of 32 channels."""
    made = made_of(chain("cec"), tmp_path, NPU_SHAPES["ref32"])
    assert "take" in steps(made)
    checked(made, samples(2))
