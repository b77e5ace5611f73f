"""Cores as the memory plan reads them: of a chip, or the parts of a partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class CoreLimits(Protocol):
    """Number and limits of cores; a `Chip` is one. None: no such limit."""

    @property
    def neurons(self) -> int:
        """Sum of sizes per core, at most."""

    @property
    def cores(self) -> int: ...

    @property
    def usable_count(self) -> int: ...

    @property
    def axons_in(self) -> int | None: ...

    @property
    def out_limit(self) -> int | None: ...

    @property
    def synapse_limit(self) -> int | None: ...

    @property
    def shared_bits(self) -> int | None: ...

    @property
    def synapse_bits(self) -> int: ...

    @property
    def neuron_bits(self) -> int: ...

    @property
    def delivery(self) -> str: ...

    @property
    def routers(self) -> tuple[int, int]: ...

    @property
    def detoured(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class PartLimits:
    """Parts of a partition as cores without positions, which limit nothing but their weight.

    neurons : capacity, the largest weight of a part; cores : number of parts
    """

    neurons: int
    cores: int
    axons_in: None = None
    out_limit: None = None
    synapse_limit: None = None
    shared_bits: None = None
    synapse_bits: int = 0
    neuron_bits: int = 0
    delivery: str = "synapse"
    routers: tuple[int, int] = (0, 0)
    detoured: bool = False

    @property
    def usable_count(self) -> int:
        return self.cores
