"""Whether the weights of a network are those of its synapses, and what of them is known to be lost.

A network file without synaptic weights is of traffic: its numbers are magnitudes or firing rates,
and what the neurons do (thresholds, leaks, signs) is not in it. What computes with weights, a core
or a simulator of spikes, is given such a network only if nothing is known to be wrong with that, or
if the user asks for its magnitudes.
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
"""What a format does with the weights of a network."""
MODELS = {"nir": "NIR graph", "onnx": "ONNX model", "sonata": "SONATA circuit"}
"""What networks are imported from that has neurons with parameters of their own."""


@dataclass(frozen=True, slots=True)
class Synaptic:
    """What is known of a network's weights as weights of synapses.

    wrong : why they are others, in a few words each; none if nothing speaks against them
    losses : what of the synapses and neurons is not in the network, or is not as it was
    kept : the network has synaptic weights beside its traffic
    """

    wrong: tuple[str, ...]
    losses: tuple[Loss, ...]
    kept: bool = False

    @property
    def weights(self) -> str:
        """Whether weights are written as they are stored, or as magnitudes of others."""
        if self.kept:
            return SYNAPTIC
        return MAGNITUDES if self.wrong else AS_STORED

    def lines(self, losses: Sequence[Loss]) -> list[str]:
        """A line on the weights, then one on each loss, each without what it is about."""
        return [TAKEN[self.weights], *(f"has {loss.text}" for loss in losses)]


def synaptic_weights(network: NetworkFile, magnitudes: bool) -> Synaptic:
    """What is known of the weights of a network, for an export that computes with them.

    magnitudes : take them whatever is known

    Raises `MapperError` if they are known not to be those of the synapses, `UsageError` where
    magnitudes are asked for of a network that has the weights.
    """
    if network.meta.synaptic is not None:
        if magnitudes:
            raise UsageError(
                f"{network.path}: has the weights of its synapses; leave out --magnitudes"
            )
        return Synaptic((), tuple(_undirected(network)), kept=True)
    found = _judge(network)
    if found.wrong and not magnitudes:
        raise MapperError(
            f"{network.path}: its weights are not those of synapses: {'; '.join(found.wrong)}; "
            "import its source again with --weights-are synapse, or to take the numbers that it "
            "has all the same, add --magnitudes"
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
        wrong.append(f"thresholds and leaks of the {model} are gone")
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
