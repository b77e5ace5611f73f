"""Macro nodes: fused operators that a core computes tile by tile, from memory to memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from mapper.compiler.ir.node import Conv, Node
from mapper.compiler.ir.tensor import Tensor


@dataclass(slots=True, eq=False)
class Macro:
    """Nodes that run in sequence on each tile; only the last result is stored.

    nodes : the first one is a convolution, or reads a feature map itself
    sign : node that packs the last result to bits, which are stored in addition; or None
    copies : additional destinations of the last result
    windows : im2col node that the window unit computes while loading, or None
    words : maximum streamed weight words per tile; None if all weights are in the core
    """

    nodes: list[Node]
    sign: Node | None = None
    copies: list[Tensor] = field(default_factory=list)
    words: int | None = None
    windows: Node | None = None

    @property
    def conv(self) -> Node | None:
        """The convolution that it starts with, or None."""
        return self.nodes[0] if isinstance(self.nodes[0].operator, Conv) else None

    @property
    def output(self) -> Tensor:
        return self.nodes[-1].output

    @property
    def outputs(self) -> list[Tensor]:
        """All stored results."""
        signs = [] if self.sign is None else [self.sign.output]
        return [self.output, *self.copies, *signs]

    @property
    def packs(self) -> bool:
        """True if it stores bits."""
        return any(tensor.type == "bits" for tensor in self.outputs)

    @property
    def inputs(self) -> list[Tensor]:
        """The feature maps that it reads from memory, starting with the input of its first node."""
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
    def bits(self) -> int:
        """Bits of the stored integers that it reads; of several maps the most."""
        return max(tensor.bits for tensor in self.inputs)

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the model nodes that it implements."""
        return tuple(dict.fromkeys(name for node in self.nodes for name in node.sources))

    @property
    def label(self) -> str:
        return self.nodes[0].label
