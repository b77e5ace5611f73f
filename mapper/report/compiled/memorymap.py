"""Picture of a core's feature memory: addresses of feature maps over their live ranges."""

from __future__ import annotations

from typing import Any, NamedTuple

WIDTH, HEIGHT, MARGIN, TOP = 720, 330, 44, 10


LETTER, LINE = 5.6, 15  # pixels: width of a letter, height of a line of text


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
    across = (WIDTH - MARGIN) / (layers + 2)
    up = (HEIGHT - MARGIN - TOP) / used
    boxes = []
    for one in report["maps"]:
        first, last = one["born"] + 1, one["dies"] + 1
        boxes.append(
            Box(
                MARGIN + first * across,
                HEIGHT - MARGIN - (one["first"] + one["vectors"]) * up,
                (last - first + 1) * across,
                one["vectors"] * up,
                _short(one["name"], (last - first + 1) * across, one["vectors"] * up),
                f"{one['name']}: {one['vectors']:,} vectors from address {one['first']:,}",
            )
        )
    ticks = [(MARGIN + 0.5 * across, "in"), (MARGIN + (layers + 1.5) * across, "out")]
    ticks += [(MARGIN + (at + 1.5) * across, str(at)) for at in range(layers) if layers <= 40]
    rows = [
        (HEIGHT - MARGIN - used * share * up, f"{int(used * share):,}") for share in (0, 0.5, 1)
    ]
    return MemoryMap(WIDTH, HEIGHT, boxes, sorted(ticks), rows)


def _short(name: str, width: float, height: float) -> str:
    """Shorten a name to its end, which distinguishes the feature maps of a model."""
    letters = int(width / LETTER) - 1
    if height < LINE or letters < 4:
        return ""
    return name if len(name) <= letters else f"\N{HORIZONTAL ELLIPSIS}{name[1 - letters :]}"
