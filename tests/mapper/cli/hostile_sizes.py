"""Small files that declare huge sizes, for `tests.mapper.cli.hostile`."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.mapper.cli.hostile_onnx import ENDLESS, ONNX, Make

MEMORY = "--memory 256MiB"
IMPORT = f"import g.onnx new.bin {MEMORY}"
COMPILE = f"compile g.onnx --chip 2x2 --calibrate samples.npy {MEMORY} -o new"


def nir_file(**datasets: Any) -> Make:
    """Return a NIR graph input -> weights -> LIF; datasets : shape and type of unwritten ones."""

    def make(path: Path) -> None:
        import h5py

        with h5py.File(path, "w") as file:
            file["version"] = b"1"
            file["node/type"] = b"NIRGraph"
            for name, kind, values in (
                ("a", b"Input", {"shape": np.array([2])}),
                ("b", b"Linear", {"weight": np.ones((2, 2))}),
                ("c", b"LIF", dict.fromkeys(("tau", "r", "v_leak", "v_threshold"), np.ones(2))),
            ):
                file[f"node/nodes/{name}/type"] = kind
                for key, value in values.items():
                    file[f"node/nodes/{name}/{key}"] = value
            file["node/edges"] = np.array([[b"a", b"b"], [b"b", b"c"]])
            for place, (shape, of) in datasets.items():
                where = "node/" + place.replace("__", "/").replace("node/", "")
                if where in file:
                    del file[where]
                if isinstance(shape, np.ndarray):
                    file[where] = shape
                else:
                    file.create_dataset(where, shape, of, chunks=True)

    return make


def spread(size: int) -> tuple[np.ndarray[Any, Any], str]:
    return np.array([size]), "i8"


NIR: dict[str, Make] = {
    "rows of edges": nir_file(edges=((1 << 36, 2), "S1")),
    "rows of edges without columns": nir_file(edges=((1 << 36, 0), "S1")),
    "weights": nir_file(nodes__b__weight=((1 << 18, 1 << 18), "f4")),
    "weights of no input": nir_file(nodes__b__weight=((1 << 36, 0), "f4")),
    "a time constant": nir_file(nodes__c__tau=((1 << 36,), "f8")),
    "a time constant without columns": nir_file(nodes__c__tau=((1 << 36, 0), "f8")),
    "neurons": nir_file(nodes__a__shape=spread((1 << 31) - 2)),
    "too many neurons": nir_file(nodes__a__shape=spread(1 << 50)),
    "axes": nir_file(nodes__a__shape=((1 << 36,), "i8")),
    "a type": nir_file(nodes__a__type=((1 << 36,), "S1")),
}


def sonata_file(edges: int, size: int | None = None, width: tuple[int, ...] = ()) -> Make:
    """Return a SONATA file of some edges, whose sources declare another size."""

    def make(path: Path) -> None:
        import h5py

        with h5py.File(path, "w") as file:
            group = file.create_group("edges/e")
            for key in ("source_node_id", "target_node_id", "edge_type_id"):
                other = size is not None and key == "source_node_id"
                shape = (size, *width) if other else (edges,)
                group.create_dataset(key, shape, "u8", chunks=True)
            group.create_group("0")

    return make


SONATA: dict[str, Make] = {
    "rows": sonata_file(1 << 36),
    "many rows": sonata_file(1 << 30),
    "rows of one end": sonata_file(2, 1 << 36),
    "rows without columns": sonata_file(2, 1 << 36, (0,)),
}


def written(data: bytes) -> Make:
    def make(path: Path) -> None:
        path.write_bytes(data)

    return make


def npy_bytes(shape: Sequence[int], kind: str = "<i8", data: bytes = bytes(16)) -> bytes:
    buffer = io.BytesIO()
    about = {"descr": kind, "fortran_order": False, "shape": tuple(shape)}
    np.lib.format.write_array_header_1_0(buffer, about)
    return buffer.getvalue() + data


def npz_file(**members: bytes) -> Make:
    def make(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                archive.writestr(f"{name}.npy", data)

    return make


def npy_file(shape: Sequence[int], kind: str = "<f4", data: bytes = bytes(16)) -> Make:
    return written(npy_bytes(shape, kind, data))


TWO = npy_bytes([2])


def matrix(layout: str, **members: bytes) -> Make:
    word = np.array(layout.encode())
    return npz_file(
        **{"format": npy_bytes([], f"|S{len(layout)}", word.tobytes()),
           "shape": npy_bytes([2], data=np.array([2, 2]).tobytes()), **members}
    )  # fmt: skip


NPZ: dict[str, Make] = {
    "rows": npz_file(source=npy_bytes([ENDLESS]), target=TWO),
    "rows without columns": npz_file(source=npy_bytes([ENDLESS, 0], data=b""), target=TWO),
    "rows of nothing": npz_file(source=npy_bytes([ENDLESS], "|V0", b""), target=TWO),
    "sizes that overflow": npz_file(source=npy_bytes([1 << 62, 4]), target=TWO),
    "neurons that overflow": npz_file(source=TWO, target=TWO,
                                      neurons=npy_bytes([], data=np.array([1 << 62]).tobytes())),
    "a matrix": matrix("csr", indptr=npy_bytes([ENDLESS]), indices=TWO, data=TWO),
    "a shape": matrix("csr", indptr=npy_bytes([3], data=bytes(24)), indices=TWO, data=TWO,
                      shape=npy_bytes([2], data=np.array([1 << 40, 1 << 40]).tobytes())),
    "an empty wide shape": matrix("csc", indptr=npy_bytes([3], data=bytes(24)), indices=TWO,
                                  data=TWO, shape=npy_bytes(
                                      [2], data=np.array([(1 << 31) - 1] * 2).tobytes())),
    "blocks": matrix("bsr", indptr=npy_bytes([2]), indices=npy_bytes([1], data=bytes(8)),
                     data=npy_bytes([1, 1 << 20, 1 << 20], "<f4")),
    "diagonals": matrix("dia", offsets=npy_bytes([1], data=bytes(8)),
                        data=npy_bytes([1, 1 << 40], "<f4")),
    "diagonals without elements": matrix("dia", offsets=npy_bytes([1 << 40, 0], data=b""),
                                         data=npy_bytes([1 << 40, 0], "<f4", b"")),
    "labels": npz_file(source=TWO, target=TWO,
                       **{"neuron/a": npy_bytes([1 << 40]), "neuron/a/labels": TWO}),
}  # fmt: skip
SAMPLES: dict[str, Make] = {
    "samples": npy_file([1 << 40, 2, 6, 6]),
    "samples without elements": npy_file([1 << 40, 0], data=b""),
    "samples of nothing": npy_file([1 << 40], "|V0", b""),
    "a sample": npy_file([1, 1 << 40]),
    "sizes that overflow": npy_file([1 << 62, 4, 6, 6]),
}


def text(content: str) -> Make:
    return written(content.encode())


MARKET = "%%MatrixMarket matrix {} real general\n{}\n"
TEXTS: dict[str, dict[str, Make]] = {
    "g.mtx": {
        "entries": text(MARKET.format("coordinate", f"2 2 {1 << 62}") + "1 1 1\n"),
        "a dense matrix": text(MARKET.format("array", "2147483647 2147483647") + "1\n"),
        "a symmetric dense matrix": text(
            "%%MatrixMarket matrix array real symmetric\n2147483647 2147483647\n1\n"),
    },
    "g.graph": {
        "neurons": text("2147483647 1\n2\n1\n"),
        "synapses": text(f"2 {1 << 62}\n2\n1\n"),
        "weights": text(f"2 1 11 {1 << 40}\n2\n1\n"),
    },
    "g.hgr": {
        "nets": text("2147483647 2\n1 2\n"),
        "neurons": text("1 2147483647\n1 2\n"),
    },
    "g.dat": {"units": text("2000000000 1\n0 1\n"), "many units": text("40000 1\n0 1\n")},
    "g.bgf": {
        "neurons": written(np.array([3, (1 << 31) - 1, 0, 40], "<u8").tobytes()),
        "synapses": written(np.array([3, 2, 1 << 62, 40], "<u8").tobytes()),
    },
}  # fmt: skip


Case = tuple[str, str, Make, tuple[str, ...]]
"""Name, file, damage and commands."""


def table() -> list[Case]:
    """Return all cases; commands read good.onnx and samples.npy."""
    nir = f"import g.nir new.bin {MEMORY}", f"compile g.nir --chip 4x4 {MEMORY} -o new"
    sampled = f"compile good.onnx --chip 2x2 --calibrate bad.npy {MEMORY} -o new"
    kinds: list[tuple[str, dict[str, Make], tuple[str, ...]]] = [
        ("g.onnx", ONNX, (IMPORT, COMPILE)),
        ("g.nir", NIR, nir),
        ("g.h5", SONATA, (f"import g.h5 new.bin {MEMORY}",)),
        ("g.npz", NPZ, (f"import g.npz new.bin {MEMORY}",)),
        ("bad.npy", SAMPLES, (sampled,)),
        *[(file, cases, (f"import {file} new.bin {MEMORY}",)) for file, cases in TEXTS.items()],
    ]
    return [
        (f"a huge size: {name}", file, make, commands)
        for file, cases, commands in kinds
        for name, make in cases.items()
    ]
