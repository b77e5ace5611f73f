"""Split neurons with more synapses than a core holds, before the network is mapped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chipsim.chip.model import Chip
from mapper.inputs.listener import Listener
from mapper.inputs.opening import folder_for
from mapper.inputs.source import Effort
from mapper.limits.split_neurons import RelayNeurons, plan_relays, write_split
from mapper.resume.resume import is_whole
from storage.store.network import NetworkFile

SPLIT = "split.bin"  # in the folder of a run


@contextmanager
def split_network(
    network: NetworkFile,
    chip: Chip,
    effort: Effort,
    listener: Listener,
    keep_in: Path | None = None,
    resume: bool = False,
) -> Iterator[tuple[NetworkFile, RelayNeurons]]:
    """Yield the network with the synapses of such neurons spread over relays; report their number.

    keep_in : folder for the network with relays; None uses a temporary folder
    resume : use the file of an earlier run in that folder
    """
    relays = plan_relays(network, chip, effort.threads)
    if not relays.count:
        yield network, relays
        return
    facts = relays.facts()
    listener.note(f"note: {facts['neurons']:,} neurons split, {relays.count:,} relay neurons added")
    with folder_for(keep_in) as folder:
        path = folder / SPLIT
        if not (resume and is_whole(path, effort.threads)):
            write_split(network, relays, path, effort.memory // 4, effort.threads)
        with NetworkFile(path) as split:
            yield split, relays
