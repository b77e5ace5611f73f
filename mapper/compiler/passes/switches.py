"""Names of passes, for the command line, which loads nothing else to say them."""

from __future__ import annotations

SWITCHES: dict[str, str] = {
    "constants": "what depends on constants alone is worked out once",
    "input-scale": "factors on the input become part of the first layer",
    "pad": "padding becomes part of the layer behind",
    "batchnorm": "normalisation becomes part of the layer before",
    "dense": "dense layers take maps as cores store them",
    "siblings": "convolutions on one map become one, where that saves cycles",
    "concat": "maps are concatenated behind pooling and activations",
    "fold": "pixels of few channels hold several columns",
    "pool-first": "max pooling goes before requantisation",
    "fuse": "what follows a layer runs on the same tile",
    "few-channels": "layers of few channels take whole windows",
    "split-groups": "groups take only their own blocks, where that saves calls",
    "addends": "the lighter of two added layers runs first",
    "share": "parts of joined and parted maps lie inside the whole",
    "copy": "maps of two regions are stored twice by their layer",
}
"""What can be switched off, ``--no-NAME``, in the order in which it is applied."""

CHANGES_NUMBERS = frozenset({"constants", "input-scale", "pad", "batchnorm"})
"""Without these other nodes stay on the host, or maps are quantised that are not with them; others
change cycles and memory alone."""
