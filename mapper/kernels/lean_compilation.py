"""Faster compilation of kernels into numba's cache: a quarter of the work.

For processes that compile kernels but do not call them.

- Kernels called only by other kernels, and numba's own functions, are linked into their callers:
  they get no machine code, no Python wrapper, and no cache entry.
- numba resolves the type of an operator on the same two number types, and compares the same two
  sets of options, many times: these answers are cached.
- Functions that are only declared are not optimised.

It patches numba internals, so it applies only to tested versions; other versions compile as usual.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Collection
from typing import Any

TRIED = ("0.68",)  # tested versions of numba


def is_tested() -> bool:
    """Return whether this version of numba is tested."""
    import numba

    return numba.__version__.rpartition(".")[0] in TRIED


def spare_work(roots: Collection[str]) -> bool:
    """Enable fast compilation; return whether this version of numba is tested.

    roots : kernels that Python calls, "module.function"
    """
    if not is_tested():
        return False
    _ask_options_once()
    _ask_operators_once()
    _skip_declarations()
    _skip_machine_code({root.rpartition(".")[2] for root in roots})
    return True


def spare_wrappers(packages: Collection[str], roots: Collection[str], lean: bool) -> None:
    """Skip unused wrappers of the imported kernels.

    C wrappers are a tenth of the work. lean : after `spare_work`, also skip the Python wrappers of
        kernels that Python does not call
    """
    from numba.core.caching import NullCache
    from numba.core.dispatcher import Dispatcher

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in packages:
            continue
        kernels: list[Any] = [one for one in vars(module).values() if isinstance(one, Dispatcher)]
        for kernel in kernels:
            kernel.targetoptions["no_cfunc_wrapper"] = True
            function = kernel.py_func
            if lean and f"{function.__module__}.{function.__name__}" not in roots:
                kernel.targetoptions["no_cpython_wrapper"] = True
                kernel._cache = NullCache()


def _ask_options_once() -> None:
    """Compare option sets by their explicit values; numba looks up each of forty by name."""
    from numba.core.targetconfig import TargetConfig

    config: Any = TargetConfig
    defaults: dict[type, dict[str, Any]] = {}

    def values(self: Any) -> dict[str, Any]:
        kind = type(self)
        if kind not in defaults:
            defaults[kind] = {name: option.default for name, option in kind.options.items()}
        return {**defaults[kind], **self._values}

    def same(self: Any, other: Any) -> Any:
        if not isinstance(other, config):
            return NotImplemented
        return self._values == other._values or values(self) == values(other)

    config.values, config.__eq__ = values, same
    config.__hash__ = lambda self: hash(type(self))  # numba hashes only the names of the options


def _ask_operators_once() -> None:
    """Cache the types of operators on numbers."""
    from numba.core import types

    operators = {id(value) for value in vars(operator).values() if callable(value)}
    numbers = (types.Number, types.Boolean)
    kind: Any = types.Function
    ask = kind.get_call_type

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        known = id(self.typing_key) in operators and not kws
        if not (known and all(isinstance(argument, numbers) for argument in args)):
            return ask(self, context, args, kws)
        answers = self.__dict__.setdefault("_answers", {})
        found = answers.get((context, args))
        if found is None:
            found = answers[context, args] = ask(self, context, args, kws)
        return found

    kind.get_call_type = get_call_type


def _skip_declarations() -> None:
    """Optimise only defined functions; numba sets up all passes even for declarations."""
    from numba.core.codegen import CPUCodeLibrary

    def optimise(self: Any, module: Any) -> None:
        module.data_layout = self._codegen._data_layout
        for function in module.functions:
            if not function.is_declaration:
                passes, builder = self._codegen._function_pass_manager()
                passes.run(function, builder)

    library: Any = CPUCodeLibrary
    library._optimize_functions = optimise


def _skip_machine_code(names: Collection[str]) -> None:
    """Generate machine code only for functions with these names, and for numba's own."""
    from numba.core.codegen import CPUCodeLibrary
    from numba.core.cpu import CPUContext

    library: Any = CPUCodeLibrary
    context: Any = CPUContext
    finish, executable = library._finalize_final_module, context.get_executable

    def linked_only(self: Any) -> bool:
        return bool(self._object_caching_enabled) and self.name not in names

    def finish_linked(self: Any) -> None:
        if not linked_only(self):
            finish(self)
            return
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def executable_of(self: Any, found: Any, description: Any, environment: Any) -> Any:
        if not linked_only(found):
            return executable(self, found, description, environment)
        found._ensure_finalized()
        return [found].append  # numba needs a unique callable as identity; it is never called

    library._finalize_final_module = finish_linked
    context.get_executable = executable_of
