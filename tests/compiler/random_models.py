"""Random valid ONNX models: chains and branches of operators over small maps.

Quantised models are generated from floating-point models by the tools of ONNX Runtime, as users do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.compiler import random_functions as functions
from tests.compiler import random_layers as layers
from tests.compiler.random_layers import SMALL, Array, Network, Sizes, Step, Style, Value
from tests.storage.formats.onnx_models import helper, numpy_helper, onnx

STYLES: tuple[Style, ...] = (
    "float", "binary", "QDQ", "QDQ channel", "QOperator", "dynamic", "mixed",
)  # fmt: skip
STEPS: tuple[tuple[Step, float], ...] = (
    (layers.conv, 6), (layers.dense, 2), (layers.activation, 3), (layers.pool, 1.5),
    (layers.pair, 1.5), (layers.with_constant, 1), (layers.normalisation, 1), (layers.join, 1.5),
    (layers.cut, 1), (layers.split, 0.7), (layers.padded, 0.7), (layers.enlarged, 0.6),
    (layers.viewed, 1.5), (layers.hosted, 1), (functions.table, 2.5), (functions.gate, 1),
    (functions.product, 1), (functions.attention, 0.5), (layers.transposed, 1),
    (functions.host_between, 1),
)  # fmt: skip
"""Steps, and how often they are taken relative to others."""
CHIPS = ("1x1", "2x2", "4x1")
CHIPS_OF_IMAGES = ("2x2", "4x4", "2x2 small", "4x4 small")
"""Chips of models with images; small cores keep few columns of maps."""
SMALL_CORE = "[npu]\npreset = 'npu'\nmap_vectors = {}\n"
SAMPLES = 8


class Made(NamedTuple):
    """A random model, and samples of shape (SAMPLES, ...).

    chip : size of the chip, or its file
    calibrated : whether a partly quantised model is compiled with samples
    """

    model: Any
    samples: Array
    style: Style
    chip: str
    calibrated: bool = False


def random_model(seed: int, folder: Path, sizes: Sizes = SMALL) -> Made | None:
    """Return the model of a seed; None if ONNX Runtime does not run it, or cannot quantise it.

    folder : for files of the quantisation tools, and of the chip
    """
    random = np.random.default_rng(seed)
    style: Style = STYLES[int(random.integers(len(STYLES)))]
    net = Network(random, style, sizes)
    weights = np.array([weight for _, weight in STEPS])
    steps = [step for step, _ in STEPS]
    if style == "binary":
        steps, weights = [*steps, layers.signed], np.append(weights, 8.0)
    for _ in range(int(random.integers(1, 16))):
        step = steps[int(random.choice(len(steps), p=weights / weights.sum()))]
        for _ in range(3):
            if step(net):
                break
    samples = random.normal(0, 1, (SAMPLES, *net.input.shape[1:])).astype(np.float32)
    model = finished(net)
    if model is None or not runs(model, samples):
        return None
    if style not in ("float", "binary"):
        model = quantised(model, samples, style, random, folder)
        if model is None or not runs(model, samples):
            return None
    chips = CHIPS if sizes == SMALL else CHIPS_OF_IMAGES
    chip = chips[int(random.integers(len(chips)))]
    calibrated = style == "mixed" and random.random() < 0.5
    return Made(model, samples, style, chip_file(chip, model, folder), calibrated)


def chip_file(chip: str, model: Any, folder: Path) -> str:
    """Return the size of a chip; the file of a chip whose cores have little memory for the maps of
    a model, if it is small."""
    size, _, small = chip.partition(" ")
    if not small:
        return size
    width, height = size.split("x")
    shape = [one.dim_value for one in model.graph.input[0].type.tensor_type.shape.dim]
    vectors = max(64, -(-shape[2] * shape[3] // 16) * 8)  # half of a block of the input
    text = f"width = {width}\nheight = {height}\n{SMALL_CORE.format(vectors)}"
    (folder / "chip.toml").write_text(text)
    return "chip.toml"


def finished(net: Network) -> Any | None:
    """Return the model: unused values are outputs, at most three."""
    taken = {name for node in net.nodes for name in node.input}
    ends = [one for one in net.values[1:] if one.name not in taken][-3:]
    if not ends:
        return None
    return pruned(net.nodes, net.constants, net.input, [one.name for one in ends], net.opset)


def pruned(
    nodes: list[Any], constants: dict[str, Array], given: Value, outputs: list[str], opset: int
) -> Any | None:
    """Return a model of the nodes that outputs need; None if these do not depend on the input."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted & set(node.output):
            kept.insert(0, node)
            wanted |= set(node.input)
    if given.name not in wanted:
        return None
    graph = helper.make_graph(
        kept, "random", [helper.make_tensor_value_info(given.name, 1, list(given.shape))],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs],
        [numpy_helper.from_array(one, name) for name, one in constants.items() if name in wanted],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def runs(model: Any, samples: Array) -> bool:
    """Return whether ONNX Runtime computes finite numbers from the samples, one batch for each."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(model.SerializeToString(), options)
        made = session.run(None, {"x": samples[:1]})
    except Exception:  # invalid models are not wanted
        return False
    return all(np.isfinite(one).all() and np.abs(one).max(initial=0) < 1e4 for one in made)


def quantised(
    model: Any, samples: Array, style: Style, random: np.random.Generator, folder: Path
) -> Any | None:
    """Return the model in integers, by the tools of ONNX Runtime."""
    import logging

    from onnxruntime import quantization as tools

    class Reader(tools.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rest = [{"x": one[None]} for one in samples]

        def get_next(self) -> dict[str, Array] | None:
            return self.rest.pop() if self.rest else None

    source, made = folder / "float.onnx", folder / "quantised.onnx"
    onnx.save(model, str(source))
    types = tools.QuantType
    activations = types.QUInt8 if random.random() < 0.6 else types.QInt8
    logging.disable(logging.WARNING)
    try:
        if style == "dynamic":
            tools.quantize_dynamic(str(source), str(made), weight_type=types.QInt8)
        else:
            names = [node.name for node in model.graph.node]
            left = [name for name in names if style == "mixed" and random.random() < 0.3]
            operators = style == "QOperator"
            tools.quantize_static(
                str(source), str(made), Reader(),
                tools.QuantFormat.QOperator if operators else tools.QuantFormat.QDQ,
                per_channel=style == "QDQ channel", activation_type=activations,
                weight_type=types.QInt8, nodes_to_exclude=left,
            )  # fmt: skip
        return onnx.load(str(made))
    except Exception:  # raised by the tools
        return None
    finally:
        logging.disable(logging.NOTSET)
