"""The page of a compiled model: one HTML file made from report.json."""

from __future__ import annotations

import shlex
from typing import Any

from mapper.reporting.cells import Cell, Head, Table, table
from mapper.reporting.compiled.chiprun import chip_run
from mapper.reporting.compiled.judged import judged
from mapper.reporting.compiled.pictures import memory_map, timelines
from mapper.reporting.compiled.rings import rings
from mapper.reporting.page import asset, colour_style, page_bytes
from mapper.results.tables import size
from mapper.version import version

SHOWN = 36
"""Maximum number of letters of a name."""


def render_compiled(report: dict[str, Any]) -> bytes:
    """Return the page as UTF-8."""
    return page_bytes(
        "compiled.html.j2",
        title=f"{report['model']} on {report['chip']['name']}",
        style=colour_style() + asset("page.css"),
        version=version(),
        cards=_cards(report),
        memories=_memories(report),
        units=_units(report),
        losses=_losses(report),
        attempts=_attempts(report),
        judged=judged(report),
        missed=report.get("limits_missed"),
        layers=_layers(report),
        work=_work(report),
        timelines=timelines(report),
        packing=_packing(report),
        simulated=_simulated(report),
        chip=chip_run(report),
        run=_frames(report),
        made=_made(report),
        command=shlex.join(report["command"]),
        host=_host(report),
        picture=memory_map(report),
        rings=rings(report),
        stages=_stages(report),
        settings=_settings(report),
        log=report["log"],
        runs=report.get("simulation"),
    )


def _cards(report: dict[str, Any]) -> list[tuple[str, Cell, str]]:
    """Return title, value and meaning of the key figures."""
    signal = report["signal_db"]
    shown = "no error" if signal is None else f"{signal:.1f} dB"
    layers = len({tuple(one["nodes"]) for one in report["layers"]})
    cards = [
        ("SQNR", Cell(signal, shown), "of the outputs, over the calibration samples"),
        *_speed(report),
        ("Layers", Cell(layers), "macro nodes, each storing one feature map; cores may share one"),
        (
            "Matrix calls",
            Cell(sum(layer["matrix_calls"] for layer in report["layers"])),
            "of the matrix unit, per frame",
        ),
        ("On the host", Cell(len(report["host"])), "nodes computed by the host processor"),
    ]
    found = report.get("simulation")
    if found and found.get("accuracy") is not None:
        shown = f"{100 * found['accuracy']:.1f} %"
        cards.insert(
            0, ("Accuracy", Cell(found["accuracy"], shown), f"of {found['frames']:,} samples")
        )
    return cards


def _speed(report: dict[str, Any]) -> list[tuple[str, Cell, str]]:
    """Return speed figures: cycles of a frame, or throughput and latency on several cores."""
    run = report.get("simulation", {}).get("cycle_run", {})
    spread = len(report["timelines"]) > 1
    where = "busiest core" if spread else "core"
    cycles = (
        "Cycles",
        Cell(report["cycles"]),
        f"per frame on the {where}, without the host",
    )
    if "frames" not in run:
        return [cycles]
    rate = Cell(run["frames_per_second"], f"{run['frames_per_second']:,.0f}")
    period = [("Initiation interval", Cell(run["period"]), "cycles from frame to frame")]
    return [
        *(period if run["period"] else []),
        ("Latency", Cell(run["latency"]), "cycles until the first frame is done"),
        ("Frames per second", rate, f"at {run['clock_mhz']:g} MHz"),
        cycles,
    ]


def _busiest(report: dict[str, Any]) -> str:
    """Return a label for the core whose cycles and units are shown."""
    return "busiest core" if len(report["timelines"]) > 1 else "core"


def _short(name: str) -> str:
    """Shorten a name to leave space for numbers; report.json has the full name."""
    return name if len(name) <= SHOWN else f"{name[: SHOWN - 1]}\N{HORIZONTAL ELLIPSIS}"


def _memories(report: dict[str, Any]) -> Table:
    rows = [
        (name, Cell(one["used"]), Cell(one["capacity"]), _share(one["used"], one["capacity"]))
        for name, one in report["memories"].items()
    ]
    return table("Memories of the core", ("Memory", "Used", "Available", "Share"), rows)


