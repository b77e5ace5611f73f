"""`--rates`, and options of `mapper import`: their effect on the traffic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.mapper.conftest import Run, tree

RATES = "neuron,rate\n3,0.5\n5,4\n7,0\n9,2\n"
EDGES = "3 5 10\n3 5 10\n5 9 10\n9 3 10\n7 3 10\n"
CHIP = ("--chip", "2x2", "--neurons-per-core", "1")
Metrics = dict[str, float]


@pytest.fixture
def files(folder: Path) -> None:
    Path("a.txt").write_text(EDGES)
    Path("r.csv").write_text(RATES)


def test_import_with_rates(files: None, run: Run) -> None:
    """Two synapses from 3, one each from 5, 9 and 7: 2 * 0.5 + 4 + 2 + 0."""
    found = run("import", "a.txt", "a.bin", "--rates", "r.csv", "--json").json()
    assert found["total_weight"] * found["weight_unit"] == 7
    assert (found["synapses_read"], found["repeated"]) == (5, 1)
    assert sorted(found["attributes"]) == ["id", "rate"]
    assert found["provenance"]["traffic"] == {"source": "rates", "file": "r.csv"}
    assert run("verify", "a.bin").code == 0
    run("import", "a.txt", "plain.bin")
    again = run("import", "plain.bin", "b.bin", "--rates", "r.csv", "--json").json()
    assert again == {**found, "path": "b.bin"}
    assert Path("a.bin").read_bytes() == Path("b.bin").read_bytes()
    assert sorted(path.name for path in Path().iterdir()) == [
        "a.bin", "a.txt", "b.bin", "plain.bin", "r.csv",
    ]  # fmt: skip


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize("name", ["a.txt", "a.bin"])
def test_run_with_rates(name: str, files: None, run: Run) -> None:
    """With one neuron per core all spikes are cut, and each neuron reaches one other core."""
    run("import", "a.txt", "a.bin")
    report = run("run", name, *CHIP, "--rates", "r.csv", "-o", "out", "--json").json()
    assert report["metrics"]["cut_weight"] == 7
    assert report["metrics"]["multicast"]["connectivity"] == 6.5
    assert report["network"]["path"] == str(Path("out/network.bin").resolve())
    assert run("verify", "out").code == 0
    plain = run("run", name, *CHIP, "-o", "plain", "--json").json()
    assert plain["metrics"]["cut_weight"] == 50


@pytest.mark.jit
def test_resume_requires_the_same_rates(
    files: None, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    options = ("run", "a.txt", *CHIP, "-o", "out", "--memory", "1GiB")
    with monkeypatch.context() as patch:
        patch.setattr("mapper.session.map_network", stop)
        assert run(*options, "--rates", "r.csv").code == 130
    assert Path("out.partial/result/network.bin").is_file()
    Path("out.partial/result/unrated.bin").touch()  # as after a kill before its removal
    found = run(*options, "--resume")
    assert (found.code, "was started with rates" in found.err) == (1, True)
    with monkeypatch.context() as patch:
        patch.setattr("mapper.inputs.opening.give_rates", stop)  # the rated copy exists already
        found = run(*options, "--rates", "r.csv", "--resume", "--json")
    assert found.json()["metrics"]["cut_weight"] == 7
    assert not Path("out/unrated.bin").exists()


def test_check_with_rates(files: None, run: Run) -> None:
    assert run("check", "a.txt", *CHIP, "--rates", "r.csv").code == 0
    Path("r.csv").write_text(RATES + "11,1\n")
    found = run("check", "a.txt", *CHIP, "--rates", "r.csv")
    assert found.code == 1
    assert found.err.endswith("r.csv: line 6: the network has no neuron '11'\n")


@pytest.mark.parametrize("command", [("import", "a.txt", "a.bin"), ("run", "a.txt", *CHIP)])
def test_faults_leave_no_files(
    command: tuple[str, ...], files: None, folder: Path, run: Run
) -> None:
    np.savez("r.npz", rate=[1.0, 2.0, np.nan, 4.0])
    before = tree(folder)
    for words, code, message in (
        (("--rates", "r.npz"), 1, "r.npz: rate of neuron 2 (from 0): nan is not finite"),
        (("--rates", "none.csv"), 1, "none.csv: cannot read: No such file"),
        (("--rates", "r.csv", "--rates-duration", "3"), 1, "only spike reports have a dur"),
        (("--rates-duration", "3"), 2, "--rates-duration: needs a spike report"),
    ):
        found = run(*command, *words)
        assert (found.code, found.out) == (code, "")
        assert message in found.err
        assert found.err.splitlines()[-1].startswith(f"mapper {command[0]}: ")
        assert tree(folder) == before


def test_import_into_no_folder(files: None, run: Run) -> None:
    found = run("import", "a.txt", "none/a.bin", "--rates", "r.csv")
    assert found.code == 1
    assert "No such file or directory" in found.err


def test_columns(folder: Path, run: Run) -> None:
    Path("a.csv").write_text("region,a,b,n\nx,I1,I2,3\ny,I2,I3,4\n")
    options = ("--columns", "source=b", "--columns", "target=a,weight=n")
    found = run("import", "a.csv", "a.bin", *options, "--json").json()
    assert (found["neurons"], found["synapses"], found["total_weight"]) == (3, 2, 7)
    assert found["attributes"]["id"]["labels"] == ["I2", "I1", "I3"]
    failed = run("import", "a.csv", "b.bin", "--nodes", "n.h5")
    assert (failed.code, failed.out) == (1, "")
    assert "a.csv: edgelist files do not take the option `nodes`" in failed.err


def test_sonata_with_spikes(run: Run, sonata_files: Callable[[], None]) -> None:
    sonata_files()
    found = run(
        "import", "e.h5", "a.bin", "--nodes", "n.h5", "--rates", "s.h5", "--rates-duration", "2",
        "--json",
    ).json()  # fmt: skip
    assert found["neurons"] == 3
    assert found["weights_are_rates"]
    assert found["total_weight"] * found["weight_unit"] == 1.5 + 2 * 0.5


@pytest.fixture
def sonata_files(folder: Path) -> Callable[[], None]:
    """Return a function that writes nodes, edges 0 -> 1, 2 -> 0 twice, and spikes (3 of 0, 1 of
    2).
    """
    from tests.storage.formats.circuits import Edges, write_edges_file, write_nodes

    def write() -> None:
        h5py = pytest.importorskip("h5py")
        write_nodes(Path("n.h5"), {"p": 3})
        rows = [(0, 1, 0, None, None, 1), (2, 0, 0, None, None, 1), (2, 0, 0, None, None, 1)]
        write_edges_file(Path("e.h5"), {"e": Edges("p", "p", list(rows))})
        with h5py.File("s.h5", "w") as file:
            file["spikes/p/timestamps"] = [1.0, 5.0, 7.0, 900.0]
            file["spikes/p/node_ids"] = [0, 2, 0, 0]

    return write
