"""Files of firing rates: npz, text, SONATA spikes; and their faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import BadInputError
from storage.formats import import_network
from storage.formats.hdf5 import spikes as spikes_module
from storage.formats.rates import name_of_rates, read_rates
from storage.formats.text import namedtable
from storage.formats.trains import read_trains
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter

PLAIN = "plain.bin"  # neurons 0, 1, 2
SPARSE = "sparse.bin"  # ids 7, 30, 100
NAMED = "named.bin"  # I1L, I2L, AVAR
MIXED = "mixed.bin"  # populations a: 0, 1 and b: 2


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network of three neurons of each kind."""
    folder = tmp_path_factory.mktemp("networks")
    for name, text in ((SPARSE, "100 7\n7 30\n"), (NAMED, "pre post\nI1L I2L\nI2L AVAR\n")):
        (folder / "a.txt").write_text(text)
        import_network(folder / "a.txt", folder / name)
    for name in (PLAIN, MIXED):
        with NetworkWriter(folder / name, 3) as writer:
            writer.add(np.array([0, 1]), np.array([1, 2]))
            if name == MIXED:
                writer.set_attribute("population", np.array([0, 0, 1]), ["a", "b"])
            writer.finish()
    return folder


def rates_of(path: Path, network: Path, duration: float | None = None) -> list[float]:
    with NetworkFile(network) as net:
        found: list[float] = read_rates(path, net, duration).tolist()
    return found


def message_of(path: Path, network: Path, duration: float | None = None) -> str:
    with NetworkFile(network) as net, pytest.raises(BadInputError) as caught:
        read_rates(path, net, duration)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message.removeprefix(str(path))


