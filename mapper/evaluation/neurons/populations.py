"""Check of the populations in report.json: their sizes and traffic, by the independent reader."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.errors import CheckFailedError
from mapper.evaluation.verify import Connections, SlowReader
from mapper.evaluation.verify_machine import MachineLayout
from storage.jsontext import shown

Int64 = NDArray[np.int64]

TOLERANCE = 1e-9  # relative, between sums of floats in different order
KINDS = ("population", "layer")
SUMS = ("sent", "received", "within", "hops_total")


def check_populations(
    folder: Path, stated: dict[str, Any] | None, reader: SlowReader, core: Int64,
    chip: dict[str, Any],
) -> None:  # fmt: skip
    """Recompute the table of populations; raise `CheckFailedError` at the first difference.

    stated : entry of report.json, None if it has none
    """
    if stated is None:
        return
    populations = NamedNeurons(reader)
    if populations.kind != stated["kind"]:
        raise CheckFailedError(f"{folder}: report.json has populations that the network lacks")
    found = _PopulationSums(populations.of, core, chip, stated.get("busiest_link"))
    rate = reader.attribute("rate") if "rate" in reader.meta["attributes"] else None
    for part in reader.connections():
        if part.owner.size:
            found.add(part, rate, reader.meta["undirected"])
    unit = reader.meta["weight_unit"]
    if chip["delivery"] != "synapse":
        unit = reader.meta["attributes"].get("rate", {"unit": unit})["unit"]
    _compare(folder, stated, found, populations.names, unit)


class NamedNeurons:
    """The populations of a network.

    count : number of neurons
    kind : the attribute that holds them, "" without any; names : of the populations
    of : population of every neuron
    """

    def __init__(self, reader: SlowReader) -> None:
        attributes, self.count = reader.meta["attributes"], reader.neurons
        self.kind = next((kind for kind in KINDS if kind in attributes), "")
        self.of: Int64 = reader.attribute(self.kind) if self.kind else np.zeros(0, np.int64)
        count = int(self.of.max(initial=-1)) + 1
        self.names: list[str] = [f"{self.kind} {number}" for number in range(count)]
        if self.kind:
            self.names = attributes[self.kind].get("labels") or self.names

    def members(self, name: str) -> Int64 | None:
        """Return the neurons of a population, None if there is none of this name."""
        return np.flatnonzero(self.of == self.names.index(name)) if name in self.names else None

    def called(self, neuron: int) -> str:
        """Return the name of a neuron in messages; relay neurons follow the others."""
        if neuron >= self.count:
            return f"relay neuron {neuron - self.count}"
        if not self.kind:
            return f"neuron {neuron}"
        name = self.names[self.of[neuron]]
        place = int((self.of[:neuron] == self.of[neuron]).sum())
        return f"neuron {place} of {'' if name.startswith(self.kind) else f'{self.kind} '}{name}"


def _compare(
    folder: Path, stated: dict[str, Any], found: _PopulationSums, names: list[str], unit: float
) -> None:
    number = {name: index for index, name in enumerate(names)}
    if stated["count"] != len(names):
        raise CheckFailedError(
            f"{folder}: report.json has {stated['count']} populations, the network {len(names)}"
        )
    for row in stated["rows"]:
        where = f"{folder}: population {shown(row['name'])}"
        if row["name"] not in number:
            raise CheckFailedError(f"{where} is not in the network")
        at = number[row["name"]]
        sums = dict(zip(SUMS, (found.sums[at] * unit).tolist(), strict=True))
        total = sums["sent"] + sums["within"]
        mean = sums["hops_total"] / total if total else 0.0
        sizes = {"neurons": int(found.neurons[at]), "cores": int(found.cores[at])}
        for name, value in {**sizes, **sums, "hops_mean": mean}.items():
            if not math.isclose(row[name], value, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
                raise CheckFailedError(f"{where}: {name} is {value}, report.json has {row[name]}")
    if found.link is None:
        return
    for pair in stated["busiest_link"]["pairs"]:
        value = found.pairs[number.get(pair["source"], -1), number.get(pair["target"], -1)] * unit
        if not math.isclose(pair["traffic"], value, rel_tol=TOLERANCE):
            raise CheckFailedError(
                f"{folder}: traffic from {shown(pair['source'])} to {shown(pair['target'])} on the "
                f"busiest link is {value}, report.json has {pair['traffic']}"
            )


class _PopulationSums:
    """Sums by population, in stored units.

    sums : shape (populations, 4), columns as `SUMS`
    pairs : traffic on the busiest link, by source and target population; link : None on a machine
    """

    def __init__(
        self, of: Int64, core: Int64, chip: dict[str, Any], link: dict[str, Any] | None
    ) -> None:
        count = int(of.max(initial=0)) + 1
        self.of, self._core, self._width = of, core, chip["width"]
        self._packets = chip["delivery"] != "synapse"
        self._cores = chip["width"] * chip["height"]
        self._layout = MachineLayout.of(chip)
        self.link = link if self._layout is None else None
        self.sums = np.zeros((count, len(SUMS)), np.int64)
        self.pairs: Counter[tuple[int, int]] = Counter()
        self.neurons = np.bincount(of, minlength=count)
        self.cores = np.bincount(np.unique(of * self._cores + core) // self._cores, minlength=count)

    def add(self, part: Connections, rate: Int64 | None, undirected: bool) -> None:
        """Add the synapses of a block."""
        ahead = part.incoming == 0
        source, target, amount = part.owner[ahead], part.other[ahead], part.weight[ahead]
        if self._packets:
            source, core, population, amount = self._packed(source, target, amount, rate)
        else:
            if undirected:
                once = source < target
                source, target, amount = source[once], target[once], amount[once]
            core, population = self._core[target], self.of[target]
        a, p = self._core[source], self.of[source]
        hops = self._distance(a, core)
        apart = a != core
        np.add.at(self.sums[:, 0], p[apart], amount[apart])
        np.add.at(self.sums[:, 1], population[apart], amount[apart])
        np.add.at(self.sums[:, 2], p[~apart], amount[~apart])
        np.add.at(self.sums[:, 3], p, amount * hops)
        if self.link is not None:
            on = self._crosses(self.link, a, core)
            count = len(self.sums)
            keys, place = np.unique(p[on] * count + population[on], return_inverse=True)
            total = np.zeros(keys.size, np.int64)
            np.add.at(total, place, amount[on])
            for key, value in zip(keys.tolist(), total.tolist(), strict=True):
                self.pairs[divmod(key, count)] += value

    def _packed(
        self, source: Int64, target: Int64, weight: Int64, rate: Int64 | None
    ) -> tuple[Int64, Int64, Int64, Int64]:
        """Return source, core, population and rate of each packet to a core."""
        core, population = self._core[target], self.of[target]
        order = np.lexsort((population, core, source))
        source, core, population, weight = (
            each[order] for each in (source, core, population, weight)
        )
        starts = np.flatnonzero(
            (np.diff(source, prepend=-1) != 0) | (np.diff(core, prepend=-1) != 0)
            | (np.diff(population, prepend=-1) != 0)
        )  # fmt: skip
        if not starts.size:
            return source, core, population, weight
        sums, largest = np.add.reduceat(weight, starts), np.maximum.reduceat(weight, starts)
        source, core, population = source[starts], core[starts], population[starts]
        if rate is None:
            first = source.min()
            most = np.zeros(int(source.max() - first) + 1, np.int64)
            np.maximum.at(most, source - first, largest)
            amount = most[source - first]
        else:
            amount = rate[source]
        order = np.lexsort((population, -sums, core, source))
        source, core, population, amount = (
            each[order] for each in (source, core, population, amount)
        )
        best = (np.diff(source, prepend=-1) != 0) | (np.diff(core, prepend=-1) != 0)
        return source[best], core[best], population[best], amount[best]

    def _distance(self, a: Int64, b: Int64) -> Int64:
        if self._layout is not None:
            return np.abs(np.array(self._layout.ways(a, b))).sum(axis=0)
        width = self._width
        return np.abs(a % width - b % width) + np.abs(a // width - b // width)

    def _crosses(self, link: dict[str, Any], a: Int64, b: Int64) -> NDArray[np.bool_]:
        """Return which routes, along the row first, cross a link."""
        (ya, xa), (yb, xb) = np.divmod(a, self._width), np.divmod(b, self._width)
        x, y = link["x"], link["y"]
        along = {
            "east": (ya == y) & (xa <= x) & (x < xb),
            "west": (ya == y) & (xb < x) & (x <= xa),
            "south": (xb == x) & (ya <= y) & (y < yb),
            "north": (xb == x) & (yb < y) & (y <= ya),
        }
        return along[link["direction"]]
