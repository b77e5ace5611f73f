"""Check of a mapping against its network, its chip and its report, by the slow reader."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.presets import from_fields
from mapper.errors import CheckFailedError
from mapper.verify import SlowReader

TOLERANCE = 1e-9  # relative, between sums of floats in another order


def verify_mapping(folder: Path, report: dict[str, Any], network: Path) -> dict[str, Any]:
    """Recompute limits and unicast metrics; raises `CheckFailedError` at the first difference.

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
        sizes = reader.sizes()
        use = {name: np.zeros(cores, np.int64) for name in _LIMITS}
        np.add.at(use["neurons"], core, sizes)
        sums = _walk(reader, core, chip["width"], use)
        used = np.unique(core)
        fill = use["neurons"][used] / chip["neurons"]
        unit = reader.meta["weight_unit"]
        total = sums["weight"] * unit
        found = {
            "cut_weight": sums["cut"] * unit,
            "cut_fraction": sums["cut"] * unit / total if total else 0.0,
            "hops_total": sums["hops"] * unit,
            "hops_mean": sums["hops"] * unit / total if total else 0.0,
            "hops_max": sums["farthest"],
            "cores_used": used.size,
            "core_fill_mean": float(fill.mean()),
            "core_fill_max": float(fill.max()),
            "energy": unit
            * (
                (sums["hops"] + sums["cut"]) * chip["energy_router"]
                + sums["hops"] * chip["energy_link"]
            ),
        }
    finally:
        reader.close()
    _check_limits(folder, chip, use, used)
    for name, value in found.items():
        stated = report["metrics"].get(name)
        if type(stated) not in (int, float) or not math.isclose(
            stated, value, rel_tol=TOLERANCE, abs_tol=TOLERANCE
        ):
            raise CheckFailedError(f"{folder}: {name} is {value}, report.json says {stated}")
    return {"neurons": int(core.size), **{name: _plain(value) for name, value in found.items()}}


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


def _walk(
    reader: SlowReader, core: NDArray[np.int64], width: int, use: dict[str, NDArray[np.int64]]
) -> dict[str, int]:
    sums = dict.fromkeys(("weight", "cut", "hops", "farthest"), 0)
    x, y = core % width, core // width
    cores = use["neurons"].size
    for part in reader.connections():
        ahead = part.incoming == 0
        source, target = part.owner[ahead], part.other[ahead]
        weight = part.weight[ahead]
        np.add.at(use["synapses"], core[target], 1)
        pairs = np.unique(source * cores + core[target])
        np.add.at(use["axons_in"], pairs % cores, 1)
        leaving = pairs[core[pairs // cores] != pairs % cores]
        np.add.at(use["axons_out"], core[leaving // cores], 1)
        if reader.meta["undirected"]:
            once = source < target
            source, target, weight = source[once], target[once], weight[once]
        distance = np.abs(x[source] - x[target]) + np.abs(y[source] - y[target])
        sums["weight"] += int(weight.sum())
        sums["cut"] += int(weight[distance > 0].sum())
        sums["hops"] += int((weight * distance).sum())
        sums["farthest"] = max(sums["farthest"], int(distance[weight > 0].max(initial=0)))
    return sums


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
