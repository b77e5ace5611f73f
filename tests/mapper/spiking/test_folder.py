"""The folder of a compiled model from Python: reading inverts writing; faulty tables are found."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.presets import parse_chip
from hw.core.network import SpikingNetwork
from hw.tables import ChipTables, make_tables
from mapper.errors import CheckFailedError
from mapper.spiking.artifacts import folder as folder_file
from mapper.spiking.artifacts import verify
from mapper.spiking.artifacts.folder import ModelSource, SpikingFolder, read_folder, write_folder
from mapper.spiking.pipeline import MappedSpikes, SpikingOptions, compile_for_chip
from tests.mapper.spiking.graphs import save_graph

CHIP = parse_chip("3x2")
OPTIONS = SpikingOptions(tick=1e-3)


@pytest.fixture
def mapped(tmp_path: Path) -> MappedSpikes:
    save_graph(tmp_path / "a.nir")
    return compile_for_chip(tmp_path / "a.nir", CHIP, None, OPTIONS)


@pytest.fixture
def folder(tmp_path: Path, mapped: MappedSpikes) -> SpikingFolder:
    write_folder(tmp_path, ModelSource.of(tmp_path / "a.nir"), mapped, CHIP, OPTIONS)
    return read_folder(tmp_path)


def test_reading_returns_the_written_model(mapped: MappedSpikes, folder: SpikingFolder) -> None:
    written, found = mapped.compiled.integers, folder.integers
    for each in fields(SpikingNetwork):
        assert np.array_equal(
            getattr(written.network, each.name), getattr(found.network, each.name)
        )
    assert np.array_equal(written.scale, found.scale)
    assert np.array_equal(mapped.core, folder.core)
    for name in ("shape", "latency", "options", "counts"):
        assert getattr(written, name) == getattr(found, name)
    assert folder.model.populations[1].name == "hidden"


def changed(tables: ChipTables, name: str, column: int | None) -> ChipTables:
    """Return tables in which a number of core 0 is one more."""
    core, row = tables.cores[0], 0
    if name == "routes to the host":
        name, row = "routes", int(core.routes[:, 1].argmax())
        assert core.routes[row, 1] == tables.height
    values = getattr(core, name).copy()
    values[(row, column) if column is not None else row] += 1
    return replace(tables, cores=(replace(core, **{name: values}), *tables.cores[1:]))


@pytest.mark.parametrize(
    ("name", "column", "said"),
    [
        ("synapses", 1, "synapse lists of the cores are not the synapses"),
        ("synapses", 0, "synapse lists of the cores are not the synapses"),
        ("lists", 2, "synapse lists of the cores are not the synapses"),
        ("routes", 2, "routes and axons of the cores differ"),
        ("routes to the host", 2, "routes and axons of the cores differ"),
        ("axons", None, "routes and axons of the cores differ"),
        ("parameters", 1, "the tables of core 0 differ from the integers"),
    ],
)
def test_faulty_tables_are_found(
    folder: SpikingFolder, monkeypatch: pytest.MonkeyPatch, name: str, column: int | None, said: str
) -> None:
    assert verify.verify_folder(folder).neurons == 24
    monkeypatch.setattr(
        folder_file, "make_tables", lambda *given: changed(make_tables(*given), name, column)
    )
    if name != "parameters":  # check the contents, although the hashes agree
        entries: Any = folder.manifest.cores
        monkeypatch.setattr(verify, "core_entries", lambda tables: entries)
    with pytest.raises(CheckFailedError, match=said):
        verify.verify_folder(folder)


def test_words_are_counted_by_connection(folder: SpikingFolder) -> None:
    """Each word of a core counts once, for the axon that reads it first."""
    model = folder.model

    def name(number: int) -> str:
        return next(
            each.name for each, first in zip(model.populations, model.first, strict=True)
            if first <= number < first + each.size
        )  # fmt: skip

    words: dict[tuple[str, str], list[int]] = {}
    for core in folder.tables().cores:
        seen, here = set(), set()
        for axon, (first, count, base) in zip(
            core.axons.tolist(), core.lists.tolist(), strict=True
        ):
            for word in range(first, first + count):
                local = (base + int(core.synapses[word][0])) % folder.integers.shape.neurons
                pair = name(axon), name(int(core.neurons[local]))
                found = words.setdefault(pair, [0, 0, 0])
                found[0] += word not in seen
                found[1] += 1
                found[2] += pair not in here
                seen.add(word)
                here.add(pair)
    stored = {(one.source, one.target): [one.words, one.synapses, one.cores]
              for one in folder.manifest.lists}  # fmt: skip
    assert stored == words
    assert [one.words for one in folder.manifest.lists] == sorted(
        (one.words for one in folder.manifest.lists), reverse=True
    )
    folder.manifest.lists[0].words += 1
    with pytest.raises(CheckFailedError, match="the words of its lists differ from the tables"):
        verify.verify_folder(folder)