@pytest.mark.parametrize("piece", [4, 1 << 20])
@pytest.mark.parametrize(
    ("network", "text"),
    [
        (PLAIN, "0,1.5\n1,0\n2,4\n"),
        (PLAIN, "# Hz\nneuron rate\n2 4\n\n0 1.5\n1 0"),
        (PLAIN, "rate;note;Neuron\n4;x;2\n0;;1\n1.5;y z;0\n"),
        (PLAIN, "number,spikes\n2,4\n0,1.5\n1,0\n"),
        (SPARSE, "7,1.5\n100,4\n30,0\n"),
        (NAMED, "I2L,0\nAVAR,4\nI1L , 1.5\n"),
        (NAMED, "name\trate\r\nI2L\t0\r\nAVAR\t4\r\nI1L\t1.5\r\n"),
    ],
)
def test_text(
    network: str, text: str, piece: int, networks: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(namedtable, "SPLIT_BYTES", piece)
    (tmp_path / "r.csv").write_text(text)
    assert rates_of(tmp_path / "r.csv", networks / network) == [1.5, 0, 4]


@pytest.mark.parametrize(
    ("network", "text", "message"),
    [
        (PLAIN, "", ": line 1: 0 columns; give two"),
        (PLAIN, "0\n1\n2\n", ": line 1: 1 columns; give two"),
        (PLAIN, "0,1,2\n", ": line 1: 3 columns; give two"),
        (PLAIN, "neuron,spikes,x\n0,1,2\n", ": line 1: columns are neuron, spikes, x; name two"),
        (PLAIN, "0,1\n1,2\n", ": no rate for neuron 2; the network has 3 neurons"),
        (NAMED, "I2L,1\n", ": no rate for neuron I1L (and 1 more)"),
        (SPARSE, "7,1\n30,2\n", ": no rate for neuron 100;"),
        (PLAIN, "0,1\n1,2\n3,4\n", ": line 3: the network has no neuron '3'"),
        (PLAIN, "0,1\n-1,2\n", ": line 2: the network has no neuron '-1'"),
        (PLAIN, "0,1\nI1L,2\n", ": line 2: the network has no neuron 'I1L'"),
        (PLAIN, f"0,1\n{2**64},2\n", ": line 2: the network has no neuron"),
        (SPARSE, "7,1\n8,2\n", ": line 2: the network has no neuron '8'"),
        (SPARSE, "101,1\n", ": line 1: the network has no neuron '101'"),
        (NAMED, "I1L,1\n0,2\n", ": line 2: the network has no neuron '0'"),
        (PLAIN, "0,1\n1,2\n\n1,3\n2,1\n", ": line 4: neuron 1 has two rates"),
        (PLAIN, "0,1\n1,-2\n", ": line 2: rate -2 is negative"),
        (PLAIN, "0,1\n1,nan\n", ": line 2: rate nan is not a finite number"),
        (PLAIN, "0,1\n1,fast\n", ": line 2: rate 'fast' is not a number"),
        (PLAIN, "0,1\n1\n", ": line 2: 1 columns instead of 2"),
    ],
)
def test_faulty_text(network: str, text: str, message: str, networks: Path, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(text)
    assert message_of(tmp_path / "r.csv", networks / network).startswith(message)


COUNT = "count the spikes of each neuron and divide by the duration, or give a SONATA"


@pytest.mark.parametrize(
    ("network", "text", "message"),
    [
        (PLAIN, "neuron,time\n0,1\n1,2\n2,3\n", ": line 1: column 'time': spike times"),
        (PLAIN, "sender times\n0 1\n1 2\n2 3\n", ": line 1: column 'times': spike times"),
        (PLAIN, "spike_times,id\n1,0\n2,1\n3,2\n", ": line 1: column 'spike_times': spike times"),
        (PLAIN, "T;neuron;x\n1;0;0\n", ": line 1: column 'T': spike times"),
        (PLAIN, "0,1\n1,2\n0,3\n2,4\n", ": line 3: neuron 0 has two rates; if these are"),
        (PLAIN, "0.5,1\n0.7,2\n1.5,0\n", ": line 1: 0.5 is not a neuron number; if the"),
        (PLAIN, "2,0.5\n0,0.7\n1,1.5\n", ": the second column only increases, for any order"),
    ],
)
def test_spike_times_are_refused_as_rates(
    network: str, text: str, message: str, networks: Path, tmp_path: Path
) -> None:
    (tmp_path / "r.csv").write_text(text)
    found = message_of(tmp_path / "r.csv", networks / network)
    assert found.startswith(message)
    assert COUNT in found


@pytest.mark.parametrize("piece", [4, 1 << 20])
@pytest.mark.parametrize(
    "text",
    [
        "neuron,rate\n1,0\n0,1.5\n2,4\n",  # sorted by rate, but the column is named
        "neuron,rate,t\n1,0,5\n0,1.5,6\n2,4,7\n",
        "1,0\n2,4\n0,1.5\n",  # unsorted
    ],
)
def test_rates_are_not_mistaken_for_spike_times(
    text: str, piece: int, networks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namedtable, "SPLIT_BYTES", piece)
    (tmp_path / "r.csv").write_text(text)
    assert rates_of(tmp_path / "r.csv", networks / PLAIN) == [1.5, 0, 4]


def test_repeats_in_another_piece(
    networks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namedtable, "SPLIT_BYTES", 4)
    (tmp_path / "r.csv").write_text("0,1\n1,2\n2,1\n0,1\n")
    assert "line 4: neuron 0 has two rates" in message_of(tmp_path / "r.csv", networks / PLAIN)


def test_an_array_without_a_name_is_refused(networks: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "r.npy", np.ones(3))
    assert "save it as npz, with the name `rate`" in message_of(
        tmp_path / "r.npy", networks / PLAIN
    )


def test_npz(networks: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "r.npz", rate=np.array([1, 2, 3], np.uint8), other=[1])
    assert rates_of(tmp_path / "r.npz", networks / NAMED) == [1, 2, 3]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"rate": [1, 2]}, ": rates have shape 2; the network has 3 neurons"),
        ({"rate": [1, np.nan, 3]}, ": rate of neuron 1 (from 0): nan is not finite"),
        ({"rate": [1, 2, -3]}, ": rate of neuron 2 (from 0): -3 is negative"),
        ({"rates": [1, 2, 3]}, ": holds rates; it must hold an array `rate`"),
        ({"rate": np.array([None] * 3)}, ": not a valid npz file"),
    ],
)
def test_faulty_npz(arrays: dict[str, Any], message: str, networks: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "r.npz", **arrays)
    assert message_of(tmp_path / "r.npz", networks / PLAIN).startswith(message)


def test_other_faulty_files(networks: Path, tmp_path: Path) -> None:
    path, network = tmp_path / "r", networks / PLAIN
    assert message_of(path, network).startswith(": cannot read: No such file")
    path.write_bytes(b"PK\3\4 nonsense")
    assert message_of(path, network).startswith(": not a valid npz file")
    path.write_text("0,1\n1,1\n2,1\n")
    assert message_of(path, network, 2.0).startswith(": only spike reports have a duration")
    path.write_bytes((networks / PLAIN).read_bytes())
    assert "it must hold an array `rate`" in message_of(path, network)


Spikes = dict[str, tuple[list[float], list[int]]]


