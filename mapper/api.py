"""Mapping from Python: `map_network` takes what people have in memory, or a file.

Nothing is printed, and every error is one of `mapper.errors`. Compiled kernels, SciPy and the
like are imported by the call, not before.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import ArrayLike

from mapper.errors import MapperError, UsageError

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from mapper.limits.constraints import WishFile
    from mapper.result import NetworkMapping
    from mapper.runtime.monitor import Monitor
    from mapper.settings import Settings
    from storage.store.network import NetworkFile

Progress: TypeAlias = Callable[[str, float], None]


def map_network(
    network: Any,
    chip: Any,
    *,
    preset: str = "default",
    objective: str | None = None,
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    neurons_per_core: int | None = None,
    synapses_per_core: int | None = None,
    axons_per_core: int | None = None,
    axons_out_per_core: int | None = None,
    constraints: str | os.PathLike[str] | None = None,
    split_neurons: bool = False,
    neurons: int | None = None,
    sizes: ArrayLike | None = None,
    rates: ArrayLike | str | None = None,
    columns: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    workdir: str | os.PathLike[str] | None = None,
    **method: Any,
) -> NetworkMapping:
    """Map a network onto a chip, as `mapper run` does; the same input gives the same mapping.

    Parameters
    ----------
    network : the path of a network file or of any file that `mapper import` reads; an open
        `storage.store.network.NetworkFile`; a square scipy.sparse matrix (entry (i, j) is a synapse
        from i to j); a tuple (source, target) or (source, target, weight) of arrays of shape
        (synapses,); a networkx graph (edge attribute `weight`, else 1); a nir.NIRGraph
    chip : "16x16", the name of a preset, the path of a TOML file, or a `Chip`
    preset : "fast", "default", "strong" or "classic"
    objective : "unicast", "cut" or "multicast"; None leaves it to the preset
    seed : the same seed gives the same mapping for any number of threads
    threads : None takes all cores of the processor
    memory : bytes, or a text as "1GiB"; None takes three quarters of what is free
    neurons_per_core, synapses_per_core, axons_per_core, axons_out_per_core : replace the limits
        of the chip
    constraints : path of a TOML file of neurons that are pinned or kept together
    split_neurons : spread the synapses of neurons that have more than a core holds over helpers
    neurons : of a tuple of arrays: number of neurons; None takes the largest id + 1
    sizes : of a network without a file: capacity that each neuron uses, whole numbers, shape
        (neurons,)
    rates : spikes of each neuron per unit of time, shape (neurons,), in the order of the network;
        or "uniform", every neuron fires at rate 1, as it is by default for NIR, ONNX and SONATA,
        which know no rates; or "weights", synapses carry the magnitude of their weights
    columns : of a table in a file, the names of those to use: `source`, `target`, `weight`,
        `source-population`, `target-population`, as in `mapper run --columns`
    progress : is called with the name of a stage and a fraction 0 .. 1 of its present pass; by
        any thread, but never twice at a time. What it raises ends the run and comes out here; but
        for `KeyboardInterrupt`, which is taken as Ctrl-C
    workdir : folder for temporary files; None takes the system's. A network that had no file takes
        space there, without a name, as long as its mapping is in use
    method : numbers that the preset would choose, by the names of `mapper.settings.Settings`

    Ctrl-C ends the run as soon as the kernel at work has ended. Once all neurons have cores within
    the limits, the best mapping so far is returned, and its `interrupted` is True; before,
    `KeyboardInterrupt` is raised and nothing is left behind.

    Raises
    ------
    DoesNotFitError
        If a limit of the chip cannot be kept.
    UsageError
        If an argument makes no sense.
    MapperError
        Base of both, for all other input that is wrong. A message is one line.
    """
    from mapper.cli import options as common
    from mapper.limits.constraints import WishFile
    from mapper.runtime.arguments import check_arguments
    from mapper.settings import preset as preset_of
    from storage.files import real_path

    check_arguments(
        preset=preset, objective=objective, seed=seed, threads=threads, memory=memory,
        constraints=constraints, split_neurons=split_neurons, neurons=neurons,
        columns=columns, progress=progress, workdir=workdir,
    )  # fmt: skip
    with as_mapper_errors():
        cores = _chip(chip).with_limits(
            neurons_per_core, synapses_per_core, axons_per_core, axons_out_per_core
        )
        effort = argparse.Namespace(threads=threads, memory=_bytes(memory))
        settings = preset_of(
            preset,
            **method | ({} if objective is None else {"objective": objective}),
            seed=seed,
            threads=common.threads_of(effort),
            memory_bytes=common.memory_of(effort),
        )
        wishes = None if constraints is None else WishFile.read(Path(constraints))
        tell = progress or _silent
        folder = Path(tempfile.mkdtemp(prefix="mapper-", dir=workdir))
        try:
            word = _rates_word(rates)
            extras = {"size": sizes, "rate": None if isinstance(rates, str) else rates}
            opened, nodes = _open(network, neurons, extras, word, columns, folder, settings, tell)
            with opened as original:
                mapping = _map(
                    original, cores, settings, folder, split_neurons, wishes, progress, nodes
                )
            if mapping._network is not None and isinstance(network, str | os.PathLike):
                mapping._report["network"]["imported_from"] = str(real_path(Path(network)))
            return mapping
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _map(
    original: NetworkFile,
    chip: Chip,
    settings: Settings,
    folder: Path,
    split: bool,
    wishes: WishFile | None,
    progress: Progress | None,
    nodes: Any,
) -> NetworkMapping:
    """Map an open network with everything made; `folder` is for what lies on disk meanwhile."""
    from mapper.cli.options import SPLIT, constraints_of
    from mapper.limits.relays import plan_helpers, write_split
    from mapper.pipeline import map_network as run
    from mapper.result import NetworkMapping
    from mapper.results.loads import Loads
    from mapper.results.output import LOG, SCRATCH, make_report
    from mapper.runtime.memory_plan import make_plan
    from mapper.runtime.monitor import Monitor
    from mapper.warmup import works_of_run
    from storage.scratch.nameless import NamelessFile
    from storage.scratch.scratch import Scratch
    from storage.store.network import ID, NetworkFile

    helpers = plan_helpers(original, chip, settings.threads) if split else None
    whole: NetworkFile = original
    if helpers is not None and helpers.count:
        write_split(original, helpers, folder / SPLIT, settings.memory_bytes // 4, settings.threads)
        whole = NetworkFile(folder / SPLIT)
    try:
        wished = constraints_of(wishes, chip, original, helpers)
        plan = make_plan(whole, chip, settings)
        works = works_of_run(settings, plan, chip, wished is not None)
        _compile(works, settings.threads, progress or _silent)
        monitor: Monitor
        with (
            Monitor(log=folder / LOG, watch=progress) as monitor,
            Scratch(folder / SCRATCH, lasting=False) as scratch,
        ):
            found = run(whole, chip, settings, scratch, monitor, wished)
            report = make_report(original, original.path, chip, settings, found, monitor, helpers)
    finally:
        if whole is not original:
            whole.close()
            (folder / SPLIT).unlink()
    shutil.rmtree(folder / SCRATCH)
    report["resources"]["resumed"] = False
    ours = original.path.parent == folder
    if ours:
        report["network"]["path"] = None
    if nodes is None and ID in original.meta.attributes:
        nodes = _called(original)
    return NetworkMapping(
        core=found.core[: original.vertices],
        chip=chip,
        settings=settings,
        metrics=report["metrics"],
        nodes=nodes,
        interrupted=bool(found.interrupted),
        _report=report,
        _loads=Loads.of(found.traffic),
        _log=(folder / LOG).read_text(encoding="utf-8"),
        _placed=found.core,
        _helpers=helpers,
        _constraints=None if wishes is None else wishes.raw,
        _network=NamelessFile(original.path) if ours else None,
    )


def _called(network: NetworkFile) -> Any:
    """What neurons were called in the file that a network is from, shape (neurons,).

    Ids that are not unique come with their populations, as pairs (population, id).
    """
    import numpy as np

    from storage.store.network import ID, POPULATION

    ids = network.attribute(ID)
    called = ids.stored if ids.labels is None else [ids.labels[i] for i in ids.stored.tolist()]
    if POPULATION not in network.meta.attributes or np.unique(ids.stored).size == ids.stored.size:
        return called
    population = network.attribute(POPULATION)
    labels = population.labels or []
    own = called if isinstance(called, list) else called.tolist()
    return [(labels[i], name) for i, name in zip(population.stored.tolist(), own, strict=True)]


def _open(
    network: Any,
    neurons: int | None,
    extras: dict[str, ArrayLike | None],
    word: str | None,
    columns: Mapping[str, str] | None,
    folder: Path,
    settings: Settings,
    tell: Progress,
) -> tuple[Any, Any]:
    """A context with the network file of whatever was given, and what its neurons were called.

    word : "uniform" or "weights", if that was given instead of rates
    """
    import numpy as np

    from mapper.cli.options import IMPORTED
    from storage.store.network import NetworkFile
    from storage.store.rates import write_rated, write_uniform
    from storage.store.traffic import UNIFORM

    if neurons is not None and not isinstance(network, tuple | list):
        raise UsageError("neurons is for a network of edge arrays only; leave it out")
    if columns is not None and not isinstance(network, str | os.PathLike):
        raise UsageError("columns are those of a table in a file; leave them out")
    if not isinstance(network, NetworkFile | str | os.PathLike) and not _is_nir(network):
        _compile(["generate"], settings.threads, tell)
        tell("import", 0.0)
        made = folder / (IMPORTED if word != UNIFORM else "unrated.bin")
        nodes = write_object(network, made, neurons, extras, settings)
        if word == UNIFORM:
            with NetworkFile(made) as plain:
                write_uniform(plain, folder / IMPORTED, settings.threads)
            made.unlink()
        tell("import", 1.0)
        return NetworkFile(folder / IMPORTED), nodes
    if extras["size"] is not None:
        raise UsageError("sizes are for a network without a file; leave them out")
    if extras["rate"] is None and word != UNIFORM:
        return _open_file(network, word, columns, folder / IMPORTED, settings, tell), None
    with _open_file(network, word, columns, folder / "unrated.bin", settings, tell) as plain:
        if word == UNIFORM:
            write_uniform(plain, folder / IMPORTED, settings.threads)
        else:
            rates = np.asarray(extras["rate"])
            write_rated(plain, folder / IMPORTED, rates, threads=settings.threads)
    return NetworkFile(folder / IMPORTED), None


def _rates_word(rates: ArrayLike | str | None) -> str | None:
    """The word that was given instead of rates, if it was one."""
    from storage.store.traffic import UNIFORM, WEIGHTS

    if not isinstance(rates, str):
        return None
    if rates not in (UNIFORM, WEIGHTS):
        raise UsageError(f'rates is {rates!r}; give an array of rates, "uniform" or "weights"')
    return rates


def _is_nir(network: Any) -> bool:
    nir = sys.modules.get("nir")  # whoever made such a graph has imported the package
    return nir is not None and isinstance(network, nir.NIRGraph)


def _open_file(
    network: Any,
    word: str | None,
    columns: Mapping[str, str] | None,
    imported: Path,
    settings: Settings,
    tell: Progress,
) -> Any:
    """A context with the network file that was given, or is made of the file or NIR graph."""
    from mapper.cli.options import is_network_name, require_weights
    from storage.formats import import_network, recognise
    from storage.formats.columns import name_columns
    from storage.store.network import NetworkFile

    if isinstance(network, NetworkFile):
        require_weights(word, network)
        return nullcontext(network)
    if _is_nir(network):
        from storage.formats.hdf5.nirfile import load_graph

        _compile(["import/nir"], settings.threads, tell)
        load_graph(
            network,
            imported,
            memory=settings.memory_bytes // 2,
            threads=settings.threads,
            progress=lambda fraction: tell("import", fraction),
            traffic=word,
        )
        return NetworkFile(imported)
    path = Path(network)
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; name a network file")
    if is_network_name(path):
        if columns is not None:
            raise UsageError(f"{path}: is a network file; columns are those of a table")
        opened = NetworkFile(path)
        try:
            require_weights(word, opened)
        except MapperError:
            opened.close()
            raise
        return opened
    try:
        chosen = None if columns is None else name_columns(columns)
    except ValueError as error:
        raise UsageError(f"columns: {error}") from error
    _compile([f"import/{recognise(path).name}"], settings.threads, tell)
    import_network(
        path,
        imported,
        memory=settings.memory_bytes // 2,
        threads=settings.threads,
        progress=lambda fraction: tell("import", fraction),
        traffic=word,
        extra={"columns": chosen},
    )
    return NetworkFile(imported)


def write_object(
    network: Any,
    path: Path,
    neurons: int | None,
    extras: dict[str, ArrayLike | None],
    settings: Settings,
) -> list[Any] | None:
    """Write edge arrays, a sparse matrix or a networkx graph as a network file.

    extras : attributes by name, or None for those not given

    Returns the nodes of a networkx graph in the order of their neurons, else None. Raises
    `UsageError` for what is none of these, or makes no network.
    """
    from storage.errors import BadInputError
    from storage.formats.objects import write_edges, write_matrix, write_networkx

    given: dict[str, Any] = {f"{name}s": values for name, values in extras.items()}
    given |= {"memory": settings.memory_bytes // 4, "threads": settings.threads}
    sparse, nx = sys.modules.get("scipy.sparse"), sys.modules.get("networkx")
    try:
        if nx is not None and isinstance(network, nx.Graph):
            write_networkx(path, network, **given)
            return list(network.nodes)
        if sparse is not None and sparse.issparse(network):
            write_matrix(path, network, **given)
            return None
        if isinstance(network, tuple | list) and len(network) in (2, 3):
            source, target, weight = (*network, None)[:3]
            write_edges(path, source, target, weight, neurons, **given)
            return None
    except BadInputError as error:
        raise UsageError(str(error)) from error
    kind = f"{type(network).__module__.partition('.')[0]}.{type(network).__qualname__}"
    raise UsageError(
        f"network is a {kind}; give a path, a NetworkFile, a scipy.sparse matrix, a "
        "tuple (source, target[, weight]) of arrays, a networkx graph, or a NIR graph"
    )


def _chip(chip: Any) -> Chip:
    from chipsim.chip.model import Chip
    from chipsim.chip.presets import parse_chip

    if isinstance(chip, Chip):
        return chip
    if isinstance(chip, str | os.PathLike):
        return parse_chip(os.fspath(chip))
    raise UsageError(f'chip is {chip!r}; give "16x16", a preset, the path of a .toml, or a Chip')


def _bytes(memory: int | str | None) -> int | None:
    from mapper.cli.options import parse_bytes

    try:
        return None if memory is None else parse_bytes(str(memory))
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"memory: {error}") from error


def _compile(works: list[str], threads: int, tell: Progress) -> None:
    """Compile what some kinds of work need where this installation never did."""
    from mapper.warmup import compile_kernels

    tell("compile kernels", 0.0)
    compile_kernels(works, threads, advance=lambda share: tell("compile kernels", share))
    tell("compile kernels", 1.0)


def _silent(stage: str, fraction: float) -> None:
    """The progress of nobody."""


@contextmanager
def as_mapper_errors() -> Iterator[None]:
    """Errors of files, networks and chips become a `MapperError` with the same line."""
    from chipsim.errors import ChipError
    from storage.errors import StorageError

    try:
        yield
    except (StorageError, ChipError) as error:
        raise MapperError(str(error)) from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise MapperError(f"{where}{error.strerror or error}") from error
