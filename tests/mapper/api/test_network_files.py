"""Networks as objects: imported, generated, loaded, exported."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper
from mapper.api.network import Network
from storage.extras import DISTRIBUTION
from tests.mapper.api.conftest import SMALL
from tests.mapper.conftest import Run

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]
TABLE = "pre,post,strength,source_population,target_population\n"
ROWS = [("a0", "b0", 2, "A", "B"), ("a1", "b0", -3, "A", "B"), ("b0", "a1", 4, "B", "A")]


@pytest.fixture
def table(folder: Path) -> Path:
    path = folder / "table.csv"
    path.write_text(TABLE + "".join(",".join(map(str, row)) + "\n" for row in ROWS))
    return path


def test_an_imported_file(table: Path, run: Run) -> None:
    """Equal to the command's network, byte for byte."""
    columns = {"source": "pre", "target": "post", "weight": "strength"}
    net = mapper.import_network(table, "net.bin", columns=columns, **_effort())
    words = ("--columns", "source=pre,target=post,weight=strength")
    assert run("import", table.name, "other.bin", *words).code == 0
    assert Path("net.bin").read_bytes() == Path("other.bin").read_bytes()
    assert (net.neurons, net.synapses, net.path) == (3, 3, Path("net.bin"))
    assert any("negative" in note for note in net.notes)
    assert not any("--" in note or note.startswith("note") for note in net.notes)
    source, target, weight = net.edges()
    found = {(s, t): w for s, t, w in zip(source.tolist(), target.tolist(), weight, strict=True)}
    assert found == {(0, 2): 2, (1, 2): 3, (2, 1): 4}


def test_a_temporary_network_lasts_as_long_as_its_copies(edges: tuple[Any, ...]) -> None:
    net = mapper.import_network(edges, **_effort())
    path = net.path
    other = pickle.loads(pickle.dumps(net))
    third = copy.deepcopy(net)
    assert len({path, other.path, third.path}) == 3
    assert path.read_bytes() == other.path.read_bytes() == third.path.read_bytes()
    del net
    gc.collect()
    assert not path.exists()
    assert other.path.exists()


def test_edges_and_matrices(edges: tuple[Any, ...]) -> None:
    source, target, weight = edges
    expected = np.zeros((50, 50))
    np.add.at(expected, (source, target), weight)
    np.fill_diagonal(expected, 0)
    net = mapper.import_network(edges, **_effort())
    assert (net.to_scipy().toarray() == expected).all()
    assert net.synapses == np.count_nonzero(expected)


def test_generated_networks_and_their_mappings(folder: Path, run: Run) -> None:
    net = mapper.generate("cortex", side=8, fanout=5, sigma=2.0, seed=3, **_effort())
    words = ("--side", "8", "--fanout", "5", "--sigma", "2", "--seed", "3")
    assert run("generate", "cortex", "net.bin", *words).code == 0
    assert net.path.read_bytes() == Path("net.bin").read_bytes()
    assert net.attribute("x").shape == (64,)
    assert net.is_temporary
    mapping = mapper.map_network(net, (4, 4), **SMALL)
    mapping.save("out")
    del net
    gc.collect()
    assert run("verify", "out").code == 0


def test_a_loaded_mapping_equals_the_one_that_was_saved(folder: Path, edges: Any) -> None:
    constraints = {"pin": [{"neurons": np.array([5, 6]), "core": "1,2"}]}
    mapping = mapper.map_network(edges, (4, 4), constraints=constraints, **SMALL)
    assert mapping.core[[5, 6]].tolist() == [9, 9]
    mapping.save("out")
    loaded = mapper.load("out")
    assert isinstance(loaded, mapper.NetworkMapping)
    assert (loaded.core == mapping.core).all()
    assert (loaded.chip, loaded.settings) == (mapping.chip, mapping.settings)
    assert loaded.metrics == mapping.metrics
    loaded.save("again")
    for name in ("mapping.npz", "traffic.npz", "constraints.toml", "run.log"):
        assert Path("out", name).read_bytes() == Path("again", name).read_bytes()


