"""Check of a mapping against its network, its chip and its report, by the slow reader."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.presets import from_fields
from mapper.errors import CheckFailedError
from mapper.evaluation.verify import Connections, SlowReader
from mapper.evaluation.verify_energy import Packets, energies, link_costs
from mapper.evaluation.verify_latency import Routers, Steps, latency
from mapper.evaluation.verify_machine import Costs, Layout, WalkedLinks
from mapper.evaluation.verify_split import SplitReader, check_counts, read_table, require_arrays
from mapper.evaluation.verify_ticks import Activity, ticks
from mapper.evaluation.verify_traffic import Flows, Links
from mapper.limits.constraints import ConstraintFile, broken, constraints_in
from storage.jsontext import shown

UNICAST = "multicast.unicast_hops_total"  # which reports of older versions lack
_PARTS = (
    "core",
    "energy_parts",
    "machine",
    "multicast",
    "noc_latency",
    "tick_bounds",
)  # metrics with metrics of their own
TOLERANCE = 1e-9  # relative, between sums of floats in another order


def verify_mapping(folder: Path, report: dict[str, Any], network: Path) -> dict[str, Any]:
    """Recompute limits and metrics; raises `CheckFailedError` at the first difference.

    Metrics that would take hours (`Flows.router_loads`) are named as `not_recomputed` instead.

    folder : output folder of a run, report : its report.json, network : the network file
    """
    chip = from_fields(report["chip"], f"{folder}: chip of the report").to_json()
    cores = chip["width"] * chip["height"]
    reader = SlowReader(network)
    try:
        most = max(reader.neurons, reader.meta["synapses"])  # each helper has one synapse at least
        require_arrays(folder / "mapping.npz", most)
        core = _read_cores(folder / "mapping.npz", chip)
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
                raise CheckFailedError(
                    f"{folder}: a core id of a relay neuron is outside 0..{cores - 1}"
                )
            core = np.concatenate([core, table.core])
            walk = _Walk(SplitReader(reader, table, folder), core, chip)
        unit = reader.meta["weight_unit"]
        rate_unit = reader.meta["attributes"].get("rate", {"unit": unit})["unit"]
    finally:
        reader.close()
    _check_limits(folder, chip, walk.use, np.unique(core))
    found = _metrics(walk, chip, core, unit, rate_unit)
    stated_all: dict[str, Any] = {**report["metrics"], **_nested(report["metrics"])}
    if UNICAST not in stated_all:
        del found[UNICAST]
    if "core" not in stated_all:  # reports of older versions
        found = {name: value for name, value in found.items() if not name.startswith("core.")}
    if "router_load_max" not in stated_all:
        newer = ("router_load", "core.router_load", "multicast.router_load", "noc_latency.")
        found = {name: value for name, value in found.items() if not name.startswith(newer)}
    for name, value in found.items():
        stated = stated_all.get(name)
        if not _agree(stated, value):
            raise CheckFailedError(f"{folder}: {name} is {value}, report.json says {shown(stated)}")
    rest = set(stated_all) - set(found) - set(_PARTS)
    skipped = rest & {"congestion_max"}  # it has not been recomputed, where it is not found
    if rest - skipped:
        raise CheckFailedError(
            f"{folder}: report.json states {shown(min(rest - skipped))}, which is no metric"
        )
    neurons = {"neurons": int(core.size)}
    if table is not None:
        neurons = {"neurons": core.size - table.core.size, "helpers": int(table.core.size)}
    numbers = {name: one if isinstance(one, str) else _plain(one) for name, one in found.items()}
    return {**neurons, **numbers, **({"not_recomputed": sorted(skipped)} if skipped else {})}


def _agree(stated: object, found: float | str) -> bool:
    if isinstance(found, str) or not isinstance(stated, int | float):
        return stated == found
    return math.isclose(stated, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _nested(metrics: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in _PARTS:
        inner = metrics.get(part)
        if isinstance(inner, dict):
            found |= {f"{part}.{name}": value for name, value in inner.items()}
    return found


def _metrics(
    walk: _Walk, chip: dict[str, Any], core: NDArray[np.int64], unit: float, rate_unit: float
) -> dict[str, int | float | str]:
    """The metrics of the report that are recomputed, in real units."""
    used = np.unique(core)
    fill = walk.use["neurons"][used] / chip["neurons"]
    cut, hops = walk.cut * unit, walk.hops * unit
    casts, trees = walk.casts.loads(), walk.trees.loads()
    routers = None if walk.flows is None else walk.flows.router_loads()
    spent = [float(walk.steps @ link_costs(chip, kind)) for kind in ("energy", "latency")]
    found: dict[str, int | float | str] = {
        "cut_weight": cut,
        "cut_fraction": walk.cut / walk.weight if walk.weight else 0.0,
        "hops_total": hops,
        "hops_mean": walk.hops / walk.weight if walk.weight else 0.0,
        "hops_max": walk.farthest,
        "energy": (hops + cut) * chip["energy_router"] + spent[0] * unit,
        "latency_mean": (
            ((walk.hops + walk.cut) * chip["latency_router"] + spent[1]) / walk.cut if cut else 0.0
        ),
        "latency_max": walk.latest,
        **_link_loads("link_load", walk.links.loads(), unit),
        **walk.through["synapse"].loads("router_load", walk.links.grid(), unit),
        # a spike visits a router more than it takes links
        "congestion_mean": (hops + cut) / (walk.size[0] * walk.size[1]),
        "core.packets": walk.connectivity * rate_unit,
        "core.hops_total": int(casts.sum()) * rate_unit,
        **_link_loads("core.link_load", casts, rate_unit),
        **walk.through["core"].loads("core.router_load", walk.casts.grid(), rate_unit),
        "multicast.connectivity": walk.connectivity * rate_unit,
        "multicast.hops_total": int(trees.sum()) * rate_unit,
        **_link_loads("multicast.link_load", trees, rate_unit),
        **walk.through["tree"].loads("multicast.router_load", walk.trees.grid(), rate_unit),
        UNICAST: walk.rated_hops * rate_unit,
        "cores_used": int(used.size),
        "core_fill_mean": float(fill.mean()),
        "core_fill_max": float(fill.max()),
    }
    if chip.get("single_target"):
        found["copies"] = int(walk.use["axons_out"].sum()) - core.size
    if chip.get("memory_bits") is not None:
        filled = _memory(chip, walk.use)[used] / chip["memory_bits"]
        found["memory_fill_mean"] = float(filled.mean())
        found["memory_fill_max"] = float(filled.max())
    if chip.get("time") is not None:
        loads = {"synapse": walk.links.loads(), "core": casts, "tree": trees}
        hop, layout = chip["time"]["hop"], walk.layout
        links: tuple[Any, Any] = (1.0, hop)
        if layout is not None:
            links = layout.tables()[2], layout.existing(layout.hop_cycles(hop))
        found |= ticks(chip, walk.did, walk.use["neurons"], loads, (unit, rate_unit), links)
        if chip["delivery"] != "tree" or walk.size == (chip["width"], chip["height"]):
            found |= _latency(walk, chip, (unit, rate_unit), found["tick_cycles"])
    found |= energies(
        chip, walk.did, walk.use["neurons"],
        {"synapse": walk.links.grid(), "core": walk.casts.grid(), "tree": walk.trees.grid()},
        Packets(walk.cut, walk.weight, walk.connectivity), (unit, rate_unit),
    )  # fmt: skip
    if walk.costs is not None:
        found |= walk.costs.metrics(walk.routes, walk.weight, unit, rate_unit)
    if routers is not None:
        found["congestion_max"] = float(routers.max()) * unit
    return found


def _latency(
    walk: _Walk, chip: dict[str, Any], units: tuple[float, float], cycles: Any
) -> dict[str, float | str]:
    """The latency of what the chip sends, spread over ticks of so many cycles."""
    time, way = chip["time"], chip.get("delivery", "synapse")
    links = {"synapse": walk.links, "core": walk.casts, "tree": walk.trees}[way]
    ends = way if way == "synapse" else "core"
    unit = units[0] if way == "synapse" else units[1]
    service = np.full(links.grid().shape, float(time["link"]))
    hops = np.full(service.shape, float(time["hop"]))
    if walk.layout is not None:
        service /= walk.layout.bandwidths()
        hops = walk.layout.hop_cycles(time["hop"])
    through = walk.through[way].ways(links.grid(), walk.through[ends])
    to_cores = {"synapse": walk.links, "core": walk.casts}[ends].grid()
    reached = walk.through[ends].ways(to_cores, walk.through[ends])
    cores = np.arange(walk.sent[ends].size)
    senders = cores if walk.layout is None else walk.layout.router(cores), walk.sent[ends]
    return latency(through, reached, unit * time["tick"] / cycles, service, hops, senders)


def _link_loads(name: str, loads: NDArray[np.int64], unit: float) -> dict[str, float]:
    if not loads.size:  # of a single core
        return {f"{name}_{which}": 0.0 for which in ("max", "mean", "p99")}
    return {
        f"{name}_max": int(loads.max()) * unit,
        f"{name}_mean": float(loads.mean()) * unit,
        f"{name}_p99": float(np.percentile(loads, 99)) * unit,
    }


_LIMITS = ("neurons", "synapses", "axons_in", "axons_out")


def _memory(chip: dict[str, Any], use: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Bits of the memory for synapses that each core uses."""
    synapse = chip["weight_bits"] + chip["index_bits"]
    return use["synapses"] * synapse + use["axons_in"] * chip["axon_bits"]


