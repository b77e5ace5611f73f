"""Set the shape of a model's input: fix open axes, and turn a fixed batch into one sample."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from mapper.compiler.frontend.batch import one_sample
from mapper.compiler.frontend.onnx import ModelSource
from mapper.errors import DoesNotFitError, MapperError
from storage.errors import BadInputError, MemoryShortError
from storage.formats.layers.onnxgraph import Model, library

Shapes = Mapping[str, Sequence[int]]
"""Sizes of all axes by input name; "" is the only input of a model."""


def source_of(path: Path, shapes: Shapes, computed: Collection[str], memory: int) -> ModelSource:
    """Return a model with its open axes fixed, for one sample.

    computed : operators that cores compute, for messages
    memory : bytes for the samples of a batch
    Raises `MapperError` for shapes that do not match the model, for open axes without a size, and
    for a batch whose samples a node mixes.
    """
    onnx = library(path)
    try:
        proto = onnx.load(str(path), load_external_data=False)
    except Exception:  # the reader reports damage
        return ModelSource(memory=memory)
    constants = {one.name for one in proto.graph.initializer}
    inputs = {one.name: one for one in proto.graph.input if one.name not in constants}
    try:
        require_one_input(inputs)
        _require_names(shapes, inputs)
        if len(inputs) != 1:
            return ModelSource(memory=memory)
        ((name, given),) = inputs.items()
        wanted = shapes.get(name, shapes.get(""))
        fixed = _fix(given, wanted)
        dims = given.type.tensor_type.shape.dim
        batch = dims[0].dim_value if len(dims) > 1 else 1
        if not fixed and batch <= 1:
            return ModelSource(memory=memory)
        shape = [one.dim_value for one in dims]
        proto = onnx.load(str(path))
        _set_shape(proto, name, shape)
        notes = []
        if batch > 1:
            Model(path, proto.SerializeToString())  # raises an error for damaged nodes
            proto = one_sample(proto, name, computed, memory)
            notes.append(f"input {name!r}: batch of {batch} compiled as 1")
        return ModelSource(_inferred(proto), notes, memory=memory)
    except MemoryShortError as error:
        raise DoesNotFitError(f"{path}: {error}") from error
    except (BadInputError, MapperError) as error:
        raise MapperError(f"{path}: {error}") from error


def require_one_input(names: Collection[str]) -> None:
    """Raise `MapperError` if a model has several inputs."""
    if len(names) > 1:
        listed = ", ".join(map(repr, names))
        raise MapperError(f"has {len(names)} inputs ({listed}); models may have one")


def _require_names(shapes: Shapes, inputs: Collection[str]) -> None:
    for name, sizes in shapes.items():
        if name and name not in inputs:
            known = ", ".join(map(repr, inputs)) or "none"
            raise MapperError(
                f"--input-shape {_text(sizes, name)}: no such input; the model has {known}"
            )


def _fix(given: Any, wanted: Sequence[int] | None) -> bool:
    """Set the sizes of an input's open axes; return whether any was open.

    Only the first axis may stay open, as the batch.
    """
    name, kind = given.name, given.type.WhichOneof("value")
    if kind != "tensor_type":
        word = str(kind).partition("_")[0]
        raise MapperError(f"input {name!r} is a {word}; only tensors are supported")
    if not given.type.tensor_type.HasField("shape"):
        if wanted is None:
            raise MapperError(f"input {name!r} has no shape; give one with --input-shape SIZES")
        for _ in wanted:
            given.type.tensor_type.shape.dim.add()
    dims = given.type.tensor_type.shape.dim
    if wanted is None:
        _require_fixed(name, dims)
        return False
    about = f"--input-shape {_text(wanted, name)}"
    if len(wanted) != len(dims):
        raise MapperError(f"{about}: input {name!r} has {len(dims)} axes, not {len(wanted)}")
    known: dict[str, int] = {}
    opened = False
    for axis, (dim, size) in enumerate(zip(dims, wanted, strict=True)):
        if _is_open(dim):
            if known.setdefault(dim.dim_param, size) != size and dim.dim_param:
                raise MapperError(
                    f"{about}: axes of input {name!r} named {dim.dim_param!r} have one size; they "
                    f"get {known[dim.dim_param]} and {size}"
                )
            opened = True
        elif dim.dim_value != size:
            raise MapperError(
                f"{about}: axis {axis} of input {name!r} has the fixed size {dim.dim_value}"
            )
    for dim, size in zip(dims, wanted, strict=True):
        dim.dim_value = size
    return opened


def _require_fixed(name: str, dims: Any) -> None:
    """Raise `MapperError` for an open axis that is not the batch."""
    loose = [axis for axis, dim in enumerate(dims) if axis and _is_open(dim)]
    if loose:
        axes = f"{'axis' if len(loose) == 1 else 'axes'} {' and '.join(map(str, loose))}"
        sizes = [1 if not axis else dim.dim_value for axis, dim in enumerate(dims)]
        words = ",".join("N" if axis in loose else str(n) for axis, n in enumerate(sizes))
        raise MapperError(
            f"input {name!r}: {axes} {'has' if len(loose) == 1 else 'have'} a dynamic size; give "
            f"sizes for N in --input-shape {name}={words}"
        )


def _is_open(dim: Any) -> bool:
    return not dim.HasField("dim_value") or dim.dim_value < 1


def _set_shape(proto: Any, name: str, shape: Sequence[int]) -> None:
    """Fix the shape of an input, and clear shapes inferred or declared for other sizes."""
    for one in proto.graph.input:
        if one.name == name:
            one.type.tensor_type.ClearField("shape")
            for size in shape:
                one.type.tensor_type.shape.dim.add().dim_value = size
    del proto.graph.value_info[:]
    for one in proto.graph.output:
        if one.type.HasField("tensor_type"):
            one.type.tensor_type.ClearField("shape")


def _inferred(proto: Any) -> bytes:
    """Return the serialised model with shapes inferred from its input."""
    from onnx import shape_inference

    try:
        found = shape_inference.infer_shapes(proto, data_prop=True)
    except Exception:  # the reader reports the node that does not match its inputs
        found = proto
    return bytes(found.SerializeToString(deterministic=True))


def _text(sizes: Sequence[int], name: str) -> str:
    return f"{name}={','.join(map(str, sizes))}"
