"""Names of passes and baselines for the command line, which imports nothing else."""

from __future__ import annotations

SWITCHES: dict[str, str] = {
    "constants": "fold constants",
    "input-scale": "fold factors on the input into the first layer",
    "pad": "fold padding into the next layer",
    "batchnorm": "fold normalisation into the previous layer",
    "dense": "run dense layers as convolutions",
    "siblings": "join convolutions on one map",
    "concat": "move concatenations after pooling and activations",
    "fold": "store several columns per pixel of few channels",
    "pool-first": "move max pooling before requantisation",
    "fuse": "fuse operators into the layer before them",
    "few-channels": "run layers of few channels on windows (im2col)",
    "split-groups": "skip blocks outside the groups of a layer",
    "addends": "run the smaller of two added layers first",
    "share": "store joined and split parts inside the whole",
    "copy": "store maps of two regions twice",
}
"""Passes that ``--disable`` switches off, in the order in which they are applied."""

CHANGES_NUMBERS = frozenset({"constants", "input-scale", "pad", "batchnorm", "bias-correction"})
"""Passes and steps that change results when switched off: other nodes stay on the host, other maps
are quantised, or biases differ. The others change only cycles and memory.
"""

STEPS = {
    "bias-correction": "subtract the mean error of a channel from its bias",
    "reuse": "share memory between maps with disjoint lifetimes",
}
"""Steps that ``--disable`` switches off too; each has a field of `CompileSettings`."""

BASELINES = {
    "rows": ("schedule", "tile by whole rows"),
    "plane8": ("schedule", "tile by 8x8 pixels"),
    "plane16": ("schedule", "tile by 16x16 pixels"),
    "row-major": ("placement", "place layers on cores row by row"),
    "serpentine": ("placement", "as row-major, every second row reversed"),
    "greedy": ("weights", "stream the largest weights"),
}
"""Fixed rules in place of a search, for comparisons: the field of `CompileSettings` that has the
name as its value, and the rule."""
