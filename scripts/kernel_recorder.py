"""Record the kernels called from Python, with their argument types.

As a pytest plugin (`-p kernel_recorder`), each test process writes its kernels to the folder
KERNEL_RECORDS.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

from mapper.kernels import types as kernel_types
from mapper.kernels.parallel_compilation import PACKAGES

Calls = set[tuple[str, str]]


class Recorder:
    """Recorder of kernel calls from Python: the first call of each type after `fresh`."""

    def __init__(self, *, strict: bool = True) -> None:
        """strict : raise `TypeError` for argument types that a table cannot name, else skip the
        call
        """
        self.calls: Calls = set()
        self.all: Calls = set()
        call = Dispatcher._compile_for_args

        def noted(kernel: Dispatcher, *arguments: object, **named: object) -> object:
            try:
                self._note(kernel, arguments, named)
            except TypeError:
                if strict:
                    raise
            return call(kernel, *arguments, **named)

        Dispatcher._compile_for_args = noted

    def _note(
        self, kernel: Dispatcher, arguments: tuple[object, ...], named: dict[str, object]
    ) -> None:
        name = f"{kernel.py_func.__module__}.{kernel.py_func.__name__}"
        if not name.startswith(PACKAGES):
            return
        if named:
            raise TypeError(f"{name}: pass all arguments by position")
        types = map(kernel_types.name_of, map(kernel.typeof_pyval, arguments))
        self.calls.add((name, " ".join(types)))

    def fresh(self) -> None:
        """Unload the compiled kernels of this process; numba loads them from its cache again."""
        self.calls = set()
        for kernel in _loaded():
            kernel._reset_overloads()
            kernel._cache_misses.clear()

    def missed(self) -> bool:
        """Whether a kernel was compiled since `fresh`: then calls between kernels were not
        recorded.
        """
        return any(kernel._cache_misses for kernel in _loaded())


def _loaded() -> list[Dispatcher]:
    """Return all kernels of the imported packages."""
    return [
        value
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in PACKAGES
        for value in list(vars(module).values())
        if isinstance(value, Dispatcher)
    ]


def by_name(calls: Calls) -> dict[str, list[str]]:
    """Return the signatures of each kernel."""
    found: dict[str, list[str]] = {}
    for name, types in sorted(calls):
        found.setdefault(name, []).append(types)
    return found


# The plugin


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RECORDER] = Recorder(strict=False)


def pytest_unconfigure(config: pytest.Config) -> None:
    path = Path(os.environ["KERNEL_RECORDS"], f"{os.getpid()}.json")
    path.write_text(json.dumps(sorted(config.stash[RECORDER].calls)))


RECORDER = pytest.StashKey[Recorder]()
