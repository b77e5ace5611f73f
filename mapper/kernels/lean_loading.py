"""Faster loading of compiled kernels: two thirds of the time.

numba stores a kernel as machine code and as bitcode. The bitcode is needed only if another kernel
that calls this one is compiled; numba parses it at once, and lists its symbols one by one.

It subclasses numba internals, so it applies only to tested versions; others load as usual.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from mapper.kernels.lean_compilation import is_tested

_PATCHED = Lock()


@contextmanager
def lean_loading() -> Iterator[None]:
    """Leave the bitcode of kernels that are loaded here unparsed until it is needed."""
    if not is_tested():
        yield
        return
    from llvmlite.binding import parse_bitcode
    from numba.core.codegen import JITCodeLibrary

    library: Any = JITCodeLibrary

    class Unparsed(library):  # type: ignore[misc]
        """A library whose bitcode has not been parsed."""

        bitcode: bytes
        _shared_module: Any

        def _get_module_for_linking(self) -> Any:
            if self._shared_module is None:
                self._shared_module = parse_bitcode(self.bitcode)
                self._codegen._engine._load_defined_symbols(self._shared_module)
            return self._shared_module

        def get_pointer_to_function(self, name: str) -> int:
            address: int = self._codegen._engine.get_function_address(name)
            return address

    usual = library._unserialize

    def unserialise(codegen: Any, state: tuple[str, str, Any]) -> Any:
        name, form, data = state
        if form != "object":
            return usual(codegen, state)
        found = Unparsed(codegen, name)
        found.enable_object_caching()
        machine_code, found.bitcode = data
        found._set_compiled_object(machine_code)
        found._finalize_final_module()
        return found

    with _PATCHED:
        library._unserialize = staticmethod(unserialise)
        try:
            yield
        finally:
            del library._unserialize
