"""Signs of models: activations of binary layers.

There are no operators of binary layers in ONNX. Models write Sign before Conv, Gemm or MatMul, some
Sign, Add 0.1, Sign, so that zero counts as +1; the weights are +a and -a.
"""

from __future__ import annotations

from typing import Any

from mapper.compiler.frontend.onnx import Handler, Reader, Value
from mapper.compiler.graph.graph import View
from mapper.compiler.graph.node import Sign
from storage.formats.layers.onnxgraph import Node as OnnxNode


def sign(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Value | None:
    """+1 or -1; zero, which ONNX leaves at 0, is +1: there is no bit for it."""
    data: View = inputs[0]
    return reader.like(Sign(), [data.tensor], node, data)


BINARY: dict[str, Handler] = {"Sign": sign}
