"""What a pass is: where it may change something, what that saves, and doing it.

A pass looks at sites: a node, or several that change together. At each site it says whether the
change is legal, what it gains, and makes it. What is applied is a line of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Node
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.passes.switches import SWITCHES

FewChannels = Literal["auto", "core", "host", "off"]
"""Who makes the windows of layers of few channels."""
Site = tuple[Node, ...]
"""Nodes that a pass looks at together; the log names the first one."""


class Taken(NamedTuple):
    """Cycles from the first instruction to the last; bytes loaded and stored."""

    cycles: int
    bytes: int


Trial = Callable[[Sequence[Node], Sequence[Tensor]], Taken | None]
"""What nodes take that make some results; None if they do not fit."""


@dataclass(slots=True)
class Context:
    """What passes are weighed by, and what they leave for later ones.

    shape : of the core
    trial : what nodes take on it; without one, passes that are weighed change nothing
    fits : whether all maps of a graph fit the feature memory
    few_channels : who makes windows; auto takes the way of the fewest cycles for each layer
    marked : by pass, nodes that keep their form, as those that share memory
    stored : maps that are in memory when a macro node runs, for the one that is made
    known : trials that need not be made again
    told : lines of the log about what was not applied
    cores : that share the layers
    """

    shape: NpuShape = field(default_factory=NpuShape)
    trial: Trial | None = None
    fits: Callable[[Graph], bool] = lambda _: True
    few_channels: FewChannels = "auto"
    marked: dict[str, set[Node]] = field(default_factory=dict)
    stored: set[Tensor] = field(default_factory=set)
    known: dict[Any, Any] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    cores: int = 1

    def mark(self, name: str, node: Node) -> None:
        self.marked.setdefault(name, set()).add(node)

    def is_marked(self, name: str, node: Node) -> bool:
        return node in self.marked.get(name, ())


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass; its switch is ``--no-NAME``.

    sites : of a graph, where there may be something to do
    legal : the reason why a site cannot be changed, None if it can
    gain : what the change saves, estimated if it is not `measured` by trials; None if that is not
        known
    apply : changes a site, and says how
    what, legal_if, applied_if, gains : in words, for the documentation
    weighed : whether it is applied only where it saves cycles
    """

    name: str
    sites: Callable[[Graph, Context], Iterable[Site]]
    legal: Callable[[Graph, Site, Context], str | None]
    gain: Callable[[Graph, Site, Context], Taken | None]
    apply: Callable[[Graph, Site, Context], str]
    what: str
    legal_if: str
    applied_if: str
    gains: str
    weighed: bool = False
    measured: bool = False

    @property
    def about(self) -> str:
        """What the command line says of it."""
        return SWITCHES[self.name]

    def line(self, what: str, gain: Taken | None) -> str:
        """The line of the log for a site."""
        return f"{self.name}: {what}{'' if gain is None else said(gain, self.measured)}"


def sweep(one: Pass, graph: Graph, context: Context) -> list[str]:
    """Apply a pass wherever it is legal and worth it, until nothing changes; returns the log."""
    told: list[str] = []
    changed = True
    while changed:
        changed = False
        for site in list(one.sites(graph, context)):
            here = set(graph.nodes)
            if not here.issuperset(site) or one.legal(graph, site, context) is not None:
                continue
            gain = one.gain(graph, site, context)
            if one.weighed and (gain is None or gain.cycles <= 0):
                continue
            told.append(one.line(one.apply(graph, site, context), gain))
            changed = True
    told += [f"{one.name}: {line}" for line in context.told]
    context.told.clear()
    return told


def said(gain: Taken, measured: bool) -> str:
    """Cycles and bytes in words; those that are not measured are told to be about right."""
    about = "" if measured else "about "
    words = [
        f"{abs(one):,} {what}{'s' * (abs(one) != 1)}"
        for one, what in zip(gain, ("cycle", "byte"), strict=True)
    ]
    if min(gain) >= 0:
        return f"; {about}{' and '.join(words)} less"
    ends = ["more" if one < 0 else "less" for one in gain]
    return f"; {about}{', '.join(map(' '.join, zip(words, ends, strict=True)))}"
