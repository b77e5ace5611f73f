"""Check of a mapping against its network, its chip and its report, by the independent reader."""

from __future__ import annotations

import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.presets import from_fields
from mapper.errors import CheckFailedError
from mapper.evaluation.neurons.constraints import check_constraints
from mapper.evaluation.neurons.populations import check_populations
from mapper.evaluation.verify import SlowReader
from mapper.evaluation.verify_energy import Packets, energies, link_costs
from mapper.evaluation.verify_latency import latency
from mapper.evaluation.verify_limits import (
    check_least_fill,
    check_limits,
    fill_of,
    memory_of,
)
from mapper.evaluation.verify_queues import RouterFlits
from mapper.evaluation.verify_split import SplitReader, check_counts, read_table, require_arrays
from mapper.evaluation.verify_ticks import ticks
from mapper.evaluation.verify_walk import Walk, walk_blocks
from mapper.executors.worker_interface import Ranges, all_at_once
from storage.errors import BadInputError, reason_of
from storage.files import read_input, require_file
from storage.jsontext import parse_json, shown
from storage.npz import load_arrays

Int64 = NDArray[np.int64]

ARCHIVE, RANGED = "mapping.npz", "mapping.json"
MOST_JSON_BYTES = 1 << 24  # bytes of mapping.json
SAMPLE = ("congestion", "congestion_pairs", "congestion_share")  # metrics of large chips
UNICAST = "multicast.unicast_hops_total"  # missing in reports of older versions
_PARTS = (
    "core",
    "energy_parts",
    "machine",
    "multicast",
    "noc_latency",
    "tick_bounds",
)  # metrics that contain metrics
TOLERANCE = 1e-9  # relative, between sums of floats in different order


