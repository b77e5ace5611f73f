"""Plugins: objects that other installed packages add to the registries of this project.

A package declares them as entry points, in four groups:

    [project.entry-points."mapper.formats"]
    pairs = "mapper_example.pairs:PAIRS"

The name of an entry point is the name of the object in its registry. Built-in objects are found
first; entry points are read only for names and files that no built-in object has.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from itertools import groupby
from typing import NamedTuple, TypeVar

from storage.errors import StorageError, StorageWarning, reason_of

FORMATS = "mapper.formats"
PLACERS = "mapper.placers"
CHIPS = "mapper.chips"
EXPORTS = "mapper.exports"
KINDS = {FORMATS: "format", PLACERS: "placer", CHIPS: "chip", EXPORTS: "export"}
"""Groups of entry points, and the word for an object of each."""
_OWN = ("mapper", "storage", "chipsim", "hw")

T = TypeVar("T")


class PluginError(StorageError):
    """An object of another package cannot be loaded or used; the message names the package."""


class Plugin(NamedTuple):
    """An entry point of an installed package.

    group : one of `KINDS`
    package : name and version
    """

    group: str
    name: str
    package: str
    entry: EntryPoint

    @property
    def kind(self) -> str:
        return KINDS[self.group]

    def __str__(self) -> str:
        return f"{self.kind} {self.name} of the package {self.package}"

    def load(self, kind: type[T]) -> T:
        """Return the object; raise `PluginError` if it cannot be imported or is of another type."""
        try:
            found = self.entry.load()
        except Exception as error:
            raise self.error(
                f"cannot be loaded: {type(error).__name__}: {reason_of(error)}"
            ) from error
        if not isinstance(found, kind):
            raise self.error(wrong_type(found, kind.__qualname__))
        return found

    def error(self, fault: str) -> PluginError:
        """Return an error on this plugin."""
        return PluginError(f"{self} {fault}; update or uninstall {self.package.partition(' ')[0]}")


def plugins_of(group: str) -> list[Plugin]:
    """Return the entry points of a group, sorted by name and package; imports nothing."""
    found = [
        Plugin(group, entry.name, f"{entry.dist.name} {entry.dist.version}", entry)
        for entry in entry_points(group=group)
        if entry.dist is not None
    ]
    return sorted(found, key=lambda plugin: (plugin.name, plugin.package))


def names_of(group: str) -> list[str]:
    """Return the names that other packages add to a group, sorted; imports nothing."""
    return list(dict.fromkeys(plugin.name for plugin in plugins_of(group)))


def known_names(group: str, built_in: Iterable[str]) -> str:
    """Return the names of built-in objects and of those that other packages add, for a message."""
    return ", ".join(dict.fromkeys((*built_in, *names_of(group))))


def find_plugin(group: str, name: str) -> Plugin | None:
    """Return the entry point of a name; raise `PluginError` if two packages add it."""
    found = [plugin for plugin in plugins_of(group) if plugin.name == name]
    if len(found) > 1:
        raise _ambiguous(found)
    return found[0] if found else None


def usable_plugins(group: str) -> Iterator[Plugin]:
    """Yield the entry points of a group; a name that two packages add is reported as a warning."""
    for _, same in groupby(plugins_of(group), key=lambda plugin: plugin.name):
        found = list(same)
        with skipping():
            if len(found) > 1:
                raise _ambiguous(found)
            yield found[0]


def _ambiguous(found: list[Plugin]) -> PluginError:
    packages = " and ".join(plugin.package for plugin in found)
    first = found[0]
    return PluginError(f"{first.kind} {first.name}: {packages} both add it; uninstall one of them")


def wrong_type(found: object, wanted: str) -> str:
    """Return the fault of an object of another type."""
    return f"is of the type {type(found).__qualname__}, not {wanted}"


@contextmanager
def skipping() -> Iterator[None]:
    """Report a plugin that cannot be used as a warning, and continue with the others."""
    try:
        yield
    except PluginError as error:
        warnings.warn(str(error), StorageWarning, stacklevel=3)


@contextmanager
def blaming(package: str, what: str) -> Iterator[None]:
    """Convert unexpected errors in the code of another package to a `PluginError`.

    package : name and version, "" for code of this project, whose errors are left alone
    what : the object, such as "format pairs"
    """
    try:
        yield
    except (OSError, MemoryError):
        raise  # reported with the file, or with the memory
    except Exception as error:
        if not package or type(error).__module__.partition(".")[0] in _OWN:
            raise
        raise PluginError(
            f"{what} of the package {package} failed: {type(error).__name__}: {reason_of(error)}; "
            f"report it to the authors of {package.partition(' ')[0]}"
        ) from error
