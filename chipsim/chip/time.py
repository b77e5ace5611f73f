"""Cycles of the parts of a tick, in cores and mesh: the table ``[time]`` of chip files.

A tick of a chip with a barrier lasts as long as its slowest part. Measurements on Loihi 2 and other
chips agree with max-affine bounds of this kind (arXiv 2601.10035, arXiv 2511.21549). A core updates
its neurons one by one while it sends packets, and adds the weights of the packets that arrive; a
link carries one flit at a time.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Annotated

import numpy as np
from msgspec import Meta

from chipsim.chip.tables import checked_table, entry_line, meanings
from chipsim.errors import ChipError

MOST_CYCLES = 1e9


def _cycles(of: str) -> Meta:
    return Meta(ge=0, le=MOST_CYCLES, description=f"cycles {of}")


@dataclass(frozen=True, slots=True)
class ChipTime:
    """Cycles of each part of a tick; raises `ChipError` naming a value out of range.

    Defaults are the cycles of the cores in ``hw/core``, which tests/hw/test_time.py checks.
    """

    neuron: Annotated[float, _cycles("per neuron update")] = 1.0
    event: Annotated[float, _cycles("per synaptic event (a spike that reaches a synapse)")] = 1.0
    packet_out: Annotated[float, _cycles("per packet sent by a core")] = 1.0
    packet_in: Annotated[float, _cycles("per packet received by a core, without its events")] = 0.0
    link: Annotated[float, _cycles("per flit on a link between routers")] = 1.0
    hop: Annotated[float, _cycles("per hop of a flit")] = 1.0
    spike: Annotated[
        float,
        _cycles(
            "from the update of a neuron to its first synaptic event in its own core, "
            "including update and event"
        ),
    ] = 14.0
    barrier: Annotated[
        float, _cycles("of overhead per tick: its start, and the barrier at its end")
    ] = 13.0

    tick: Annotated[
        float,
        Meta(gt=0, le=MOST_CYCLES,
             description="duration of a tick in the time unit of the firing rates, as 0.001 for "
             "rates in Hz and ticks of 1 ms"),
    ] = 1.0  # fmt: skip

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            value = value.item() if isinstance(value, np.generic) else value
            if type(value) not in (int, float) or not 0 <= value <= MOST_CYCLES:
                raise ChipError(
                    f"time: {field.name} is {value!r}; give cycles, a number from 0 to 1e9"
                )
            object.__setattr__(self, field.name, float(value))
        if not self.tick:
            raise ChipError("time: tick is 0; give the duration of a tick, above 0")
        if not any(cycles for name, cycles in asdict(self).items() if name != "tick"):
            raise ChipError("time: all values are 0 cycles; give at least one above 0")

    def to_json(self) -> dict[str, float]:
        """Return all fields; `time_from_table` is the inverse."""
        return asdict(self)


def time_from_table(values: object) -> ChipTime:
    """Return the times described by a table: parsed from a file or from `ChipTime.to_json`.

    Missing keys default to the cycles of the hardware in ``hw``. Raises `ChipError` naming the
    faulty key.
    """
    known = [field.name for field in fields(ChipTime)]
    return ChipTime(**checked_table("time", values, known, " with cycles, such as neuron = 1"))


def time_lines(time: ChipTime | None) -> list[str]:
    """Return the table as lines of TOML; without times, the defaults are commented out."""
    shown = asdict(time or ChipTime())
    lines = ["", "[time]" if time else "# [time]  # no cycles are cited; cores of hw/ take:"]
    for key, meaning in meanings(ChipTime).items():
        lines.append(entry_line(f"{key} = {shown[key]!r}", meaning, time is not None))
    return lines
