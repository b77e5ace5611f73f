"""Context passed to every long step of a run."""

from __future__ import annotations

from typing import NamedTuple

from mapper.concurrency.threads import ThreadTeam
from mapper.monitoring.monitor import Monitor
from mapper.planning.plan import Plan
from mapper.resume.checkpoint import Checkpoint
from mapper.settings import Settings


class Context(NamedTuple):
    """Settings and runtime services of a run.

    plan : memory plan; steps : checkpoints of finished steps
    monitor : reports progress and checks for interrupts; team : threads
    """

    settings: Settings
    plan: Plan
    steps: Checkpoint
    monitor: Monitor
    team: ThreadTeam
