"""All constraints of a run, by item.

Neurons linked by a chain of constraints form one item, which is partitioned and moved as one; so do
all neurons pinned to the same core. Regions and keep-apart constraints divide the items into kinds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chipsim.chip.limits import BITS_OF_MEMORY, LIMITS
from chipsim.chip.model import Chip
from chipsim.chip.unlike import limit_of_cores
from mapper.errors import DoesNotFitError, MapperError
from mapper.limits.allocation import short_of_cores
from mapper.limits.capacity import without_lists
from mapper.limits.constraints import (
    AnyConstraint,
    ApartConstraint,
    Called,
    Constraint,
    ConstraintFile,
    RegionConstraint,
    constraints_in,
    numbered_neuron,
    population_of,
)
from mapper.limits.domains import Domains
from mapper.limits.enforce import Items
from mapper.limits.kinds import Kinds, Names, find_kinds, require_pins
from mapper.limits.use import BitCosts, Fans
from mapper.settings import Settings
from storage.arrays import Int32, Int64, Mask
from storage.store.network import NetworkFile
from storage.store.populations import called


@dataclass(frozen=True, slots=True)
class Constraints:
    """The combined constraints of a file.

    item : ndarray[int32], shape (neurons,), item of every neuron
    core : ndarray[int32], shape (items,), core that an item is pinned to, or -1
    name : names in errors, of items with several neurons or a core
    kinds : of the items; None without regions and keep-apart constraints
    """

    item: Int32
    core: Int32
    name: dict[int, str]
    kinds: Kinds | None = None

    @classmethod
    def none(cls, neurons: int) -> Constraints:
        """Return no constraints: every neuron is an item that may be everywhere."""
        return cls(np.arange(neurons, dtype=np.int32), np.full(neurons, -1, np.int32), {})

    @property
    def bytes(self) -> int:
        """Return the bytes of the kinds and their tables, which are held until the end of a run."""
        return 0 if self.kinds is None else self.kinds.bytes

    @property
    def restricts_cores(self) -> bool:
        """Return whether an item may not be on all cores, or not with all other items."""
        return self.kinds is not None or bool((self.core >= 0).any())

    @property
    def pinned(self) -> Mask:
        """Return the items that are pinned to a core."""
        return self.core >= 0

    def items(self) -> Items:
        """Return the items, all free to move."""
        return Items(self.item, np.zeros(self.core.size, np.bool_))

    def domains(self, place: Int32, cores: int) -> Domains | None:
        """Return domains in which every move keeps the constraints; None if all moves do.

        place : ndarray[int32], shape (items,), core of every item, within the constraints
        """
        if self.kinds is not None:
            return self.kinds.domains(place, self.pinned)
        return Domains.of_fixed(self.pinned, cores) if self.pinned.any() else None

    def require_fit(
        self, chip: Chip, sizes: Int64, fans: Fans, called: Called = numbered_neuron
    ) -> None:
        """Raise `DoesNotFitError` if an item exceeds a core, or kinds of items their cores.

        called : names of single neurons
        """
        items, chip = self.items(), without_lists(chip)
        limits = {
            LIMITS[0]: (sizes, "neurons"),
            LIMITS[1]: (fans.into, "synapse_limit"),
            BITS_OF_MEMORY: (BitCosts.on(chip).of(sizes, fans.into), "shared_bits"),
        }
        for name, (values, key) in limits.items():
            room = limit_of_cores(chip, key)
            if room is None:
                continue
            needed = items.total(values)
            self._require_pins(needed, room, name)
            limit = int(room[chip.usable].max())
            if needed.max(initial=0) > limit:
                worst = int(needed.argmax())
                short = f"a core holds {limit:,} ({needed[worst] - limit:,} short)"
                if worst not in self.name:
                    neuron = int(np.flatnonzero(self.item == worst)[0])
                    raise DoesNotFitError(
                        f"{called(neuron)} needs {needed[worst]:,} {name}; {short}; "
                        "use larger cores"
                    )
                raise DoesNotFitError(
                    f"{self.name[worst]}: needs {needed[worst]:,} {name} together; {short}; "
                    "keep fewer neurons together"
                )
            if self.kinds is not None:
                lack = short_of_cores(self.kinds, needed, room, name)
                if lack:
                    raise DoesNotFitError(lack)

    def _require_pins(self, needed: Int64, room: Int64, name: str) -> None:
        """Raise `DoesNotFitError` if pinned items exceed a core whose limit is lower than others.

        needed : shape (items,), use of a limit; room : shape (cores,), limit of each core
        """
        at = np.flatnonzero(self.pinned)
        over = needed[at] - room[self.core[at]]
        if over.max(initial=0) > 0 and room.min() < room.max():
            worst = int(at[over.argmax()])
            core = int(self.core[worst])
            raise DoesNotFitError(
                f"{self.name[worst]}: needs {needed[worst]:,} {name} on core {core}, which holds "
                f"{room[core]:,} ({over.max():,} short); pin fewer neurons to it"
            )


def item_sizes(network: NetworkFile, constraints: Constraints | None, settings: Settings) -> Int64:
    """Return the sizes of the items, shape (items,); empty if the settings bound no fill."""
    if not settings.bounds_fill:
        return np.zeros(0, np.int64)
    sizes = network.vertex_sizes()
    return sizes if constraints is None else constraints.items().total(sizes)


def combine(
    constraints: list[AnyConstraint],
    neurons: int,
    usable: Mask,
    called: Called = numbered_neuron,
    memory: int | None = None,
) -> Constraints:
    """Combine constraints into items; raises `MapperError` if they contradict each other.

    usable : shape (cores,), cores that may hold neurons; called : names of single neurons
    memory : bytes for tables of kinds; raises `DoesNotFitError` if they need more
    """
    moved = [one for one in constraints if isinstance(one, Constraint)]
    parent = np.arange(neurons)

    def root(v: int) -> int:
        while parent[v] != v:
            parent[v] = parent[parent[v]]
            v = int(parent[v])
        return v

    first_on: dict[int, int] = {}
    for one in moved:
        roots = np.unique([root(int(v)) for v in one.neurons])
        if one.core is not None and one.core in first_on:
            roots = np.unique([*roots, root(first_on[one.core])])
        parent[roots] = roots[0]
        if one.core is not None:
            first_on[one.core] = int(roots[0])
    while not np.array_equal(top := parent[parent], parent):
        parent = top
    item = np.unique(parent, return_inverse=True)[1].astype(np.int32)
    core = np.full(int(item.max(initial=-1)) + 1, -1, np.int32)
    name: dict[int, str] = {}
    for one in moved:
        mine = int(item[one.neurons[0]])
        name.setdefault(mine, one.where)
        if one.core is None:
            continue
        if core[mine] not in (-1, one.core):
            raise MapperError(
                f"{one.where}: {called(int(one.neurons[0]))} is pinned to core {one.core}, but "
                f"other constraints pin it to core {core[mine]}; remove one of them"
            )
        core[mine] = one.core
    regions = [one for one in constraints if isinstance(one, RegionConstraint)]
    groups = [one for one in constraints if isinstance(one, ApartConstraint)]
    if not regions and not groups:
        return Constraints(item, core, name)

    names = Names(name, called)
    kinds = find_kinds(item, core.size, regions, groups, usable, names, memory)
    require_pins(kinds, item, core, regions, names)
    return Constraints(item, core, name, kinds)


def read_constraints(
    file: ConstraintFile,
    chip: Chip,
    network: NetworkFile,
    relays: int = 0,
    memory: int | None = None,
) -> Constraints:
    """Return the constraints of a file for a network; raises `MapperError` for invalid ones.

    relays : number of relay vertices, which follow the network's; a file cannot constrain them
    memory : see `combine`
    """
    constraints = constraints_in(file, chip, network.vertices, population_of(network))

    def named(vertex: int) -> str:
        relay = vertex - network.vertices
        return called(network, vertex) if relay < 0 else f"relay neuron {relay}"

    return combine(constraints, network.vertices + relays, chip.usable, named, memory)