def verify_mapping(
    folder: Path, report: dict[str, Any], network: Path, ranges: Ranges = all_at_once
) -> dict[str, Any]:
    """Recompute limits and metrics; raise `CheckFailedError` at the first difference.

    Metrics that would take hours (`Flows.router_loads`) or were measured on a sample are listed as
    `not_recomputed` instead.

    folder : output folder of a run, report : its report.json, network : the network file
    ranges : reads the blocks of a network without relay neurons
    """
    chip = from_fields(report["chip"], f"{folder}: chip of the report").to_json()
    cores = chip["width"] * chip["height"]
    reader = SlowReader(network)
    try:
        most = max(reader.neurons, reader.meta["synapses"])  # each helper has at least one synapse
        core, helpers = read_cores(folder, chip, most)
        if core.size != reader.neurons:
            raise CheckFailedError(
                f"{folder}: maps {core.size} neurons, {network} has {reader.neurons}"
            )
        if core.size and (core.min() < 0 or core.max() >= cores):
            raise CheckFailedError(f"{folder}: a core id is outside 0..{cores - 1}")
        table = None if helpers is None else read_table(helpers, reader.neurons)
        check_counts(folder, report.get("split"), table)
        if table is None:
            walk = Walk(core, chip)
            walk.use_cores(reader.sizes())
            packed = core.astype(np.int32)
            for part in ranges(walk_blocks, reader.blocks, network, packed, chip):
                walk.join(part)
            walk.share_lists(reader, core)
            check_populations(folder, report.get("populations"), reader, core, chip)
        else:
            if table.core.min() < 0 or table.core.max() >= cores:
                raise CheckFailedError(
                    f"{folder}: a core id of a relay neuron is outside 0..{cores - 1}"
                )
            core = np.concatenate([core, table.core])
            split = SplitReader(reader, table, folder)
            walk = Walk(core, chip)
            walk.use_cores(split.sizes())
            walk.follow(split, split.connections())
            walk.share_lists(split, core)
        unit = reader.meta["weight_unit"]
        rate_unit = reader.meta["attributes"].get("rate", {"unit": unit})["unit"]
        check_constraints(folder / "constraints.toml", chip, reader, core)
    finally:
        reader.close()
    check_limits(folder, chip, walk.use, np.unique(core))
    check_least_fill(folder, chip, report.get("settings", {}), walk.use["neurons"], np.unique(core))
    stated_all: dict[str, Any] = {**report["metrics"], **_nested(report["metrics"])}
    sampled = any(name in stated_all for name in SAMPLE)
    found = _metrics(walk, chip, core, (unit, rate_unit), not sampled)
    if sampled:
        found |= _check_sample(folder, stated_all, walk)
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
            raise CheckFailedError(f"{folder}: {name} is {value}, report.json has {shown(stated)}")
    rest = set(stated_all) - set(found) - set(_PARTS)
    # listed as not recomputed if missing
    skipped = rest & ({"congestion_max", *SAMPLE} if sampled else {"congestion_max"})
    if rest - skipped:
        raise CheckFailedError(
            f"{folder}: report.json has {shown(min(rest - skipped))}, which is not a metric"
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


def _check_sample(folder: Path, stated: dict[str, Any], walk: Walk) -> dict[str, int | float | str]:
    """Check the sample of the congestion metrics: its share, if the core pairs are known."""
    word, pairs, share = (stated.get(name) for name in SAMPLE)
    if (
        word != "sampled"
        or not (isinstance(pairs, int | float) and pairs >= 1)
        or not (isinstance(share, int | float) and 0 < share <= 1)
    ):
        told = ", ".join(f"{name} {shown(stated.get(name))}" for name in SAMPLE)
        raise CheckFailedError(f"{folder}: report.json has no valid sample of core pairs: {told}")
    if walk.flows is None or walk.layout is not None:  # then the pairs are of routers
        return {"congestion": "sampled"}
    return {"congestion": "sampled", "congestion_share": pairs / max(1, walk.flows.pairs())}


def _metrics(
    walk: Walk, chip: dict[str, Any], core: NDArray[np.int64], units: tuple[float, float],
    spread: bool,
) -> dict[str, int | float | str]:  # fmt: skip
    """Return the recomputed metrics of the report, in real units.

    spread : whether to compute the spread of all traffic over all minimal paths
    """
    unit, rate_unit = units
    used = np.unique(core)
    fill = fill_of(chip, "neurons", walk.use["neurons"])[used]
    cut, hops = walk.cut * unit, walk.hops * unit
    casts, trees = walk.casts.loads(), walk.trees.loads()
    routers = walk.flows.router_loads() if spread and walk.flows is not None else None
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
        # a spike visits one more router than links
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
    if chip.get("sharing") == "offset":
        found["list_words"] = int(walk.use["synapses"].sum())
    if chip.get("memory_bits") is not None:
        filled = fill_of(chip, "memory_bits", memory_of(chip, walk.use))[used]
        found["memory_fill_mean"] = float(filled.mean())
        found["memory_fill_max"] = float(filled.max())
    if chip.get("time") is not None:
        loads = {"synapse": walk.links.loads(), "core": casts, "tree": trees}
        hop, layout = chip["time"]["hop"], walk.layout
        links: tuple[Any, Any] = (1.0, hop)
        if layout is not None:
            links = layout.tables()[2], layout.existing(layout.hop_cycles(hop))
        mesh = None
        if chip["delivery"] != "tree" or walk.size == (chip["width"], chip["height"]):
            mesh = _mesh(walk, chip)
        found |= ticks(chip, walk.did, walk.use["neurons"], loads, (unit, rate_unit), links, mesh)
        if mesh is not None:
            found |= _latency(walk, chip, mesh, (unit, rate_unit), found["tick_cycles"])
    found |= energies(
        chip, walk.did, walk.use["neurons"],
        {"synapse": walk.links.grid(), "core": walk.casts.grid(), "tree": walk.trees.grid()},
        Packets(walk.cut, walk.weight, walk.connectivity), (unit, rate_unit),
    )  # fmt: skip
    if walk.costs is not None:
        found |= walk.costs.metrics(walk.routes, walk.weight, unit, rate_unit)
    if walk.detours is not None:  # congestion is the load of the only routes
        found["congestion_max"] = found["router_load_max"]
    elif routers is not None:
        found["congestion_max"] = float(routers.max()) * unit
    return found


def _mesh(walk: Walk, chip: dict[str, Any]) -> RouterFlits:
    """Return the flits of the chip's packets through the routers."""
    way = chip.get("delivery", "synapse")
    links = {"synapse": walk.links, "core": walk.casts, "tree": walk.trees}[way].grid()
    service = np.full(links.shape, float(chip["time"]["link"]))
    router, laps = np.arange(walk.did.weight.size), 1
    if walk.layout is not None:
        service /= walk.layout.bandwidths()
        router, laps = walk.layout.router(router), 1 + walk.layout.torus
    ends = walk.through["synapse" if way == "synapse" else "core"]
    own = walk.did.weight - walk.sent["synapse"] if way == "synapse" else walk.did.local
    order = None if walk.detours is None else walk.detours.order
    return RouterFlits(
        *walk.through[way].ways(links, ends), own, np.maximum(service, 1.0), router, laps, order
    )


def _latency(
    walk: Walk, chip: dict[str, Any], mesh: RouterFlits, units: tuple[float, float], cycles: Any
) -> dict[str, float | str]:
    """Return the latency of the chip's packets, spread over ticks of `cycles` cycles."""
    time, way = chip["time"], chip.get("delivery", "synapse")
    ends = "synapse" if way == "synapse" else "core"
    unit = units[0] if way == "synapse" else units[1]
    hops = np.full(mesh.service.shape, float(time["hop"]))
    if walk.layout is not None:
        hops = walk.layout.hop_cycles(time["hop"])
    to_cores = {"synapse": walk.links, "core": walk.casts}[ends].grid()
    reached = walk.through[ends].ways(to_cores, walk.through[ends])
    senders = mesh.router, walk.sent[ends]
    through = mesh.flits, mesh.comes
    return latency(through, reached, unit * time["tick"] / cycles, mesh.service, hops, senders)


def _link_loads(name: str, loads: NDArray[np.int64], unit: float) -> dict[str, float]:
    if not loads.size:  # a single core
        return {f"{name}_{which}": 0.0 for which in ("max", "mean", "p99")}
    return {
        f"{name}_max": int(loads.max()) * unit,
        f"{name}_mean": float(loads.mean()) * unit,
        f"{name}_p99": float(np.percentile(loads, 99)) * unit,
    }


def _plain(value: Any) -> int | float:
    return int(value) if float(value).is_integer() else float(value)


def read_cores(folder: Path, chip: dict[str, Any], most: int) -> tuple[Int64, Path | None]:
    """Return core ids of all neurons, and the path of the table of helpers, if there may be one.

    most : limit of numbers per array. Raises `CheckFailedError`.
    """
    path = folder / RANGED
    if path.exists():
        return _read_ranges(path, chip, most)
    path = folder / ARCHIVE
    require_arrays(path, most)
    try:
        with path.open("rb") as stream, load_arrays(stream) as file:
            core, size = file["core"], (int(file["width"]), int(file["height"]))
    except Exception as error:  # numpy raises many kinds for a damaged archive
        raise CheckFailedError(f"{path}: cannot be read: {reason_of(error)}") from error
    _require_chip(path, size, chip)
    if core.ndim != 1 or core.dtype.kind not in "iu":
        raise CheckFailedError(
            f"{path}: core is {core.dtype} of shape {core.shape}, expected a list of ids"
        )
    return core.astype(np.int64), path


def _require_chip(path: Path, size: tuple[int, int], chip: dict[str, Any]) -> None:
    if size != (chip["width"], chip["height"]):
        raise CheckFailedError(f"{path}: belongs to another chip than report.json")


def _read_ranges(path: Path, chip: dict[str, Any], most: int) -> tuple[Int64, Path | None]:
    try:
        about = parse_json(read_input(path, MOST_JSON_BYTES))
        neurons, step, helpers = (int(about[name]) for name in ("neurons", "range", "helpers"))
        size = int(about["width"]), int(about["height"])
        listed = [(int(file["bytes"]), int(file["crc32"])) for file in about["files"]]
        if step < 1 or len(listed) != -(-neurons // step):
            raise ValueError(f"it lists {len(listed)} files for {neurons} neurons")
    except Exception as error:  # also if it is not an object
        raise CheckFailedError(f"{path}: cannot be read: {reason_of(error)}") from error
    _require_chip(path, size, chip)
    folder = path.parent / "core"
    parts = [
        _read_range(folder / f"{index:05d}.npy", min(step, neurons - index * step), *file)
        for index, file in enumerate(listed)
    ]
    if not helpers:
        return np.concatenate([np.empty(0, np.int64), *parts]), None
    table = folder / "helpers.npz"
    require_arrays(table, most)
    return np.concatenate(parts), table


def _read_range(path: Path, neurons: int, size: int, crc32: int) -> Int64:
    try:
        found = require_file(path)
        ids = np.load(path, mmap_mode="r", allow_pickle=False)
    except BadInputError as error:
        raise CheckFailedError(str(error).replace("cannot read", "cannot be read")) from error
    except Exception as error:  # numpy raises many kinds for a damaged file
        raise CheckFailedError(f"{path}: cannot be read: {reason_of(error)}") from error
    if ids.dtype != np.dtype("<i4") or ids.shape != (neurons,):
        raise CheckFailedError(
            f"{path}: holds {ids.dtype} of shape {ids.shape}, not {neurons} core ids of 4 bytes"
        )
    if found != size or zlib.crc32(np.ascontiguousarray(ids).data) != crc32:
        raise CheckFailedError(f"{path}: is not what {RANGED} lists: its size or checksum differs")
    return ids.astype(np.int64)
