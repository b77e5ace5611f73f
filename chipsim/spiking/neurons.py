"""Update of neurons in a tick: decay, integrate, compare, reset, as in hw/core/arithmetic.py.

Parameters and states are stored in blocks of neurons, field after field, so that the distance of
two fields is a constant and the update of a block compiles to vector instructions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from chipsim.protocols import Int32Array, Int64Array

BLOCK = 32
"""Neurons of a block."""
NARROW_BITS = 28
"""Bits of states whose sums of three, with a charge of NARROW_BITS + 2 bits, fit in 32 bits."""
PARAMETERS = (
    "current_decay", "potential_decay", "shift", "refractory", "subtract", "silent", "threshold",
    "reset", "current_bias", "potential_bias",
)  # fmt: skip
"""Fields of a block of parameters, in this order."""
STATES = ("current", "potential", "waits")
"""Fields of a block of states, in this order."""
FIRES, SATURATES = 1, 2
"""Bits of the outcome of a neuron's update."""


class NeuronWidths(NamedTuple):
    """Widths of a core's numbers in bits, as in `hw.core.shape.CoreShape`."""

    state_bits: int
    decay_bits: int
    sum_bits: int


def blocks_of(fields: Int64Array) -> Int32Array:
    """Return fields as blocks, shape (blocks * fields * BLOCK,); fields : shape (slots, fields)."""
    slots, count = fields.shape
    blocks = np.zeros((-(-slots // BLOCK), BLOCK, count), np.int32)
    blocks.reshape(-1, count)[:slots] = fields
    return np.ascontiguousarray(blocks.transpose(0, 2, 1)).reshape(-1)


def fields_of(blocks: Int32Array, slots: int, fields: int) -> Int64Array:
    """Return the fields of blocks, shape (slots, fields): the inverse of `blocks_of`."""
    split = blocks.reshape(-1, fields, BLOCK).transpose(0, 2, 1).reshape(-1, fields)
    return split[:slots].astype(np.int64)


@njit(cache=True, nogil=True, inline="always")
def _decayed(value, factor, bits, low):
    """Return value * factor / 2^bits, rounded towards zero, in 32 bits.

    low : 2^bits - 1. The products of the upper and of the lower bits fit in 32 bits.
    """
    sign = np.int64(value) >> 31
    size = np.uint32((np.int64(value) ^ sign) - sign)
    kept = np.uint32(np.uint32(size >> bits) * np.uint32(factor))
    kept = np.uint32(kept + np.uint32(np.uint32(np.uint32(size & low) * np.uint32(factor)) >> bits))
    return np.int32((np.int64(kept) ^ sign) - sign)


@njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]  # counts no references
def charge_block(parameters, totals, charges, widths):
    """Set the charges of a block to its sums, wrapped and shifted, and clear the sums.

    totals : ndarray[int64], shape (neurons,), sums of weights that count in this tick
    charges : ndarray[int32] or ndarray[int64], shape (BLOCK,); charges that saturate every state
        may be clipped
    """
    half = np.int64(1) << (widths.sum_bits - 1)
    bound = np.int64(1) << (40 if charges.itemsize == 8 else NARROW_BITS + 2)
    for i in range(len(totals)):
        charge = ((totals[i] + half) & (2 * half - 1)) - half
        charge <<= np.int64(parameters[2 * BLOCK + i])
        charges[i] = min(max(charge, -bound), bound)
        totals[i] = 0


@njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]  # counts no references
def update_block(parameters, states, charges, outcomes, widths):
    """Update the neurons of one block.

    parameters, states : the block's
    charges : from `charge_block`; int32 suffices for states of up to NARROW_BITS bits, and is
        several times as fast
    outcomes : ndarray[int32], shape (BLOCK,), set to FIRES and SATURATES

    Returns the union of the outcomes, and zero if the next update changes nothing without charges.
    """
    number = charges.dtype.type
    highest = number((np.int64(1) << (widths.state_bits - 1)) - 1)
    lowest = number(-highest - 1)
    bits = np.uint32(widths.decay_bits & 31)
    low = np.uint32((np.int64(1) << widths.decay_bits) - 1)
    found, moved = np.int32(0), np.int32(0)
    # Conversions after each operation keep the loop in narrow words; numba would widen them.
    for i in range(len(charges)):
        old_current, old_potential = states[i], states[BLOCK + i]
        old_waits = states[2 * BLOCK + i]
        raw = number(_decayed(old_current, parameters[i], bits, low) + charges[i])
        raw = number(raw + parameters[8 * BLOCK + i])
        current = number(min(max(raw, lowest), highest))
        saturates = raw != current
        raw = number(_decayed(old_potential, parameters[BLOCK + i], bits, low) + current)
        raw = number(raw + parameters[9 * BLOCK + i])
        charged = number(min(max(raw, lowest), highest))
        waiting = old_waits > 0
        saturates |= (raw != charged) & (not waiting)
        threshold = number(parameters[6 * BLOCK + i])
        fires = (parameters[5 * BLOCK + i] == 0) & (not waiting) & (charged >= threshold)
        raw = number(charged - threshold)
        rest = number(min(max(raw, lowest), highest))
        subtracts = fires & (parameters[4 * BLOCK + i] != 0)
        saturates |= subtracts & (raw != rest)
        after = rest if subtracts else number(parameters[7 * BLOCK + i])
        potential = np.int32(after if fires | waiting else charged)
        left = np.int32(old_waits - np.int32(waiting))
        waits = parameters[3 * BLOCK + i] if fires else left
        current = np.int32(current)
        outcome = np.int32(FIRES * np.int32(fires) + SATURATES * np.int32(saturates))
        change = np.int32((old_current ^ current) | (old_potential ^ potential))
        moved = np.int32(moved | np.int32(change | (old_waits ^ waits)))
        found = np.int32(found | outcome)
        states[i], states[BLOCK + i], states[2 * BLOCK + i] = current, potential, waits
        outcomes[i] = outcome
    return found, moved | found
