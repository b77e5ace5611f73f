"""ONNX Runtime as a reference for the compiler: static quantisation and integer kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.formats.layers.onnxruns import runtime

Array = NDArray[Any]
TYPES = ("tensor(float)", "tensor(double)", "tensor(int8)", "tensor(uint8)")
METHODS = ("MinMax", "Entropy", "Percentile")


@dataclass(frozen=True)
class Peer:
    """runtime, tools : modules onnxruntime and onnxruntime.quantization"""

    runtime: Any
    tools: Any

    @classmethod
    def found(cls) -> Peer | None:
        """Return the peer, or None if onnxruntime is not installed."""
        try:
            return cls(runtime(), import_module("onnxruntime.quantization"))
        except ImportError:
            return None

    def run(self, path: Path, x: Array, result: str | None = None) -> Array:
        """Return a tensor of a model, or its first numeric output; images run one by one (batch
        size 1).

        Raises `ValueError` if the model has no such tensor.
        """
        options = self.runtime.SessionOptions()
        options.log_severity_level = 3
        options.add_session_config_entry("session.qdqisint8allowed", "1")
        # Also accumulate exactly on processors without VNNI instructions.
        options.add_session_config_entry("session.x64quantprecision", "1")
        session = self.runtime.InferenceSession(
            str(path) if result is None else _with_result(path, result), options,
            providers=["CPUExecutionProvider"],
        )  # fmt: skip
        given = session.get_inputs()[0]
        kinds = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8}
        x = x.astype(kinds[given.type])
        numbers = (one.name for one in session.get_outputs() if one.type in TYPES)
        name = result or next(numbers, None)
        if name is None:
            raise ValueError(f"{path.name} has no numeric output")
        rows = [session.run([name], {given.name: one[None]})[0] for one in x]
        return np.concatenate([np.asarray(row).reshape(1, -1) for row in rows])


def _with_result(path: Path, name: str) -> bytes:
    """Return the model with an internal tensor added to its outputs."""
    onnx = import_module("onnx")
    model = onnx.load(str(path))
    if name not in {output for node in model.graph.node for output in node.output}:
        raise ValueError(f"{path}: no tensor {name}")
    if name not in {output.name for output in model.graph.output}:
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    return bytes(model.SerializeToString())


def integer_outputs(peer: Peer, path: Path, x: Array, result: str | None = None) -> Array | None:
    """Return the named tensor or the first output of a quantised model as onnxruntime computes it.

    Returns None if onnxruntime lacks one of its operators or the tensor.
    """
    try:
        return peer.run(path, x, result)
    except ValueError:
        return None
    except Exception as error:
        if type(error).__module__.startswith("onnxruntime"):
            return None
        raise


def quantised_best(
    peer: Peer, path: Path, results: list[str], x: Array, count: int, labels: Array | None
) -> str:
    """Return the best static quantisation by SQNR: SQNR, accuracy, equal classes and settings.

    results : last tensors that the cores compute; the model is cut there, so that both are compared
        at the same tensor
    """
    name = peer.runtime.InferenceSession(str(path)).get_inputs()[0].name
    if len(results) == 1:
        with suppress(Exception):  # a name that only the compiler uses: then the whole model
            import_module("onnx.utils").extract_model(str(path), "cut.onnx", [name], results)
            path = Path("cut.onnx")
    exact = peer.run(path, x).astype(np.float64)
    with suppress(Exception):  # onnxruntime's own preparation fails for some models
        prepare = import_module("onnxruntime.quantization.shape_inference").quant_pre_process
        prepare(str(path), "prepared.onnx", skip_symbolic_shape=True)
        path = Path("prepared.onnx")
    found = []
    reasons = set()
    for method, per_channel, activations in product(METHODS, (False, True), ("QUInt8", "QInt8")):
        try:
            _quantise(peer, (path, name), x[:count], method, per_channel, activations)
            values = peer.run(Path("quantised.onnx"), x)
        except Exception as error:  # a failing setting must not stop the others
            reasons.add(" ".join(str(error).split())[:60])
            continue
        lost = ((exact - values) ** 2).sum()
        signal = float(10 * np.log10((exact**2).sum() / lost)) if lost else float("inf")
        accuracy = "" if labels is None else f", {100 * (values.argmax(1) == labels).mean():.1f} %"
        same = int((values.argmax(1) == exact.argmax(1)).sum())
        per = "channel" if per_channel else "tensor"
        found.append((signal, f"{signal:.1f} dB{accuracy}, {same}/{len(x)} ({method}, {per})"))
    return max(found)[1] if found else f"fails: {'; '.join(sorted(reasons))}"


def _quantise(
    peer: Peer, model: tuple[Path, str], x: Array, method: str, per_channel: bool, activations: str
) -> None:
    tools = peer.tools

    class Reader(tools.CalibrationDataReader):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            self._left: Iterator[Array] = iter(x.astype(np.float32))

        def get_next(self) -> dict[str, Array] | None:
            one = next(self._left, None)
            return None if one is None else {model[1]: one[None]}

    tools.quantize_static(
        str(model[0]), "quantised.onnx", Reader(), quant_format=tools.QuantFormat.QDQ,
        per_channel=per_channel, activation_type=getattr(tools.QuantType, activations),
        weight_type=tools.QuantType.QInt8,
        calibrate_method=getattr(tools.CalibrationMethod, method),
    )  # fmt: skip
