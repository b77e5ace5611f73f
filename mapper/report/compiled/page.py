"""The page of a compiled model: one HTML file, of report.json alone."""

from __future__ import annotations

from typing import Any

from mapper.report.cells import Cell, Head, Table, table
from mapper.report.compiled.memorymap import memory_map
from mapper.report.page import asset, templates
from mapper.version import version

SHOWN = 36
"""Letters of a name."""


def render_compiled(report: dict[str, Any]) -> bytes:
    """The page, as UTF-8."""
    return (
        templates()
        .get_template("compiled.html.j2")
        .render(
            title=f"{report['model']} on {report['chip']['name']}",
            style=asset("page.css"),
            version=version(),
            cards=_cards(report),
            memories=_memories(report),
            units=_units(report),
            losses=_losses(report),
            attempts=_attempts(report),
            layers=_layers(report),
            host=_host(report),
            picture=memory_map(report),
            stages=_stages(report),
            settings=_settings(report),
            log=report["log"],
            runs=report.get("simulation"),
        )
        .encode()
    )


def _cards(report: dict[str, Any]) -> list[tuple[str, Cell, str]]:
    """Title, value and meaning of the key figures."""
    signal = report["signal_db"]
    shown = "no error" if signal is None else f"{signal:.1f} dB"
    cards = [
        ("Signal over error", Cell(signal, shown), "of the results, over the calibration samples"),
        ("Cycles", Cell(report["cycles"]), "of a frame on the core, without the host's part"),
        ("Layers", Cell(len(report["layers"])), "macro nodes, each of which stores one map"),
        (
            "Matrix calls",
            Cell(sum(layer["matrix_calls"] for layer in report["layers"])),
            "of the matrix unit, for a frame",
        ),
        ("On the host", Cell(len(report["host"])), "nodes that no core computes"),
    ]
    found = report.get("simulation")
    if found and found.get("accuracy") is not None:
        shown = f"{100 * found['accuracy']:.1f} %"
        cards.insert(
            0, ("Accuracy", Cell(found["accuracy"], shown), f"of {found['frames']:,} samples")
        )
    return cards


def _short(name: str) -> str:
    """A name that leaves space for numbers beside it; report.json has it whole."""
    return name if len(name) <= SHOWN else f"{name[: SHOWN - 1]}\N{HORIZONTAL ELLIPSIS}"


def _memories(report: dict[str, Any]) -> Table:
    rows = [
        (name, Cell(one["used"]), Cell(one["capacity"]), _share(one["used"], one["capacity"]))
        for name, one in report["memories"].items()
    ]
    return table("Memories of the core", ("Memory", "Used", "Available", "Share"), rows)


def _losses(report: dict[str, Any]) -> Table:
    heads = ("Layer", "Range", "Clipped", "Own signal", "Accumulated")
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
    return table("Signal over error of the layers", heads, rows)


def _attempts(report: dict[str, Any]) -> Table:
    heads = ("Attempt", "Scales", "Points lost", "Signal", "Kept")
    rows = [
        (
            Head(one["method"]),
            Cell(f"per {one['per']}"),
            Cell(one["loss"]),
            _decibels(one["signal_db"]),
            Cell("yes" if number == report["kept"] else ""),
        )
        for number, one in enumerate(report["attempts"])
    ]
    return table("Attempts to quantise", heads, rows)


def _decibels(value: float | None) -> Cell:
    return Cell(value, "no error" if value is None else f"{value:.1f} dB")


def _units(report: dict[str, Any]) -> Table:
    rows = [
        (name, Cell(share, f"{100 * share:.1f} %", bar=share))
        for name, share in report["busy"].items()
    ]
    return table("Units of the core", ("Unit", "Busy"), rows)


def _share(used: int, capacity: int) -> Cell:
    share = used / capacity if capacity else 0.0
    return Cell(share, f"{100 * share:.1f} %", bar=share)


def _layers(report: dict[str, Any]) -> Table:
    heads = (
        "Layer",
        "Operators",
        "Map",
        "Products",
        "Matrix calls",
        "From cycle",
        "To",
        "Instructions",
    )
    rows = []
    for number, layer in enumerate(report["layers"]):
        _, height, width, channels = layer["shape"]
        rows.append(
            (
                Head(_short(f"{number}: {', '.join(layer['nodes'])}")),
                Cell(", ".join(layer["operators"])),
                Cell(f"{height} x {width} x {channels}"),
                Cell(layer["products"]),
                Cell(layer["matrix_calls"]),
                Cell(layer["start"]),
                Cell(layer["end"]),
                Cell(sum(layer["instructions"].values())),
            )
        )
    return table("Layers", heads, rows, hidden=True)


def _host(report: dict[str, Any]) -> Table | None:
    if not report["host"]:
        return None
    rows = [(", ".join(one["nodes"]), one["op"], one["why"]) for one in report["host"]]
    return table("Nodes on the host", ("Node", "Operator", "Why"), rows, hidden=True)


def _stages(report: dict[str, Any]) -> Table:
    rows = [(name, Cell(spent, f"{spent:.2f} s")) for name, spent in report["seconds"].items()]
    return table("Stages of the compiler", ("Stage", "Time"), rows, hidden=True)


def _settings(report: dict[str, Any]) -> Table:
    rows = [(name, str(value)) for name, value in report["settings"].items()]
    return table("Settings", ("Setting", "Value"), rows, hidden=True)
