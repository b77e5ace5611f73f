"""What report.json of a compiled model must hold for all who read it: checked where it is read."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from storage.typed import Amount, Whole, convert

Real = float
Decibels = float | None


class Attempt(Struct):
    """An attempt to quantise the model."""

    method: str
    per: str
    bits: Whole
    wide: list[str]
    host: list[str]
    loss: Real
    signal_db: Decibels
    accuracy_float: Real | None
    accuracy_integer: Real | None
    reached: bool


class Loss(Struct):
    """The signal over error of a layer; None where it has no error."""

    label: str
    tensor: str
    low: Real
    high: Real
    scale: Real
    zero_point: int
    clipped: Amount
    own: Decibels
    accumulated: Decibels


class Tile(Struct):
    """How the map of a layer is cut: the largest tile, and the slowest axis first."""

    count: Whole
    rows: Whole
    columns: Whole
    blocks: Whole
    order: list[str]


class Layer(Struct):
    """A macro node: what it is of, where it runs, and what it takes."""

    nodes: list[str]
    operators: list[str]
    core: tuple[Whole, Whole]
    shape: tuple[Whole, Whole, Whole, Whole]
    scale: Real
    zero_point: int
    products: Whole
    matrix_calls: Whole
    start: Whole
    end: Whole
    cycles: Whole
    tile: Tile
    busy: dict[str, Amount]
    waits: dict[str, dict[str, Whole]]
    bytes_loaded: Whole
    bytes_stored: Whole
    vectors: Whole
    instructions: dict[str, Whole]


class HostNode(Struct):
    """A node that the host computes."""

    nodes: list[str]
    op: str
    why: str


class Memory(Struct):
    """How full a memory of the core is."""

    used: Whole
    capacity: Whole


class Map(Struct):
    """A map in the feature memory, and the layers that it lives for."""

    name: str
    first: Whole
    vectors: Whole
    born: int
    dies: int


class Timeline(Struct):
    """When the units of a core work: starts and ends."""

    core: tuple[Whole, Whole]
    units: dict[str, list[tuple[Whole, Whole]]]


class CoreCycles(Struct):
    """A core in a cycle-true run: cycles that units work, and wait, by cause; of several cores
    also those of a frame if it waited for nobody."""

    core: tuple[Whole, Whole]
    busy: dict[str, Whole]
    waits: dict[str, dict[str, Whole]]
    alone: Whole | UnsetType = UNSET


class Bound(Struct):
    """Cycles that a frame takes at least, and the core, link or port where it does."""

    cycles: Amount
    where: str


class LinkFlits(Struct):
    """Flits of a frame on a link: from a node to a side."""

    at: tuple[Whole, Whole]
    to: Literal["east", "west", "south", "north"]
    flits: Amount


class CoreTimeline(Struct):
    """When the units of a core work: by unit and frame, starts and ends."""

    core: tuple[Whole, Whole]
    units: dict[str, list[list[tuple[Whole, Whole]]]]


class RunTimeline(Struct):
    """The first frames of a run on several cores: until the last of them has ended, and the cycle
    in which each was done."""

    cycles: Whole
    completed: list[Whole]
    cores: list[CoreTimeline]


class CycleRun(Struct):
    """A cycle-true run of a frame on one core, or of many frames on several."""

    cycles: Whole
    bytes_compared: Whole
    cores: list[CoreCycles]
    frames: Whole | UnsetType = UNSET
    loading: Whole | UnsetType = UNSET
    latency: Whole | UnsetType = UNSET
    period: Amount | UnsetType | None = UNSET
    mean_period: Amount | UnsetType | None = UNSET
    clock_mhz: Amount | UnsetType = UNSET
    frames_per_second: Amount | UnsetType = UNSET
    bound: Bound | UnsetType = UNSET
    busiest_link: Amount | UnsetType = UNSET
    flit_hops: Amount | UnsetType = UNSET
    links: list[LinkFlits] | UnsetType = UNSET
    timeline: RunTimeline | UnsetType = UNSET


class Hardware(Struct):
    """What was equal in Amaranth's simulator, counted; cycles until the last frame was done."""

    frames: Whole
    cycles: Whole
    instructions: Whole
    flits: Whole
    bytes: Whole


class Beside(Struct):
    """A stored map, or an output, beside that of the model in ONNX Runtime: integers that differ
    without ties, or the signal over error and the least that is expected; None without error."""

    name: str
    nodes: list[str]
    elements: Whole
    differences: Whole | None
    ties: Whole
    signal: Decibels
    wanted: Decibels
    departs: bool


class Judge(Struct):
    """What was compared with the model, and maps that were left out; why : nothing was."""

    frames: Whole
    why: str
    left_out: list[str]
    rows: list[Beside]


class Simulation(Struct):
    """What `simulate` found."""

    frames: Whole | UnsetType = UNSET
    accuracy: Amount | UnsetType = UNSET
    sha256: str | UnsetType = UNSET
    clipped: Whole | UnsetType = UNSET
    elements: Whole | UnsetType = UNSET
    differences: Whole | UnsetType = UNSET
    judge: Judge | UnsetType = UNSET
    cycle_run: CycleRun | UnsetType = UNSET
    hardware: Hardware | UnsetType = UNSET


class Packing(Struct):
    """Cycles of a frame with bits packed on the core or by the host, and what packing takes."""

    frame: Whole
    core: Whole
    host: Whole
    transfers: Whole
    by_host: Whole


class Chip(Struct):
    """The chip, as its file has it."""

    name: str
    width: Whole
    height: Whole
    unavailable: list[Whole] | UnsetType = UNSET


class CompiledReport(Struct):
    """report.json of a compiled model."""

    schema: Literal[1]
    kind: Literal["compiled"]
    model: str
    chip: Chip
    npu: str
    command: list[str]
    settings: dict[str, Any]
    signal_db: Decibels
    attempts: list[Attempt]
    kept: Whole | None
    losses: list[Loss]
    cycles: Whole
    busy: dict[str, Amount]
    packing: Packing
    layers: list[Layer]
    host: list[HostNode]
    memories: dict[str, Memory]
    maps: list[Map]
    timelines: list[Timeline]
    log: list[str]
    seconds: dict[str, Amount]
    limits_missed: list[str] | UnsetType = UNSET
    judge: Judge | UnsetType = UNSET
    simulation: Simulation | UnsetType = UNSET
    outputs_db: dict[str, Decibels] | UnsetType = UNSET
    ablation: list[dict[str, Any]] | UnsetType = UNSET
    compared: list[dict[str, Any]] | UnsetType = UNSET


def require_report(value: Any) -> None:
    """Raise `ValueError` with a few words that name the place where it is no such report."""
    convert(value, CompiledReport)
