"""What every long step of a run works with."""

from __future__ import annotations

from typing import NamedTuple

from mapper.runtime.checkpoint import Checkpoint
from mapper.runtime.monitor import Monitor
from mapper.runtime.plan import Plan
from mapper.runtime.threads import ThreadTeam
from mapper.settings import Settings


class Context(NamedTuple):
    """Settings, and the surroundings of a run.

    plan : how much memory there is for what; steps : those that are done stay done after a kill
    monitor : hears of progress, and says when to stop; team : threads
    """

    settings: Settings
    plan: Plan
    steps: Checkpoint
    monitor: Monitor
    team: ThreadTeam