def test_loaded_networks(folder: Path, edges: Any) -> None:
    given = mapper.import_network(edges, "net.bin", **_effort())
    net = mapper.load("net.bin")
    assert isinstance(net, Network)
    assert (net.meta, net.is_temporary) == (given.meta, False)
    net.save("copy.bin")
    assert Path("copy.bin").read_bytes() == Path("net.bin").read_bytes()


def test_exports(folder: Path, edges: Any, run: Run) -> None:
    net = mapper.import_network(edges, "net.bin", **_effort())
    made = mapper.export(net, "net.graph")
    assert run("export", "net.bin", "other.graph").code == 0
    assert Path("net.graph").read_bytes() == Path("other.graph").read_bytes()
    assert (made.format, made.path) == ("metis", Path("net.graph"))
    assert any("directions" in note for note in made.notes)
    mapping = mapper.map_network(net, "4x4", **SMALL)
    mapping.save("out")
    assert run("export", "out", "command.csv").code == 0
    for source in (mapping, "out"):
        mapper.export(source, "python.csv")
        assert Path("python.csv").read_bytes() == Path("command.csv").read_bytes()


REFUSED: list[tuple[type[mapper.MapperError], str, Callable[[Network], Any]]] = [
    (mapper.MapperError, "net.qq: unknown format for networks", lambda net: mapper.export(
        net, "net.qq")),
    (mapper.UsageError, "threshold is for output folders", lambda net: mapper.export(
        net, "net.csv", threshold=3)),
    (mapper.UsageError, "color is not an option", lambda net: mapper.export(
        net, "net.csv", color=3)),
    (mapper.UsageError, "the first argument is 3; give", lambda net: mapper.export(3, "a.csv")),
    (mapper.UsageError, "path is 3; give", lambda net: mapper.load(3)),
    (mapper.MapperError, "none.bin: does not exist", lambda net: mapper.load("none.bin")),
    (mapper.MapperError, "has no attribute 'z'; there are none", lambda net: net.attribute("z")),
    (mapper.MapperError, "mapper.import_network reads it", lambda net: (
        mapper.export(net, "net.graph"), mapper.load("net.graph"))),
    (mapper.UsageError, "kind is 'x'; give one of", lambda net: mapper.generate("x")),
    (mapper.UsageError, "cortex needs the setting side", lambda net: mapper.generate("cortex")),
    (mapper.UsageError, "size is not a setting of cortex", lambda net: mapper.generate(
        "cortex", side=3, size=2)),
    (mapper.UsageError, "draws is 7; give 1 or 2", lambda net: mapper.generate(
        "cortex", side=3, draws=7)),
    (mapper.UsageError, "files: give the path", lambda net: mapper.generate(
        "cortex", side=3, files=2)),
    (mapper.UsageError, "files is 0; give", lambda net: mapper.import_network(net, files=0)),
    (mapper.UsageError, "unknown format 'x'", lambda net: mapper.import_network(net, format="x")),
    (mapper.UsageError, "rates is 'a.csv', which is no file", lambda net: mapper.import_network(
        net, rates="a.csv")),
    (mapper.UsageError, "rates_duration is for a file", lambda net: mapper.import_network(
        net, rates_duration=3.0)),
]  # fmt: skip


@pytest.mark.parametrize(("error", "said", "call"), REFUSED, ids=[one[1] for one in REFUSED])
def test_refused(
    error: type[Exception], said: str, call: Callable[[Network], Any], edges: Any
) -> None:
    net = mapper.import_network(edges, "net.bin", **_effort())
    before = set(Path().iterdir())
    with pytest.raises(error) as caught:
        call(net)
    assert said in str(caught.value)
    assert "--" not in str(caught.value)
    assert type(caught.value) is error
    assert set(Path().iterdir()) - before <= {Path("net.graph")}


def test_version_and_chips() -> None:
    assert mapper.__version__ == version(DISTRIBUTION)
    assert mapper.chips()["loihi"].neurons == 1024
    assert set(mapper.__all__) <= set(dir(mapper))


def _effort() -> dict[str, Any]:
    return {"threads": 1, "memory": "300MiB"}
