"""Share one module between equal components.

Amaranth elaborates every component separately: a mesh of 64x64 would be 4,096 routers with five
buffers and five arbiters each, all written out. Converted with `SharedModules` as platform, a
design instantiates modules by name instead, and each module is converted once (`hw.flow.netlist`).
Simulation does not share modules, since it cannot see inside instances.

A component takes part if it has a ``module_name`` and ``module_parameters`` (a tuple; equal ones
give equal logic), and its ``elaborate`` is decorated by `shared`. It must work in the clock domain
``sync``, or have ``clocked = False`` if it has no registers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from amaranth.hdl import ClockSignal, Instance, ResetSignal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

Elaborate = Callable[[Any, Any], Any]


def shared(elaborate: Elaborate) -> Elaborate:
    """Decorate ``elaborate``: return an instance if the platform shares modules, else the logic."""

    @functools.wraps(elaborate)
    def wrapper(self: Any, platform: Any) -> Any:
        if isinstance(platform, SharedModules) and platform.definition is not self:
            return platform.instance(self)
        return elaborate(self, platform)

    return wrapper


class ShapedComponent(wiring.Component):
    """A shared component whose logic depends on its attribute `shape` alone."""

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """Key of the shared module."""
        me: Any = self
        return (me.shape,)


class SharedModules:
    """Platform that collects the components that a design instantiates.

    top : name of the design's top module, reserved
    definition : the component whose logic is being converted, never an instance
    waiting : (module name, component) pairs that are instantiated but not yet converted
    """

    def __init__(self, top: str) -> None:
        self.top = top
        self.definition: Any = None
        self.waiting: list[tuple[str, Any]] = []
        self._names: dict[Any, str] = {}

    def instance(self, component: Any) -> Instance:
        """Return an instance of the module of ``component``; queue a new module for conversion."""
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
