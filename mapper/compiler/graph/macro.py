"""Macro nodes: what a core computes at one go, from maps in memory to a map in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from mapper.compiler.graph.node import Conv, Node
from mapper.compiler.graph.tensor import Tensor


@dataclass(slots=True, eq=False)
class Macro:
    """Nodes that run one behind the other on each tile; only the last result is stored.

    nodes : the first one is a convolution, or takes a map itself
    sign : a node that makes bits of the last result, which are stored beside it; or None
    copies : where the last result is stored as well
    windows : what the window unit makes for the first node as it loads, or None
    words : weight words of the host that a tile may take at once; None if all are there
    """

    nodes: list[Node]
    sign: Node | None = None
    copies: list[Tensor] = field(default_factory=list)
    words: int | None = None
    windows: Node | None = None

    @property
    def conv(self) -> Node | None:
        """The convolution that it begins with, if it does."""
        return self.nodes[0] if isinstance(self.nodes[0].operator, Conv) else None

    @property
    def output(self) -> Tensor:
        return self.nodes[-1].output

    @property
    def outputs(self) -> list[Tensor]:
        """All that it stores."""
        signs = [] if self.sign is None else [self.sign.output]
        return [self.output, *self.copies, *signs]

    @property
    def packs(self) -> bool:
        """Whether it makes bits."""
        return any(tensor.type == "bits" for tensor in self.outputs)

    @property
    def inputs(self) -> list[Tensor]:
        """The maps that it reads from memory; the first one is that of its first node."""
        made = {tensor for node in self.nodes for tensor in node.outputs}
        first = [] if self.windows is None else [self.windows]
        made |= {tensor for node in first for tensor in node.outputs}
        return [
            tensor
            for node in (*first, *self.nodes)
            for tensor in node.inputs
            if tensor.value is None and tensor not in made
        ]

    @property
    def sources(self) -> tuple[str, ...]:
        """The nodes of the model that it does the work of."""
        return tuple(dict.fromkeys(name for node in self.nodes for name in node.sources))

    @property
    def label(self) -> str:
        return self.nodes[0].label
