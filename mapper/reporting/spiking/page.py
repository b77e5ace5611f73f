"""The page of a compiled spiking model: one HTML file made from report.json."""

from __future__ import annotations

import shlex
from typing import Any

from mapper.reporting.cells import Cell, Head, Table, table
from mapper.reporting.page import asset, colour_style, page_bytes
from mapper.reporting.spiking.rasters import rasters
from mapper.version import version

MOST_CONNECTIONS, MOST_CORES = 12, 16
"""Rows of the tables of connections and of cores; more are summed, or folded."""
MEMORIES = ("neurons", "axons", "routes", "synapses", "profiles")


def render_spiking(report: dict[str, Any]) -> bytes:
    """Return the page as UTF-8."""
    return page_bytes(
        "spiking.html.j2",
        title=f"{report['model']} on {report['chip']['name']}",
        style=colour_style() + asset("page.css"),
        version=version(),
        cards=_cards(report),
        missed=report["limits_missed"],
        populations=_populations(report),
        trials=_trials(report),
        outputs=_outputs(report),
        rasters=rasters(report),
        lists=_lists(report),
        cores=_cores(report["cores"][:MOST_CORES], report),
        more_cores=_more_cores(report),
        cycles=_cycles(report),
        notes=report["notes"],
        core=_core(report),
        command=shlex.join(report["command"]),
    )


def _cards(report: dict[str, Any]) -> list[tuple[str, Cell, str]]:
    """Return title, value and meaning of the key figures."""
    run, trial = report.get("simulation") or {}, _chosen(report)
    compared = run.get("model") or trial
    where = "on all samples" if "model" in run else "on the calibration samples"
    cards = []
    for output in compared["outputs"] if compared else ():
        if None not in (output["found"], output["expected"]):
            meaning = f"{100 * output['expected']:.1f} % in floating point, {where}"
            cards.append(("Accuracy", _percent(output["found"]), meaning))
        cards.append(("Same class", _percent(output["same"]), f"as the model, {where}"))
    words = sum(core["synapses"] for core in report["cores"])
    count = report["counts"]["synapses"]
    cards += [
        ("Cores", Cell(len(report["cores"])), f"of {_size(report)}"),
        ("Synapse words", Cell(words), f"in shared lists, for {count:,} synapses"),
        ("Weight bits", Cell(report["shape"]["weight_bits"]), "chosen on samples"
         if report["trials"] else "of the core; no samples were given"),
    ]  # fmt: skip
    if "cycles" in run:
        most = f"on average, at most {run['cycles']['max']:,}"
        cards.append(("Cycles per tick", Cell(run["cycles"]["mean"]), most))
    return cards


def _size(report: dict[str, Any]) -> str:
    chip = report["chip"]
    return f"{chip['width']} x {chip['height']}"


def _percent(share: float) -> Cell:
    return Cell(share, f"{100 * share:.1f} %")


def _chosen(report: dict[str, Any]) -> dict[str, Any] | None:
    found: dict[str, Any] | None = None
    if report["chosen"] is not None:
        found = report["trials"][report["chosen"]]
    return found


def _populations(report: dict[str, Any]) -> Table:
    """Return sizes and latencies of the populations, and their agreement with the model."""
    run = report.get("simulation") or {}
    compared = run.get("model") or _chosen(report) or {"populations": []}
    agreement = {one["name"]: one for one in compared["populations"]}
    width = report["limits"]["ticks"]
    ticks = "1 tick" if width == 1 else f"{width} ticks"
    heads = ("Population", "Kind", "Shape", "Latency in ticks", "Spikes", "Of the model",
             f"Cosine, bins of {ticks}", "Least of a sample")  # fmt: skip
    rows: list[list[Any]] = []
    for one in report["populations"]:
        found = agreement.get(one["name"])
        cells: list[Any] = [Cell(None)] * 4
        if found is not None:
            cells = [found["found"], found["expected"], *_cosine(found["cosines"], width)]
        shape = " x ".join(map(str, one["shape"]))
        rows.append([one["name"], one["kind"], Cell(shape), max(0, one["latency"]), *cells])
    return table("Populations", heads, rows, hidden=True)


def _cosine(cosines: list[dict[str, Any]], ticks: int) -> list[Cell]:
    """Return the mean and the least cosine of the samples in bins of `ticks`."""
    for each in cosines:
        if each["ticks"] == ticks:
            return [Cell(each[name], f"{each[name]:.3f}") for name in ("mean", "least")]
    return [Cell(None), Cell(None)]


