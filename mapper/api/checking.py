"""`check`, `score` and `verify`: does it fit, how good is it, is it right."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from mapper.api.arguments import (
    GivenLimits,
    Reading,
    check_arguments,
    constraints_of,
    core_limits,
    effort_of,
    path_of_network,
    path_of_source,
    settings_of,
    source_of,
)
from mapper.errors import MapperError, UsageError, as_argument_errors, shown
from mapper.inputs.listener import NotesListener

if TYPE_CHECKING:
    from mapper.api.network import Network
    from mapper.api.types import (
        ChipLike,
        ConstraintsLike,
        MethodSettings,
        NetworkLike,
        Objective,
        Preset,
        Rates,
    )
    from mapper.jobs.check import Checked
    from mapper.jobs.score import Scored
    from mapper.jobs.verify import Verified
    from mapper.result import NetworkMapping
    from mapper.spiking.artifacts.compiled_model import CompiledModel


def check(
    network: NetworkLike,
    chip: ChipLike,
    *,
    preset: Preset = "default",
    objective: Objective | None = None,
    threads: int | None = None,
    memory: int | str | None = None,
    neurons_per_core: int | None = None,
    synapses_per_core: int | None = None,
    axons_per_core: int | None = None,
    axons_out_per_core: int | None = None,
    constraints: ConstraintsLike | None = None,
    split_neurons: bool = False,
    neurons: int | None = None,
    sizes: ArrayLike | None = None,
    rates: Rates | None = None,
    rates_duration: float | None = None,
    columns: Mapping[str, str] | None = None,
    weights_are: str | None = None,
    **method: Unpack[MethodSettings],
) -> Checked:
    """Check whether a network fits a chip, and estimate the cost of a run, as `mapper check` does.

    Its parameters are described in `mapper.map_network`. A network that does not fit raises no
    error: `fits` of the result is False, and `reasons` has a line for each limit.

    Raises
    ------
    DoesNotFitError
        If the constraints cannot be met.
    UsageError
        If an argument is invalid.
    MapperError
        If the network cannot be read.
    """
    from mapper.jobs.check import check as examine
    from mapper.session import MapRequest

    check_arguments(
        preset=preset, objective=objective, threads=threads, memory=memory,
        constraints=constraints, split_neurons=split_neurons, neurons=neurons, columns=columns,
    )  # fmt: skip
    changes: dict[str, Any] = {**method}
    if objective is not None:
        changes["objective"] = objective
    with as_argument_errors():
        limits = GivenLimits(
            neurons_per_core, synapses_per_core, axons_per_core, axons_out_per_core
        )
        reading = Reading(neurons, sizes, rates, rates_duration, columns, weights_are)
        request = MapRequest(
            source_of(network, reading), core_limits(chip, limits),
            settings_of(preset, 0, threads, memory, changes), constraints_of(constraints),
            split_neurons,
        )  # fmt: skip
        return examine(request, NotesListener())


def score(
    network: NetworkLike,
    mapping: NetworkMapping | ArrayLike | str | os.PathLike[str],
    chip: ChipLike,
    *,
    threads: int | None = None,
    memory: int | str | None = None,
    neurons_per_core: int | None = None,
    synapses_per_core: int | None = None,
    axons_per_core: int | None = None,
    axons_out_per_core: int | None = None,
    constraints: ConstraintsLike | None = None,
    min_fill: float = 0.0,
    neurons: int | None = None,
    rates: Rates | None = None,
    rates_duration: float | None = None,
    columns: Mapping[str, str] | None = None,
    weights_are: str | None = None,
) -> Scored:
    """Compute the metrics of an existing mapping, as `mapper score` does.

    Parameters
    ----------
    network : as for `mapper.map_network`
    mapping : core ids, shape (neurons,); a mapping; the path of an .npz, .json or .csv file
    chip, threads, memory, ... : as for `mapper.map_network`
    min_fill : least share of the neuron limit of each core in use

    A mapping that exceeds limits of the chip, breaks constraints or has cores below the least fill
    is scored; `violations`, `broken` and `below` of the result list them.

    Raises
    ------
    UsageError
        If an argument is invalid.
    MapperError
        If the mapping does not match the network and the chip.
    """
    from mapper.jobs.score import ScoreRequest
    from mapper.jobs.score import score as measure
    from mapper.settings import SETTINGS

    check_arguments(
        threads=threads, memory=memory, constraints=constraints, neurons=neurons, columns=columns
    )
    with as_argument_errors(), _mapping_file(mapping) as file:
        limits = GivenLimits(
            neurons_per_core, synapses_per_core, axons_per_core, axons_out_per_core
        )
        source = source_of(
            network, Reading(neurons, None, rates, rates_duration, columns, weights_are)
        )
        path = source.network if isinstance(source.network, Path) else Path("network")
        return measure(
            ScoreRequest(
                source,
                path,
                file,
                core_limits(chip, limits),
                effort_of(threads, memory),
                constraints_of(constraints),
                SETTINGS["min_fill"].check(min_fill),
            ),
            NotesListener(),
        )


@contextmanager
def _mapping_file(
    mapping: NetworkMapping | ArrayLike | str | os.PathLike[str],
) -> Iterator[Path]:
    """Yield the path of a mapping; core ids are written to a temporary file."""
    from mapper.result import NetworkMapping
    from mapper.results.mapping_file import mapping_in

    if isinstance(mapping, str | os.PathLike):
        yield Path(mapping)
        return
    if isinstance(mapping, NetworkMapping):
        with mapping.in_folder() as saved:
            yield mapping_in(saved)
        return
    with tempfile.TemporaryDirectory(prefix="mapper-") as folder:
        core = np.asarray(mapping)
        if core.ndim != 1 or core.dtype.kind not in "iu":
            raise UsageError(
                f"mapping is {shown(mapping)}; give core ids of shape (neurons,), a mapping, or "
                "the path of one"
            )
        file = Path(folder) / "mapping.csv"
        np.savetxt(file, core, "%d")
        try:
            yield file
        except MapperError as error:
            raise type(error)(str(error).replace(str(file), "mapping")) from error


def verify(
    path: str | os.PathLike[str] | Network | NetworkMapping | CompiledModel,
    *,
    network: str | os.PathLike[str] | Network | None = None,
    threads: int | None = None,
    memory: int | str | None = None,
) -> Verified:
    """Verify a network, a mapping or a compiled model with independent code; see `mapper verify`.

    Parameters
    ----------
    path : the object, or the path of its file or output folder
    network : network of a mapping, if it was moved
    threads, memory : as for `mapper.map_network`

    Raises
    ------
    CheckFailedError
        If something is wrong; the message names it.
    UsageError
        If an argument is invalid.
    MapperError
        Base of all, also for paths that cannot be read.
    """
    from mapper.jobs.verify import VerifyRequest, verify_path
    from mapper.monitoring.resources import memory_budget

    check_arguments(threads=threads, memory=memory)
    effort = effort_of(threads, memory)
    moved = None if network is None else path_of_network(network, "network")
    with as_argument_errors(), memory_budget(effort.memory), path_of_source(path) as found:
        return verify_path(VerifyRequest(found, moved, effort.threads), NotesListener())
