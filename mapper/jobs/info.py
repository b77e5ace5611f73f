"""Describe the contents of a file or an output folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from storage.address import RemotePath

if TYPE_CHECKING:
    from mapper.inputs.listener import Listener
    from mapper.inputs.source import Effort


class FileInfo(NamedTuple):
    """Contents of a file or an output folder, returned by `mapper.info`.

    kind : "network"; "importable" (a file that `mapper.import_network` reads); "mapping";
        "compiled" or "spiking" (folders of compiled models); "program" or "records" (files of them)
    facts : counts and properties by name, as `mapper info --json` prints them
    """

    kind: str
    facts: dict[str, Any]

    def _facts(self) -> list[tuple[str, str]]:
        """Return the facts that are single values as pairs of name and text."""
        from mapper.results.tables import number

        single = (
            (name, value)
            for name, value in self.facts.items()
            if value is not None and not isinstance(value, dict | list | tuple)
        )
        return [("kind", self.kind), *((name, number(value)) for name, value in single)]

    def _repr_html_(self) -> str:
        from mapper.reporting.notebook import table_html

        return table_html(self._facts())


def info(path: Path, effort: Effort, listener: Listener) -> FileInfo:
    """Return the contents of a path.

    Raises `MapperError` if there is nothing that `mapper` knows, or it is damaged.
    """
    from mapper.results.output_folder import find_folder
    from storage.store.network import is_network_name
    from storage.store.sharded import is_sharded

    if find_folder(path).is_dir() and not is_sharded(path):
        return _folder(path)
    # object stores hold only networks
    if path.is_file() and not isinstance(path, RemotePath):
        from mapper.compiler.artifacts.contents import (
            is_program,
            is_records,
            program_contents,
            record_contents,
        )

        if is_program(path):
            return FileInfo("program", program_contents(path))
        if is_records(path):
            return FileInfo("records", record_contents(path))
    if is_network_name(path):
        return FileInfo("network", _network(path))
    return FileInfo("importable", _importable(path, effort, listener))


def _folder(path: Path) -> FileInfo:
    from mapper.compiler.artifacts.contents import folder_contents
    from mapper.compiler.artifacts.manifest import is_compiled
    from mapper.compiler.artifacts.manifest import read_folder as read_compiled
    from mapper.results.output_folder import read_folder
    from mapper.results.sealed_folder import as_damage
    from mapper.spiking.artifacts.folder import is_spiking

    if is_spiking(path):
        return FileInfo("spiking", _spiking(path))
    if is_compiled(path):
        with as_damage(path):
            return FileInfo("compiled", folder_contents(read_compiled(path)))
    return FileInfo("mapping", read_folder(path, lambda: _mapping(path)))


def _network(path: Path) -> dict[str, Any]:
    from storage.store.network import NetworkFile
    from storage.store.populations import read_populations
    from storage.store.traffic import traffic_of

    with NetworkFile(path) as network:
        meta, stored = network.meta, network.stored_bytes()
        found = {"path": str(path), **asdict(meta), "blocks": network.block_count}
        found["traffic"] = traffic_of(meta)
        read = read_populations(network)
        populations = {} if read is None else read.counts()
    found |= {
        "stored_bytes": stored,
        "bytes_per_connection": stored / max(1, meta.connections),
    }
    return found | ({"populations": populations} if populations else {})


def _importable(path: Path, effort: Effort, listener: Listener) -> dict[str, Any]:
    """Return the format of a file that import reads, and its counts if they are cheap."""
    from storage.formats import recognise
    from storage.formats.outline import outline

    importer = recognise(path)
    listener.compile(list(importer.kernels), effort.threads)
    found = outline(path, importer, effort.memory // 2)
    return {
        "path": str(path), "format": importer.name, "about": importer.about, **found._asdict(),
        "bytes": path.stat().st_size, "is_network": False,
    }  # fmt: skip


def _spiking(path: Path) -> dict[str, Any]:
    from msgspec import to_builtins

    from mapper.results.output_folder import read_folder
    from mapper.spiking.artifacts.folder import read_folder as read_spiking

    found: dict[str, Any] = to_builtins(read_folder(path, lambda: read_spiking(path)).manifest)
    return found


def _mapping(path: Path) -> dict[str, Any]:
    """Return the report of an output folder, and the graphs of its scratch."""
    from mapper.results.output import SCRATCH, read_report
    from storage.scratch.scratch import Scratch, ScratchGraph

    report, kept = read_report(path), []
    if (path / SCRATCH).is_dir():
        with Scratch(path / SCRATCH, read_only=True) as scratch:
            for name in sorted(scratch.names()):
                if name.endswith("/graph"):
                    graph = ScratchGraph(scratch, name.removesuffix("/graph"))
                    kept.append(
                        {
                            "name": name.removesuffix("/graph"),
                            "vertices": graph.vertices,
                            "connections": graph.connections // 2,
                            "blocks": graph.block_count,
                        }
                    )
    return {**report, "scratch": kept}
