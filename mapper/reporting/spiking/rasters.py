"""Raster charts: spikes of a population in a sample, on the chip and in the model."""

from __future__ import annotations

from typing import Any, NamedTuple

WIDTH, LEFT, TOP, AXIS = 960, 64, 6, 36
ROW, LEAST = 5.0, 60  # pixels: height of a neuron at most, and of a chart at least
TICK_MARKS = (0, 0.25, 0.5, 0.75, 1)


class Raster(NamedTuple):
    """A chart; both, chip, model : paths of the spikes of both, and of only one of them."""

    title: str
    note: str
    width: int
    height: float
    bottom: float
    both: str
    chip: str
    model: str
    rows: list[tuple[float, str]]
    ticks: list[tuple[float, str]]


def rasters(report: dict[str, Any]) -> list[Raster]:
    """Return a chart for each population of the compared sample; none without a comparison."""
    return [_raster(one) for one in report.get("rasters", ())]


def _raster(one: dict[str, Any]) -> Raster:
    neurons, ticks = one["neurons"], max(1, one["ticks"])
    row = max(LEAST / neurons, min(ROW, 320 / neurons))
    across = (WIDTH - LEFT - 8) / ticks
    chip, model = (set(map(tuple, one[name])) for name in ("chip", "model"))
    bar = max(0.8, row * 0.8)

    def path(spikes: set[tuple[int, int]]) -> str:
        return "".join(
            f"M{LEFT + tick * across:.1f} {TOP + neuron * row:.1f}"
            f"h{max(1.0, across * 0.7):.1f}v{bar:.1f}h-{max(1.0, across * 0.7):.1f}z"
            for tick, neuron in sorted(spikes)
        )

    bottom = TOP + neurons * row
    part = "" if neurons == one["of"] else f"First {neurons} of {one['of']:,} neurons: "
    return Raster(
        one["population"],
        f"{part}{len(chip):,} spikes on the chip, {len(model):,} in the model, "
        f"{len(chip & model):,} in the same tick",
        WIDTH, bottom + AXIS, bottom, path(chip & model), path(chip - model), path(model - chip),
        [(TOP + row / 2 + 4, "0"), (max(TOP + 18, bottom - row / 2 + 4), str(neurons - 1))],
        [(LEFT + share * ticks * across, f"{round(share * ticks):,}") for share in TICK_MARKS],
    )  # fmt: skip
