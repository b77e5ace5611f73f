"""Valid files for the corpus of `fuzz_readers`, made by the writers of the project.

    python scripts/fuzz_seeds.py

Run it after a format has a new version; the files are tests/corpus/READER/good*.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.fuzz_structure import archive_of  # noqa: E402
from scripts.fuzz_targets import CORPUS, NEURONS, RUN_TAG, folder_bytes  # noqa: E402

EDGES = "source,target,weight\n0,1,2.5\n1,2,1\n2,0,1\n3,4,1\n4,5,2\n5,0,1\n"
Files = dict[str, bytes]


def npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **{name: np.asarray(one) for name, one in arrays.items()})
    return out.getvalue()


def texts() -> dict[str, Files]:
    """Return files of text formats."""
    metis = "% comment\n4 2 11\n2 2 5\n1 1 5 3 1\n1 2 1\n1\n"
    return {
        "matrixmarket": {
            "good.mtx": b"%%MatrixMarket matrix coordinate real general\n%\n4 4 3\n1 2 1.5\n2 3 2\n"
            b"4 1 -1\n",
            "good-pattern.mtx": b"%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n"
            b"2 1\n3 1\n",
            "good-skew.mtx": b"%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 2\n"
            b"2 1 1.5\n3 2 -2\n",
        },
        "metis": {
            "good.graph": metis.encode(),
            "good.graph.gz": gzip.compress(b"2 1\n2\n1\n", mtime=0),
        },
        "hmetis": {"good.hgr": b"3 4 11\n2 1 2\n1 2 3 4\n3 4 1\n1\n2\n1\n1\n"},
        "edgelist": {
            "good.csv": EDGES.encode(),
            "good-plain.txt": b"# a comment\n0 1\n1 2\n",
            "good-names.tsv": b"pre\tpost\tw\nA\tB\t1\nB\tC\t2e-3\n",
            "good-data.edgelist": b"0 1 {'weight': 2.5}\n1 2 {'weight': 1}\n",
        },
        "recognise": {"good.csv": EDGES.encode(), "good.mtx": b"%%MatrixMarket matrix\n"},
        "qaplib": {"good.dat": b"3\n0 1 2\n1 0 1\n2 1 0\n\n0 5 2\n5 0 3\n2 3 0\n"},
        "graphml": {
            "good.graphml": b'<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/'
            b'xmlns"><key id="w" for="edge" attr.name="weight" attr.type="double">'
            b"<default>1</default>"
            b'</key><graph edgedefault="directed"><node id="a"/><node id="b"/><edge source="a" '
            b'target="b"><data key="w">2.5</data></edge></graph></graphml>',
        },
        **graphs(),
        "rates-nest": {
            "good.dat": b"# NEST version: 3.6.0\n# RecordingBackendASCII version: 2\n"
            b"sender\ttime_ms\n1\t0.100\n6\t2.500\n1\t900.000\n",
            "good-steps.dat": b"# NEST version: 3.6.0\nsender\ttime_step\ttime_offset\n2\t7\t0.0\n",
            "good-plain.dat": b"3\t1.5\n3\t2.5\n",
        },
        "rates": {
            "good.csv": b"neuron,rate\n" + b"".join(b"%d,%d\n" % (n, n + 1) for n in range(6))
        },
        "samples-csv": {"good.csv": b"label,a,b,c,d\n1,1,2,3,4\n0,5,6,7.5,8\n"},
        "chip": {
            "good.toml": b"width = 4\nheight = 3\nneurons = 256\nsynapses = 4096\naxons_in = 128\n"
            b'delivery = "tree"\nunavailable = [1, [2, 1]]\nenergy_router = 1.5\n'
            b'[npu]\npreset = "tiny"\n'
            b"[time]\ntick = 0.001\n",
        },
        "constraints": {
            "good.toml": b"[[pin]]\nneurons = [0, 5]\ncore = [1, 1]\n[[together]]\nrange = [1, 2]\n"
            b'[[together]]\npopulation = "a"\n',
            "good-regions.toml": b"[[region]]\nneurons = [2]\nrectangle = [0, 0, 1, 1]\n"
            b"exclusive = true\n[[region]]\nrange = [0, 1]\ncores = [2, [2, 1]]\n"
            b"[[apart]]\ngroups = [[0], [1]]\n[[apart]]\npopulations = ['a', 'b']\n",
        },
        "sweep": {
            "good.toml": b'network = ["net.bin", "b.csv"]\nchip = "4x4"\nseed = "1..3"\n'
            b"starts = [2, 8]\n"
            b'preset = "fast"\nneurons_per_core = [64]\nmemory = "1GiB"\nweights_are = "rate"\n',
        },
        "mapping-csv": {
            "good.csv": b"neuron,core\n0,1\n1,1\n2,0\n3,5\n4,4\n5,2\n",
            "good.txt": b"0\n1\n2\n3\n4\n5\n",
        },
    }


def graphs() -> dict[str, Files]:
    """Return files of graphs and matrices as text: the samples of the tests."""
    from tests.storage.formats.samples import SAMPLES

    names = ("gexf", "gml", "pajek", "nodelink", "adjlist", "mladj", "matrix")
    return {
        name: {f"good-{sample.name}": sample.make(ROOT) for sample in SAMPLES[name]}
        for name in names
    }


def matrices() -> dict[str, Files]:
    """Return dense and sparse matrices of NumPy and MATLAB."""
    from tests.storage.formats.samples import SAMPLES

    return {
        name: {f"good-{sample.name}": sample.make(ROOT) for sample in SAMPLES[name]}
        for name in ("npy", "matlab")
    }


def arrays() -> dict[str, Files]:
    """Return archives of arrays, and single arrays."""
    x = np.arange(8, dtype=np.float32).reshape(2, 1, 2, 2)
    saved = io.BytesIO()
    np.save(saved, x)
    matrix = {
        "format": np.array("csr"),
        "shape": (3, 3),
        "data": [1.0, 2],
        "indices": [1, 2],
        "indptr": [0, 1, 2, 2],
    }
    edges = {"source": [0, 1, 2], "target": [1, 2, 0], "weight": [1.0, 2, 3]}
    coo = {"format": np.array("coo"), "shape": (3, 3), "data": [1, 2], "row": [0, 1], "col": [1, 2]}
    return {
        "npz": {
            "good.npz": npz(**edges),
            "good-csr.npz": npz(**matrix),
            "good-coo.npz": npz(**coo),
        },
        "parhip": {"good.bgf": np.array(_parhip(), "<u8").tobytes()},
        "rates-npz": {"good.npz": npz(rate=np.arange(NEURONS) / 2)},
        "trains": {"good.npz": npz(neuron=[0, 5, 2], tick=[3, 1, 1])},
        "samples-npz": {"good.npz": npz(x=x, y=[0, 1])},
        "samples-npy": {"good.npy": saved.getvalue()},
        "samples-spikes": {
            "good.npz": npz(input=np.eye(3, dtype=int)[None], y=[1]),
            "good-lists.npz": npz(
                sample=[0, 1],
                tick=[0, 2],
                neuron=[2, 0],
                value=[1, 3],
                samples=2,
                ticks=4,
                y=[0, 1],
            ),
        },
    }


def _parhip() -> list[int]:
    """Return the numbers of a graph of 3 vertices and 2 edges: 0-1, 1-2."""
    starts = np.cumsum([0, 1, 2, 1]) * 8 + 8 * (3 + 4)
    return [3, 3, 4, *starts.tolist(), 1, 0, 2, 1]


def mapper(folder: Path, *words: str) -> None:
    """Run a command in a folder."""
    import os

    from mapper.cli.main import main

    before = Path.cwd()
    os.chdir(folder)
    try:
        with redirect_stdout(io.StringIO()):
            code = main(list(words))
    finally:
        os.chdir(before)
    if code:
        raise SystemExit(f"mapper {' '.join(words)}: exit code {code}")


def networks(folder: Path) -> dict[str, Files]:
    """Return network files, and files that are exported from one."""
    (folder / "net.csv").write_text(EDGES)
    (folder / "names.csv").write_text("source,target,weight\nA,B,-2\nB,C,0.5\nC,A,1\nC,C,1\n")
    mapper(folder, "import", "net.csv", "net.bin")
    mapper(folder, "import", "names.csv", "names.bin", "--weights-are", "synapse")
    mapper(
        folder,
        "generate",
        "cortex",
        "files",
        "--side",
        "4",
        "--fanout",
        "3",
        "--sigma",
        "1",
        "--files",
        "2",
    )
    plain = {
        "good.bin": (folder / "net.bin").read_bytes(),
        "good-names.bin": (folder / "names.bin").read_bytes(),
    }
    found = dict.fromkeys(("network", "network-judge", "network-sealed"), plain)
    found["network-files"] = {"good.zip": folder_bytes(folder / "files")}
    mapper(folder, "export", "net.bin", "net.parquet")
    mapper(folder, "export", "net.bin", "net.h5")
    found["parquet"] = {"good.parquet": (folder / "net.parquet").read_bytes()}
    config = {"networks": {"edges": [{"edges_file": "net.h5"}], "nodes": []}}
    nodes = next((one for one in folder.glob("*nodes*.h5")), None)
    parts = {"net.h5": (folder / "net.h5").read_bytes()}
    found["sonata"] = {"good.zip": archive_of(parts)}
    if nodes is not None:
        config["networks"]["nodes"] = [{"nodes_file": nodes.name, "node_types_file": None}]
        parts[nodes.name] = nodes.read_bytes()
    parts["circuit.json"] = json.dumps(config).encode()
    return {**found, "sonata-config": {"good.zip": archive_of(parts)}}


def runs(folder: Path) -> dict[str, Files]:
    """Return files of output folders."""
    from chipsim.chip.model import Chip
    from mapper.results import mapping_ranges
    from mapper.results.mapping_file import save_mapping

    mapper(folder, "run", "net.bin", "--chip", "3x2", "--neurons-per-core", "1", "-o", "out")
    mapper(
        folder,
        "run",
        "net.bin",
        "--chip",
        "3x2",
        "--neurons-per-core",
        "2",
        "--seeds",
        "2",
        "-o",
        "seeds",
        "-q",
    )
    out, chip = folder / "out", Chip("c", 3, 2)
    core = np.array([1, 1, 0, 5, 4, 2], np.int32)
    save_mapping(folder / "m.npz", core, chip)
    before, mapping_ranges.RANGE = mapping_ranges.RANGE, 4
    (folder / "ranged").mkdir()
    mapping_ranges.save_ranges(folder / "ranged", core, (3, 2), {})
    mapping_ranges.RANGE = before
    ranged = {"good.zip": folder_bytes(folder / "ranged")}
    return {
        "report": {"good.zip": archive_of({"report.json": (out / "report.json").read_bytes()})},
        "portfolio": {
            "good.zip": archive_of(
                {"portfolio.json": (folder / "seeds" / "portfolio.json").read_bytes()}
            )
        },
        "resume": {
            "good.zip": archive_of({"run.json": b'{"version": "1", "memory_bytes": 1, "seed": 0}'})
        },
        "mapping": {"good.npz": (folder / "m.npz").read_bytes()},
        "mapping-ranges": ranged,
        "mapping-judge": {
            **ranged,
            "good-npz.zip": archive_of({"mapping.npz": (folder / "m.npz").read_bytes()}),
        },
        "loads": {"good.npz": (out / "traffic.npz").read_bytes()},
    }


def populations(folder: Path) -> dict[str, Files]:
    """Return the populations of a mapping, and the mapping with their names as csv."""
    from chipsim.chip.model import Chip
    from mapper.results.population_file import POPULATIONS, save_populations
    from mapper.scoring.populations import population_traffic
    from storage.store.network import NetworkFile
    from storage.store.writer import NetworkWriter

    core = np.array([1, 1, 0, 5, 4, 2], np.int32)
    with NetworkWriter(folder / "layers.bin", core.size) as writer:
        writer.add(np.arange(6), np.array([3, 4, 5, 1, 0, 2]), np.arange(1, 7))
        writer.set_attribute("layer", np.array([0, 0, 0, 1, 1, 2]), ["a", "b", "c"])
        writer.finish()
    with NetworkFile(folder / "layers.bin") as network:
        save_populations(folder, population_traffic(network, Chip("c", 3, 2), core))
    rows = (f'{neuron},{one},"l {neuron}"' for neuron, one in enumerate(core))
    table = "\n".join(["neuron,core,population_name", *rows])
    return {
        "populations": {"good.npz": (folder / POPULATIONS).read_bytes()},
        "mapping-csv": {"good.names.csv": table.encode()},
    }


def compiled(folder: Path) -> dict[str, Files]:
    """Return files of compiled models."""
    from tests.compiler.bad_input.good import QUICK, good

    good().save(folder)
    mapper(
        folder,
        "compile",
        "good.onnx",
        *QUICK,
        "--chip",
        "1x2",
        "--calibrate",
        "samples.npz",
        "-o",
        "c",
    )
    out = folder / "c"
    whole = {one.name: one.read_bytes() for one in out.iterdir() if one.is_file()}
    report, ranges = whole.pop("report.json"), json.loads(whole.pop("ranges.json"))
    whole.pop("report.html")
    for one in ranges["tensors"].values():
        one["counts"] = one["counts"][:8]
    model = (folder / "good.onnx").read_bytes()
    packed = {"good.zip": archive_of(whole)}
    return {
        "compiled": packed,
        "compiled-sealed": packed,
        "compiled-report": {"good.zip": archive_of({"report.json": report})},
        "program": {"good.npc": whole["core_0_1.npc"]},
        "program-sealed": {"good.npc": whole["core_0_0.npc"]},
        "records": {"good.bin": whole["macros.bin"]},
        "ranges": {
            "good.zip": archive_of(
                {"ranges.json": json.dumps(ranges).encode(), "model.onnx": model}
            )
        },
        "model": {"good.onnx": model},
        "onnx": {"good.onnx": model},
    }


def spiking(folder: Path) -> dict[str, Files]:
    """Return files of spiking models."""
    import h5py

    from tests.mapper.spiking import graphs

    graphs.INPUTS, graphs.HIDDEN, graphs.CLASSES = 3, 4, 2

    graphs.save_graph(folder / "a.nir")
    graphs.save_spikes(folder / "spikes.npz")
    mapper(
        folder,
        "compile",
        "a.nir",
        "--chip",
        "2x2",
        "--tick-length",
        "0.001",
        "--calibrate",
        "spikes.npz",
        "-o",
        "s",
    )
    whole = {one.name: one.read_bytes() for one in (folder / "s").iterdir() if one.is_file()}
    report = whole.pop("report.json")
    whole.pop("report.html", None)
    packed = {"good.zip": archive_of(whole)}
    with h5py.File(folder / "spikes.h5", "w") as file:
        file.attrs["magic"], file.attrs["version"] = np.uint32(0x0A7A), np.array([0, 1], np.uint32)
        file["spikes/default/node_ids"] = np.array([0, 5], np.uint64)
        file["spikes/default/timestamps"] = np.array([0.5, 3.0])
    nir = {"good.zip": archive_of({"net.nir": (folder / "a.nir").read_bytes()})}
    spikes = {"good.zip": archive_of({"net.h5": (folder / "spikes.h5").read_bytes()})}
    return {
        "spiking": packed,
        "spiking-sealed": packed,
        "spiking-report": {"good.zip": archive_of({"report.json": report})},
        "nir": nir,
        "nir-model": nir,
        "rates-hdf5": spikes,
        "trains-hdf5": spikes,
    }


def others(folder: Path) -> dict[str, Files]:
    """Return scratch files, an architecture of SANA-FE, and images."""
    from PIL import Image

    from storage.scratch.record_log import RecordLog
    from storage.scratch.run_file import RunName, pack_frame, write_run

    with RecordLog(folder / "records") as log:
        log.put([("a", b"first"), ("b/c", b"second" * 3)])
        log.put([("a", b"third")])
    name = RunName(folder, RUN_TAG, 2, 7)
    frame = pack_frame(
        np.array([0, 2, 3]), np.array([1, 5, 0], np.int32), np.array([1, 2, 9], np.int32)
    )
    write_run(name, [[frame], [], [frame]])
    mapper(folder, "export", "out", "c.yaml", "--format", "sanafe")
    images = {}
    for label in ("a", "b"):
        made = io.BytesIO()
        Image.fromarray(np.arange(4, dtype=np.uint8).reshape(2, 2) + 1).save(made, "png")
        images[f"{label}/0.png"] = made.getvalue()
    architecture = next(iter(sorted(folder.rglob("*arch*.yaml"))), None)
    return {
        "scratch-log": {"good.log": (folder / "records").read_bytes()},
        "scratch-run": {"good.run": name.path.read_bytes()},
        "samples-images": {"good.zip": archive_of(images)},
        **(
            {}
            if architecture is None
            else {"chip-sanafe": {"good.yaml": architecture.read_bytes()}}
        ),
    }


def main() -> None:
    wanted = sys.argv[1:]
    steps: list[Callable[[Path], dict[str, Files]]] = [
        networks,
        runs,
        populations,
        compiled,
        spiking,
        others,
    ]
    with tempfile.TemporaryDirectory() as name:
        found = [texts(), arrays(), matrices(), *(step(Path(name)) for step in steps)]
    for reader, files in ((one, group[one]) for group in found for one in group):
        if not wanted or reader in wanted:
            folder = CORPUS / reader
            folder.mkdir(parents=True, exist_ok=True)
            for file, data in files.items():
                (folder / file).write_bytes(data)
                print(f"{reader}/{file}: {len(data)} bytes")


if __name__ == "__main__":
    main()
