"""Sizes of the mesh and the cores of a chip's hardware, from its limits and given sizes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from hw.core.shape import CoreShape

DEFAULT_AXON_BITS = 10
ROUTES_FOR_EACH = 8  # routes, and synapses, per neuron if the chip has no limit
SYNAPSES_FOR_EACH = 32
_MESH = ("x_bits", "y_bits")  # fields of `CoreShape` that belong to the mesh


def describe_mesh(
    chip: Chip, depth: int, axon_bits: int | None, addressed: tuple[int, int] | None = None
) -> dict[str, int]:
    """Return the sizes of the mesh of a chip; raise `UsageError` if they are not supported.

    addressed : columns and rows that packets can address; default: the chip's
    """
    from hw.errors import HwError
    from hw.noc.buffer import check_depth
    from hw.noc.mesh import mesh_layout
    from hw.noc.router import PORTS
    from mapper.errors import UsageError

    if axon_bits is None:
        axons = chip.axons_in
        axon_bits = DEFAULT_AXON_BITS if axons is None else max(1, (axons - 1).bit_length())
    try:
        mesh_layout(chip.width, chip.height, axon_bits)
        layout = mesh_layout(*(addressed or (chip.width, chip.height)), axon_bits)
        check_depth("mesh", depth)
    except HwError as error:  # all of these values come from the command line
        raise UsageError(str(error)) from error
    return {
        "routers": chip.cores,
        "links": chip.links,
        "packet_bits": layout.size,
        "x_bits": layout.x_bits,
        "y_bits": layout.y_bits,
        "axon_bits": layout.axon_bits,
        "buffer_depth": depth,
        "buffer_bits": chip.cores * len(PORTS) * depth * layout.size,
    }


def core_shape(chip: Chip, axon_bits: int, given: dict[str, int]) -> CoreShape:
    """Return the core shape of a chip: large enough for its limits, unless sizes are given."""
    from hw.chip import chip_shape
    from hw.core.shape import CoreShape
    from hw.errors import HwError
    from mapper.errors import UsageError

    def power(least: int) -> int:
        return 1 << max(1, (least - 1).bit_length())

    neurons = given.get("neurons") or power(chip.neurons)
    sizes = {
        "neurons": neurons,
        "axons": 1 << axon_bits,
        # the chip's axons_out excludes a neuron's route to its own core
        "routes": power(chip.axons_out + neurons if chip.axons_out else ROUTES_FOR_EACH * neurons),
        "synapses": power(chip.synapse_limit or SYNAPSES_FOR_EACH * neurons),
    }
    try:
        return chip_shape(chip.width, chip.height, CoreShape(**(sizes | given)))
    except HwError as error:
        raise UsageError(str(error)) from error


def describe_core(shape: CoreShape) -> dict[str, int]:
    """Return the sizes of a core."""
    from amaranth.hdl import Shape

    loaded = sum(Shape.cast(word).width * depth for word, depth in shape.memories.values())
    copies = 2 * shape.delay_slots * shape.neurons * shape.sum_bits  # a sum takes three words
    sizes = {name: value for name, value in asdict(shape).items() if name not in _MESH}
    return sizes | {"memory_bits": loaded + copies}
