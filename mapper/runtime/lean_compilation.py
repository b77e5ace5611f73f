"""Compiling kernels for numba's cache without what nobody needs there: a quarter of the work.

For processes that compile and call nothing.

- Kernels that only other kernels call, and numba's own functions, are linked into those: they get
  no machine code of their own, nothing that Python could call, and no place in the cache.
- numba asks again and again for the type of an operator between the same two numbers, and whether
  two sets of options are the same: it is answered at once.
- Functions that are declared only have nothing to optimise.

It reaches into numba, so it is for versions that have been tried; others compile as they do.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Collection
from typing import Any

TRIED = ("0.68",)  # versions of numba


def spare_work(roots: Collection[str]) -> bool:
    """From now on, compile so; returns whether this version of numba has been tried.

    roots : kernels that Python calls, "module.function"
    """
    import numba

    if numba.__version__.rpartition(".")[0] not in TRIED:
        return False
    _ask_options_once()
    _ask_operators_once()
    _skip_declarations()
    _skip_machine_code({root.rpartition(".")[2] for root in roots})
    return True


def spare_wrappers(packages: Collection[str], roots: Collection[str], lean: bool) -> None:
    """Leave out, of the kernels that are imported, what nobody calls.

    What makes them callable from C is a tenth of the work; lean : after `spare_work`, also what
    makes those callable from Python that it does not call.
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
    """Two sets of options are compared by what is set; numba asks for each of forty by its name."""
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
    config.__hash__ = lambda self: hash(type(self))  # numba's is of the options' names alone


def _ask_operators_once() -> None:
    """Operators between numbers have the types that they had the last time."""
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
    """Functions that are declared have nothing to optimise; numba prepares all passes for each."""
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
    """Only functions of these names, and what is numba's own, get machine code."""
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
        return [found].append  # numba wants a function of its own to know it by; it is not called

    library._finalize_final_module = finish_linked
    context.get_executable = executable_of
