"""Make events of a vision sensor from images of digits, as N-MNIST has them.

    python scripts/make_saccades.py mnist.npz -o saccades.npz [--samples N] [--ticks N]
    python scripts/make_saccades.py t10k-images-idx3-ubyte t10k-labels-idx1-ubyte -o saccades.npz

N-MNIST (Orchard et al., Frontiers in Neuroscience 9, 2015) has recordings of a sensor that faces a
digit and moves along a triangle: three saccades of 100 ms, each over at most 6 pixels. A pixel
sends an ON event when it gets brighter by a threshold, and an OFF event when it gets darker. Here
the image moves, with interpolation between pixels. An image of 28x28 pixels gives events of 34x34
pixels with 2 polarities. A pixel sends at most one event per tick; a larger change sends events in
the following ticks. The recordings have noise, these events have none.

The output lists events in `sample`, `tick` and `neuron`, where the neuron is counted in rows of
(polarity, row, column), OFF before ON; labels are in `y`. The default threshold gives about 4,000
events per digit of MNIST, as N-MNIST has. The same images always give the same events: the
computation has only additions, multiplications and divisions.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
AMPLITUDE = 3
"""Pixels by which the image leaves the centre, along each axis."""
CORNERS = ((AMPLITUDE, -AMPLITUDE), (0, AMPLITUDE), (-AMPLITUDE, -AMPLITUDE))
"""Columns and rows by which the image is off the centre at the start of each saccade.

Chosen by a model that was trained on N-MNIST: at a threshold of 0.4, it classifies 99 of 100 digits
right, and 84 to 91 if the directions are mirrored or the polarities swapped.
"""
THRESHOLD = 0.195
TICKS = 300
IMAGES_AT_ONCE = 256
IDX_IMAGES, IDX_LABELS = 0x803, 0x801


class Events(NamedTuple):
    """Events in order of sample, tick and neuron, each of shape (events,)."""

    sample: NDArray[np.int32]
    tick: NDArray[np.int32]
    neuron: NDArray[np.int32]


def saccades(images: Floats, ticks: int, threshold: float) -> Events:
    """Return the events of images that move along a triangle.

    images : brightness from 0 to 1, shape (samples, rows, columns)
    ticks : of all three saccades
    threshold : change of brightness per event
    """
    count, rows, columns = images.shape
    room = 2 * AMPLITUDE + 1  # on each side, for the farthest position
    canvas = np.zeros((count, rows + 2 * room, columns + 2 * room))
    canvas[:, room : room + rows, room : room + columns] = images
    path = positions(ticks)
    seen = moved(canvas, *path[0])
    found = []
    for tick, place in enumerate(path[1:]):
        change = moved(canvas, *place) - seen
        on, off = change >= threshold, change <= -threshold
        seen += threshold * on
        seen -= threshold * off
        sample, neuron = np.nonzero(np.stack([off, on], axis=1).reshape(count, -1))
        found.append((sample, np.full(sample.size, tick), neuron))
    lists = [np.concatenate(each).astype(np.int32) for each in zip(*found, strict=True)]
    order = np.argsort(lists[0], kind="stable")
    return Events(*(each[order] for each in lists))


def positions(ticks: int) -> Floats:
    """Return columns and rows off the centre at the start and after each tick, (ticks + 1, 2).

    A saccade accelerates and slows down: at time t of 0 to 1 it is at 3 t^2 - 2 t^3.
    """
    found = [np.array([CORNERS[0]], np.float64)]
    bounds = [0, ticks // 3, 2 * ticks // 3, ticks]
    for number in range(3):
        begin, end = (np.array(CORNERS[(number + step) % 3], np.float64) for step in (0, 1))
        length = bounds[number + 1] - bounds[number]
        time = (np.arange(1, length + 1) / length)[:, None]
        found.append(begin + (end - begin) * (time * time * (3 - 2 * time)))
    return np.concatenate(found)


def moved(canvas: Floats, across: float, down: float) -> Floats:
    """Return the brightness of the sensor's pixels, linear between pixels of the image."""
    x, y = int(np.floor(across)), int(np.floor(down))
    right, below = across - x, down - y
    sizes = [size - 2 * (AMPLITUDE + 1) for size in canvas.shape[1:]]

    def part(rows: int, columns: int) -> Floats:
        first = (AMPLITUDE + 1 - rows, AMPLITUDE + 1 - columns)
        return canvas[:, first[0] : first[0] + sizes[0], first[1] : first[1] + sizes[1]]

    top = part(y, x) * (1 - right) + part(y, x + 1) * right
    bottom = part(y + 1, x) * (1 - right) + part(y + 1, x + 1) * right
    return top * (1 - below) + bottom * below


