"""What would bring a node of the host to a core, in words."""

from __future__ import annotations

ACTIVATIONS = frozenset(
    {"Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Swish", "Mish", "Elu", "Selu", "Celu", "Gelu"}
    | {"Erf", "Softplus", "Softsign"}
)
LAST = frozenset({"Softmax", "LogSoftmax", "ArgMax", "ArgMin", "TopK", "Hardmax"})
_HINTS = (
    ("as asked", "leave it out of --keep"),
    ("not constant", "export with constant folding"),
    ("channels on axis 1", "export with channels on axis 1 (NCHW)"),
    ("within a channel", "use one number for each channel"),
    ("one vector and a matrix", "export for one sample"),
    ("scales are not given", "quantise it, too, or give samples with --calibrate"),
    ("packing takes", "run its neighbours on cores, too, or give its layers more channels"),
    ("double the size", "resize to twice the size, nearest"),
)
"""Of what keeps a node on the host: part of its words, and what to do."""


def hint(kind: str, why: str) -> str:
    """What to try for a node of the host. kind : of ONNX; why : what keeps it there."""
    for part, found in _HINTS:
        if part in why and "export" not in why:
            return found
    if "export" in why:
        return why.split(":")[-1].strip()
    if kind in ACTIVATIONS:
        return "train with Relu, LeakyRelu, PRelu or Clip in its place for a core"
    if kind in LAST:
        return "at the end of a model it takes the host little time"
    if kind == "LRN":
        return "train with BatchNormalization in its place, or without"
    return "no core has a unit for it"
