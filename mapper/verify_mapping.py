"""Check of a mapping against its network, its chip and its report, by the slow reader."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.presets import from_fields
from mapper.constraints import broken, read_wishes
from mapper.errors import CheckFailedError
from mapper.verify import Connections, SlowReader
from mapper.verify_split import SplitReader, check_counts, read_table

TOLERANCE = 1e-9  # relative, between sums of floats in another order


def verify_mapping(folder: Path, report: dict[str, Any], network: Path) -> dict[str, Any]:
    """Recompute limits and metrics; raises `CheckFailedError` at the first difference.

    Not recomputed are the loads of multicast trees and of routers under spread routes.

    folder : output folder of a run, report : its report.json, network : the network file
    """
    chip = from_fields(report["chip"], f"{folder}: chip of the report").to_json()
    cores = chip["width"] * chip["height"]
    core = _read_cores(folder / "mapping.npz", chip)
    reader = SlowReader(network)
    try:
        if core.size != reader.neurons:
            raise CheckFailedError(
                f"{folder}: maps {core.size} neurons, {network} has {reader.neurons}"
            )
        if core.size and (core.min() < 0 or core.max() >= cores):
            raise CheckFailedError(f"{folder}: a core id is outside 0..{cores - 1}")
        _check_constraints(folder / "constraints.toml", report, reader, core)
        table = read_table(folder / "mapping.npz", reader.neurons)
        check_counts(folder, report.get("split"), table)
        if table is None:
            walk = _Walk(reader, core, chip)
        else:
            if table.core.min() < 0 or table.core.max() >= cores:
                raise CheckFailedError(f"{folder}: a core id of a helper is outside 0..{cores - 1}")
            core = np.concatenate([core, table.core])
            walk = _Walk(SplitReader(reader, table, folder), core, chip)
        unit = reader.meta["weight_unit"]
        rate_unit = reader.meta["attributes"].get("rate", {"unit": unit})["unit"]
    finally:
        reader.close()
    _check_limits(folder, chip, walk.use, np.unique(core))
    found = _metrics(walk, chip, core, unit, rate_unit)
    stated_all: dict[str, Any] = {**report["metrics"], **_nested(report["metrics"])}
    for name, value in found.items():
        stated = stated_all.get(name)
        if not isinstance(stated, int | float) or not math.isclose(
            stated, value, rel_tol=TOLERANCE, abs_tol=TOLERANCE
        ):
            raise CheckFailedError(f"{folder}: {name} is {value}, report.json says {stated}")
    neurons = {"neurons": int(core.size)}
    if table is not None:
        neurons = {"neurons": core.size - table.core.size, "helpers": int(table.core.size)}
    return {**neurons, **{name: _plain(value) for name, value in found.items()}}


def _nested(metrics: dict[str, Any]) -> dict[str, Any]:
    inner = metrics.get("multicast")
    return {f"multicast.{k}": v for k, v in inner.items()} if isinstance(inner, dict) else {}


def _metrics(
    walk: _Walk, chip: dict[str, Any], core: NDArray[np.int64], unit: float, rate_unit: float
) -> dict[str, int | float]:
    """The metrics of the report that are recomputed, in real units."""
    used = np.unique(core)
    fill = walk.use["neurons"][used] / chip["neurons"]
    cut, hops = walk.cut * unit, walk.hops * unit
    links = walk.link_loads() * unit
    router, link = chip["latency_router"], chip["latency_link"]
    return {
        "cut_weight": cut,
        "cut_fraction": walk.cut / walk.weight if walk.weight else 0.0,
        "hops_total": hops,
        "hops_mean": walk.hops / walk.weight if walk.weight else 0.0,
        "hops_max": walk.farthest,
        "energy": (hops + cut) * chip["energy_router"] + hops * chip["energy_link"],
        "latency_mean": ((hops + cut) * router + hops * link) / cut if cut else 0.0,
        "latency_max": (
            (walk.farthest + 1) * router + walk.farthest * link if walk.farthest else 0.0
        ),
        "link_load_max": float(links.max(initial=0)),
        "link_load_mean": float(links.mean()) if links.size else 0.0,
        "link_load_p99": float(np.percentile(links, 99)) if links.size else 0.0,
        "multicast.connectivity": walk.connectivity * rate_unit,
        "cores_used": int(used.size),
        "core_fill_mean": float(fill.mean()),
        "core_fill_max": float(fill.max()),
    }


_LIMITS = ("neurons", "synapses", "axons_in", "axons_out")


def _plain(value: Any) -> int | float:
    return int(value) if float(value).is_integer() else float(value)


def _read_cores(path: Path, chip: dict[str, Any]) -> NDArray[np.int64]:
    try:
        with np.load(path, allow_pickle=False) as file:
            if (int(file["width"]), int(file["height"])) != (chip["width"], chip["height"]):
                raise CheckFailedError(f"{path}: was made for another chip than report.json names")
            return file["core"].astype(np.int64)
    except CheckFailedError:
        raise
    except Exception as error:  # numpy raises many kinds for a damaged archive
        raise CheckFailedError(f"{path}: cannot be read: {error}") from error


class _Walk:
    """One pass over all synapses: what they use of every core, and where their spikes go."""

    def __init__(
        self, reader: SlowReader | SplitReader, core: NDArray[np.int64], chip: dict[str, Any]
    ) -> None:
        cores = chip["width"] * chip["height"]
        self.use = {name: np.zeros(cores, np.int64) for name in _LIMITS}
        np.add.at(self.use["neurons"], core, reader.sizes())
        self.weight = self.cut = self.hops = self.farthest = self.connectivity = 0
        self._chip = chip
        self._core, self._cores = core, cores
        # right, left, down, up: load of the link that leaves each core, less that of the one before
        self._steps = np.zeros((4, chip["height"] + 1, chip["width"] + 1), np.int64)
        rate = reader.attribute("rate") if "rate" in reader.meta["attributes"] else None
        for part in reader.connections():
            if part.owner.size:  # a block of neurons may be without any
                self._add(part, rate, reader.meta["undirected"])

    def _add(self, part: Connections, rate: NDArray[np.int64] | None, undirected: bool) -> None:
        core, cores, width = self._core, self._cores, self._chip["width"]
        ahead = part.incoming == 0
        source, target, weight = part.owner[ahead], part.other[ahead], part.weight[ahead]
        np.add.at(self.use["synapses"], core[target], 1)
        reached = np.unique(source * cores + core[target])
        np.add.at(self.use["axons_in"], reached % cores, 1)
        leaving = reached[core[reached // cores] != reached % cores] // cores
        np.add.at(self.use["axons_out"], core[leaving], 1)
        if rate is None:  # the largest weight of the outgoing synapses
            first = int(part.owner.min())
            largest = np.zeros(int(part.owner.max()) - first + 1, np.int64)
            np.maximum.at(largest, source - first, weight)
            self.connectivity += int(largest[leaving - first].sum())
        else:
            self.connectivity += int(rate[leaving].sum())
        if undirected:
            once = source < target
            source, target, weight = source[once], target[once], weight[once]
        a, b = core[source], core[target]
        distance = np.abs(a % width - b % width) + np.abs(a // width - b // width)
        self.weight += int(weight.sum())
        self.cut += int(weight[distance > 0].sum())
        self.hops += int((weight * distance).sum())
        self.farthest = max(self.farthest, int(distance[weight > 0].max(initial=0)))
        self._route(a % width, a // width, b % width, b // width, weight)

    def _route(
        self,
        x: NDArray[np.int64],
        y: NDArray[np.int64],
        to_x: NDArray[np.int64],
        to_y: NDArray[np.int64],
        weight: NDArray[np.int64],
    ) -> None:
        """Spikes go along row y to column to_x, then along that column: where a load begins, where
        it ends. Links towards lower columns and rows leave the cores to_x + 1 .. x."""
        right, left, down, up = self._steps
        for low, high, ahead in ((x, to_x, right), (to_x + 1, x + 1, left)):
            goes = low < high
            np.add.at(ahead, (y[goes], low[goes]), weight[goes])
            np.add.at(ahead, (y[goes], high[goes]), -weight[goes])
        for low, high, ahead in ((y, to_y, down), (to_y + 1, y + 1, up)):
            goes = low < high
            np.add.at(ahead, (low[goes], to_x[goes]), weight[goes])
            np.add.at(ahead, (high[goes], to_x[goes]), -weight[goes])

    def link_loads(self) -> NDArray[np.int64]:
        """Load of every directed link, when each spike takes its row first."""
        right, left = self._steps[:2].cumsum(axis=2)[:, :-1, :-1]
        down, up = self._steps[2:].cumsum(axis=1)[:, :-1, :-1]
        return np.concatenate(
            [left[:, 1:].ravel(), right[:, :-1].ravel(), up[1:].ravel(), down[:-1].ravel()]
        )


def _check_constraints(
    path: Path, report: dict[str, Any], reader: SlowReader, core: NDArray[np.int64]
) -> None:
    """Neurons are where the constraints of the run put them, if it had any."""
    if not path.exists():
        return

    def ids(name: str) -> NDArray[np.int64] | None:
        labels = reader.meta["attributes"].get("population", {}).get("labels") or []
        if name not in labels:
            return None
        return np.flatnonzero(reader.attribute("population") == labels.index(name))

    chip = from_fields(report["chip"], f"{path.parent}: chip of the report")
    fault = broken(read_wishes(path, chip, core.size, ids), core)
    if fault:
        raise CheckFailedError(fault)


def _check_limits(
    folder: Path, chip: dict[str, Any], use: dict[str, NDArray[np.int64]], used: NDArray[np.int64]
) -> None:
    faulty = np.intersect1d(used, np.array(chip["unavailable"], np.int64))
    if faulty.size:
        raise CheckFailedError(f"{folder}: core {faulty[0]} is unavailable and in use")
    for name in _LIMITS:
        if chip[name] is None:
            continue
        worst = int(use[name].argmax())
        if use[name][worst] > chip[name]:
            raise CheckFailedError(
                f"{folder}: core {worst} uses {use[name][worst]} {name} of {chip[name]}"
            )
