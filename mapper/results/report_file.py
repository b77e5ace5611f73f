"""The schema of report.json: checked once, when it is read."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from storage.typed import Amount, Open, Plain, Whole

SCHEMA = 1
MOST_REPORT_BYTES = 32 << 20  # bytes: a chip may list a million unavailable cores

Path = Annotated[str, Meta(pattern="^[^\x00]*$", description="a path")]
Measured = Amount | None


class Amounts(Open):
    """Numbers of at least 0, by name."""

    REST: ClassVar[Any] = Amount


class TrafficSource(Open):
    """The source of the traffic."""

    source: str
    multicast: str
    file: str | UnsetType = UNSET


class Network(Open):
    """The network that was mapped."""

    path: Path
    neurons: Whole
    synapses: Whole
    bytes: Whole | UnsetType = UNSET
    checksum: Whole | UnsetType = UNSET
    imported_from: Path | UnsetType = UNSET
    traffic: TrafficSource | UnsetType | None = UNSET
    columns: Open | UnsetType = UNSET
    columns_ignored: list[Plain] | UnsetType = UNSET


class RunSettings(Open):
    """All settings of the run."""

    preset: str
    objective: str
    seed: Whole


class LinkLoads(Amounts):
    """Loads of the links."""

    hops_total: Amount
    link_load_max: Amount
    link_load_mean: Amount
    link_load_p99: Amount


class CoreCast(LinkLoads):
    """Metrics of core-cast: one packet per spike and core."""

    packets: Amount


class Multicast(LinkLoads):
    """Metrics of multicast."""

    connectivity: Amount


class TickBounds(Amounts):
    """Lower bounds on the cycles of a tick, by resource, and an estimate with queues."""

    neurons: Amount
    packets_out: Amount
    events: Amount
    links: Amount
    queues: Amount | UnsetType = UNSET


class NocLatency(Open):
    """Estimated latency of a packet on the mesh, cycles, without a simulation."""

    load_max: Amount
    unloaded: Amount
    mean: Amount | UnsetType = UNSET
    advice: str | UnsetType = UNSET


class Costs(Amounts):
    """Costs of distances in a machine, and traffic across the boundaries of its parts."""

    cost_total: Amount
    cost_mean: Amount
    cost_max: Amount


class EnergyParts(Open, kw_only=True):
    """Energy of the mapping per unit of time, by known part."""

    network: Amount | UnsetType = UNSET
    events: Amount | UnsetType = UNSET
    neurons: Amount | UnsetType = UNSET
    sum: Amount
    lacks: str
    unit: str


class Metrics(LinkLoads):
    """Metrics of the mapping."""

    cut_weight: Amount
    cut_fraction: Amount
    hops_mean: Amount
    hops_max: Amount
    energy: Amount
    latency_mean: Amount
    latency_max: Amount
    congestion_mean: Amount
    congestion_max: Amount
    cores_used: Amount
    core_fill_mean: Amount
    core_fill_max: Amount
    multicast: Multicast
    congestion: Literal["sampled"] | UnsetType = UNSET
    congestion_pairs: Whole | UnsetType = UNSET
    congestion_share: Amount | UnsetType = UNSET
    core: CoreCast | UnsetType = UNSET
    tick_cycles: Amount | UnsetType = UNSET
    tick_bound: str | UnsetType = UNSET
    tick_bounds: TickBounds | UnsetType = UNSET
    noc_latency: NocLatency | UnsetType = UNSET
    machine: Costs | UnsetType = UNSET
    energy_parts: EnergyParts | UnsetType = UNSET
    copies: Amount | UnsetType = UNSET
    list_words: Amount | UnsetType = UNSET
    memory_fill_mean: Amount | UnsetType = UNSET
    memory_fill_max: Amount | UnsetType = UNSET


class _Costs(Open, kw_only=True):
    cut_weight: Measured | UnsetType = UNSET
    hops_total: Measured | UnsetType = UNSET
    core: Amounts | UnsetType = UNSET
    multicast: Amounts | UnsetType = UNSET
    estimated: bool | UnsetType = UNSET
    cpu_seconds: Amount | UnsetType = UNSET


class Level(_Costs, kw_only=True):
    """A level of the hierarchy."""

    vertices: Whole
    connections: Whole
    cut_weight: Measured


class Stage(_Costs, kw_only=True):
    """A stage of the run."""

    name: str
    seconds: Amount
    peak_anon_bytes: Whole


class Resources(Open):
    """Resources of the whole run."""

    seconds: Amount
    peak_rss_bytes: Whole


class Split(Open):
    """Numbers of split neurons and of their relay neurons."""

    REST: ClassVar[Any] = Whole
    neurons: Whole
    helpers: Whole


class SimulatedLink(Open):
    """A heavily loaded link."""

    x: Whole
    y: Whole
    direction: str
    flits_per_cycle: Amount
    expected: Amount


class Latencies(Open):
    """Latencies of spikes."""

    REST: ClassVar[Any] = Measured


class Texts(Open):
    """Texts by name."""

    REST: ClassVar[Any] = str


class Simulation(Open):
    """Results of `mapper simulate`."""

    latency: Latencies | UnsetType | None = UNSET
    saturation: Open | UnsetType | None = UNSET
    links: list[SimulatedLink] | UnsetType = UNSET
    model: Texts | UnsetType = UNSET


class TickCycles(Open):
    """Cycles of ticks."""

    REST: ClassVar[Any] = Amount


class Ticks(Open):
    """Results of `mapper simulate` for ticks of the whole chip."""

    ticks: Whole
    spikes: Whole
    cycles: TickCycles | UnsetType = UNSET
    model: Texts | UnsetType = UNSET


class Sample(Open):
    """The sample of connections that fits in memory, for a network that is split into blocks."""

    clusters: Whole
    connections: Whole
    per_cluster: Amount
    enough_memory: Measured
    levels: Whole | UnsetType = UNSET


class WorkedStage(Open, kw_only=True):
    """The use of workers in a stage: seconds that the driver waited, and bytes sent or shared."""

    name: str
    calls: Whole | UnsetType = UNSET
    seconds: Amount
    cpu_seconds: Amount | UnsetType = UNSET
    bytes_to: Whole
    bytes_from: Whole
    bytes_shared: Whole | UnsetType = UNSET


class WorkersUsed(Open):
    """The workers of the run."""

    count: Whole
    hosts: list[str]
    threads: Whole
    peak_rss_bytes: list[Whole]
    replaced: Whole
    stages: list[WorkedStage]
    moved: Whole | UnsetType = UNSET


class Baselines(Open):
    """Hops of simple mappings of the same network, and a lower bound of all mappings."""

    metric: str
    in_order: Amount
    random: Amount
    lower_bound: Amount
    sampled: Amount


class PopulationRow(Amounts):
    """Size and traffic of a population."""

    name: str
    neurons: Whole
    cores: Whole
    sent: Amount
    received: Amount
    within: Amount
    hops_total: Amount
    hops_mean: Amount


class PopulationPair(Open):
    """Traffic of a pair of populations on a link."""

    source: str
    target: str
    traffic: Amount


class BusiestLink(Open):
    """The link with the highest load, and the pairs of populations that load it most."""

    x: Whole
    y: Whole
    direction: str
    load: Amount
    pairs: list[PopulationPair]


class PopulationTable(Open):
    """The populations or layers of the network under the mapping."""

    kind: str
    count: Whole
    rows: list[PopulationRow]
    busiest_link: BusiestLink | UnsetType = UNSET


class Report(Struct):
    """The report of a run; it may have more keys."""

    schema: Literal[1]
    network: Network
    chip: dict[str, Any]  # checked by `chipsim.chip.presets.from_fields`
    settings: RunSettings
    metrics: Metrics
    levels: list[Level]
    stages: list[Stage]
    resources: Resources
    tool: Open | UnsetType = UNSET
    command: list[str] | UnsetType = UNSET
    split: Split | UnsetType | None = UNSET
    simulation: Simulation | UnsetType | None = UNSET
    ticks: Ticks | UnsetType = UNSET
    interrupted: str | UnsetType = UNSET
    sample: Sample | UnsetType = UNSET
    workers: WorkersUsed | UnsetType = UNSET
    populations: PopulationTable | UnsetType = UNSET
    baselines: Baselines | UnsetType = UNSET