def _trials(report: dict[str, Any]) -> list[Table]:
    """Return the precisions that were tried, if samples were given."""
    if not report["trials"]:
        return []
    rows = []
    for number, one in enumerate(report["trials"]):
        same = min((each["same"] for each in one["outputs"]), default=1.0)
        cosines = [
            (cosine["mean"], each["name"])
            for each in one["populations"]
            for cosine in each["cosines"]
            if cosine["ticks"] == report["limits"]["ticks"]
        ]
        least, name = min(cosines, default=(1.0, ""))
        label = f"{one['weight_bits']} bits" + (", clipped" if one["clip"] else "")
        rows.append([Head(label), _percent(same), Cell(least, f"{least:.3f}"), name,
                     "yes" if number == report["chosen"] else ""])  # fmt: skip
    heads = ("Weights", "Same class", "Least cosine", "In population", "Chosen")
    return [table("Precisions tried on the calibration samples", heads, rows)]


def _outputs(report: dict[str, Any]) -> list[Table]:
    """Return spikes and classes of the outputs in the simulation."""
    tables = []
    for output in (report.get("simulation") or {}).get("outputs", ()):
        names = ["spikes", "samples", *(["labels"] if "labels" in output else [])]
        rows = [
            [str(number), *row]
            for number, row in enumerate(zip(*(output[name] for name in names), strict=True))
        ]
        heads = ("Class", "Spikes", "Samples", *(["Labels"] if "labels" in output else []))
        tables.append(table(f"Classes of {output['name']}", heads, rows))
    return tables


def _lists(report: dict[str, Any]) -> Table:
    """Return the synapse words of each connection, and the synapses that they stand for."""
    entries = report["lists"]
    total = max(1, sum(one["words"] for one in entries))
    rows: list[list[Any]] = []
    for one in entries[:MOST_CONNECTIONS]:
        name = f"{one['source']} to {one['target']}"
        rows.append([name, *_list_cells(one, total), Cell(one["cores"])])
    if rest := entries[MOST_CONNECTIONS:]:
        summed = {name: sum(one[name] for one in rest) for name in ("words", "synapses")}
        rows.append([f"{len(rest)} others", *_list_cells(summed, total), Cell(None)])
    heads = ("Connection", "Synapse words", "Synapses", "Synapses per word", "Cores")
    return table("Synapse memory by connection", heads, rows)


def _list_cells(one: dict[str, int], total: int) -> list[Cell]:
    shared = one["synapses"] / one["words"] if one["words"] else None
    return [
        Cell(one["words"], bar=one["words"] / total),
        Cell(one["synapses"]),
        Cell(shared, None if shared is None else f"{shared:.1f}"),
    ]


def _more_cores(report: dict[str, Any]) -> list[Table]:
    """Return the cores that the short table leaves out."""
    rest = report["cores"][MOST_CORES:]
    return [_cores(rest, report)] if rest else []


def _cores(cores: list[dict[str, Any]], report: dict[str, Any]) -> Table:
    """Return the use of the memories of some cores."""
    width, shape = report["chip"]["width"], report["shape"]
    heads = ("Core x, y", "Neurons", "Axons", "Routes", "Synapse words", "Profiles")
    rows = [
        [f"{one['core'] % width}, {one['core'] // width}",
         *(Cell(one[name], bar=one[name] / shape[name]) for name in MEMORIES)]
        for one in cores
    ]  # fmt: skip
    rows.append(["available", *(Cell(shape[name]) for name in MEMORIES)])
    return table("Memories of the cores", heads, rows, hidden=True)


def _cycles(report: dict[str, Any]) -> list[Table]:
    """Return the cycles per tick and the events of the simulation, if it counted them."""
    run = report.get("simulation") or {}
    if not run:
        return []
    rows: list[list[Any]] = [
        ["Samples", run["samples"]], ["Ticks per sample", run["ticks"]],
        ["Spikes", run["spikes"]], ["Synaptic events", run["events"]],
        ["Ticks of neurons with a clipped value", sum(run["saturated"].values())],
    ]  # fmt: skip
    for name, text in (
        ("mean", "Cycles per tick, mean"), ("p50", "Median"), ("p99", "99th percentile"),
        ("max", "Largest"), ("packets_per_tick", "Packets per tick"),
        ("host_packets_per_tick", "Packets to the host per tick"),
        ("link_flits_per_tick_max", "Flits per tick on the busiest link"),
    ):  # fmt: skip
        if name in run.get("cycles", {}):
            rows.append([text, run["cycles"][name]])
    tables = [table("Simulation", ("", ""), rows, hidden=True)]
    if energy := run.get("energy"):
        unit = f"{energy['unit']} per sample"
        parts = [
            [name, Cell(energy[name] / run["samples"])]
            for name in ("network", "events", "neurons", "sum")
            if name in energy
        ]
        lacks = f"; unknown: {energy['lacks']}" if energy["lacks"] else ""
        tables.append(table(f"Energy, {unit}{lacks}", ("Part", "Energy"), parts))
    return tables


def _core(report: dict[str, Any]) -> Table:
    rows = [(name.replace("_", " "), value) for name, value in report["shape"].items()]
    return table("Core", ("Size", "Value"), rows, hidden=True)
