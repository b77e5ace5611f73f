"""How many nets of a network refinement by connectivity sees where they are not all in memory."""

from __future__ import annotations

CHECKED = 5  # one of so many nets of a sample is for checks
NETS_SEEN = 40  # nets of the sample that reach a neuron, on average
FEWEST_SEEN = 16  # with fewer the sample fits its own nets alone
SCORES = 4_000_000_000  # costs of moves added up in a pass, at most; about a second
PIN_BYTES = 24  # of a pin of the sample: both lists, and joining them
COUNT_BYTES = 8  # of a net and part: pins, and the cost of one more


def net_share(neurons: int, synapses: int, parts: int, memory: int) -> float:
    """Return the share of nets to refine streamed parts by; 0 where a sample does not help.

    parts : that refinement moves neurons between; memory : bytes free for the sample

    The sample serves nets that reach most parts: their connectivity is flat, see
    `mapper.hypergraph.expected_reach`. Small nets are refined by all of them.
    """
    degree = synapses / max(1, neurons)
    if degree < parts:
        return 0.0
    each = neurons * (PIN_BYTES + COUNT_BYTES * parts / degree)
    seen = min(NETS_SEEN, degree, SCORES / (neurons * parts), memory / each)
    if seen < FEWEST_SEEN:
        return 0.0
    return min(1.0, seen / degree * CHECKED / (CHECKED - 1))


def sample_bytes(neurons: int, synapses: int, parts: int, share: float) -> int:
    """Return the memory that the sample takes."""
    return int(share * (PIN_BYTES * synapses + COUNT_BYTES * neurons * parts))