def _plain(value: Any) -> int | float:
    return int(value) if float(value).is_integer() else float(value)


def _read_cores(path: Path, chip: dict[str, Any]) -> NDArray[np.int64]:
    try:
        with np.load(path, allow_pickle=False) as file:
            if (int(file["width"]), int(file["height"])) != (chip["width"], chip["height"]):
                raise CheckFailedError(f"{path}: was made for another chip than report.json names")
            core = file["core"]
    except CheckFailedError:
        raise
    except Exception as error:  # numpy raises many kinds for a damaged archive
        raise CheckFailedError(f"{path}: cannot be read: {error}") from error
    if core.ndim != 1 or core.dtype.kind not in "iu":
        raise CheckFailedError(
            f"{path}: core is {core.dtype} of shape {core.shape}, not a list of ids"
        )
    return core.astype(np.int64)


class _Walk:
    """One pass over all synapses: what they use of every core, and where their spikes go.

    did : what the cores do
    links, casts, trees : loads of links by packets to synapses, to cores, and multicast
    through : where the same enter and leave routers, and turn in them
    flows : between pairs of cores
    steps : hops east-west, and north-south; latest : the longest way of a spike
    """

    def __init__(
        self, reader: SlowReader | SplitReader, core: NDArray[np.int64], chip: dict[str, Any]
    ) -> None:
        cores = chip["width"] * chip["height"]
        self.use = {name: np.zeros(cores, np.int64) for name in _LIMITS}
        np.add.at(self.use["neurons"], core, reader.sizes())
        if chip.get("single_target"):  # each neuron itself, and then its copies
            np.add.at(self.use["axons_out"], core, 1)
        self.did = Activity(cores)
        self.weight = self.cut = self.hops = self.farthest = self.connectivity = 0
        self.rated_hops = 0
        self.steps, self.latest = np.zeros(2, np.int64), 0.0
        self._times = np.array(link_costs(chip, "latency")) + chip["latency_router"]
        self._chip = chip
        self._core, self._cores = core, cores
        self.layout = Layout.of(chip)
        self.size = chip["width"], chip["height"]
        self.costs: Costs | None = None
        self.routes: tuple[WalkedLinks, ...] = ()
        self.links: Links | WalkedLinks
        self.casts: Links | WalkedLinks
        self.trees: Links | WalkedLinks
        if self.layout is None:
            self.links, self.casts, self.trees = (Links(*self.size) for _ in range(3))
        else:
            self.size, self.costs = self.layout.routers, Costs(self.layout)
            self.routes = tuple(WalkedLinks(self.layout) for _ in range(3))
            self.links, self.casts, self.trees = self.routes
        self.sent = {way: np.zeros(cores, np.int64) for way in ("synapse", "core")}
        self.through = {way: Routers(*self.size) for way in ("synapse", "core", "tree")}
        # On a torus there is no such check of routers.
        self.flows = None if self.layout and self.layout.torus else Flows(*self.size)
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
        pairs = reached
        reached = reached[core[reached // cores] != reached % cores]
        leaving = reached // cores
        if self._chip.get("single_target"):
            sources, cores_of = np.unique(pairs // cores, return_counts=True)
            np.add.at(self.use["axons_out"], core[sources], cores_of - 1)
        else:
            np.add.at(self.use["axons_out"], core[leaving], 1)
        first, last = int(part.owner.min()), int(part.owner.max())
        if rate is None:  # the largest weight of the outgoing synapses
            rates = np.zeros(last - first + 1, np.int64)
            np.maximum.at(rates, source - first, weight)
        else:
            rates = rate[first : last + 1]
        self.did.add(
            core, pairs, rates[pairs // cores - first], core[target], rates[source - first]
        )
        self.connectivity += int(rates[leaving - first].sum())
        self.casts.add(core[leaving], reached % cores, rates[leaving - first])
        cast = self._ways(core[leaving], reached % cores)
        self.through["core"].add(*cast, rates[leaving - first])
        np.add.at(self.sent["core"], core[leaving], rates[leaving - first])
        self.through["tree"].add_trees(leaving, *cast, rates[leaving - first])
        if self.costs is not None:
            self.costs.add_casts(core[leaving], reached % cores, rates[leaving - first])
        self.trees.add_trees(core[first : last + 1], leaving - first, reached % cores, rates)
        a, b = core[source], core[target]
        if self.layout is None:
            steps = np.abs(np.array([a % width - b % width, a // width - b // width]))
        else:
            steps = np.abs(np.array(self.layout.ways(a, b)))
        distance = steps.sum(axis=0)
        self.rated_hops += int((rates[source - first] * distance).sum())
        if undirected:
            once = source < target
            source, target, weight = source[once], target[once], weight[once]
            a, b, steps, distance = a[once], b[once], steps[:, once], distance[once]
        self.weight += int(weight.sum())
        self.cut += int(weight[a != b].sum())
        self.hops += int((weight * distance).sum())
        self.steps += (weight * steps).sum(axis=1)
        ways = self._chip["latency_router"] + self._times @ steps[:, (weight > 0) & (a != b)]
        self.latest = max(self.latest, float(ways.max(initial=0.0)))
        self.farthest = max(self.farthest, int(distance[weight > 0].max(initial=0)))
        np.add.at(self.did.weight, a, weight)
        self.links.add(a, b, weight)
        away = a != b
        self.through["synapse"].add(*self._ways(a[away], b[away]), weight[away])
        np.add.at(self.sent["synapse"], a[away], weight[away])
        if self.costs is not None:
            self.costs.add(a, b, weight)
        if self.flows is not None:
            at = self.layout.router if self.layout else np.asarray
            self.flows.add(at(a), at(b), weight, a != b)

    def _ways(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> Steps:
        """The routers of cores, and the steps between these along rows and columns."""
        if self.layout is not None:
            return self.layout.router(a), self.layout.router(b), *self.layout.ways(a, b)
        (ya, xa), (yb, xb) = (np.divmod(core, self._chip["width"]) for core in (a, b))
        return a, b, xb - xa, yb - ya


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
    fault = broken(constraints_in(ConstraintFile.read(path), chip, core.size, ids), core)
    if fault:
        raise CheckFailedError(fault)


def _check_limits(
    folder: Path, chip: dict[str, Any], use: dict[str, NDArray[np.int64]], used: NDArray[np.int64]
) -> None:
    faulty = np.intersect1d(used, np.array(chip["unavailable"], np.int64))
    if faulty.size:
        raise CheckFailedError(f"{folder}: core {faulty[0]} is unavailable and in use")
    if chip.get("memory_bits") is not None:
        use = use | {"memory_bits": _memory(chip, use)}
    for name, used_of in use.items():
        allowed = chip[name]
        if name == "axons_out" and chip.get("single_target"):
            allowed = min(chip["neurons"], allowed or chip["neurons"])
        if allowed is None:
            continue
        worst = int(used_of.argmax())
        if used_of[worst] > allowed:
            raise CheckFailedError(
                f"{folder}: core {worst} uses {used_of[worst]} {name} of {allowed}"
            )
