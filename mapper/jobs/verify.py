"""Verify a network, a mapping, or a compiled model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from mapper.compiler.artifacts.manifest import is_compiled
from mapper.compiler.artifacts.manifest import read_folder as read_compiled
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.evaluation.verify import verify_network
from mapper.evaluation.verify_mapping import verify_mapping
from mapper.executors.worker_interface import Ranges, all_at_once
from mapper.inputs.listener import Listener
from mapper.monitoring.resources import require_neurons
from mapper.results.output import network_of, read_report
from mapper.results.output_folder import find_folder, read_folder
from mapper.results.sealed_folder import as_damage
from mapper.spiking.artifacts.folder import is_spiking
from mapper.spiking.artifacts.folder import read_folder as read_spiking
from mapper.spiking.artifacts.verify import verify_folder
from storage.store.network import NetworkFile
from storage.store.sharded import is_sharded

NEURON_BYTES = 16  # of a network, held for its verification
Started = AbstractContextManager[Ranges | None]


class Verified(NamedTuple):
    """Something that was verified and found valid.

    kind : "network", "mapping", "programs" or "tables" (of a compiled ONNX or spiking model)
    facts : the checked amounts, or the recomputed values of a mapping, by name
    network : path of the network of a mapping
    """

    path: Path
    kind: str
    facts: dict[str, Any]
    network: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the object that `mapper verify --json` prints."""
        network = {} if self.network is None else {"network": str(self.network)}
        return {"path": str(self.path), **network, "valid": True, **self.facts}

    def __str__(self) -> str:
        """Return the verdict in one line."""
        found = self.facts
        if self.kind == "network":
            said = f"{found['neurons']:,} neurons, {found['synapses']:,} synapses"
        elif self.kind == "programs":
            said = f"{found['instructions']:,} instructions of {_cores(found)}"
        elif self.kind == "tables":
            said = f"{found['synapses']:,} synapses in {found['words']:,} words of "
            said += f"{_cores(found)}, as in the model"
        else:
            said = f"{_count(found)} values of report.json recomputed, all equal"
            if left := found.get("not_recomputed"):
                said += f"; not recomputed: {', '.join(left)}"
        return f"valid {self.kind}: {said}"


class VerifyRequest(NamedTuple):
    """A network file or output folder. network : of a mapping, if it was moved"""

    path: Path
    network: Path | None
    threads: int


def verify_path(
    request: VerifyRequest, listener: Listener, ranges: Callable[[], Started] = nullcontext
) -> Verified:
    """Verify a path with independent code; see `mapper verify`.

    ranges : starts workers for tasks over blocks of a network; None stands for this process
    Raises `CheckFailedError` that names the difference, `MapperError` for other paths.
    """
    path = request.path
    if not find_folder(path).is_dir() or is_sharded(path):
        if path.exists():
            with NetworkFile(path) as opened:
                require_neurons(opened, NEURON_BYTES)
            listener.compile(["verify"], request.threads)
        with ranges() as started:
            found = verify_network(_named(path, started), started or all_at_once)
        return Verified(path, "network", found)
    if is_spiking(path):
        found = read_folder(path, lambda: verify_folder(read_spiking(path))._asdict())
        return Verified(path, "tables", found)
    if is_compiled(path):
        with as_damage(path):
            return Verified(path, "programs", verify_compiled(read_compiled(path)))
    network, found = read_folder(path, lambda: _verify_mapping(request, listener, ranges))
    return Verified(path, "mapping", found, network)


def _verify_mapping(
    request: VerifyRequest, listener: Listener, ranges: Callable[[], Started]
) -> tuple[Path, dict[str, Any]]:
    """Verify a mapping; return the path of its network and the recomputed values."""
    report = read_report(request.path)
    network = network_of(request.path, request.network, report)
    if network.exists():
        listener.compile(["verify"], request.threads)
    with ranges() as started:
        network, each = _named(network, started), started or all_at_once
        verify_network(network, each)
        return network, verify_mapping(request.path, report, network, each)


def _named(path: Path, started: Ranges | None) -> Path:
    """Return a path that workers in other folders can open."""
    return path if started is None else path.absolute()


def _cores(found: dict[str, Any]) -> str:
    return "1 core" if found["cores"] == 1 else f"{found['cores']:,} cores"


def _count(found: dict[str, Any]) -> int:
    """Return the number of values, including nested objects."""
    return sum(
        _count(value) if isinstance(value, dict) else 1
        for name, value in found.items()
        if name != "not_recomputed"
    )
