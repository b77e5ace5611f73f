"""Pictures of a core: its feature memory over layers, and a timeline of its units over cycles."""

from __future__ import annotations

from typing import Any, NamedTuple

MAP_WIDTH, MAP_HEIGHT, MAP_MARGIN, MAP_TOP = 720, 330, 44, 10
LETTER, LINE = 5.6, 15  # pixels: width of a letter, height of a line of text
WIDTH, MARGIN, TOP, ROW, BAR, AXIS = 960, 64, 8, 34, 22, 40


class Box(NamedTuple):
    """A feature map, in pixels of the picture; name : shortened to the space."""

    x: float
    y: float
    width: float
    height: float
    name: str
    title: str


class MemoryMap(NamedTuple):
    width: int
    height: int
    boxes: list[Box]
    ticks: list[tuple[float, str]]
    rows: list[tuple[float, str]]


def memory_map(report: dict[str, Any]) -> MemoryMap:
    """Return the picture: addresses upwards, layers to the right.

    A box spans the layers from the writer of a feature map to its last reader.
    """
    layers = len(report["layers"])
    used = max(1, report["memories"]["feature"]["used"])
    across = (MAP_WIDTH - MAP_MARGIN) / (layers + 2)
    up = (MAP_HEIGHT - MAP_MARGIN - MAP_TOP) / used
    boxes = []
    for one in report["maps"]:
        first, last = one["born"] + 1, one["dies"] + 1
        boxes.append(
            Box(
                MAP_MARGIN + first * across,
                MAP_HEIGHT - MAP_MARGIN - (one["first"] + one["vectors"]) * up,
                (last - first + 1) * across,
                one["vectors"] * up,
                _short(one["name"], (last - first + 1) * across, one["vectors"] * up),
                f"{one['name']}: {one['vectors']:,} vectors from address {one['first']:,}",
            )
        )
    ticks = [(MAP_MARGIN + 0.5 * across, "in"), (MAP_MARGIN + (layers + 1.5) * across, "out")]
    ticks += [(MAP_MARGIN + (at + 1.5) * across, str(at)) for at in range(layers) if layers <= 40]
    rows = [
        (MAP_HEIGHT - MAP_MARGIN - used * share * up, f"{int(used * share):,}")
        for share in (0, 0.5, 1)
    ]
    return MemoryMap(MAP_WIDTH, MAP_HEIGHT, boxes, sorted(ticks), rows)


def _short(name: str, width: float, height: float) -> str:
    """Shorten a name to its end, which distinguishes the feature maps of a model."""
    letters = int(width / LETTER) - 1
    if height < LINE or letters < 4:
        return ""
    return name if len(name) <= letters else f"\N{HORIZONTAL ELLIPSIS}{name[1 - letters :]}"


class UnitRow(NamedTuple):
    """A unit: its name, the position of its row, and the path of its bars."""

    name: str
    y: float
    path: str


class Picture(NamedTuple):
    """A timeline; layers : ends of layers, from the left, with the number if there is space."""

    width: int
    height: int
    place: str
    rows: list[UnitRow]
    layers: list[tuple[float, str]]
    ticks: list[tuple[float, str]]


def timelines(report: dict[str, Any]) -> list[Picture]:
    """Return the timeline of each core."""
    return [_picture(one, report) for one in report["timelines"]]


def _picture(one: dict[str, Any], report: dict[str, Any]) -> Picture:
    cycles = max(1, report["cycles"])
    across = (WIDTH - MARGIN - 8) / cycles
    rows = []
    for number, (name, bars) in enumerate(one["units"].items()):
        y = TOP + ROW * number
        path = "".join(
            f"M{MARGIN + start * across:.2f} {y}h{max(0.15, (end - start) * across):.2f}v{BAR}"
            f"H{MARGIN + start * across:.2f}z"
            for start, end in bars
        )
        rows.append(UnitRow(name, y, path))
    height = TOP + ROW * len(rows) + AXIS
    layers, last = [], -30.0
    for number, layer in enumerate(report["layers"]):
        if layer["core"] != one["core"]:
            continue
        x = MARGIN + layer["end"] * across
        middle = MARGIN + (layer["end"] - layer["cycles"] / 2) * across
        wide = layer["cycles"] * across >= 14 and middle - last >= 14
        last = middle if wide else last
        layers.append((x, str(number) if wide else ""))
    ticks = [
        (MARGIN + share * cycles * across, f"{round(share * cycles):,}")
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    x, y = one["core"]
    return Picture(WIDTH, height, f"Core ({x}, {y})", rows, layers, ticks)
