"""Import a core with one fault in its sources, next to the correct modules."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple, TypeVar

import pytest

import hw
from hw.errors import HwError

FOLDER = Path(str(hw.__file__)).parents[1]
Case = TypeVar("Case")


class Fault(NamedTuple):
    """A replacement of one piece of source text in a module.

    The piece must occur exactly once.

    module : its name below `package`
    shape : shape of a core that has the faulty part
    package : all of whose modules are imported again
    """

    module: str
    old: str
    new: str
    shape: str = "tiny"
    package: str = "hw.npu"

    @property
    def name(self) -> str:
        """Full name of the module."""
        return f"{self.package}.{self.module}"

    @property
    def path(self) -> Path:
        """Source file of the module."""
        return FOLDER.joinpath(*self.name.split(".")).with_suffix(".py")

    def source(self) -> str:
        """Return the faulty source; raise `ValueError` unless the piece occurs exactly once."""
        text = self.path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.path}: {text.count(self.old)} times {self.old!r}")
        return text.replace(self.old, self.new)


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self.text, self.path, "exec")
        return code


class _Finder(MetaPathFinder):
    def __init__(self, fault: Fault) -> None:
        self.name = fault.name
        self.loader = _Loader(self.name, str(fault.path), fault.source())

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_loader(fullname, self.loader) if fullname == self.name else None


@contextmanager
def imported(fault: Fault, module: str) -> Iterator[Any]:
    """Import a module that uses the faulty hardware, together with all of its package.

    Modules that were imported before stay unchanged.
    """
    finder = _Finder(fault)

    def mine() -> list[str]:
        inside = f"{fault.package}."
        return [name for name in sys.modules if name == module or f"{name}.".startswith(inside)]

    kept = {name: sys.modules.pop(name) for name in mine()}
    sys.meta_path.insert(0, finder)
    try:
        yield importlib.import_module(module)
    finally:
        sys.meta_path.remove(finder)
        for name in mine():
            del sys.modules[name]
        sys.modules.update(kept)
        for name, each in kept.items():  # packages hold their modules as attributes
            package, _, own = name.rpartition(".")
            setattr(sys.modules[package], own, each)


def each_fault(faults: Sequence[Fault]) -> pytest.MarkDecorator:
    """Return the parameter `fault` of a test of all faults."""
    names = [f"{fault.module}-{number}" for number, fault in enumerate(faults)]
    return pytest.mark.parametrize("fault", faults, ids=names)


def symptom(
    fault: Fault, bench: str, shape: Any, cases: Iterable[Case],
    difference: Callable[[Any, Case], str | None],
) -> str | None:  # fmt: skip
    """Return the first symptom of a fault; None without one.

    bench : module with a `CoreBench`; shape : of its core
    difference : function of the bench and a case that returns a difference, or raises an error
    """
    with imported(fault, bench) as module:
        core = module.CoreBench(shape)
    for number, case in enumerate(cases):
        try:
            found = difference(core, case)
        except (AssertionError, IndexError, HwError) as error:  # it hangs, or raises an error
            return f"case {number}: {error!r}"
        if found is not None:
            return found
    return None
