"""Options of a compilation by the names of `mapper compile`, checked against each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple, get_args

from chipsim.chip.model import Chip
from mapper.errors import UsageError, shown
from mapper.spiking.agreement import BINS
from mapper.spiking.chip_core import core_weight_bits
from mapper.spiking.discretise import ResetMode
from mapper.spiking.integers import IntegerOptions
from mapper.spiking.pipeline import SpikingOptions
from mapper.spiking.scales import Per
from mapper.spiking.search import AgreementLimits
from storage.samples.encoding import ENCODING_METHODS, Encoding, EncodingMethod


class CompileOptions(NamedTuple):
    """Options of `mapper compile` for spiking models; None has the default of the command.

    seed : of the random spikes of `encode="rate"`
    memory : budget in bytes; None: the default
    """

    tick_length: float | None = None
    reset: ResetMode | None = None
    weight_bits: int | Sequence[int] | None = None
    per: Per | None = None
    max_loss: float = 1.0
    min_agreement: float | None = None
    bin: int | None = None
    encode: EncodingMethod | None = None
    ticks: int | None = None
    seed: int = 0
    keep_going: bool = False
    memory: int | None = None


def spiking_options(given: CompileOptions, chip: Chip, calibrated: bool) -> SpikingOptions:
    """Return the options of a compilation for a chip.

    calibrated : whether there are samples

    Raises `UsageError` for unknown words and for options that contradict each other.
    """
    _require_known(given)
    asked = _widths(given.weight_bits)
    widths = asked or core_weight_bits(chip)
    if chip.weight_bits and widths[-1] > chip.weight_bits:
        raise UsageError(
            f"--weight-bits {widths[-1]}: chip {chip.name} has weights of {chip.weight_bits} bits; "
            f"give at most {chip.weight_bits}"
        )
    if not calibrated:
        _require_no_samples(given, asked)
    limits = AgreementLimits(same=1 - float(given.max_loss) / 100)
    if given.min_agreement is not None:
        limits = limits._replace(cosine=float(given.min_agreement))
    if given.bin is not None:
        limits = limits._replace(ticks=int(given.bin))
    tick = None if given.tick_length is None else float(given.tick_length)
    return SpikingOptions(
        tick, given.reset or "zero", IntegerOptions(given.per or "neuron"), limits,
        widths, _encoding(given), given.keep_going, given.memory,
    )  # fmt: skip


def _require_known(given: CompileOptions) -> None:
    """Raise `UsageError` for values that an option does not have."""
    words: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "reset": (given.reset, get_args(ResetMode)),
        "per": (given.per, get_args(Per)),
        "bin": (given.bin, BINS),
        "encode": (given.encode, ENCODING_METHODS),
    }
    for name, (value, known) in words.items():
        if value is not None and value not in known:
            raise UsageError(
                f"--{name} {shown(value)} is not known; give {', '.join(map(str, known))}"
            )
    numbers: dict[str, tuple[Any, type, float, str]] = {
        "--tick-length": (given.tick_length, Real, -math.inf, "a number"),
        "--max-loss": (given.max_loss, Real, -math.inf, "a number"),
        "--min-agreement": (given.min_agreement, Real, -math.inf, "a number"),
        "--ticks": (given.ticks, Integral, 1, "a whole number of 1 or more"),
        "seed": (given.seed, Integral, 0, "a whole number of 0 or more"),
    }
    for name, (value, kind, least, text) in numbers.items():
        if value is None and name not in ("--max-loss", "seed"):
            continue
        number = isinstance(value, kind) and not isinstance(value, bool)
        if not number or not least <= float(value) < math.inf:
            raise UsageError(f"{name} is {shown(value)}; give {text}")
    if given.min_agreement is not None and not 0 <= given.min_agreement <= 1:
        raise UsageError(f"--min-agreement is {given.min_agreement}; give a number from 0 to 1")


def _widths(given: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return widths of weights from narrow to wide; raise `UsageError` for other values."""
    if given is None:
        return ()
    found = tuple(given) if isinstance(given, Sequence) else (given,)
    for bits in found:
        if isinstance(bits, bool) or not isinstance(bits, Integral) or not 2 <= int(bits) <= 32:
            raise UsageError(f"--weight-bits {shown(bits)}: give whole numbers from 2 to 32")
    return tuple(sorted({int(bits) for bits in found}))


def _require_no_samples(given: CompileOptions, widths: tuple[int, ...]) -> None:
    """Raise `UsageError` for options that need samples."""
    if len(widths) > 1:
        raise UsageError(
            "--weight-bits: several widths are tried on samples; add --calibrate, or give one"
        )
    named = {
        "--keep-going": given.keep_going, "--min-agreement": given.min_agreement is not None,
        "--bin": given.bin is not None,
    }  # fmt: skip
    for name, present in named.items():
        if present:
            raise UsageError(f"{name}: needs samples; add --calibrate")


def _encoding(given: CompileOptions) -> Encoding | None:
    """Return the encoding of samples; raise `UsageError` for one without ticks or ticks alone."""
    if given.encode is None:
        if given.ticks is not None:
            raise UsageError("--ticks: needs the encoding of samples; add --encode")
        return None
    if given.ticks is None:
        raise UsageError("--encode: needs the ticks of a sample; add --ticks")
    return Encoding(given.encode, int(given.ticks), int(given.seed))
