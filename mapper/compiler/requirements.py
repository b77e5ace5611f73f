"""Hardware requirements of a compilation."""

from __future__ import annotations

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from mapper.compiler.ir.graph import Graph
from mapper.compiler.settings import CompileSettings
from mapper.errors import MapperError, UsageError


def require_core(shape: NpuShape, settings: CompileSettings) -> None:
    """Raise `UsageError` for options that a core cannot have, with the presets that have its unit.

    Raises `MapperError` for a core that programs cannot use.
    """
    if shape.rows != shape.columns:
        raise MapperError(
            f"npu {shape.name}: {shape.rows} rows and {shape.columns} columns; programs need "
            "equal numbers, because results of one layer are vectors of the next"
        )
    if settings.few_channels == "core" and not shape.filters:
        names = ", ".join(name for name, one in NPU_SHAPES.items() if one.filters)
        raise UsageError(
            f"--few-channels core needs a window unit, which {shape.name} does not have; use "
            f"auto or host, or --npu with one of {names}"
        )
    if settings.bits == 16:
        require_dual(shape, "--bits 16", UsageError)
    if settings.dual in ("pixels", "kernels"):
        require_dual(shape, f"--dual {settings.dual}", UsageError)


def require_bits(graph: Graph, shape: NpuShape) -> None:
    """Raise `MapperError` that names a map of 16 bits on a core without a dual multiplier."""
    for tensor in graph.tensors():
        if tensor.type == "int16":
            require_dual(shape, f"{tensor.name!r} is stored in 16 bits, and")


def require_dual(shape: NpuShape, what: str, error: type[MapperError] = MapperError) -> None:
    """Raise an error if a core has no multiplier of 16 bits."""
    if shape.multiplier != "dual":
        names = ", ".join(name for name, one in NPU_SHAPES.items() if one.multiplier == "dual")
        raise error(
            f"{what} needs a core with a dual multiplier, which {shape.name} does not have; "
            f"use --npu with one of {names}"
        )
