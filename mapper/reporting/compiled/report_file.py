"""The schema of report.json of a compiled model: checked when it is read."""

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
    """SQNR of a layer in dB; None if it has no error, or if it is silent: all its samples are 0."""

    label: str
    tensor: str
    low: Real
    high: Real
    scale: Real
    zero_point: int
    clipped: Amount
    own: Decibels
    accumulated: Decibels
    silent: bool


class Tile(Struct):
    """Tiling of a layer: number of tiles, largest tile, and axes from slowest to fastest."""

    count: Whole
    rows: Whole
    columns: Whole
    blocks: Whole
    order: list[str]


class Layer(Struct):
    """A macro node: its nodes, its core, and its cycles and traffic."""

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
    bits: Whole | UnsetType = UNSET


class HostNode(Struct):
    """A node that the host computes."""

    nodes: list[str]
    op: str
    why: str
    cycles: Whole | UnsetType = UNSET


class Memory(Struct):
    """Use of a memory of the core."""

    used: Whole
    capacity: Whole


class Map(Struct):
    """A feature map in the feature memory, and its live range in layers."""

    name: str
    first: Whole
    vectors: Whole
    born: int
    dies: int


class Ring(Struct):
    """A line buffer: columns of a map that a core keeps and needs, and the reads of each tile.

    reads : first and last cycle of its loads, first column and end
    """

    core: tuple[Whole, Whole]
    map: str
    rows: tuple[Whole, Whole]
    columns: Whole
    kept: Whole
    least: Whole
    vectors: Whole
    tall: Whole
    reads: list[tuple[Whole, Whole, Whole, Whole]]


class Timeline(Struct):
    """Activity of the units of a core: starts and ends."""

    core: tuple[Whole, Whole]
    units: dict[str, list[tuple[Whole, Whole]]]


class CoreCycles(Struct):
    """A core in a cycle-accurate run: busy and stall cycles of its units, by cause.

    alone : on several cores, cycles per frame without stalls by other cores
    """

    core: tuple[Whole, Whole]
    busy: dict[str, Whole]
    waits: dict[str, dict[str, Whole]]
    alone: Whole | UnsetType = UNSET


class Bound(Struct):
    """The minimum cycles per frame, and the core, link or port that limits it."""

    cycles: Amount
    where: str


class LinkFlits(Struct):
    """Flits per frame on a link: from a node to a side."""

    at: tuple[Whole, Whole]
    to: Literal["east", "west", "south", "north"]
    flits: Amount


class CoreTimeline(Struct):
    """Activity of the units of a core: starts and ends, by unit and frame."""

    core: tuple[Whole, Whole]
    units: dict[str, list[list[tuple[Whole, Whole]]]]


class RunTimeline(Struct):
    """The first frames of a run on several cores: total cycles, and the end cycle of each frame."""

    cycles: Whole
    completed: list[Whole]
    cores: list[CoreTimeline]


class CycleRun(Struct):
    """A cycle-accurate run of one frame on one core, or of many frames on several cores."""

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
    """Numbers of equal items in Amaranth's simulator, and the cycles of all frames."""

    frames: Whole
    cycles: Whole
    instructions: Whole
    flits: Whole
    bytes: Whole


class Beside(Struct):
    """A stored feature map or an output, compared with the model in ONNX Runtime.

    Integers: differences without ties; reals: SQNR and the required SQNR in dB, None if equal.
    """

    name: str
    nodes: list[str]
    elements: Whole
    differences: Whole | None
    ties: Whole
    signal: Decibels
    wanted: Decibels
    departs: bool


class Judge(Struct):
    """Comparison with the model, and feature maps left out; why : reason if none was possible."""

    frames: Whole
    why: str
    left_out: list[str]
    rows: list[Beside]


class Simulation(Struct):
    """Results of `simulate`."""

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
    """Cycles per frame with bits packed on the core or on the host, and the cycles of packing."""

    frame: Whole
    core: Whole
    host: Whole
    transfers: Whole
    by_host: Whole


class Chip(Struct):
    """The chip, as in its file."""

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
    host_cycles: Whole | UnsetType = UNSET
    rings: list[Ring] | UnsetType = UNSET
    judge: Judge | UnsetType = UNSET
    simulation: Simulation | UnsetType = UNSET
    outputs_db: dict[str, Decibels] | UnsetType = UNSET
    ablation: list[dict[str, Any]] | UnsetType = UNSET
    compared: list[dict[str, Any]] | UnsetType = UNSET


def require_report(value: Any) -> None:
    """Raise `ValueError` that names the invalid field if this is not such a report."""
    convert(value, CompiledReport)
