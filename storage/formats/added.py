"""Formats of networks that other packages add, as entry points `mapper.formats`.

The object of an entry point is a `FileFormat`. A built-in format of the same name has precedence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from storage.formats.base import Exporter, FileFormat, Importer
from storage.plugins import FORMATS, Plugin, find_plugin, skipping, usable_plugins, wrong_type


def find_reader(name: str) -> Importer | None:
    """Return the reader of a format that another package adds; None if there is none.

    Raises `PluginError` if the package is broken.
    """
    plugin = find_plugin(FORMATS, name)
    return None if plugin is None else file_format(plugin).reader


def find_writer(name: str) -> Exporter | None:
    """Return the writer of a format that another package adds; see `find_reader`."""
    plugin = find_plugin(FORMATS, name)
    return None if plugin is None else file_format(plugin).writer


def added_formats() -> Iterator[FileFormat]:
    """Yield the formats of other packages by name; broken ones are reported as warnings."""
    for plugin in usable_plugins(FORMATS):
        with skipping():
            yield file_format(plugin)


def file_format(plugin: Plugin) -> FileFormat:
    """Return the format of an entry point; raise `PluginError` if it is not one."""
    found = plugin.load(FileFormat)
    reader, writer = found
    if reader is not None:
        _check(plugin, reader, Importer)
        reader = replace(reader, package=plugin.package)
    if writer is not None:
        _check(plugin, writer, Exporter)
        writer = replace(writer, package=plugin.package)
    if reader is None and writer is None:
        raise plugin.error("has neither a reader nor a writer")
    return FileFormat(reader, writer)


def _check(plugin: Plugin, part: Importer | Exporter, kind: type[Importer | Exporter]) -> None:
    """Raise `PluginError` for a part that the commands cannot show or choose."""
    if not isinstance(part, kind):
        raise plugin.error(f"has a part that {wrong_type(part, kind.__qualname__)}")
    if part.name != plugin.name:
        raise plugin.error(f"has the name {part.name!r} instead of {plugin.name!r}")
    fault = fault_of_extensions(part.extensions)
    if fault:
        raise plugin.error(fault)


def fault_of_extensions(extensions: tuple[str, ...]) -> str:
    """Return why these are not extensions of file names, "" if they are."""
    if not isinstance(extensions, tuple) or not extensions:
        return "has no tuple of extensions"
    wrong = [one for one in extensions if not _is_extension(one)]
    return f"has the extension {wrong[0]!r}, which is not like '.abc'" if wrong else ""


def _is_extension(text: object) -> bool:
    return isinstance(text, str) and text[:1] == "." and len(text) > 1 and text == text.lower()
