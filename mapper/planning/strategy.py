"""Choice of the partitioning strategy by memory and time.

Objectives that use nets have three strategies: a partition by nets in memory, the same with little
effort, and one by connections. The first often finds the best mapping, and takes up to 100 times as
long as the last. A run may take `net_time` times as long as the same run for unicast, as estimated
by `mapper.planning.processor_time`; the time left by the partition is used for net refinement.

The estimates refer to one reference machine, so that the plan is the same on every machine.
"""

from __future__ import annotations

from dataclasses import replace

from mapper.planning.core_limits import CoreLimits
from mapper.planning.memory import plan_by_connections, plan_by_nets, plan_classic, small
from mapper.planning.plan import Plan
from mapper.planning.processor_time import START, processor_seconds, refinement_seconds, size_of
from mapper.planning.sampling import ENOUGH
from mapper.settings import BY_NETS, MOST_MEMORY, UNLIMITED, Settings
from storage.store.network import NetworkFile

FULL_WORK = 0.25  # least share of the usual refinement after a partition with full effort
CHEAP = 0.75  # share of the time of a unicast run that a brief partition may take
LEAST_WORK = 0.03  # least share after other partitions; less refinement finds hardly anything


def make_plan(network: NetworkFile, chip: CoreLimits, settings: Settings, tables: int = 0) -> Plan:
    """Return the plan of a run.

    tables : bytes of the tables of constraints, which every stage holds
    """
    if tables:
        free = max(1, settings.memory_bytes - tables)
        return make_plan(network, chip, replace(settings, memory_bytes=free)).beside(tables)
    settings = settings.resolved(chip.delivery)
    if settings.method == "classic":
        return plan_classic(network, chip, settings)
    plan = plan_by_connections(network, chip, settings)
    if settings.objective not in BY_NETS:
        return plan
    nets = plan_by_nets(network, chip, settings, plan)
    if settings.net_time == UNLIMITED or small(network):
        return nets or plan
    if settings.net_time == 0:
        return plan.without_nets()
    unicast = replace(settings, objective="unicast")
    base = plan_by_connections(network, chip, unicast)
    usual = sum(processor_seconds(network, chip, unicast, base).values())
    limit = START + settings.net_time * usual

    size = size_of(network, chip, settings)
    nothing, full = (refinement_seconds(size, settings, share) for share in (0.0, 1.0))

    def work(plan: Plan) -> float:
        """Return the share of the usual net refinement that time permits."""
        rest = processor_seconds(network, chip, settings, replace(plan, net_work=0))
        return min(1.0, (limit - sum(rest.values())) / max(0.001, full - nothing))

    if nets is not None:
        if work(nets) >= FULL_WORK:
            return replace(nets, net_work=work(nets))
        brief = replace(nets, brief=True)
        partition = processor_seconds(network, chip, settings, brief)["partition"]
        if partition <= CHEAP * (START + usual) and work(brief) >= LEAST_WORK:
            return replace(brief, net_work=work(brief))
    if not plan.nets_after:
        return plan
    share = work(plan)
    return replace(plan, net_work=share) if share >= LEAST_WORK else plan.without_nets()


def enough_memory(network: NetworkFile, chip: CoreLimits, settings: Settings) -> int | None:
    """Return approximate bytes of `--memory` for a sufficient sample of the initial partition.

    None if `coarse_degree` limits the sample instead.
    """
    if settings.coarse_degree < ENOUGH:
        return None
    memory = settings.memory_bytes
    while memory < MOST_MEMORY:
        sample = make_plan(network, chip, replace(settings, memory_bytes=memory)).sample
        if sample is None or not sample.thin:
            break
        memory += memory // 20
    return memory
