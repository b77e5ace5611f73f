"""Traffic of networks with synaptic weights, and the record of its source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from storage.formats import FORMATS, export_network, import_network
from storage.formats.objects import NeuronProperties, write_edges
from storage.store.network import NetworkFile
from storage.store.rates import write_rated, write_uniform
from storage.store.traffic import describe, traffic_of
from storage.store.writer import NetworkWriter
from tests.storage.formats.conftest import attributes_of, edges_of, meta_of
from tests.storage.formats.samples import SAMPLES
from tests.storage.formats.test_contract import need

UNRATED = ("nir", "onnx", "sonata")


@pytest.mark.parametrize("name", UNRATED)
def test_default_traffic_is_uniform(name: str, tmp_path: Path) -> None:
    """Equals a network given a rate of 1 afterwards; with traffic by weights it has no rates."""
    need(name)
    assert "traffic" in FORMATS[name].takes
    sample = SAMPLES[name][0]
    source = tmp_path / sample.name
    source.write_bytes(sample.make(tmp_path))
    meta = import_network(source, tmp_path / "plain.bin")
    assert traffic_of(meta) == {"source": "uniform", "multicast": "rates"}
    assert meta.weights_are_rates
    assert attributes_of(tmp_path / "plain.bin")["rate"] == [1] * meta.neurons
    weighted = import_network(source, tmp_path / "weighted.bin", traffic="weights")
    assert traffic_of(weighted) == {"source": "weights", "multicast": "largest weight"}
    assert not weighted.weights_are_rates
    assert "rate" not in weighted.attributes
    with NetworkFile(tmp_path / "weighted.bin") as network:
        write_uniform(network, tmp_path / "again.bin")
    assert edges_of(tmp_path / "again.bin") == edges_of(tmp_path / "plain.bin")
    assert meta_of(tmp_path / "again.bin").provenance == meta.provenance


def test_exported_sonata_files_hold_traffic(tmp_path: Path) -> None:
    """Traffic before the export is traffic after it, unless uniform rates are requested."""
    need("sonata")
    write_edges(tmp_path / "a.bin", [0, 1, 2], [1, 2, 0], [5, 0.25, 7])
    with NetworkFile(tmp_path / "a.bin") as network:
        export_network(network, tmp_path / "a.h5")
    meta = import_network(tmp_path / "a.h5", tmp_path / "b.bin")
    assert edges_of(tmp_path / "b.bin") == {(0, 1): 5, (1, 2): 0.25, (2, 0): 7}
    assert traffic_of(meta)["source"] == "weights"
    import_network(tmp_path / "a.h5", tmp_path / "b.bin", traffic="uniform")
    assert edges_of(tmp_path / "b.bin") == {(0, 1): 1, (1, 2): 1, (2, 0): 1}


RATES = [0.5, 2.25, 0.125]


@pytest.mark.parametrize("undirected", [False, True])
def test_writer_detects_weights_that_are_rates(tmp_path: Path, undirected: bool) -> None:
    path = tmp_path / "net.bin"
    ends = [0, 1, 2, 0], [1, 2, 0, 1]
    meta = write_edges(path, *ends, neurons=NeuronProperties(rates=RATES), undirected=undirected)
    assert traffic_of(meta) == {"source": "rates", "multicast": "rates"}
    meta = write_edges(
        path, *ends, [3.5, 1, 1, 1], neurons=NeuronProperties(rates=RATES), undirected=undirected
    )
    assert traffic_of(meta) == {"source": "weights", "multicast": "rates"}
    meta = write_edges(path, *ends, [3.5, 1, 1, 1], undirected=undirected)
    assert traffic_of(meta) == {"source": "weights", "multicast": "largest weight"}
    assert meta.provenance == {"format": "edges"}


def test_whole_rates_are_compared_exactly(tmp_path: Path) -> None:
    for weight, source in (([2, 3], "rates"), ([2, 4], "weights")):
        with NetworkWriter(tmp_path / "net.bin", 2) as writer:
            writer.add(np.array([0, 1]), np.array([1, 0]), np.array(weight))
            writer.set_attribute("rate", np.array([2, 3]))
            assert traffic_of(writer.finish())["source"] == source


def test_files_without_a_traffic_record(tmp_path: Path) -> None:
    meta = write_edges(tmp_path / "net.bin", [0, 1], [1, 0], neurons=NeuronProperties(rates=[1, 2]))
    old = replace(meta, provenance={"format": "edges"})
    assert traffic_of(old) == {"source": "rates", "multicast": "rates"}
    with_file = replace(meta, provenance={"rates": "r.csv"})
    assert traffic_of(with_file) == {"source": "rates", "file": "r.csv", "multicast": "rates"}
    nir = replace(meta, provenance={"format": "nir"}, weights_are_rates=False)
    assert traffic_of(nir) == {"source": "weights", "multicast": "rates"}
    odd = replace(meta, provenance={"traffic": 3}, attributes={})
    assert traffic_of(odd) == {"source": "weights", "multicast": "largest weight"}


def test_rates_file_is_recorded(tmp_path: Path) -> None:
    write_edges(tmp_path / "net.bin", [0, 1], [1, 0], [4, 5])
    with NetworkFile(tmp_path / "net.bin") as network:
        meta = write_rated(network, tmp_path / "b.bin", np.array([1, 2]), source="r.csv")
    traffic = traffic_of(meta)
    assert traffic == {"source": "rates", "file": "r.csv", "multicast": "rates"}
    assert describe(traffic) == "firing rates from r.csv"
    assert describe(None) == "not recorded"