def write_spikes(path: Path, spikes: Spikes, units: str | None = "ms") -> None:
    with pytest.importorskip("h5py").File(path, "w") as file:
        for name, (times, ids) in spikes.items():
            group = file.create_group(f"spikes/{name}")
            group["timestamps"] = np.array(times, np.float64)
            group["node_ids"] = np.array(ids, np.uint64)
            if units is not None:
                group["timestamps"].attrs["units"] = units


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 1)), min_size=1), st.booleans())
def test_spikes(
    networks: Path,
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[int, int]],
    own: bool,
) -> None:
    """Spike counts divided by the duration, population by population."""
    path = tmp_path_factory.mktemp("spikes") / "s.h5"
    times, ids = [float(time) for time, _ in drawn], [node for _, node in drawn]
    write_spikes(path, {"a": (times, ids), "b": ([100.0], [0])})
    last = max(*times, 100.0) / 1000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spikes_module, "BLOCK", 3)
        found = rates_of(path, networks / MIXED, 0.8 if own else None)
    seconds = 0.8 if own else last
    assert found == pytest.approx([ids.count(0) / seconds, ids.count(1) / seconds, 1 / seconds])


@pytest.mark.parametrize(("units", "last"), [("ms", 0.002), (None, 0.002), ("s", 2.0)])
def test_units_and_networks_of_one_population(
    units: str | None, last: float, networks: Path, tmp_path: Path
) -> None:
    write_spikes(tmp_path / "s.h5", {"any": ([1, 2, 2], [2, 0, 2])}, units)
    assert rates_of(tmp_path / "s.h5", networks / PLAIN) == pytest.approx([1 / last, 0, 2 / last])


@pytest.mark.parametrize(
    ("network", "spikes", "units", "duration", "message"),
    [
        (MIXED, {"c": ([1], [0])}, "ms", None, ": /spikes/c: the network's populations are 'a', "),
        (PLAIN, {"a": ([1], [0]), "b": ([1], [0])}, "ms", None, ": has spikes of 2 populations"),
        (MIXED, {"b": ([1], [1])}, "ms", None, ": /spikes/b/node_ids, row 0 (from 0): 1 is out"),
        (PLAIN, {"a": ([1, 1], [0])}, "ms", None, ": /spikes/a/timestamps has 2 values instead"),
        (PLAIN, {"a": ([1, -1], [0, 0])}, "ms", None, ": /spikes/a/timestamps, row 1 (from 0)"),
        (PLAIN, {"a": ([np.nan], [0])}, "ms", None, ": /spikes/a/timestamps, row 0 (from 0): nan"),
        (PLAIN, {"a": ([1], [0])}, "days", None, ": /spikes/a/timestamps is in 'days'"),
        (PLAIN, {"a": ([1], [0])}, "s", 0.5, ": a spike at 1000 ms is after the duration"),
        (PLAIN, {"a": ([1], [0])}, "s", -1.0, ": the duration is -1.0 s"),
        (PLAIN, {"a": ([1], [0])}, "s", float("nan"), ": the duration is nan s"),
        (PLAIN, {"a": ([], [])}, "s", None, ": without spikes the recording length is unknown"),
        (PLAIN, {}, "s", None, ": no group /spikes"),
    ],
)
def test_faulty_spikes(
    network: str, spikes: Spikes, units: str, duration: float | None, message: str,
    networks: Path, tmp_path: Path,
) -> None:  # fmt: skip
    write_spikes(tmp_path / "s.h5", spikes, units)
    assert message_of(tmp_path / "s.h5", networks / network, duration).startswith(message)


def test_truncated_spikes(networks: Path, tmp_path: Path) -> None:
    write_spikes(tmp_path / "s.h5", {"a": ([1], [0])})
    (tmp_path / "s.h5").write_bytes((tmp_path / "s.h5").read_bytes()[:900])
    assert message_of(tmp_path / "s.h5", networks / PLAIN).startswith(": not a valid HDF5 file")


def spoiled(drop: str) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        with pytest.importorskip("h5py").File(path, "r+") as file:
            del file[drop]

    return spoil


@pytest.mark.parametrize("name", ["spikes/a/node_ids", "spikes/a/timestamps"])
def test_missing_spikes(name: str, networks: Path, tmp_path: Path) -> None:
    write_spikes(tmp_path / "s.h5", {"a": ([1], [0])})
    spoiled(name)(tmp_path / "s.h5")
    assert message_of(tmp_path / "s.h5", networks / PLAIN).startswith(f": no data set /{name}")


def test_ids_per_population(networks: Path, tmp_path: Path) -> None:
    """An id alone is ambiguous; a spike report has ids 0, 1, 2, ... per population."""
    table = "pre_pop,pre,post_pop,post\na,0,a,1\nb,0,b,2\n"
    (tmp_path / "a.csv").write_text(table)
    import_network(tmp_path / "a.csv", tmp_path / "net.bin")
    (tmp_path / "r.csv").write_text("0,1\n1,2\n2,3\n")
    assert message_of(tmp_path / "r.csv", tmp_path / "net.bin").startswith(
        ": neurons of several populations share ids; give the rates as npz"
    )
    write_spikes(tmp_path / "s.h5", {"a": ([1000.0], [1])})
    assert rates_of(tmp_path / "s.h5", tmp_path / "net.bin") == [0, 1, 0, 0]
    write_spikes(tmp_path / "s.h5", {"b": ([1000.0], [1])})
    assert message_of(tmp_path / "s.h5", tmp_path / "net.bin").startswith(
        ": /spikes/b has node ids 0..1, but the ids of this population differ"
    )


