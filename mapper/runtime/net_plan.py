"""Share of the nets that refinement by connectivity samples if memory does not hold all nets."""

from __future__ import annotations

CHECKED = 5  # one in CHECKED nets of a sample is held out for validation
NETS_SEEN = 40  # sampled nets per neuron, on average
FEWEST_SEEN = 16  # with fewer nets the sample overfits
SCORES = 4_000_000_000  # limit of move costs added up per pass; about a second
PIN_BYTES = 24  # bytes per pin of the sample: both lists, and joining them
COUNT_BYTES = 8  # bytes per net and part: pins, and the cost of one more


def net_share(neurons: int, synapses: int, parts: int, memory: int) -> float:
    """Return the share of nets for refinement of streamed parts; 0 if a sample does not help.

    parts : number of parts that refinement moves neurons between; memory : bytes free for the
        sample

    Only nets that reach most parts are sampled: their connectivity is flat, see
    `mapper.hypergraph.expected_reach`. Small nets are all used.
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
    """Return the bytes of the sample."""
    return int(share * (PIN_BYTES * synapses + COUNT_BYTES * neurons * parts))
