"""Names of passes for the command line, which imports nothing else."""

from __future__ import annotations

SWITCHES: dict[str, str] = {
    "constants": "do not fold constants",
    "input-scale": "do not fold factors on the input into the first layer",
    "pad": "do not fold padding into the next layer",
    "batchnorm": "do not fold normalisation into the previous layer",
    "dense": "do not run dense layers as convolutions",
    "siblings": "do not join convolutions on one map",
    "concat": "do not move concatenations after pooling and activations",
    "fold": "do not store several columns per pixel of few channels",
    "pool-first": "do not move max pooling before requantisation",
    "fuse": "do not fuse operators into the layer before them",
    "few-channels": "do not run layers of few channels on windows (im2col)",
    "split-groups": "do not skip blocks outside the groups of a layer",
    "addends": "do not run the smaller of two added layers first",
    "share": "do not store joined and split parts inside the whole",
    "copy": "do not store maps of two regions twice",
}
"""Passes that can be switched off, ``--no-NAME``, in the order in which they are applied."""

CHANGES_NUMBERS = frozenset({"constants", "input-scale", "pad", "batchnorm"})
"""Passes that change results when switched off: other nodes stay on the host, or other maps are
quantised. The other passes change only cycles and memory.
"""