HEADER = "# NEST version: 3.6.0\n# RecordingBackendASCII version: 2\n"
NEST_3 = HEADER + "sender\ttime_ms\n"
NEST_STEPS = HEADER + "sender\ttime_step\ttime_offset\n"


@pytest.mark.parametrize(
    ("name", "text", "duration", "expected"),
    [
        ("r.dat", NEST_3 + "7\t1.500\n100\t2.000\n7\t1000.000\n", None, [2, 0, 1]),
        ("r.txt", NEST_3 + "7\t1.500\n100\t2.000\n7\t900.000\n", 2.0, [1, 0, 0.5]),
        ("r.dat", NEST_STEPS + "30\t15\t0.000\n30\t400\t0.050\n", 0.5, [0, 4, 0]),
        ("r.dat", "sender time_ms\n100 500\n", None, [0, 0, 2]),
        ("r.gdf", "7\t1.5\t\n7\t2.5\t\n30\t3\t\n", 1.0, [2, 1, 0]),
        ("r.dat", NEST_3, 1.0, [0, 0, 0]),
    ],
)
def test_spikes_of_nest(
    name: str, text: str, duration: float | None, expected: list[float], networks: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    (tmp_path / name).write_text(text)
    assert rates_of(tmp_path / name, networks / SPARSE, duration) == expected


def test_files_of_all_processes(networks: Path, tmp_path: Path) -> None:
    for number, line in (("0", "7\t1.0\n"), ("1", "7\t2.0\n30\t500.0\n"), ("2", "")):
        (tmp_path / f"spikes-012-{number}.dat").write_text(NEST_3 + line)
    (tmp_path / "spikes-013-0.dat").write_text(NEST_3 + "100\t9.0\n")  # another recorder
    for number in range(3):
        path = tmp_path / f"spikes-012-{number}.dat"
        assert rates_of(path, networks / SPARSE) == [4, 2, 0]
        assert name_of_rates(path) == f"{path.name} and 2 of other processes"
    assert rates_of(tmp_path / "spikes-013-0.dat", networks / SPARSE, 1.0) == [0, 0, 1]
    assert name_of_rates(tmp_path / "spikes-013-0.dat") == "spikes-013-0.dat"
    (tmp_path / "spikes-012-3.dat").write_text("7 x\n")
    with pytest.raises(BadInputError, match=r"spikes-012-3\.dat: line 1: 'x' is not a number"):
        rates_of(path, networks / SPARSE)


@pytest.mark.parametrize(
    ("network", "text", "duration", "message"),
    [
        (SPARSE, NEST_3 + "8\t1.0\n", None, ": line 4: the network has no neuron 8"),
        (SPARSE, NEST_3 + "7\t-1.0\n", None, ": line 4: the time of a spike of 7 is negative"),
        (SPARSE, NEST_3 + "7\n", None, ": line 4: 1 columns instead of 2"),
        (SPARSE, NEST_3 + "7\t900\n", 0.5, ": a spike at 900 ms is after the duration"),
        (SPARSE, NEST_3, None, ": without spikes the recording length is unknown"),
        (SPARSE, NEST_STEPS + "7\t1\t0\n", None, ": spike times are in steps of unknown length"),
        (PLAIN, NEST_3 + "1\t1.0\n", None, ": senders are ids of NEST, from 1, but the neurons"),
        (NAMED, NEST_3 + "1\t1.0\n", None, ": senders are ids of NEST, from 1, but the neurons"),
        (SPARSE, "7 1.5\n7 2.5\n", None, ": line 2: neuron 7 has two rates; if these are"),
    ],
)
def test_faulty_spikes_of_nest(
    network: str, text: str, duration: float | None, message: str, networks: Path, tmp_path: Path
) -> None:
    (tmp_path / "r.dat").write_text(text)
    assert message_of(tmp_path / "r.dat", networks / network, duration).startswith(message)


def test_trains_of_nest(networks: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.dat"
    path.write_text(NEST_3 + "30\t2.000\n7\t0.100\n")
    with NetworkFile(networks / SPARSE) as net:
        found = read_trains(path, net, 0.1)
        assert (found.neuron.tolist(), found.tick.tolist()) == ([0, 1], [1, 20])
        path.write_text(NEST_STEPS + "7\t1\t0\n")
        with pytest.raises(BadInputError, match="in steps of unknown length"):
            read_trains(path, net, 0.1)
