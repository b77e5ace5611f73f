"""Host nodes as single-node models, and as ONNX Runtime sessions."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from mapper.compiler.ir.graph import View
from mapper.compiler.ir.node import Host
from storage.formats.layers.onnxruns import NodeSession, model_of_node

_sessions: WeakKeyDictionary[Host, NodeSession] = WeakKeyDictionary()


def views_of(operator: Host) -> list[tuple[str, View]]:
    """Return the non-constant inputs of a node with their names, in order."""
    pairs = zip(operator.node.proto.input, operator.given, strict=True)
    return [(name, one) for name, one in pairs if isinstance(one, View)]


def model_of(operator: Host, any_shape: bool = False) -> bytes:
    """Return a node as a serialised model with constants; any_shape : leave input shapes open"""
    pairs = list(zip(operator.node.proto.input, operator.given, strict=True))
    constants = {name: one for name, one in pairs if isinstance(one, np.ndarray)}
    inputs = {
        name: (operator.kind(number), None if any_shape else one.shape)
        for number, (name, one) in enumerate(pairs)
        if isinstance(one, View)
    }
    return model_of_node(operator.node.proto, inputs, constants, operator.opsets)


def session_of(operator: Host) -> NodeSession:
    """Return the session of a node, which is cached."""
    found = _sessions.get(operator)
    if found is None:
        found = _sessions[operator] = NodeSession(model_of(operator))
    return found
