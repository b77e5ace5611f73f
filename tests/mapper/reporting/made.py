"""Hand-made output folders, and a reader of pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from chipsim.chip.model import Chip
from chipsim.traffic.arrays import Traffic
from chipsim.traffic.metrics import summarise
from mapper.reporting.make import view_folder
from mapper.reporting.page import render
from mapper.reporting.view import View
from mapper.results.loads import TRAFFIC, Loads, save_loads
from mapper.results.mapping_file import save_mapping_in
from mapper.results.output import REPORT, network_facts
from mapper.results.population_file import save_populations
from mapper.results.population_table import population_facts
from mapper.scoring.measure import measure_network
from mapper.scoring.populations import population_traffic
from mapper.settings import preset
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter
from tests.mapper.helpers import random_network, write_network

VOID = {"meta", "img", "source", "input", "br", "rect", "path"}


def random_folder(folder: Path, chip: Chip, seed: int = 0, neurons: int = 60) -> Path:
    """Return a folder of a random network on random usable cores of a chip."""
    path = random_network(folder.with_name(f"{folder.name}.bin"), neurons, 6 * neurons, seed)
    cores = np.random.default_rng(seed).choice(np.flatnonzero(chip.usable), neurons)
    return write_folder(folder, path, chip, cores.astype(np.int32))


def idle_folder(folder: Path, chip: Chip) -> Path:
    """Return a folder of three neurons without synapses."""
    path = write_network(folder.with_name(f"{folder.name}.bin"), [], 3)
    return write_folder(folder, path, chip, np.zeros(3, np.int32))


def layered_folder(
    folder: Path, chip: Chip, names: Sequence[str], seed: int = 0, neurons: int = 90,
    mixed: bool = False,
) -> Path:  # fmt: skip
    """Return a folder of layers of equal size, each with synapses to the next and to itself.

    mixed : neurons of a layer have no consecutive ids, and cores hold several layers
    """
    rng = np.random.default_rng(seed)
    of = np.arange(neurons) * len(names) // neurons
    order = rng.permutation(neurons) if mixed else np.arange(neurons)
    cores = rng.choice(np.flatnonzero(chip.usable), neurons)
    spread = np.sort(cores) if not mixed else cores
    path = folder.with_name(f"{folder.name}.bin")
    source = rng.integers(0, neurons, 6 * neurons)
    target = np.minimum(
        source + rng.integers(0, neurons // len(names) + 1, source.size), neurons - 1
    )
    with NetworkWriter(path, neurons) as writer:
        writer.add(order[source], order[target], rng.integers(1, 6, source.size))
        labels, core = np.empty(neurons, np.int64), np.empty(neurons, np.int32)
        labels[order], core[order] = of, spread
        writer.set_attribute("layer", labels, list(names))
        writer.finish()
    return write_folder(folder, path, chip, core)


def write_folder(folder: Path, network: Path, chip: Chip, core: Any, **more: Any) -> Path:
    """Write the output of a run without run.log and the page. more : parts of the report"""
    folder.mkdir()
    traffic, report = measured(network, chip, core)
    save_mapping_in(folder, core, chip)
    save_loads(folder / TRAFFIC, Loads.of(traffic))
    with NetworkFile(network) as file:
        populations = population_traffic(file, chip, core)
    save_populations(folder, populations)
    if populations is not None:
        report["populations"] = population_facts(chip, Loads.of(traffic), populations)
    (folder / REPORT).write_text(json.dumps(report | more))
    return folder


def measured(network: Path, chip: Chip, core: Any) -> tuple[Traffic, dict[str, Any]]:
    """Return the traffic of a mapping and its report."""
    with NetworkFile(network) as file:
        traffic = measure_network(file, chip, core)
        neurons, synapses = file.meta.neurons, file.meta.synapses
        about = network_facts(file, network)
    return traffic, {
        "schema": 1,
        "tool": {"name": "mapper", "version": "0"},
        "network": about,
        "chip": chip.to_json(),
        "settings": preset("default", seed=7).to_json(),
        "metrics": summarise(chip, traffic),
        "levels": [{"vertices": neurons, "connections": synapses, "cut_weight": None}],
        "stages": [
            {"name": "check", "seconds": 0.25, "peak_anon_bytes": 3 << 20},
            {"name": "score", "seconds": 1.5, "peak_anon_bytes": 5 << 20},
        ],
        "resources": {"seconds": 2.5, "peak_rss_bytes": 1 << 20, "passes": 2.5},
    }


@dataclass
class Element:
    name: str
    attributes: dict[str, str | None]
    text: str = ""


@dataclass
class Page(HTMLParser):
    """All elements of a page; requires tags to be closed in order."""

    source: str
    elements: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[Element] = []
        self.feed(self.source)
        self.close()
        assert not self._open, f"not closed: {[e.name for e in self._open]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"{tag} repeats an attribute"
        self.elements.append(Element(tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(self.elements[-1])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes no element"
        assert self._open.pop().name == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, name: str, **attributes: str) -> list[Element]:
        return [
            element
            for element in self.elements
            if element.name == name and attributes.items() <= element.attributes.items()
        ]

    def one(self, name: str, **attributes: str) -> Element:
        (found,) = self.all(name, **attributes)
        return found

    def data(self) -> dict[str, Any]:
        """Return the data of the script."""
        found: dict[str, Any] = json.loads(self.one("script", type="application/json").text)
        return found

    def metrics(self) -> list[tuple[str, float]]:
        """Return the name and exact value of every metric on the page."""
        found, name = [], None
        for element in self.elements:
            name = element.attributes.get("data-metric") or name
            if element.name == "data" and name is not None:
                found.append((name, json.loads(str(element.attributes["value"]))))
                name = None
        return found


def never(report: dict[str, Any], chip: Chip) -> Any:
    raise AssertionError("must not measure")


def view_of(folder: Path, label: str | None = None) -> View:
    return view_folder(folder, never, label)


def page_of(*folders: Path) -> Page:
    return Page(render([view_of(folder) for folder in folders]).decode())
