"""Hints about how a node that runs on the host could run on a core."""

from __future__ import annotations

ACTIVATIONS = frozenset(
    {"Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Swish", "Mish", "Elu", "Selu", "Celu", "Gelu"}
    | {"Erf", "Softplus", "Softsign"}
)
LAST = frozenset({"Softmax", "LogSoftmax", "ArgMax", "ArgMin", "TopK", "Hardmax"})
_HINTS = (
    ("as asked", "remove it from --keep"),
    ("not constant", "export with constant folding"),
    ("channels on axis 1", "export with channels on axis 1 (NCHW)"),
    ("within a channel", "use one number for each channel"),
    ("one vector and a matrix", "export for one sample"),
    ("scales are not given", "quantise it as well, or give samples with --calibrate"),
    ("packing takes", "run its neighbours on cores as well, or give its layers more channels"),
    ("double the size", "resize to twice the size, nearest"),
)
"""Part of the reason why a node stays on the host, and the remedy."""


def hint(kind: str, why: str) -> str:
    """Return a remedy for a host node. kind : ONNX operator; why : reason why it is on the host"""
    for part, found in _HINTS:
        if part in why and "export" not in why:
            return found
    if "export" in why:
        return why.split(":")[-1].strip()
    if kind in ACTIVATIONS:
        return "train with Relu, LeakyRelu, PRelu or Clip instead to run it on a core"
    if kind in LAST:
        return "at the end of a model its cost on the host is low"
    if kind == "LRN":
        return "train with BatchNormalization instead, or without it"
    return "cores do not support it"