def _losses(report: dict[str, Any]) -> Table:
    heads = ("Layer", "Range", "Clipped", "Layer SQNR", "Accumulated SQNR")
    rows = [
        (
            Head(_short(one["label"])),
            Cell(f"{one['low']:.4g} to {one['high']:.4g}"),
            Cell(one["clipped"], f"{100 * one['clipped']:.2f} %"),
            _decibels(one["own"]),
            _decibels(one["accumulated"]),
        )
        for one in report["losses"]
    ]
    return table("SQNR of the layers", heads, rows)


def _attempts(report: dict[str, Any]) -> Table:
    heads = ("Attempt", "Scales", "Points lost", "SQNR", "Kept")
    rows = [
        (
            Head(one["method"] + (f", {len(one['wide'])} in 16 bits" if one["wide"] else "")),
            Cell(f"per {one['per']}"),
            Cell(one["loss"]),
            _decibels(one["signal_db"]),
            Cell("yes" if number == report["kept"] else ""),
        )
        for number, one in enumerate(report["attempts"])
    ]
    return table("Quantisation attempts", heads, rows)


def _decibels(value: float | None) -> Cell:
    return Cell(value, "no error" if value is None else f"{value:.1f} dB")


def _units(report: dict[str, Any]) -> Table:
    rows = [
        (name, Cell(share, f"{100 * share:.1f} %", bar=share))
        for name, share in report["busy"].items()
    ]
    return table(f"Units of the {_busiest(report)}", ("Unit", "Busy"), rows)


def _packing(report: dict[str, Any]) -> list[Table]:
    """Return the cost of bit packing on the core and on the host, if the model needs it."""
    cost = report["packing"]
    if not cost["transfers"]:
        return []
    rows = [
        ("on the core", Cell(cost["core"]), Cell(cost["frame"])),
        ("on the host", Cell(cost["host"]), Cell(cost["by_host"])),
    ]
    heads = ("Where", "Packing cycles", "Cycles per frame")
    return [table("Bit packing", heads, rows)]


def _share(used: int, capacity: int) -> Cell:
    share = used / capacity if capacity else 0.0
    return Cell(share, f"{100 * share:.1f} %", bar=share)


def _layers(report: dict[str, Any]) -> Table:
    """Return placement, tiling and cycles of each layer."""
    heads = (
        "Layer", "Operators", "Bits", "Core", "Map", "Tiles", "Largest tile", "Order", "Products",
        "Matrix calls", "Cycles",
    )  # fmt: skip
    rows = []
    for number, layer in enumerate(report["layers"]):
        tile = layer["tile"]
        rows.append(
            (
                _layer_head(number, layer),
                Cell(", ".join(layer["operators"])),
                Cell(layer.get("bits")),
                Cell("{}, {}".format(*layer["core"])),
                Cell("{} x {} x {}".format(*layer["shape"][1:])),
                Cell(tile["count"]),
                Cell(f"{tile['rows']} x {tile['columns']} x {tile['blocks']}"),
                Cell(", ".join(tile["order"]) or "\N{EN DASH}"),
                Cell(layer["products"]),
                Cell(layer["matrix_calls"]),
                Cell(layer["cycles"]),
            )
        )
    return table("Tiles and cycles", heads, rows)


def _work(report: dict[str, Any]) -> Table:
    """Return the utilisation of units in each layer, and the stalls of the matrix unit."""
    units = list(report["busy"])
    heads = ("Layer", *units, "GEMM stalls", "Loaded", "Stored", "Vectors", "SQNR")
    signal = _signals(report)
    rows = []
    for number, layer in enumerate(report["layers"]):
        waits = layer["waits"].get("GEMM", {})
        rows.append(
            (
                _layer_head(number, layer),
                *(_percent(layer["busy"][unit]) for unit in units),
                Cell(
                    ", ".join(
                        f"{cause} {cycles:,}"
                        for cause, cycles in sorted(waits.items(), key=lambda item: -item[1])
                    )
                    or "\N{EN DASH}"
                ),
                Cell(layer["bytes_loaded"], size(layer["bytes_loaded"])),
                Cell(layer["bytes_stored"], size(layer["bytes_stored"])),
                Cell(layer["vectors"]),
                _decibels(signal[number]) if number in signal else Cell(None),
            )
        )
    return table("Units, stalls and bytes", heads, rows)


