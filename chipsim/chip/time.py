"""What a tick costs the cores and the mesh, in cycles of the chip: the table ``[time]``.

A tick of a chip with a barrier lasts as long as its slowest part: max-affine bounds of this kind
are what measurements on Loihi 2 and others agree with (arXiv 2601.10035, arXiv 2511.21549). A core
updates its neurons one by one, sends packets meanwhile, and adds the weights of packets that
arrive; a link carries one flit after the other.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Annotated, get_args, get_type_hints

import numpy as np
from msgspec import Meta

from chipsim.errors import ChipError

MOST_CYCLES = 1e9


def _cycles(of: str) -> Meta:
    return Meta(ge=0, le=MOST_CYCLES, description=f"cycles {of}")


@dataclass(frozen=True, slots=True)
class ChipTime:
    """Cycles of each part of a tick; raises `ChipError` that names a value out of range.

    Without values those of the cores in ``hw/core``, which a test holds to them
    (tests/hw/test_time.py).
    """

    neuron: Annotated[float, _cycles("per neuron that a core updates")] = 1.0
    event: Annotated[
        float, _cycles("per synaptic event, that is a spike that reaches a synapse")
    ] = 1.0
    packet_out: Annotated[float, _cycles("per packet that a core sends")] = 1.0
    packet_in: Annotated[
        float, _cycles("per packet that a core takes, beside those of its events")
    ] = 0.0
    link: Annotated[float, _cycles("per flit on a link between routers")] = 1.0
    hop: Annotated[float, _cycles("of a flit's way from a router to the next")] = 1.0
    spike: Annotated[
        float,
        _cycles(
            "from the update of a neuron to its first synaptic event in its own core, the "
            "neuron's and the event's included"
        ),
    ] = 14.0
    barrier: Annotated[
        float, _cycles("of every tick beside all others: its start, and the barrier at its end")
    ] = 9.0

    tick: Annotated[
        float,
        Meta(gt=0, le=MOST_CYCLES,
             description="units of time of the firing rates that a tick lasts, as 0.001 for rates "
             "in Hz and ticks of a millisecond"),
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
            raise ChipError("time: tick is 0; give the units of time that a tick lasts, above 0")
        if not any(cycles for name, cycles in asdict(self).items() if name != "tick"):
            raise ChipError("time: all is 0 cycles; give one or more that take time")

    def to_json(self) -> dict[str, float]:
        """All fields; `time_from_table` undoes it."""
        return asdict(self)


@cache
def time_meanings() -> dict[str, str]:
    """What each key of the table is."""
    kinds = get_type_hints(ChipTime, include_extras=True)
    return {field: get_args(kind)[1].description for field, kind in kinds.items()}


def time_from_table(values: object) -> ChipTime:
    """The times that a table describes: a parsed file's, or what `ChipTime.to_json` gave.

    Keys that are left out are those of the hardware here. Raises `ChipError` that names the key.
    """
    if not isinstance(values, Mapping):
        raise ChipError(f"time is {values!r}; give a table [time] with cycles, such as neuron = 1")
    known = [field.name for field in fields(ChipTime)]
    for key in sorted(set(values) - set(known)):
        alike = difflib.get_close_matches(key, known, 1)
        meant = f"did you mean {alike[0]!r}? " if alike else ""
        raise ChipError(f"time: unknown key {key!r}; {meant}known are {', '.join(known)}")
    return ChipTime(**values)


def time_lines(time: ChipTime | None) -> list[str]:
    """The table as TOML; a chip without times has those of the hardware here as comments."""
    shown = asdict(time or ChipTime())
    lines = ["", "[time]" if time else "# [time]  # no cycles are cited; those of hw/ are:"]
    for key, meaning in time_meanings().items():
        lines.append(f"{'' if time else '# '}{f'{key} = {shown[key]!r}':<26}  # {meaning}")
    return lines
