"""The table of populations of a mapping: entries of report.json, and tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from chipsim.chip.model import Chip
from chipsim.traffic.links import DIRECTIONS
from mapper.results.loads import Loads
from mapper.results.tables import columns, number
from mapper.scoring.populations import PopulationTraffic

MOST_ROWS = 4096
"""Maximum number of populations in report.json: the ones with most neurons."""
SHOWN = 12
"""Maximum number of populations in a table; JSON has more."""
HEADS = ("neurons", "cores", "out", "in", "mean hops")

Real = NDArray[Any]


def _real(stored: Real, unit: float) -> Real:
    return stored if unit == 1 else stored * unit


def population_columns(traffic: PopulationTraffic) -> dict[str, Real]:
    """Return the table as arrays of shape (populations,) by name, in real units."""
    names = np.empty(len(traffic.names), object)
    names[:] = traffic.names
    unit = traffic.unit
    return {
        "name": names,
        "neurons": traffic.neurons,
        "cores": traffic.cores,
        "sent": _real(traffic.sent, unit),
        "received": _real(traffic.received, unit),
        "within": _real(traffic.within, unit),
        "hops_total": _real(traffic.hops, unit),
        "hops_mean": traffic.hops_mean,
    }


def sent_links(chip: Chip, loads: Loads) -> Real:
    """Return the link loads of the packets that a chip sends, shape (4, rows, columns)."""
    if chip.delivery == "synapse":
        return _real(loads.unicast_links, loads.weight_unit)
    links = loads.core_links if chip.delivery == "core" else loads.multicast_links
    return _real(links, loads.rate_unit)


def population_facts(chip: Chip, loads: Loads, traffic: PopulationTraffic) -> dict[str, Any]:
    """Return the entry `populations` of report.json."""
    table = population_columns(traffic)
    rows = np.sort(np.argsort(-table["neurons"], kind="stable")[:MOST_ROWS])
    listed = {name: values[rows].tolist() for name, values in table.items()}
    found: dict[str, Any] = {
        "kind": traffic.kind,
        "count": len(traffic.names),
        "rows": [dict(zip(listed, row, strict=True)) for row in zip(*listed.values(), strict=True)],
    }
    links = sent_links(chip, loads)
    if links.any():
        found["busiest_link"] = link_facts(traffic, links, int(links.argmax()))
    return found


def link_facts(traffic: PopulationTraffic, links: Real, at: int) -> dict[str, Any]:
    """Return place and load of a link, and the population pairs that load it most.

    links : loads, shape (4, rows, columns); at : flat index
    """
    _, rows, columns = links.shape
    direction, place = divmod(at, rows * columns)
    pairs = traffic.link_pair.reshape(links.size, -1)[at]
    carried = _real(traffic.link_traffic.reshape(links.size, -1)[at], traffic.unit)
    return {
        "x": place % columns,
        "y": place // columns,
        "direction": DIRECTIONS[direction],
        "load": links.ravel()[at].item(),
        "pairs": [
            {
                "source": traffic.names[traffic.pair_source[pair]],
                "target": traffic.names[traffic.pair_target[pair]],
                "traffic": amount,
            }
            for pair, amount in zip(pairs.tolist(), carried.tolist(), strict=True)
            if pair >= 0
        ],
    }


def population_tables(found: Mapping[str, Any] | None, most: int | None = None) -> list[Table]:
    """Return tables of the entry `populations` of a report, empty without populations.

    most : rows of the first table, the populations with most traffic; None for all
    """
    if found is None:
        return []
    every = found["rows"]
    rows = every
    if most is not None and len(every) > most:
        loud = sorted(range(len(every)), key=lambda at: -every[at]["hops_total"])[: most - 1]
        rows = [every[at] for at in sorted(loud)]
    cells: list[tuple[Any, ...]] = [
        (
            row["name"], row["neurons"], row["cores"], row["sent"], row["received"],
            row["hops_mean"],
        )
        for row in rows
    ]  # fmt: skip
    left = found["count"] - len(rows)
    if left:
        cells.append((f"... and {left:,} more", *[""] * len(HEADS)))
    title = f"{found['kind']}s, with traffic to and from other cores"
    tables = [columns(title, (found["kind"], *HEADS), cells)]
    link = found.get("busiest_link")
    if link is not None and link["pairs"]:
        tables.append(_link_table(link, len(link["pairs"]) if most is None else 3))
    return tables


def _link_table(link: Mapping[str, Any], most: int) -> Table:
    """Return the pairs of populations that load the busiest link."""
    title = (
        f"busiest link: from x {link['x']}, y {link['y']} to the {link['direction']}, load "
        f"{number(link['load'])}"
    )
    rows = [
        (f"{pair['source']} to {pair['target']}", pair["traffic"]) for pair in link["pairs"][:most]
    ]
    return columns(title, ("from population to population", "traffic"), rows)
