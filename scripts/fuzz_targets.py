"""The readers of files that `fuzz_readers` drives: each with a function, a file name and a mutator.

A read function takes the path of a file, or of a folder whose files are kept in the corpus as an
archive. It reads as much as the commands do, and returns the values.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from scripts import fuzz_libraries as libraries
from scripts import fuzz_structure as structure
from scripts.fuzz_structure import Mutator, archive_of

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests" / "corpus"
MEMORY = 1 << 24  # bytes for sorting
NEURONS = 6  # of the network that rates, spikes and mappings are for
MOST = 64  # blocks, attributes or samples that are read


@dataclass(frozen=True)
class Reader:
    """A reader.

    file : name that an input gets; empty if the input is an archive of the files of a folder
    read : returns the values; raises an error of the project
    mutate : by structure
    expected : names of further exceptions that are part of its interface
    sealed : whether checksums cover the values: changed bytes must give an error or equal values
    """

    name: str
    file: str
    read: Callable[[Path], object]
    mutate: Mutator = structure.text
    expected: tuple[str, ...] = ()
    sealed: bool = False

    def put(self, data: bytes, folder: Path) -> Path | None:
        """Write an input; return its path, None if it is not a folder in an archive."""
        if self.file:
            path = folder / self.file
            path.write_bytes(data)
            return path
        try:
            parts = structure.members(data)
        except structure.DAMAGED:
            return None
        place = folder / "folder"
        place.mkdir()
        for name, part in parts.items():
            inside = [
                one for one in name.split("/") if one not in ("", ".", "..") and "\0" not in one
            ]
            if inside and len(name) < 200:
                path = place.joinpath(*inside)
                if not path.exists() and all(not one.is_file() for one in path.parents):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(part)
        return place


def corpus(reader: Reader) -> dict[str, bytes]:
    """Return the inputs of a reader by name; names that begin with good are read without error."""
    return {one.name: one.read_bytes() for one in sorted((CORPUS / reader.name).glob("*"))}


def folder_bytes(folder: Path) -> bytes:
    """Return the files of a folder as an archive."""
    files = sorted(one for one in folder.rglob("*") if one.is_file())
    return archive_of({str(one.relative_to(folder)): one.read_bytes() for one in files})


# networks ---------------------------------------------------------------------------------------


def _network(path: Path) -> object:
    from storage.store.network import NetworkFile
    from storage.store.neurons import read_neurons

    with NetworkFile(path) as net:
        net.check()
        found: list[Any] = [net.meta, net.vertex_sizes()]
        for index in range(min(net.block_count, MOST)):
            found += [net.read_block(index), net.read_undirected(index), net.read_outgoing(index)]
            if net.meta.synaptic is not None:
                found.append(net.read_synapses(index))
        names = itertools.islice(net.meta.attributes, MOST)
        return [*found, *(net.attribute(name) for name in names), read_neurons(net)]


def _verified(path: Path) -> object:
    from mapper.evaluation.verify import verify_network

    return verify_network(path)


def _imported(name: str, path: Path) -> object:
    from storage.formats import import_network, recognise
    from storage.store.network import NetworkFile

    made = path.with_name("made.bin")
    recognise(path)
    import_network(path, made, name, memory=MEMORY, threads=1)
    with NetworkFile(made) as net:
        net.check()
        return net.meta


def _guessed(path: Path) -> object:
    from storage.formats import recognise

    return recognise(path)


def _inside(read: Callable[[Path], object], file: str, folder: Path) -> object:
    return read(folder / file)


@cache
def _net(first: int = 0) -> Any:
    """Return a network of `NEURONS` neurons, whose file was deleted; first : the smallest id."""
    from storage.formats import import_network
    from storage.store.network import NetworkFile

    with tempfile.TemporaryDirectory() as folder:
        path, made = Path(folder) / "net.csv", Path(folder) / "net.bin"
        path.write_text(
            "".join(f"{n + first},{(n + 1) % NEURONS + first},1\n" for n in range(NEURONS))
        )
        import_network(path, made, "edgelist", memory=MEMORY, threads=1)
        return NetworkFile(made)


def _rates(path: Path) -> object:
    from storage.formats.rates import read_rates

    return read_rates(path, _net())


def _nest_rates(path: Path) -> object:
    from storage.formats.rates import read_rates

    return read_rates(path, _net(1), 1.0)


def _trains(path: Path) -> object:
    from storage.formats.trains import read_trains

    return read_trains(path, _net(), 1.0)


def _nir_model(path: Path) -> object:
    from storage.formats.hdf5.nirmodel import read_nir_model

    return read_nir_model(path)


# samples ----------------------------------------------------------------------------------------


def _samples(path: Path) -> object:
    from storage.samples.form import SampleForm
    from storage.samples.samples import open_samples, require_samples

    require_samples(path)
    with open_samples(path, (1, 2, 2), SampleForm(), MOST, name="input") as samples:
        return [samples.labels, samples.notes, *samples.batches(4)]


def _spikes(path: Path) -> object:
    from storage.errors import BadInputError
    from storage.samples.encoding import ENCODING_METHODS, Encoding
    from storage.samples.spikes import read_spike_samples

    shapes = {"input": (3,)}
    for method in ENCODING_METHODS:
        try:
            read_spike_samples(path, shapes, Encoding(method, 4))
        except BadInputError as error:
            assert str(error).isprintable()
    return read_spike_samples(path, shapes)


# chips and constraints --------------------------------------------------------------------------


def _chip(path: Path) -> object:
    from chipsim.chip.presets import from_fields, parse_chip

    chip = parse_chip(str(path))
    return from_fields(chip.to_json())


def _constraints(path: Path) -> object:
    from chipsim.chip.model import Chip
    from mapper.limits.combined_constraints import combine
    from mapper.limits.constraints import ConstraintFile, constraints_in

    known = {"a": np.arange(2)}
    file, chip = ConstraintFile.read(path), Chip("c", 3, 2)
    return combine(constraints_in(file, chip, NEURONS, known.get), NEURONS, chip.usable)


def _sweep(path: Path) -> object:
    from mapper.portfolio.sweep_file import read_sweep

    sweep = read_sweep(path)
    return [
        {**one, "place": sweep.place_of(str(one.get("network")))} for one in sweep.combinations()
    ]


# output folders ---------------------------------------------------------------------------------


def _report(folder: Path) -> object:
    from mapper.results.output import read_report

    return read_report(folder)


def _portfolio(folder: Path) -> object:
    from mapper.portfolio.portfolio_file import read_portfolio

    found = read_portfolio(folder)
    found.choose()
    return found.to_json()


def _resumed(folder: Path) -> object:
    from mapper.results.output_folder import find_folder
    from mapper.resume.resume import planned_memory, take_up

    find_folder(folder)
    planned_memory(folder)
    return take_up(folder, {"version": "1", "memory_bytes": 1, "seed": 0}, folder / "made")


def _mapping(path: Path) -> object:
    from chipsim.chip.model import Chip
    from mapper.results.mapping_file import load_mapping, load_relays

    chip = Chip("c", 3, 2)
    return load_mapping(path, NEURONS, chip), load_relays(path, chip, NEURONS, NEURONS)


def _mapping_folder(folder: Path) -> object:
    from mapper.results.mapping_file import mapping_in

    return _mapping(mapping_in(folder))


def _slow_mapping(folder: Path) -> object:
    from mapper.evaluation.verify_mapping import read_cores
    from mapper.evaluation.verify_split import read_table

    cores, table = read_cores(folder, {"width": 3, "height": 2}, 1 << 16)
    return cores, table and read_table(table, NEURONS)


def _populations(path: Path) -> object:
    from chipsim.chip.model import Chip
    from mapper.results.population_file import load_populations

    found = load_populations(path.parent, Chip("c", 3, 2))
    assert found is not None
    return vars_of(found)


def vars_of(found: Any) -> dict[str, Any]:
    """Return the fields of an object by name."""
    return {field.name: getattr(found, field.name) for field in fields(found)}


def _loads(path: Path) -> object:
    from chipsim.chip.model import Chip
    from mapper.results.loads import load_loads

    return load_loads(path, Chip("c", 3, 2), LOADS)


# compiled folders -------------------------------------------------------------------------------


def _compiled(folder: Path) -> object:
    from mapper.compiler.artifacts.manifest import is_compiled, read_folder
    from mapper.compiler.program.image import program_of
    from mapper.spiking.artifacts.folder import is_spiking

    is_compiled(folder), is_spiking(folder)
    found = read_folder(folder)
    programs = [program_of(image, str(folder)) for image in found.images.values()]
    layers = _layers(found.records, str(folder / "macros.bin"))
    return found[1:], found.chip, found.shape, found.link, found.is_spread, programs, layers


def _layers(data: bytes, where: str) -> list[object]:
    from mapper.compiler.codegen.macros.file import unpack_layers
    from mapper.compiler.program.sections import split_files

    return [unpack_layers(one, where) for one in split_files(data, where)]


def _records(path: Path) -> object:
    from mapper.compiler.artifacts.contents import is_records, record_contents
    from mapper.compiler.codegen.macros.file import listing_text

    data = path.read_bytes()
    if is_records(path):
        record_contents(path)
        return listing_text(data, str(path)), _layers(data, str(path))
    return None


def _program(path: Path) -> object:
    from mapper.compiler.artifacts.contents import is_program, program_contents
    from mapper.compiler.program.image import program_of, unpack_image

    is_program(path)
    image = unpack_image(path.read_bytes(), str(path))
    return image, program_contents(path), program_of(image, str(path))


def _compiled_report(folder: Path) -> object:
    from mapper.compiler.artifacts.report import read_report

    return read_report(folder)


def _ranges(folder: Path) -> object:
    from mapper.compiler.quantisation.ranges import open_ranges

    return open_ranges(folder / "ranges.json", folder / "model.onnx")


def _model(path: Path) -> object:
    from mapper.compiler.model import open_model

    return open_model(path).opsets


def _spiking(folder: Path) -> object:
    from mapper.spiking.artifacts.folder import read_folder

    found = read_folder(folder)
    return found[1:3], found.integers, found.core, found.tables(), found.encoding, found.last


def _spiking_report(folder: Path) -> object:
    from mapper.spiking.artifacts.report import read_report

    return read_report(folder)


# scratch ----------------------------------------------------------------------------------------


def _log(path: Path) -> object:
    from storage.scratch.record_log import RecordLog

    with RecordLog(path, read_only=True) as log:
        [log.get(name) for name in log.names()]
    with RecordLog(path) as log:
        return {name: log.get(name) for name in log.names()}


LOADS = {"hops_total": 9.5, "cut_weight": 8.5}  # of good.npz
RUN_TAG = "0123456789abcdef" * 2


def _run_file(path: Path) -> object:
    from storage.scratch.run_file import RunName, read_section

    name = RunName(path.parent, RUN_TAG, 2, 7)
    return list(read_section(name, 3, 0, 3))


def _all() -> Iterator[Reader]:
    s = structure
    yield Reader("network", "net.bin", _network, s.zipped)
    yield Reader("network-sealed", "net.bin", _network, s.plain, sealed=True)
    yield Reader("network-files", "", _network, s.folder)
    yield Reader("network-judge", "net.bin", _verified, s.zipped)
    yield Reader("recognise", "net", _guessed, s.plain)
    texts = {
        "matrixmarket": "net.mtx",
        "graphml": "net.graphml",
        "gexf": "net.gexf",
        "gml": "net.gml",
        "pajek": "net.net",
        "nodelink": "net.json",
        "adjlist": "net.adjlist",
        "mladj": "net.mladj",
        "matrix": "net.csv",
        "metis": "net.graph",
        "hmetis": "net.hgr",
        "edgelist": "net.csv",
        "qaplib": "net.dat",
    }
    for name, file in texts.items():
        yield Reader(name, file, partial(_imported, name))
    others: dict[str, tuple[str, Mutator]] = {
        "parhip": ("net.bgf", s._words),
        "npy": ("net.npy", s.npy),
        "matlab": ("net.mat", s.plain),
        "npz": ("net.npz", s.zipped),
        "parquet": ("net.parquet", libraries.parquet),
        "onnx": ("net.onnx", libraries.onnx),
    }
    for name, (file, mutate) in others.items():
        yield Reader(name, file, partial(_imported, name), mutate)
    in_folders: dict[str, tuple[Callable[[Path], object], str]] = {  # HDF5 files are compressible
        "nir": (partial(_imported, "nir"), "net.nir"),
        "nir-model": (_nir_model, "net.nir"),
        "sonata": (partial(_imported, "sonata"), "net.h5"),
        "rates-hdf5": (_rates, "net.h5"),
        "sonata-config": (partial(_imported, "sonata"), "circuit.json"),
        "trains-hdf5": (_trains, "net.h5"),
    }
    for name, (read, file) in in_folders.items():
        yield Reader(name, "", partial(_inside, read, file), s.folder)
    yield Reader("rates", "rates", _rates)
    yield Reader("rates-nest", "rates-1-0.dat", _nest_rates)
    yield Reader("rates-npz", "rates", _rates, s.zipped)
    yield Reader("trains", "spikes", _trains, s.zipped)
    yield Reader("samples-npz", "x.npz", _samples, s.zipped)
    yield Reader("samples-npy", "x.npy", _samples, s.npy)
    yield Reader("samples-csv", "x.csv", _samples)
    yield Reader("samples-images", "", _samples, s.folder)
    yield Reader("samples-spikes", "x.npz", _spikes, s.zipped)
    yield Reader("chip", "chip.toml", _chip)
    yield Reader("chip-sanafe", "chip.yaml", _chip)
    yield Reader("constraints", "c.toml", _constraints)
    yield Reader("sweep", "sweep.toml", _sweep)
    yield Reader("report", "", _report, s.folder)
    yield Reader("portfolio", "", _portfolio, s.folder)
    yield Reader("resume", "", _resumed, s.folder)
    yield Reader("mapping", "mapping.npz", _mapping, s.zipped)
    yield Reader("mapping-csv", "mapping.csv", _mapping)
    yield Reader("mapping-ranges", "", _mapping_folder, s.folder)
    yield Reader("mapping-judge", "", _slow_mapping, s.folder)
    yield Reader("loads", "traffic.npz", _loads, s.zipped)
    yield Reader("populations", "populations.npz", _populations, s.zipped)
    yield Reader("compiled", "", _compiled, s.sealed)
    yield Reader("compiled-sealed", "", _compiled, s.folder, sealed=True)
    yield Reader("compiled-report", "", _compiled_report, s.folder)
    yield Reader("program", "core.npc", _program, s.sections)
    yield Reader("program-sealed", "core.npc", _program, s.plain, sealed=True)
    yield Reader("records", "macros.bin", _records, s.sections)
    yield Reader("ranges", "", _ranges, s.folder)
    yield Reader("model", "net.onnx", _model, libraries.onnx)
    yield Reader("spiking", "", _spiking, s.sealed)
    yield Reader("spiking-sealed", "", _spiking, s.folder, sealed=True)
    yield Reader("spiking-report", "", _spiking_report, s.folder)
    yield Reader("scratch-log", "records", _log, s.log)
    yield Reader(
        "scratch-run", "batch-2-00007.run", _run_file, s.plain, ("UnusableError",), sealed=True
    )


READERS = {reader.name: reader for reader in _all()}
