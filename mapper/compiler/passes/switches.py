"""Names of passes, for the command line, which loads nothing else to say them."""

from __future__ import annotations

SWITCHES: dict[str, str] = {
    "input-scale": "factors on the input become part of the first layer",
    "pad": "padding becomes part of the layer behind",
    "batchnorm": "normalisation becomes part of the layer before",
    "siblings": "convolutions on one map become one, where that saves cycles",
    "concat": "maps are concatenated behind pooling and activations",
    "pool-first": "max pooling goes before requantisation",
    "few-channels": "layers of few channels take whole windows",
    "split-groups": "groups take only their own blocks, where that saves calls",
    "addends": "the lighter of two added layers runs first",
    "fuse": "what follows a layer runs on the same tile",
}
"""What can be switched off, ``--no-NAME``, in the order in which it is applied."""

CHANGES_NUMBERS = frozenset({"input-scale", "pad", "batchnorm"})
"""Without these maps are quantised that there are not with them; others change cycles alone."""
