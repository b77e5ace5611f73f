"""The families of faults."""

from __future__ import annotations

from scripts.torture.cache_damage import CacheDamage
from scripts.torture.catalogue import Catalogue
from scripts.torture.damage import Damage
from scripts.torture.family import Family
from scripts.torture.hostile import Hostile
from scripts.torture.kills import Kills
from scripts.torture.limits import Limits
from scripts.torture.reading import Reading
from scripts.torture.scratch import Scratch
from scripts.torture.servers import Servers
from scripts.torture.syscalls import SystemCalls
from scripts.torture.together import Together

FAMILIES: tuple[type[Family], ...] = (
    SystemCalls, Kills, Scratch, Together, Damage, Reading, Hostile, Servers, Limits,
    CacheDamage, Catalogue,
)  # fmt: skip
