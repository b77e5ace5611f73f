"""Names of passes for the command line, in a module without further imports."""

from __future__ import annotations

SWITCHES: dict[str, str] = {
    "constants": "evaluate nodes of constants once",
    "input-scale": "fold factors on the input into the first layer",
    "pad": "fold padding into the layer after it",
    "batchnorm": "fold normalisation into the layer before it",
    "dense": "dense layers read maps in their storage layout",
    "siblings": "join convolutions on one map where that saves cycles",
    "concat": "concatenate maps after pooling and activations",
    "fold": "store several columns in pixels of few channels",
    "pool-first": "max pooling before requantisation",
    "fuse": "run the operators after a layer on the same tile",
    "few-channels": "layers of few channels read whole windows (im2col)",
    "split-groups": "read only the blocks of a group where that saves calls",
    "addends": "run the smaller of two added layers first",
    "share": "store joined and split parts inside the whole",
    "copy": "store maps of two regions twice by their layer",
}
"""Passes that can be switched off, ``--no-NAME``, in the order in which they are applied."""

CHANGES_NUMBERS = frozenset({"constants", "input-scale", "pad", "batchnorm"})
"""Passes that change results when switched off: other nodes stay on the host, or other maps are
quantised. The other passes change only cycles and memory.
"""
