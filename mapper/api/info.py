"""`info`, `disassemble`, `runs` and the cache: contents of files, and finished runs."""

from __future__ import annotations

import os
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mapper.api.arguments import check_arguments, effort_of, path_of_source
from mapper.errors import UsageError, as_argument_errors, shown
from mapper.inputs.listener import Listener
from mapper.jobs.runs import LAST

if TYPE_CHECKING:
    from mapper.api.network import Network
    from mapper.compiler.artifacts.compiled_network import CompiledNetwork
    from mapper.jobs.info import FileInfo
    from mapper.jobs.runs import FinishedRuns
    from mapper.result import NetworkMapping
    from mapper.spiking.artifacts.compiled_model import CompiledModel

KINDS = ("run", "compile", "sweep")


def info(
    source: str | os.PathLike[str] | Network | NetworkMapping | CompiledModel | CompiledNetwork,
    *,
    memory: int | str | None = None,
) -> FileInfo:
    """Describe a file, an output folder or an object, as `mapper info` does.

    Parameters
    ----------
    source : a network file, or any file that `mapper.import_network` reads; the output folder of
        `mapper run` or `mapper compile`; a program of a core (.npc); macro records; or an object
        that a function of `mapper` returned for one of them
    memory : bytes, or a text such as "1GiB"; a file is counted only if its import needs less

    Raises
    ------
    UsageError
        If an argument is invalid.
    MapperError
        If the path does not exist, is of no known kind, or is damaged.
    """
    from mapper.jobs.info import FileInfo
    from mapper.jobs.info import info as describe
    from mapper.monitoring.resources import memory_budget
    from mapper.result import NetworkMapping

    check_arguments(memory=memory)
    effort = effort_of(None, memory)
    if isinstance(source, NetworkMapping):
        return FileInfo("mapping", {**source.to_json(), "scratch": []})
    with as_argument_errors(), memory_budget(effort.memory), path_of_source(source) as path:
        return describe(path, effort, Listener())


def disassemble(path: str | os.PathLike[str]) -> str:
    """Return the program of a core, or macro records, as text, as `mapper disassemble` does.

    Parameters
    ----------
    path : a program (.npc) or macros.bin in the folder of a compiled model

    Raises
    ------
    UsageError
        If the argument is not a path.
    MapperError
        If the file is of another kind, or is damaged.
    """
    from mapper.jobs.disassemble import disassembled

    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"path is {shown(path)}; give the path of a program or of macro records")
    with as_argument_errors():
        return str(disassembled(Path(path))["text"])


def runs(
    *,
    network: str | None = None,
    chip: str | None = None,
    kind: Literal["run", "compile", "sweep"] | None = None,
    best: str | None = None,
    last: int = LAST,
) -> FinishedRuns:
    """List finished runs, compilations and sweeps of the catalogue, as `mapper runs` does.

    Each command that ends with an output folder adds a row, and so do `NetworkMapping.save`,
    `mapper.sweep`, and `mapper.compile_model` with an `output`.

    Parameters
    ----------
    network, chip : only of this network or model, and on this chip; patterns such as
        "*cortex*" match several. A network matches by its path or the name of its file
    kind : only of this command: "run", "compile" or "sweep"
    best : lowest value of this figure first, such as "hops" or "cycles"; default: in order of time
    last : maximum number of rows

    Raises
    ------
    UsageError
        If an argument is invalid, or no row has the figure.
    MapperError
        If the catalogue cannot be read.
    """
    from mapper.jobs.runs import RunsQuery, find_runs

    for name, text in (("network", network), ("chip", chip), ("best", best)):
        if text is not None and not isinstance(text, str):
            raise UsageError(f"{name} is {shown(text)}; give a text")
    if kind is not None and kind not in KINDS:
        raise UsageError(f"kind is {shown(kind)}; give one of {', '.join(KINDS)}")
    if isinstance(last, bool) or not isinstance(last, Integral) or last < 1:
        raise UsageError(f"last is {shown(last)}; give a whole number of 1 or more")
    with as_argument_errors():
        return find_runs(RunsQuery(network, chip, kind, best, int(last)))


def cache_info() -> dict[str, Any]:
    """Return the folder, the size and the contents of the cache, as `mapper cache info` does.

    Raises `MapperError` if the cache cannot be read.
    """
    from mapper.jobs.cache import cache_contents

    with as_argument_errors():
        return cache_contents()


def clear_cache() -> dict[str, Any]:
    """Remove all results from the cache, as `mapper cache clear` does; return its old contents.

    Raises `MapperError` if they cannot be removed.
    """
    from mapper.jobs.cache import cache_contents

    with as_argument_errors():
        return cache_contents(clear=True)
