"""Read and write the folder of a compiled spiking model.

manifest.json   model, chip, core, populations and precisions; hashes of all other files
model.nir       the model that was compiled, to compare with
integers.npz    the integer network, its scales, and the core of each neuron
report.json     results of the commands: `mapper.spiking.artifacts.report`
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.chip.presets import from_fields
from chipsim.errors import ChipError
from hw.core.network import DYNAMICS, STATE, VALUES, SpikingNetwork
from hw.core.shape import CoreShape
from hw.errors import HwError
from hw.tables import ChipTables, make_tables
from mapper.errors import MapperError
from mapper.results.sealed_folder import (
    MANIFEST,
    MOST_FILE,
    MOST_JSON,
    as_damage,
    read_manifest,
    read_sealed,
    write_sealed,
)
from mapper.spiking.artifacts.core_use import core_entries, list_entries
from mapper.spiking.artifacts.manifest_file import KIND, SCHEMA, Manifest
from mapper.spiking.discretise import model_of_graph
from mapper.spiking.integers import IntegerCounts, IntegerModel, IntegerOptions
from mapper.spiking.model import SpikingModel
from mapper.spiking.pipeline import MappedSpikes, SpikingOptions
from mapper.spiking.schedule import schedule
from mapper.version import version
from storage.errors import StorageError
from storage.files import read_input
from storage.jsontext import parse_json
from storage.npz import load_arrays, npz_bytes
from storage.samples.encoding import Encoding
from storage.typed import convert

if TYPE_CHECKING:
    import nir

MODEL, INTEGERS = "model.nir", "integers.npz"
_SYNAPSES = ("source", "target", "weight", "delay")
_NEURONS = (*DYNAMICS, *VALUES, *STATE)
_ARRAYS = {*_SYNAPSES, *_NEURONS, "scale", "core"}
_WIDTHS = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.int64)


class ModelSource(NamedTuple):
    """A NIR file: its name and its bytes."""

    name: str
    data: bytes

    @classmethod
    def of(cls, model: nir.NIRGraph | Path) -> ModelSource:
        """Return a file, or the file that holds a graph."""
        if isinstance(model, Path):
            return cls(model.name, read_input(model, MOST_FILE))
        from storage.formats.hdf5.nirobject import file_bytes

        return cls(MODEL, file_bytes(model))


class SpikingFolder(NamedTuple):
    """Contents of a folder.

    model : in real numbers
    core : core of each neuron, ndarray[int64], shape (neurons,)
    """

    path: Path
    manifest: Manifest
    chip: Chip
    model: SpikingModel
    integers: IntegerModel
    core: NDArray[np.int64]

    def tables(self) -> ChipTables:
        """Return the tables of the cores; raise `HwError` if one is too small."""
        network, shape = self.integers.network, self.integers.shape
        watched = self.model.watched.tolist()
        return make_tables(network, self.core, self.chip.width, self.chip.height, shape, watched)

    @property
    def encoding(self) -> Encoding | None:
        """Encoding of samples that hold real numbers."""
        found = self.manifest.encoding
        return None if found is None else Encoding(found.method, found.ticks, found.seed)

    @property
    def last(self) -> int:
        """Ticks that a run is longer than its samples, until all populations are done."""
        return max(0, *self.integers.latency)


def is_spiking(folder: Path) -> bool:
    """Return whether a folder holds a compiled spiking model, even if a file of it is missing."""
    if any((folder / name).is_file() for name in (MODEL, INTEGERS)):
        return True
    try:
        found = parse_json(read_input(folder / MANIFEST, MOST_JSON))
    except (StorageError, ValueError, RecursionError):  # reported by readers of other folders
        return False
    return isinstance(found, dict) and found.get("kind") == KIND


def write_folder(
    folder: Path, source: ModelSource, mapped: MappedSpikes, chip: Chip, options: SpikingOptions
) -> SpikingFolder:
    """Write a compiled model; options : it was compiled with."""
    compiled, integers = mapped.compiled, mapped.compiled.integers
    files = {MODEL: source.data, INTEGERS: npz_bytes(_arrays(integers, mapped.core))}
    model = compiled.model
    manifest = {
        "schema": SCHEMA,
        "kind": KIND,
        "tool": f"mapper {version()}",
        "model": {"name": source.name, "sha256": hashlib.sha256(source.data).hexdigest()},
        "tick": model.tick,
        "reset": options.reset,
        "encoding": _plain(options.encoding),
        "chip": chip.to_json(),
        "shape": asdict(integers.shape),
        "populations": _populations(model, integers.latency),
        "outputs": _outputs(model),
        "neurons": integers.network.neurons,
        "inputs": integers.network.inputs,
        "scales": _plain(integers.options),
        "counts": _plain(integers.counts),
        "limits": _plain(options.limits),
        "trials": _plain(compiled.trials),
        "chosen": compiled.chosen,
        "limits_missed": compiled.missed,
        "notes": list(compiled.notes),
        "cores": [msgspec.to_builtins(each) for each in core_entries(mapped.tables)],
        "lists": [msgspec.to_builtins(each) for each in list_entries(mapped.tables, model)],
    }
    write_sealed(folder, files, manifest)
    written = convert(read_manifest(folder, SCHEMA), Manifest)
    return SpikingFolder(folder, written, chip, model, integers, mapped.core)


def read_folder(path: Path) -> SpikingFolder:
    """Read a compiled model; raise `MapperError` that names the missing or damaged file."""
    found = read_manifest(path, SCHEMA)
    try:
        manifest = convert(found, Manifest)
    except ValueError as error:
        raise MapperError(f"{path / MANIFEST}: {error}; compile the model again") from error
    with _inconsistent(path):
        files = read_sealed(path, found)
        for name in (MODEL, INTEGERS):
            if name not in files:
                raise MapperError(f"{path / name}: is missing; compile the model again")
        chip = from_fields(manifest.chip, f"{path / MANIFEST}: chip")
        shape = CoreShape(**manifest.shape)
        model = model_of_graph(path / MODEL, manifest.tick, manifest.reset)
        times = schedule(model, shape.longest_delay)
        if (
            _populations(model, times.latency) != msgspec.to_builtins(manifest.populations)
            or _outputs(model) != msgspec.to_builtins(manifest.outputs)
            or (manifest.neurons, manifest.inputs) != model_size(model)
            or (manifest.chosen is not None and manifest.chosen >= len(manifest.trials))
        ):
            raise ValueError(f"{MANIFEST} is of another model")
        arrays = _read_arrays(files[INTEGERS], manifest)
        network = SpikingNetwork(
            manifest.neurons,
            **{name: arrays[name] for name in (*_SYNAPSES, *_NEURONS)},
            inputs=manifest.inputs,
        )
        network.require_fit(shape)
        integers = IntegerModel(
            network, shape, arrays["scale"], times.latency,
            IntegerOptions(**msgspec.to_builtins(manifest.scales)),
            IntegerCounts(**msgspec.to_builtins(manifest.counts)),
        )  # fmt: skip
        core = arrays["core"]
        if core.min(initial=0) < 0 or not chip.usable[core].all():
            raise ValueError(f"{INTEGERS}: core has cores that the chip does not have")
    return SpikingFolder(path, manifest, chip, model, integers, core)


def model_size(model: SpikingModel) -> tuple[int, int]:
    """Return the number of neurons and of inputs."""
    sizes = [(each.dynamics is None, each.size) for each in model.populations]
    return sum(n for given, n in sizes if not given), sum(n for given, n in sizes if given)


@contextmanager
def _inconsistent(path: Path) -> Iterator[None]:
    """Report files that contradict each other in one line, although their hashes are right."""
    try:
        with as_damage(path):
            yield
    except (HwError, ChipError) as error:
        raise MapperError(f"{path}: {error}; compile the model again") from error


def _populations(model: SpikingModel, latency: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return the populations as `PopulationEntry`s."""
    rows = zip(model.populations, model.first, latency, strict=True)
    return [
        {
            "name": each.name, "kind": each.kind, "shape": list(each.shape), "first": first,
            "latency": late,
        }
        for each, first, late in rows
    ]  # fmt: skip


