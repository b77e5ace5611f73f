"""Conversion of the host plan of a compiled model to the steps of main.c."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from mapper.compiler.artifacts.cdriver.writer import CoreStep, Sources
from mapper.compiler.artifacts.manifest import CompiledFolder
from mapper.errors import MapperError


def driver_of(folder: CompiledFolder) -> Sources:
    """Return the C sources of a compiled model.

    Raises `MapperError` that names a host node that cores depend on: main.c has no ONNX runtime.
    """
    shape = folder.shape
    steps = list(_steps(folder))
    values = next(step for step in folder.host if step["do"] == "quantise")["shape"]
    begins = {
        place: [one["spans"][at][0] for one in folder.manifest["functions"]]
        for at, place in enumerate(folder.images)
    }
    words = folder.weights
    if words is None:
        words = np.zeros((0, shape.rows, shape.columns), np.int8)
    return Sources(shape, folder.images, begins, words, steps, math.prod(values))


def _steps(folder: CompiledFolder) -> Iterator[CoreStep]:
    plan = folder.host
    last = max(at for at, step in enumerate(plan) if step["do"] == "start")
    between = [step for step in plan[:last] if step["do"] == "node"]
    if between:
        raise MapperError(
            f"node {between[0]['sources'][0]!r} runs on the host, followed by cores; the C driver "
            "runs cores only: omit --emit c"
        )
    maps = {one["name"]: one for one in folder.manifest["maps"]}
    cores = list(folder.images)
    buffers: dict[str, int] = {}
    shapes: dict[str, list[int]] = {}
    for step in plan:
        if step["do"] == "quantise":
            if step.get("levels"):
                raise MapperError(
                    f"input {step['value']!r} is quantised to levels defined by the model; the C "
                    "driver supports a single scale only: omit --emit c"
                )
            to = buffers.setdefault(step["tensor"], len(buffers))
            shapes[step["tensor"]] = step["tensor_shape"]
            yield {"kind": "QUANTISE", "to": to, **_view(step)}
        elif step["do"] == "windows":
            if step["tensor"] not in buffers:
                raise MapperError(
                    f"the host lays out {step['tensor']!r}, which is not an input, for cores; "
                    "the C driver does so for inputs only: omit --emit c or --disable dense"
                )
            source, to = buffers[step["tensor"]], len(buffers)
            buffers[step["result"]] = to
            windows = _windows(step, shapes[step["tensor"]], maps[step["result"]]["shape"])
            yield {"kind": "WINDOWS", "from": source, "to": to, **windows}
        elif step["do"] == "pack":
            number = buffers[step["tensor"]]
            yield {"kind": "WRITE", "from": number, **_map(maps[step["tensor"]], cores)}
        elif step["do"] == "start":
            yield {"kind": "RUN", "function": step["function"]}
        elif step["do"] == "unpack":
            yield {"kind": "READ", **_map(maps[step["tensor"]], cores)}


def _sizes(shape: list[int]) -> dict[str, int]:
    _, rows, columns, channels = shape
    return {
        "rows": rows, "columns": columns, "channels": channels,
        "elements": rows * columns * channels,
    }  # fmt: skip


def _view(step: dict[str, Any]) -> dict[str, Any]:
    """Return the strides of a feature map's elements in the ONNX input, whose axes are permuted."""
    ordered = [step["tensor_shape"][axis] for axis in step["order"]]
    strides = [math.prod(ordered[at + 1 :]) for at in range(len(ordered))]
    return {
        **_sizes(step["tensor_shape"]),
        "bits": step["bits"],
        "strides": [strides[step["order"].index(axis)] for axis in (1, 2, 3)],
        "scale": float(np.float32(step["scale"])),
        "zero_point": step["zero_point"],
    }


def _windows(step: dict[str, Any], taken: list[int], made: list[int]) -> dict[str, Any]:
    window = step["window"]
    return {
        **_sizes(taken),
        "elements": math.prod(made),
        "zero_point": step["value"],
        "size": list(window["size"]), "stride": list(window["stride"]),
        "dilation": list(window["dilation"]), "pad": [window["pad"][0], window["pad"][2]],
        "results": made[1:3],
    }  # fmt: skip


def _map(one: dict[str, Any], cores: list[tuple[int, int]]) -> dict[str, Any]:
    return {
        **_sizes(one["shape"]),
        "core": cores.index(tuple(one["core"])),
        "address": one["address"],
        "bits": one["bits"],
        "strides": one["strides"],
        "high": one["high"],
        "planes": int(one["planes"]),
    }
