"""Request of a compilation: a model, chips, settings, samples and outputs.

Settings and shapes are built from the options of `mapper compile` by their names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from chipsim.chip.model import Chip
from mapper.cache.cache import OFF, Cache
from mapper.compiler.settings import CompileSettings
from mapper.compiler.transforms.switches import SWITCHES
from mapper.errors import UsageError
from storage.samples import SampleForm, SampleTable, require_samples


class RequestedSamples(NamedTuple):
    """Samples of a compilation.

    calibrate : measured samples, or ranges of an earlier compilation (.json)
    verify : test samples; None uses a quarter of `calibrate`
    limit : number of calibration samples to read; None has the default of the settings
    form : how they become the input of the model
    """

    calibrate: Path | SampleTable | None = None
    verify: Path | SampleTable | None = None
    limit: int | None = None
    form: SampleForm = SampleForm()

    @property
    def ranges(self) -> Path | None:
        """The file of ranges, if one is given instead of calibration samples."""
        found = self.calibrate
        return found if isinstance(found, Path) and _is_ranges(found) else None


class RequestedOutputs(NamedTuple):
    """Outputs of a compilation.

    keep_going : whether a result that misses the limits is kept
    graphs : write the graph after each stage
    emit : further files, `c` or `loops`
    command : words of the command line, for the report
    """

    keep_going: bool = False
    graphs: bool = False
    emit: tuple[str, ...] = ()
    command: Sequence[str] = ()


class CompileRequest(NamedTuple):
    """A model, the chips to compile it for, and the settings.

    chips : chips with NPUs, smallest first; the first one that the model fits is used
    shapes : sizes of an input's axes by its name, which fix its open axes; "" is the only input
    memory : budget in bytes; None: the default
    of_floats : given options that have no effect on a model that is quantised already
    cache : results of earlier compilations
    """

    model: Path
    chips: Sequence[Chip]
    settings: CompileSettings
    samples: RequestedSamples = RequestedSamples()
    outputs: RequestedOutputs = RequestedOutputs()
    shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    memory: int | None = None
    of_floats: Sequence[str] = ()
    cache: Cache = OFF

    def require_sound(self) -> None:
        """Raise an error for a driver of several cores, and for files that hold no samples.

        Takes milliseconds; a large model takes seconds to read.
        """
        several = self.chips[-1].usable_count > 1 and self.settings.cores != 1
        if "c" in self.outputs.emit and several:
            raise UsageError("--emit c: the C driver supports one core; add --cores 1")
        for source in (self.samples.calibrate, self.samples.verify):
            if source is not None and not (isinstance(source, Path) and _is_ranges(source)):
                require_samples(source)


def _is_ranges(path: Path) -> bool:
    return path.suffix.lower() == ".json"


def input_shapes(given: Sequence[tuple[str, tuple[int, ...]]]) -> dict[str, tuple[int, ...]]:
    """Return the sizes of inputs by name; raise `UsageError` for a duplicate."""
    found: dict[str, tuple[int, ...]] = {}
    for name, sizes in given:
        if name in found or (found and "" in (name, *found)):
            raise UsageError("--input-shape: duplicate input; give each input once")
        found[name] = sizes
    return found


SETTINGS = (
    "scheme", "method", "headroom", "max_loss", "min_signal", "rounding", "zero_point",
    "bits", "bias", "dual", "first_tile", "pack", "pack_chunk", "padding", "few_channels",
    "cores", "objective", "effort", "time_limit",
)  # fmt: skip
"""Options that are settings of the same name."""


def settings_of(
    values: Mapping[str, Any],
    *,
    per: str | None = None,
    samples: int | None = None,
    keep: tuple[str, ...] = (),
    disable: Collection[str] = (),
    baseline: Mapping[str, Any] = MappingProxyType({}),
) -> CompileSettings:
    """Return the settings of some options; omitted ones have their defaults.

    values : settings by name, see `SETTINGS`
    per, samples, keep : options of these names
    disable : names of passes; baseline : fixed rules by the setting that they replace
    Raises `UsageError` for a value out of range.
    """
    if samples is not None:
        values = {**values, "samples": samples}
    return CompileSettings(
        **values,
        per=_per(per),
        keep=keep,
        bias_correction="bias-correction" not in disable,
        reuse="reuse" not in disable,
        off=tuple(name for name in disable if name in SWITCHES),
        **baseline,
    )


def _per(text: str | None) -> Literal["tensor", "channel"]:
    """Return what shares a scale of weights; raise `UsageError` for spiking models' words."""
    if text in ("neuron", "population"):
        raise UsageError(f"--per {text}: applies to spiking models (.nir); give tensor or channel")
    return "tensor" if text == "tensor" else "channel"
