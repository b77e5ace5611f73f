"""tiles.bin: the parts of layers as a network, with all flits that their programs send per frame.

Vertices are the parts in the order of the cores, then the ports of the host. An edge has the flits
from one vertex to another: results, credits, weight requests and weights, and traffic with the host
through the port nearest to a core. Given `mapping.npz`, `mapper score` counts the flits per frame
on every link.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.codegen.code import CoreCode
from mapper.compiler.multicore.job import nearest
from mapper.compiler.multicore.vertices import WHOLE
from mapper.compiler.program.links import Place
from mapper.compiler.tiling.units import vectors_of
from storage.errors import write_error

Flits = Counter[tuple[int, int]]


def flits_of(codes: Sequence[CoreCode], shape: NpuShape, ports: Sequence[Place]) -> Flits:
    """Return the flits per frame between parts, by index; host ports follow the last part.

    Traffic to a core is assigned to the first of its parts that reads some of it.
    """
    parts = -(-8 * shape.columns // shape.payload_bits)
    first = np.cumsum([0] + [len(code.macros) for code in codes]).tolist()
    at = {code.place: number for number, code in enumerate(codes)}
    found: Flits = Counter()
    for number, code in enumerate(codes):
        host = first[-1] + ports.index(nearest(ports, code.place))
        for step in code.steps:
            mine, fields = first[number] + step.macro, step.instruction.fields
            kind = step.instruction.kind
            if step.sent is not None:
                other = at[step.sent.core]
                target = first[other] + _taker(codes[other], step.sent.cells)
                found[mine, target] += parts * step.sent.cells.size
            elif kind in ("HOST", "PARTIAL_HOST"):
                found[mine, host] += parts * vectors_of(step.instruction, shape)
            elif kind == "SEND" and fields.get("host"):
                found[mine, host] += 1
            elif kind == "SEND":
                other = at[fields["x"], fields["y"]]
                found[mine, first[other] + _giver(codes[other], fields["stream"])] += 1
            elif kind == "WSTREAM" and fields["words"]:
                found[mine, host] += 1
                found[host, mine] += fields["words"] * shape.rows * parts
        for brought in code.links.brought:
            cells = brought.cells
            found[host, first[number] + _taker(code, cells)] += parts * cells.size
    return found


def _taker(code: CoreCode, cells: NDArray[np.int64]) -> int:
    """Return the first part of a core that reads some vectors."""
    for step in code.steps:
        if any(np.isin(some, cells).any() for some in step.loaded):
            return step.macro
    return 0


def _giver(code: CoreCode, stream: int) -> int:
    """Return the first part of a core that waits for a stream."""
    for step in code.steps:
        if step.instruction.kind == "WAIT" and step.instruction.fields["stream"] == stream:
            return step.macro
    return 0


def tiles_file(flits: Flits, codes: Sequence[CoreCode], ports: int) -> bytes:
    """Return the network file. ports : number of host ports

    Raises `WriteError` if there is no room for temporary files."""
    from mapper.inputs.listener import Listener
    from mapper.inputs.opening import open_source
    from mapper.inputs.source import Effort, Source

    pairs = sorted(flits)
    cycles = [
        np.bincount([step.macro for step in code.steps], minlength=len(code.macros))
        .clip(1)
        .tolist()
        for code in codes
    ]
    sizes = [WHOLE * one // sum(mine) for mine in cycles for one in mine]
    source = Source(
        (
            np.array([a for a, _ in pairs], np.int64),
            np.array([b for _, b in pairs], np.int64),
            np.array([flits[pair] for pair in pairs], np.float64),
        ),
        neurons=len(sizes) + ports, sizes=np.array([*sizes, *[0] * ports], np.int64),
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="mapper-") as folder:
        try:
            effort = Effort(1, 1 << 28)
            with open_source(source, effort, Listener(), Path(folder)) as network:
                return network.path.read_bytes()
        except OSError as error:
            raise write_error(Path(folder), error) from error


def mapping_file(codes: Sequence[CoreCode], ports: Sequence[Place], chip: Chip) -> bytes:
    """Return the bytes of `mapping.npz`: the cores of the parts and of the host's ports."""
    from mapper.results.mapping_file import save_mapping

    places = [code.place for code in codes for _ in code.macros] + [*ports]
    core = np.array([y * chip.width + x for x, y in places], np.int32)
    with tempfile.TemporaryDirectory(prefix="mapper-") as folder:
        path = Path(folder) / "mapping.npz"
        save_mapping(path, core, chip)
        return path.read_bytes()