def _layer_head(number: int, layer: dict[str, Any]) -> Head:
    return Head(_short(f"{number}: {', '.join(layer['nodes'])}"))


def _signals(report: dict[str, Any]) -> dict[int, float | None]:
    """Return the accumulated SQNR of each layer that has one: the value of its last node."""
    found = {one["label"]: one["accumulated"] for one in report["losses"]}
    rows = {}
    for number, layer in enumerate(report["layers"]):
        known = [
            found[label]
            for name in layer["nodes"]
            for label in found
            if label.endswith(f"{name!r}") or label == name
        ]
        if known:
            rows[number] = known[-1]
    return rows


def _percent(share: float) -> Cell:
    return Cell(share, f"{100 * share:.0f} %")


def _simulated(report: dict[str, Any]) -> list[Table]:
    """Return the utilisation and stalls of each core's units in the cycle-accurate run, if any."""
    run = report.get("simulation", {}).get("cycle_run")
    if not run:
        return []
    cycles = max(1, run["cycles"])
    tables = []
    for core in run["cores"]:
        units = list(core["busy"])
        rows: list[Any] = [["busy", *(_share(core["busy"][unit], cycles) for unit in units)]]
        for cause in next(iter(core["waits"].values()), {}):
            waits = [core["waits"][unit].get(cause, 0) for unit in units]
            if any(waits):
                rows.append([f"stall: {cause}", *(_share(one, cycles) for one in waits)])
        caption = "Cycle-accurate run of core ({}, {}), {:,} cycles".format(
            *core["core"], run["cycles"]
        )
        tables.append(table(caption, ("", *units), rows))
    return tables


def _frames(report: dict[str, Any]) -> Table | None:
    """Return throughput, latency and bottleneck of frames on several cores."""
    run = report.get("simulation", {}).get("cycle_run", {})
    if "frames" not in run:
        return None
    period = run["period"]
    rows = [
        ("Load cycles (once)", f"{run['loading']:,}"),
        ("Latency, cycles", f"{run['latency']:,}"),
        ("Initiation interval, cycles", "" if period is None else f"{period:,.0f}"),
        ("Mean interval, cycles", "" if period is None else f"{run['mean_period']:,.0f}"),
        ("Lower bound, cycles", f"{run['bound']['cycles']:,.0f}: {run['bound']['where']}"),
        ("Frames per second", f"{run['frames_per_second']:,.0f} at {run['clock_mhz']:g} MHz"),
        ("Flits per frame on the busiest link", f"{run['busiest_link']:,.0f}"),
        ("Flit hops per frame", f"{run['flit_hops']:,.0f}"),
    ]
    return table(f"Cycle-accurate run of {run['frames']:,} frames", ("", ""), rows)


def _made(report: dict[str, Any]) -> list[Table]:
    """Return the tables of ablation and comparison, if they were run."""
    found = []
    for name, caption in (("ablation", "Ablation of passes"), ("compared", "Other settings")):
        rows = report.get(name)
        if rows:
            heads = list(rows[0])
            found.append(table(caption, heads, [[one.get(head) for head in heads] for one in rows]))
    return found


def _host(report: dict[str, Any]) -> Table | None:
    if not report["host"]:
        return None
    rows = [
        (", ".join(one["nodes"]), one["op"], one["why"], Cell(one.get("cycles", "")))
        for one in report["host"]
    ]
    heads = ("Node", "Operator", "Reason", "Cycles between functions")
    return table("Nodes on the host", heads, rows, hidden=True)


def _stages(report: dict[str, Any]) -> Table:
    rows = [(name, Cell(spent, f"{spent:.2f} s")) for name, spent in report["seconds"].items()]
    return table("Compiler stages", ("Stage", "Time"), rows, hidden=True)


def _settings(report: dict[str, Any]) -> Table:
    rows = [(name, str(value)) for name, value in report["settings"].items()]
    return table("Settings", ("Setting", "Value"), rows, hidden=True)
