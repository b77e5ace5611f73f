"""Equal components as one module.

Amaranth elaborates every component anew: a mesh of 64x64 would be 4,096 routers of five buffers
and five arbiters each, written out one by one. Converted with a `SharedModules` as its platform,
a design has instances of modules by name instead, and each of those is converted once
(`hw.flow.netlist`). Simulation does without, since it can't look into instances.

A component takes part if it has a ``module_name`` and ``module_parameters`` (a tuple; equal ones
make equal logic), and its ``elaborate`` is decorated by `shared`. It must work in the clock domain
``sync``, or have ``clocked = False`` if nothing in it is registered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from amaranth.hdl import ClockSignal, Instance, ResetSignal, Value
from amaranth.lib.wiring import In

Elaborate = Callable[[Any, Any], Any]


def shared(elaborate: Elaborate) -> Elaborate:
    """Decorates ``elaborate``: an instance where the platform shares modules, else the logic."""

    @functools.wraps(elaborate)
    def wrapper(self: Any, platform: Any) -> Any:
        if isinstance(platform, SharedModules) and platform.definition is not self:
            return platform.instance(self)
        return elaborate(self, platform)

    return wrapper


class SharedModules:
    """Platform that collects the components that a design has instances of.

    top : name of the design's own module, which no other may have
    definition : the component whose own logic is being converted, never an instance
    waiting : (module's name, component) pairs that are named by instances but not yet converted
    """

    def __init__(self, top: str) -> None:
        self.top = top
        self.definition: Any = None
        self.waiting: list[tuple[str, Any]] = []
        self._names: dict[Any, str] = {}

    def instance(self, component: Any) -> Instance:
        """An instance of the module of ``component``, which is put on the list when it is new."""
        key = (type(component), component.module_parameters)
        if key not in self._names:
            name, taken = component.module_name, {self.top, *self._names.values()}
            if name in taken:  # the same kind with other parameters
                name = next(n for i in range(2, 10**6) if (n := f"{name}_{i}") not in taken)
            self._names[key] = name
            self.waiting.append((name, component))
        ports: dict[str, Any] = {}
        if getattr(component, "clocked", True):
            ports = {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
        for path, member, value in component.signature.flatten(component):
            kind = "i" if member.flow == In else "o"
            ports[f"{kind}_{'__'.join(map(str, path))}"] = Value.cast(value)
        return Instance(self._names[key], **ports)
