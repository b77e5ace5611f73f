"""traffic.npz: loads of every core and link, for the report page.

A NumPy archive of plain arrays, named as the attributes of `chipsim.traffic.arrays.Traffic` and its
parts. Integers are in weight units, except links of core-cast and multicast and the activity, which
are in rate units; the archive stores both units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.limits import Usage
from chipsim.chip.model import Chip
from chipsim.protocols import FloatArray, Int64Array
from chipsim.traffic.activity import Activity
from chipsim.traffic.arrays import Traffic
from chipsim.traffic.profile import Profile, destinations_kept
from chipsim.traffic.routes import distances_of
from mapper.errors import MapperError
from storage.errors import reason_of
from storage.files import write_file
from storage.npz import npz_bytes, open_arrays

TRAFFIC = "traffic.npz"
SCHEMA = 2


@dataclass(frozen=True, slots=True)
class Loads:
    """Loads of one mapping; attributes as in `chipsim.traffic.arrays.Traffic`."""

    weight_unit: float
    rate_unit: float
    unicast_links: Int64Array
    core_links: Int64Array
    multicast_links: Int64Array
    congestion: FloatArray
    usage: Usage
    activity: Activity
    profile: Profile

    @classmethod
    def of(cls, traffic: Traffic) -> Loads:
        """Return the loads of a traffic, without its sums per core pair."""
        return cls(*(getattr(traffic, field.name) for field in fields(cls)))


def save_loads(path: Path, loads: Loads) -> None:
    """Write traffic.npz; equal loads give equal bytes. Raises `WriteError`."""
    write_file(path, npz_bytes({"schema": np.int64(SCHEMA), **_arrays(loads)}))


def load_loads(path: Path, chip: Chip, metrics: dict[str, Any]) -> Loads:
    """Read loads from ``path`` and check them against the chip and the metrics of report.json.

    Raises `MapperError` if the file is damaged or belongs to another mapping.
    """
    advice = "remove it; `mapper report` then measures the mapping again"
    try:
        most = chip.cores * max(4, destinations_kept(chip)) + chip.width + chip.height
        with open_arrays(path, most) as file:
            found = {name: file[name] for name in file.files}
        if int(found.pop("schema")) != SCHEMA:
            raise ValueError(f"schema is not {SCHEMA}")
        loads = _loads(found, chip)
    except Exception as error:  # numpy raises many kinds for a damaged archive
        reason = reason_of(error)
        raise MapperError(f"{path}: cannot be read: {reason}; {advice}") from error
    if difference := differs(loads, metrics):
        raise MapperError(f"{path}: {difference}; {advice}")
    return loads


def differs(loads: Loads, metrics: dict[str, Any]) -> str:
    """Return how the loads differ from the metrics in report.json; empty if they agree."""
    distances = loads.profile.distances
    unit = 1 if loads.weight_unit == 1 else loads.weight_unit
    hops = int(distances @ np.arange(distances.size)) * unit
    cut = int(loads.profile.outgoing.sum()) * unit
    for name, value in (("hops_total", hops), ("cut_weight", cut)):
        stated = metrics.get(name)
        if not isinstance(stated, int | float) or not math.isclose(stated, value, rel_tol=1e-9):
            return f"{name} is {value}, but {stated} in report.json"
    return ""


_PARTS = ("usage", "activity", "profile")


def _arrays(loads: Loads) -> dict[str, NDArray[Any]]:
    own = {f.name: getattr(loads, f.name) for f in fields(Loads) if f.name not in _PARTS}
    parts = [getattr(loads, name) for name in _PARTS]
    inner = {f.name: getattr(part, f.name) for part in parts for f in fields(part)}
    return {name: np.asarray(value) for name, value in (own | inner).items()}


def _loads(found: dict[str, NDArray[Any]], chip: Chip) -> Loads:
    columns, rows = chip.routers
    shape = (rows, columns)
    shapes = {"congestion": shape, "distances": (distances_of(chip),)}
    links = ("unicast_links", "core_links", "multicast_links")
    shapes |= dict.fromkeys(links, (4, *shape))
    shapes |= dict.fromkeys(("weight_unit", "rate_unit"), ())
    for name, array in found.items():
        expected = shapes.get(name, (chip.cores,))
        kept = name in ("destination", "share")
        if (array.shape[:1] if kept else array.shape) != expected or (kept and array.ndim != 2):
            raise ValueError(f"{name} has shape {array.shape}, which is wrong for chip {chip.name}")
        if array.dtype.kind not in "iuf":
            raise ValueError(f"{name} holds {array.dtype}, not numbers")
        if not (np.isfinite(array).all() and (array >= (-1 if kept else 0)).all()):
            raise ValueError(f"{name} holds impossible values")
    if found["destination"].shape != found["share"].shape or (
        found["destination"].max(initial=-1) >= chip.cores
    ):
        raise ValueError("destinations are outside the chip")
    return Loads(
        weight_unit=float(found["weight_unit"]),
        rate_unit=float(found["rate_unit"]),
        **{name: found[name] for name in links},
        congestion=found["congestion"],
        usage=Usage(**{f.name: found[f.name] for f in fields(Usage)}),
        activity=Activity(**{f.name: found[f.name] for f in fields(Activity)}),
        profile=Profile(**{f.name: found[f.name] for f in fields(Profile)}),
    )
