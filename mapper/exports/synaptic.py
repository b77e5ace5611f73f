"""Check whether network weights are synaptic weights, with the losses known for them.

A network file without synaptic weights describes traffic: its numbers are magnitudes or firing
rates, and it lacks neuron parameters (thresholds, leaks, signs). Exports that compute with weights,
for cores or simulators of spikes, accept such a network only if no loss is known, or if the user
requests the magnitudes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mapper.errors import MapperError, UsageError
from storage.formats.losses import WEIGHTS_NEGATIVE, Loss
from storage.store.network import NetworkFile
from storage.store.traffic import WEIGHTS, traffic_of

AS_STORED, MAGNITUDES, SYNAPTIC = "as stored", "magnitudes", "synaptic"
TAKEN = {
    SYNAPTIC: "takes the synaptic weights of the network",
    AS_STORED: "takes the weights of the network for those of synapses",
    MAGNITUDES: "takes the numbers of the network for weights of synapses, which they are not",
}
"""Description of the use of the network's weights, by `Synaptic.weights`."""
MODELS = {"nir": "NIR graph", "onnx": "ONNX model", "sonata": "SONATA circuit"}
"""Source formats whose neurons have parameters."""


@dataclass(frozen=True, slots=True)
class Synaptic:
    """Known facts about network weights as synaptic weights.

    wrong : short reasons why they are not synaptic weights; empty if none is known
    losses : parts of synapses and neurons that were lost or changed
    kept : the network has synaptic weights in addition to its traffic
    """

    wrong: tuple[str, ...]
    losses: tuple[Loss, ...]
    kept: bool = False

    @property
    def weights(self) -> str:
        """Whether weights are synaptic, used as stored, or magnitudes of other numbers."""
        if self.kept:
            return SYNAPTIC
        return MAGNITUDES if self.wrong else AS_STORED

    def lines(self, losses: Sequence[Loss]) -> list[str]:
        """Return a line on the weights, then one on each loss, without their subject."""
        return [TAKEN[self.weights], *(f"has {loss.text}" for loss in losses)]


def synaptic_weights(network: NetworkFile, magnitudes: bool) -> Synaptic:
    """Check the weights of a network for an export that computes with them.

    magnitudes : accept them in any case
    Raises `MapperError` if they are known not to be synaptic weights, `UsageError` if magnitudes
    are requested for a network with synaptic weights.
    """
    if network.meta.synaptic is not None:
        if magnitudes:
            raise UsageError(f"{network.path}: has synaptic weights; leave out --magnitudes")
        return Synaptic((), tuple(_undirected(network)), kept=True)
    found = _judge(network)
    if found.wrong and not magnitudes:
        raise MapperError(
            f"{network.path}: not synaptic weights: {'; '.join(found.wrong)}; "
            "import its source again with --weights-are synapse, or, to use its "
            "numbers anyway, add --magnitudes"
        )
    return found


def _judge(network: NetworkFile) -> Synaptic:
    meta = network.meta
    negative = int(meta.provenance.get(WEIGHTS_NEGATIVE, 0))
    model = MODELS.get(str(meta.provenance.get("format")))
    wrong, losses = [], []
    if negative:
        of = f"{negative:,} of {meta.synapses_read:,} weights"
        wrong.append(f"{of} lost their sign")
        losses.append(Loss("signs", negative, f"no signs: those of {of} left out"))
    if traffic_of(meta)["source"] != WEIGHTS:
        wrong.append("they are firing rates")
        count = meta.synapses
        losses.append(Loss("weights", count, f"no weights: {count:,} firing rates in their place"))
    if model is not None:
        wrong.append(f"the import dropped thresholds and leaks of the {model}")
        text = f"no thresholds and leaks of the {model}: those of {meta.neurons:,} neurons left out"
        losses.append(Loss("parameters", meta.neurons, text))
    if meta.self_loops:
        text = f"no self-loops: {meta.self_loops:,} dropped by the import"
        losses.append(Loss("self_loops", meta.self_loops, text))
    if meta.weights_clamped:
        text = f"no weights below the unit: {meta.weights_clamped:,} raised to it"
        losses.append(Loss("clamped", meta.weights_clamped, text))
    losses += _undirected(network)
    return Synaptic(tuple(wrong), tuple(losses))


def _undirected(network: NetworkFile) -> list[Loss]:
    count = network.meta.synapses if network.meta.undirected else 0
    text = f"no undirected edges: {count:,} written as a synapse in each direction"
    return [Loss("undirected", count, text)] if count else []