def read_images(paths: list[Path]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return images of shape (samples, rows, columns), and their labels.

    paths : one `.npz` with `x` and `y`, or an idx file of images and one of labels, which may be
        compressed with gzip; raises `ValueError` for other content
    """
    if len(paths) == 1:
        with np.load(paths[0]) as arrays:
            if "x" not in arrays or "y" not in arrays:
                raise ValueError(f"{paths[0]}: holds {', '.join(arrays.files)}; give x and y")
            images, labels = arrays["x"], arrays["y"]
    else:
        images, labels = read_idx(paths[0], IDX_IMAGES), read_idx(paths[1], IDX_LABELS)
    images = images.reshape(len(images), *(size for size in images.shape[1:] if size != 1))
    if images.ndim != 3 or labels.shape != (len(images),):
        raise ValueError(
            f"{paths[0]}: images have shape {images.shape} and labels {labels.shape}; give "
            "(samples, rows, columns) and (samples,)"
        )
    return images, labels


def read_idx(path: Path, magic: int) -> NDArray[np.uint8]:
    """Return the bytes of an idx file: a magic number, sizes as 32-bit words, then data."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    axes = magic & 0xFF
    head = np.frombuffer(data[: 4 * (axes + 1)], ">u4")
    if len(head) != axes + 1 or head[0] != magic:
        raise ValueError(f"{path}: not an idx file of {axes} axes of bytes")
    shape = tuple(head[1:].tolist())
    if len(data) != 4 * (axes + 1) + np.prod(shape, dtype=object):
        raise ValueError(f"{path}: its size does not match its shape {shape}")
    return np.frombuffer(data, np.uint8, offset=4 * (axes + 1)).reshape(shape)


def brightness(images: NDArray[Any]) -> Floats:
    """Return values from 0 to 1; bytes are divided by 255."""
    values = images.astype(np.float64) / (255 if images.dtype == np.uint8 else 1)
    if values.size and not (values.min() >= 0 and values.max() <= 1):
        raise ValueError(
            f"images have values from {values.min():g} to {values.max():g}; give bytes, or 0 to 1"
        )
    return values


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("images", nargs="+", type=Path, help=".npz with x, y; or two idx files")
    parser.add_argument("--samples", type=int, help="number of images, from the first (all)")
    parser.add_argument("--ticks", type=int, default=TICKS, help="of three saccades (%(default)s)")
    parser.add_argument(
        "--threshold", type=float, default=THRESHOLD,
        help="change of brightness per event, black to white is 1 (%(default)s)",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, required=True, help="file of events, .npz")
    given = parser.parse_args()
    if len(given.images) > 2:
        parser.error("give one .npz, or two idx files")
    if given.ticks < 3 or not given.threshold > 0 or (given.samples or 1) < 1:
        parser.error("--ticks must be at least 3, --threshold above 0, --samples at least 1")
    return given


def main() -> None:
    given = options()
    try:
        images, labels = read_images(given.images)
        images, labels = images[: given.samples], labels[: given.samples]
        parts = []
        for first in range(0, len(images), IMAGES_AT_ONCE):
            some = brightness(images[first : first + IMAGES_AT_ONCE])
            found = saccades(some, given.ticks, given.threshold)
            parts.append(found._replace(sample=found.sample + np.int32(first)))
        if not parts:
            raise ValueError(f"{given.images[0]}: has no images")
    except (OSError, ValueError) as error:
        sys.exit(f"make_saccades.py: {error}")
    events = Events(*(np.concatenate(lists) for lists in zip(*parts, strict=True)))
    np.savez_compressed(
        given.output, sample=events.sample, tick=events.tick, neuron=events.neuron,
        samples=len(images), ticks=given.ticks, y=labels.astype(np.int64),
    )  # fmt: skip
    rows, columns = (size + 2 * AMPLITUDE for size in images.shape[1:])
    print(
        f"{given.output}: {len(images):,} samples of {given.ticks} ticks, 2x{rows}x{columns}, "
        f"{events.tick.size / len(images):,.0f} events per sample"
    )


if __name__ == "__main__":
    main()
