"""Check of the sums that micro-ops compute: each sum is initialised once and uses each input and
each weight word once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mapper.errors import CheckFailedError

ACC, INP, WGT, TAP, _, INIT = range(6)
"""Columns of micro-ops."""


def require_sums(f: dict[str, int], ops: NDArray[np.int32], what: str) -> None:
    """Raise `CheckFailedError` if an instruction computes sums that no layer has.

    f : fields of GEMM; ops : its micro-ops, shape (n, 6); what : instruction, for errors
    """
    steps = np.arange(f["n_out"])[:, None], np.arange(f["n_in"])
    acc, inp, wgt = (
        (steps[0] * f[f"{name}_out"] + steps[1] * f[f"{name}_in"]).ravel()
        for name in ("acc", "inp", "wgt")
    )
    begins = ops[:, INIT] * (f["init"] > 0)
    alone = np.unique(acc).size == acc.size  # each iteration has a separate sum
    if alone:
        firsts = np.unique(ops[:, ACC])
        if np.unique(firsts[:, None] + acc).size < firsts.size * acc.size:
            raise CheckFailedError(f"{what}: micro-ops share some of their sums, but not all")
        entries, inputs, words, taps = ops[:, ACC], ops[:, INP], ops[:, WGT], ops[:, TAP]
    else:
        if begins.any():
            raise CheckFailedError(f"{what}: initialises a sum twice")
        entries, inputs, words = (
            (ops[:, column, None] + steps).ravel()
            for column, steps in ((ACC, acc), (INP, inp), (WGT, wgt))
        )
        taps = np.repeat(ops[:, TAP], acc.size)
    for name, parts in (("input", (inputs,)), ("weight word", (words, taps))):
        rows = np.stack([entries, *parts], 1)
        if len(np.unique(rows, axis=0)) < len(rows):
            raise CheckFailedError(f"{what}: uses the same {name} twice for a sum")
    sums, first, number = np.unique(entries, return_index=True, return_inverse=True)
    if alone and begins.any():
        counts = np.bincount(number, begins, len(sums))
        if ((counts > 0) & (begins[first] == 0)).any() or (counts > 1).any():
            raise CheckFailedError(f"{what}: initialises a sum twice")