def _outputs(model: SpikingModel) -> list[dict[str, Any]]:
    """Return the outputs as `OutputEntry`s."""
    axons = model.host_axons
    return [{**each._asdict(), "axon": axons.get(each.population)} for each in model.outputs]


def _plain(value: Any) -> Any:
    """Return named tuples as objects for JSON."""
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _arrays(integers: IntegerModel, core: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a network in the narrowest types that hold them."""
    network = integers.network
    whole = {name: getattr(network, name) for name in (*_SYNAPSES, *_NEURONS)}
    return {"scale": integers.scale} | {
        name: _narrow(values) for name, values in (whole | {"core": core}).items()
    }


def _narrow(values: NDArray[np.int64]) -> NDArray[Any]:
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    return next(
        values.astype(each)
        for each in _WIDTHS
        if np.iinfo(each).min <= low and high <= np.iinfo(each).max
    )


def _read_arrays(data: bytes, manifest: Manifest) -> dict[str, NDArray[Any]]:
    """Return the arrays of integers.npz; raise `ValueError` for other names, types or shapes."""
    with load_arrays(io.BytesIO(data)) as archive:
        found = {name: archive[name] for name in archive.files}
    if found.keys() != _ARRAYS:
        raise ValueError(f"{INTEGERS} holds {', '.join(found)}")
    synapses = found["source"].size
    for name, values in found.items():
        count = synapses if name in _SYNAPSES else manifest.neurons
        if values.shape != (count,) or values.dtype.kind not in ("f" if name == "scale" else "iu"):
            raise ValueError(f"{INTEGERS}: {name} is {values.dtype} of shape {values.shape}")
        found[name] = values.astype(np.float64 if name == "scale" else np.int64)
    if not (np.isfinite(found["scale"]) & (found["scale"] > 0)).all():
        raise ValueError(f"{INTEGERS}: scale has values that are not positive")
    return found
