"""Read Sign nodes: activations of binary layers.

ONNX has no binary layers. Models put Sign before Conv, Gemm or MatMul; some use Sign, Add 0.1,
Sign, which maps zero to +1. The weights are +a and -a.
"""

from __future__ import annotations

from typing import Any

from mapper.compiler.frontend.onnx import Handler, Reader, Value
from mapper.compiler.ir.graph import View
from mapper.compiler.ir.node import Sign
from storage.formats.layers.onnxgraph import OnnxNode


def sign(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Value | None:
    """Add a Sign node: results are +1 or -1; zero, which ONNX keeps as 0, becomes +1 in one bit."""
    data: View = inputs[0]
    return reader.like(Sign(), [data.tensor], node, data)


BINARY: dict[str, Handler] = {"Sign": sign}
