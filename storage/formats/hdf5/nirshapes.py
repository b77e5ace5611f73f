"""Input and output shapes of the nodes of a NIR graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from storage.errors import BadInputError
from storage.formats.hdf5.nirgraph import POPULATIONS, NirNode
from storage.formats.layers.linear import Shape, WindowPositions, same_pads


def _alike(one: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether shapes agree apart from axes of length 1, which keep row-major order."""
    return [size for size in one if size != 1] == [size for size in other if size != 1]


def _spreads(one: Shape, other: Shape) -> bool:
    """Return whether an array of the first shape can be broadcast to the other."""
    axes = zip(reversed(one), reversed(other), strict=False)
    return len(one) <= len(other) and all(a in (1, b) for a, b in axes)


def _windows(node: NirNode, size: Shape, kernel: Shape) -> WindowPositions:
    """Return the windows of a Conv1d, Conv2d or pooling for the given input size."""
    axes = len(size)

    def numbers(name: str) -> Shape:
        found = node.whole(name)
        if len(found) not in (1, axes):
            raise node.fault(f"{name} has {len(found)} values for {axes} axes")
        return tuple(found * axes if len(found) == 1 else found)

    stride = numbers("stride")
    dilation = numbers("dilation") if node.has("dilation") else (1,) * axes
    padding = node.dataset("padding")[()]
    if not isinstance(padding, bytes):
        before = after = numbers("padding")
    elif padding == b"valid":
        before = after = (0,) * axes
    elif padding == b"same":
        if set(stride) != {1}:
            raise node.fault("padding 'same' needs a stride of 1")
        before, after = same_pads(size, kernel, stride, dilation)
    else:
        raise node.fault(
            f"padding is {padding.decode('utf-8', 'replace')!r}; use same, valid or sizes"
        )
    return WindowPositions(size, kernel, stride, dilation, before, after)


class Shapes:
    """Input and output shapes of nodes.

    before, stop : shape of each node's input and output, inferred in visiting order
    """

    def __init__(self, nodes: Sequence[NirNode], order: Sequence[int]) -> None:
        self._nodes = nodes
        self.before: dict[int, Shape] = {}
        self.stop: dict[int, Shape] = {}
        for number in order:
            node = nodes[number]
            known = [self.stop[other] for other in node.before if other in self.stop]
            try:
                found = self._of(node, known[0] if known else None)
            except BadInputError as error:
                prefix = "" if str(error).startswith("node ") else f"node {node.name!r}: "
                raise BadInputError(f"{prefix}{error}") from error
            self.before[number], self.stop[number] = found
        for number, node in enumerate(nodes):
            for other in node.before:
                if not _alike(self.stop[other], self.before[number]):
                    raise node.fault(
                        f"expects the shape {self.before[number]}, but "
                        f"its predecessor {nodes[other].name!r} outputs {self.stop[other]}"
                    )

    def windows(self, number: int) -> WindowPositions:
        """Return the windows of a convolution or pooling whose shapes are known."""
        node, size = self._nodes[number], self.before[number][1:]
        if node.kind.endswith("Pool2d"):
            return _windows(node, size, _kernel(node))
        return _windows(node, size, node.dataset("weight").shape[2:])

    def _of(self, node: NirNode, given: Shape | None) -> tuple[Shape, Shape]:
        """Return input and output shape; `given` is the output shape of a predecessor, if known."""
        if node.kind in POPULATIONS:
            shapes = [np.shape(node.array(name)) for name in POPULATIONS[node.kind]]
            shape = self._spread(node, shapes, given)
            return shape, shape
        if node.kind == "Input":
            shape = node.shape("shape")
            return shape, shape
        if node.kind in ("Linear", "Affine"):
            return self._of_matrix(node)
        if node.kind in ("Conv1d", "Conv2d"):
            return self._of_convolution(node, given)
        if node.kind in ("Scale", "Delay"):
            name = node.kind.lower()
            shape = self._spread(node, [node.array(name).shape], given)
            return shape, shape
        if node.kind == "Flatten" and given is None and node.has("input_type"):
            given = node.shape("input_type")
        if given is None and node.has("shape"):
            given = node.shape("shape")
        if given is None:
            raise node.fault("its input shape is unknown; store it in the file")
        if node.kind == "Flatten":
            return given, _flattened(node, given)
        if node.kind.endswith("Pool2d"):
            if len(given) != 3:
                raise node.fault(f"its input shape is {given}; it must be channels, height, width")
            return given, (given[0], *_windows(node, given[1:], _kernel(node)).count)
        return given, given

    def _spread(
        self, node: NirNode, shapes: Sequence[tuple[int, ...]], given: Shape | None
    ) -> tuple[int, ...]:
        """Return the shape of parameters, which may be scalars or broadcast over the input."""
        try:
            own = np.broadcast_shapes(*shapes)
        except ValueError as error:
            raise node.fault(
                f"parameters of shapes {shapes} cannot be broadcast together"
            ) from error
        if 0 in own:
            raise node.fault("it has no elements")
        if given is None:
            if not own:
                raise node.fault("its parameters are scalars: its size is unknown")
            return own
        # mismatches are reported when all shapes are known
        return given if _alike(own, given) or _spreads(own, given) else own

    def _of_matrix(self, node: NirNode) -> tuple[Shape, Shape]:
        weight = node.dataset("weight").shape
        if len(weight) < 2 or 0 in weight:
            raise node.fault(f"weight has shape {weight}; it must be (outputs, inputs)")
        made = (*weight[:-2], weight[-2])
        if node.kind == "Affine":
            _check_bias(node, made)
        return (*weight[:-2], weight[-1]), made

    def _of_convolution(self, node: NirNode, given: Shape | None) -> tuple[Shape, Shape]:
        axes = int(node.kind[4])
        weight = node.dataset("weight").shape
        if len(weight) != axes + 2 or 0 in weight:
            raise node.fault(
                f"weight has shape {weight}; it must be (outputs, inputs, "
                f"{'length' if axes == 1 else 'height, width'})"
            )
        _check_bias(node, weight[:1])
        groups = node.whole("groups")[0] if node.has("groups") else 1
        if groups < 1 or weight[0] % groups:
            raise node.fault(f"{groups} groups do not divide {weight[0]} outputs")
        if node.has("input_shape"):
            size = node.shape("input_shape")
        elif given is not None and len(given) == axes + 1:
            size = given[1:]
        else:
            raise node.fault("input_shape is missing and cannot be inferred from its predecessors")
        if len(size) != axes:
            raise node.fault(f"input_shape is {size}; it must have {axes} axes")
        made = _windows(node, size, weight[2:]).count
        return (weight[1] * groups, *size), (weight[0], *made)


def _check_bias(node: NirNode, made: Shape) -> None:
    bias = node.dataset("bias").shape
    if len(bias) > 0 and bias != made:
        raise node.fault(f"bias has shape {bias}; for this weight it must be {made}")


def _kernel(node: NirNode) -> Shape:
    found = node.whole("kernel_size")
    if len(found) not in (1, 2):
        raise node.fault(f"kernel_size has {len(found)} values for 2 axes")
    return tuple(found * 2 if len(found) == 1 else found)


def _flattened(node: NirNode, given: Shape) -> Shape:
    axes = len(given)
    first, last = node.whole("start_dim")[0], node.whole("end_dim")[0]
    first, last = first + axes * (first < 0), last + axes * (last < 0)
    if not 0 <= first <= axes or not -1 <= last < axes:
        raise node.fault(f"start_dim {first} and end_dim {last} are outside the shape {given}")
    return (*given[:first], int(np.prod(given[first : last + 1])), *given[last + 1 :])
