"""`chips` lists the chips that are known by name; `hw` generates the hardware of one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from mapper.errors import UsageError, as_argument_errors, shown
from mapper.inputs.listener import NotesListener

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from mapper.api.types import ChipLike
    from mapper.jobs.hardware import Hardware

SIDES = ("north", "east", "south", "west")


class CoreSizes(TypedDict, total=False):
    """Sizes of a core of the hardware; omitted ones follow from the limits of the chip."""

    neurons: int
    routes: int
    synapses: int
    profiles: int
    delay_slots: int
    state_bits: int
    decay_bits: int
    weight_bits: int
    sum_bits: int
    shift_bits: int
    refractory_bits: int


def chips() -> dict[str, Chip]:
    """Return the presets by name, with all limits, costs and sources, as `mapper chips` shows them.

    Chips of other packages are included; one that cannot be loaded is reported as a warning.

    A chip with other numbers: ``dataclasses.replace(mapper.chips()["loihi"], neurons=512)``.
    """
    from mapper.inputs.chips import named_chips

    return named_chips()


def hw(
    chip: ChipLike | None = None,
    *,
    npu: str | os.PathLike[str] | None = None,
    depth: int | None = None,
    axon_bits: int | None = None,
    mesh_only: bool = False,
    borders: Sequence[Literal["north", "east", "south", "west"]] = (),
    machine: ChipLike | None = None,
    host_output: bool = False,
    verilog: str | os.PathLike[str] | None = None,
    stats: bool = False,
    keep_multipliers: bool = False,
    **sizes: Unpack[CoreSizes],
) -> Hardware:
    """Generate the hardware of a chip: sizes, Verilog and cell counts, as `mapper hw` does.

    Parameters
    ----------
    chip : as for `mapper.map_network`; with `npu` a mesh of NPUs
    npu : NPU of a preset, or of the table [npu] of a chip file
    depth : packets per router input buffer; default: 4
    axon_bits : bits per axon number in a packet; default: from the chip, or 10
    mesh_only : generate the routers without cores
    borders : sides with ports to other chips
    machine : chip with the size of all joined chips; default: `chip`
    host_output : add a port for packets to the host, below column 0
    verilog : Verilog file to write; needs Yosys (pip install "neuromapper[hw]")
    stats : count the cells of each module; needs Yosys
    keep_multipliers : with `stats`, exclude the gates of multipliers
    sizes : of a core: `neurons`, `synapses`, `weight_bits`, ...; default: from the chip

    Raises
    ------
    DoesNotFitError
        If a shape can be simulated but not built.
    UsageError
        If an argument is invalid.
    MapperError
        If a chip cannot be read, a size is not supported, or Yosys is missing.
    """
    from mapper.inputs.chips import given_chip, named_npu
    from mapper.jobs.hardware import Hardware, HardwareRequest, hardware

    depth, axon_bits = _count("depth", depth), _count("axon_bits", axon_bits)
    for name in sizes:
        if name not in CoreSizes.__annotations__:
            known = ", ".join(CoreSizes.__annotations__)
            raise UsageError(f"{name} is not a size of a core; there are {known}")
    listed = isinstance(borders, Sequence) and not isinstance(borders, str)
    if not listed or any(side not in SIDES for side in borders):
        raise UsageError(f"borders is {shown(borders)}; give a list of {', '.join(SIDES)}")
    if npu is not None and not isinstance(npu, str | os.PathLike):
        raise UsageError(f"npu is {shown(npu)}; give the name of a preset, or a chip file")
    counts = {
        name: count for name, size in sizes.items() if (count := _count(name, size)) is not None
    }
    listener = NotesListener()
    with as_argument_errors():
        request = HardwareRequest(
            None if chip is None else given_chip(chip),
            None if npu is None else named_npu(os.fspath(npu)),
            depth, axon_bits, mesh_only, tuple(borders),
            None if machine is None else given_chip(machine), host_output,
            counts,
            None if verilog is None else Path(verilog), stats, keep_multipliers,
        )  # fmt: skip
        found = hardware(request, listener)
    return Hardware(found, tuple(listener.notes), request)


def _count(name: str, value: Any) -> int | None:
    """Return a whole number of 1 or more, or None; raise `UsageError` for other values."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if value is not None and (not whole or value < 1):
        raise UsageError(f"{name} is {shown(value)}; give a whole number of 1 or more")
    return None if value is None else int(value)
