"""Names and texts of passes, and baselines, for the command line, which imports nothing else."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class PassTexts(NamedTuple):
    """Texts of a pass.

    about : help of its switch; what, legal_if, applied_if, gains : row of the documentation
    """

    about: str
    what: str
    legal_if: str
    applied_if: str
    gains: str


SWITCHES = {
    "constants": PassTexts(
        about="fold constants",
        what="constant folding: ONNX Runtime evaluates nodes of constants when the model is read; "
            "without the pass, nodes with real results run on the host, and so do the layers that "
            "read them; shapes, axes and stored integers are always folded",
        legal_if="all inputs are constant",
        applied_if="always, except for nodes kept on the host",
        gains="bytes that the host would compute per frame",
    ),
    "input-scale": PassTexts(
        about="fold factors on the input into the first layer",
        what="Mul, Sub, Div, Add by constants, BatchNormalization and ImageScaler on the input "
            "fold into the weights and the bias of the first layer",
        legal_if="the input has a single user; the layer does not pad, or there is no offset",
        applied_if="always",
        gains="the depthwise convolution that would apply the factors",
    ),
    "pad": PassTexts(
        about="fold padding into the next layer",
        what="Pad folds into the convolution or the max pooling after it",
        legal_if="one user, rows and columns only; zeros before a convolution; before max pooling "
            "no value larger than the map, and no window of only padding",
        applied_if="always: the padding value would otherwise be part of the range of the map",
        gains="the depthwise convolution that would pad",
    ),
    "batchnorm": PassTexts(
        about="fold normalisation into the previous layer",
        what="BatchNormalization, and Mul, Add, Sub, Div by constants, fold into the weights and "
            "the bias of the layer before, or into the thresholds of the sign or levels after it, "
            "across max pooling",
        legal_if="the layer has a single user; one factor per channel, including negative factors "
            "and zero",
        applied_if="always",
        gains="the depthwise convolution that would apply the factors",
    ),
    "dense": PassTexts(
        about="run dense layers as convolutions",
        what="a dense layer becomes a convolution with a kernel as large as its map, 1x1 after "
            "another dense layer; without the pass, the host flattens the map into one pixel",
        legal_if="constant weights",
        applied_if="always",
        gains="transfer of the map to the host and back, minus the cost of partly filled blocks",
    ),
    "siblings": PassTexts(
        about="join convolutions on one map",
        what="convolutions on one map become one: a small kernel is padded with zeros to the size "
            "of the larger one, kernels are stacked, and the results share memory",
        legal_if="equal strides, dilations and result sizes, no groups, kernel sizes that differ "
            "by an even number and paddings by half of it; equal zero points and bounds, because "
            "one requantisation has one of each; parts begin at blocks, or are adjacent in a "
            "concatenation",
        applied_if="it saves cycles, and the feature memory holds the whole",
        gains="trial of both convolutions, and of the joined one",
    ),
    "concat": PassTexts(
        about="move concatenations after pooling and activations",
        what="a concatenation of channels moves after the max pooling, activation or "
            "requantisation that reads it; these then run with the layers of the parts, and the "
            "result shares memory",
        legal_if="channels only, not rows or columns; the parts and the whole have a single user",
        applied_if="always",
        gains="trial of the layers of the parts, before and after",
    ),
    "fold": PassTexts(
        about="store several columns per pixel of few channels",
        what="a map of few channels between two convolutions, optionally pooled, holds several "
            "columns per pixel: 8 channels of two columns fill 16 rows of the first layer, and 16 "
            "columns of the second one",
        legal_if="maps of bytes; a whole number of columns fills a vector, pixels fill rows, and "
            "pooled pixels share no columns; results of the second layer fill blocks, for "
            "convolutions and pooling",
        applied_if="it fits and saves cycles",
        gains="cycles and bytes of both layers as separate programs",
    ),
    "pool-first": PassTexts(
        about="move max pooling before requantisation",
        what="max pooling moves before the requantisation and the activation of the layer before",
        legal_if="no channel has a negative factor, so the function never decreases: ReLU, Clip, "
            "leaky slopes of at least 0; no padding; a window of sums fits the accumulators",
        applied_if="always; with `fuse` off, sums cannot be pooled on their tiles",
        gains="ALU cycles of requantisations that are saved",
    ),
    "fuse": PassTexts(
        about="fuse operators into the layer before them",
        what="convolution, bias, requantisation, activation, max pooling, residual sum, "
            "upsampling and sign become one macro node, which stores only its last map",
        legal_if="single users; one max pooling without padding, after a convolution; one sum, "
            "whose other addend is stored earlier",
        applied_if="one pixel of the fused layer fits the accumulators, else for the longest run "
            "that fits; requantisation of sums is always fused",
        gains="the map between: a store and a load",
    ),
    "few-channels": PassTexts(
        about="run layers of few channels on windows (im2col)",
        what="a convolution with few input channels becomes a 1x1 convolution over its windows, "
            "for example 7x7x3 becomes 1x1x147; the host builds them, or the window unit, which "
            "pads channels to a multiple of four",
        legal_if="no groups, a kernel larger than 1x1; the only reader of a map from the host; no "
            "padding for bits; windows that the window unit supports",
        applied_if="it shortens the initiation interval, including host transfers",
        gains="matrix calls; bytes of the windows, which may exceed the bytes of the map",
    ),
    "split-groups": PassTexts(
        about="skip blocks outside the groups of a layer",
        what="each output block of a grouped convolution reads only the input blocks of its "
            "groups; without the pass, the kernels of all groups become one block-diagonal "
            "convolution",
        legal_if="groups of several channels; depthwise convolutions have their own unit",
        applied_if="it saves matrix calls",
        gains="matrix calls",
    ),
    "addends": PassTexts(
        about="run the smaller of two added layers first",
        what="of two layers whose results are added, the one with more products runs last, and "
            "the sum runs on its tiles",
        legal_if="both layers have a single user; the smaller does not depend on the larger one",
        applied_if="one has more products",
        gains="ALU cycles hidden by matrix calls",
    ),
    "share": PassTexts(
        about="store joined and split parts inside the whole",
        what="parts of concatenations, in channels, rows or columns, and of splits are stored "
            "inside the region of the whole; without the pass, each has a separate region and is "
            "copied",
        legal_if="parts begin at vectors (blocks are padded for this) and have one scale",
        applied_if="always",
        gains="a load and a store per part",
    ),
    "copy": PassTexts(
        about="store maps of two regions twice",
        what="a map in two unrelated regions is stored twice: two store instructions, no load and "
            "no ALU pass; without the pass, it is loaded and stored again",
        legal_if="a layer on the core computes the map",
        applied_if="always",
        gains="a load of the map, and the ALU pass",
    ),
}  # fmt: skip
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


def known_names(names: Collection[str], known: Collection[str]) -> tuple[str, ...]:
    """Return names without duplicates; raise `ValueError` for an unknown one."""
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is not known; give {', '.join(known)}")
    return tuple(dict.fromkeys(names))


def baselines_of(names: Collection[str]) -> dict[str, str]:
    """Return the settings of some fixed rules; raise `ValueError` for two rules of one setting."""
    found: dict[str, str] = {}
    for name in known_names(names, BASELINES):
        field, _ = BASELINES[name]
        if field in found:
            raise ValueError(f"{found[field]} and {name} both set the {field}; give one")
        found[field] = name
    return found
