"""Words of a listing: op 31:28, a 27:22, b 21:16, immediate 15:0; as numbers and as text.

Where possible the codes equal DnnWeaver2 instruction codes (Sharma et al., MICRO 2016): loops,
strides and base addresses in halves of 16 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from mapper.errors import MapperError


class Code(IntEnum):
    """The op of a word."""

    START = 0b0000
    ALU = 0b0001
    COMPUTE = 0b0010
    HIGH = 0b0101
    LOW = 0b0110
    LOOP = 0b0111
    BASE = 0b1001
    PAIRS = 0b1101
    END = 0b1111


STAGES = ("outer", "memory", "inner", "pool", "write", "upsample")
"""Field a of a loop: over tiles, over the area of a load, over products, over the pixels of a
pooling window, over the area of a store, over copies of a pixel."""
BUFFERS = ("input", "weights", "bias", "output")
"""Field b of a base address or a stride; plus 4 for the upper half of a base."""
COMPUTES = (
    "add", "max", "min", "mov", "rshr", "shl", "rmul", "mac2", "mul", "threshold", "lookup",
)  # fmt: skip
"""Field a of an ALU operation; its operand is in the parameters or the immediate."""


class Word(NamedTuple):
    code: Code
    a: int = 0
    b: int = 0
    immediate: int = 0


def encode_word(word: Word) -> int:
    """Return the 32 bits of a word; raises `MapperError` that names a value out of range."""
    for name, value, bits in (
        ("a", word.a, 6), ("b", word.b, 6), ("immediate", word.immediate, 16)
    ):  # fmt: skip
        if not 0 <= value < 1 << bits:
            raise MapperError(
                f"listing: {word.code.name}: {name} is {value:,}; allowed: 0 to {(1 << bits) - 1:,}"
            )
    return word.code << 28 | word.a << 22 | word.b << 16 | word.immediate


def decode_word(whole: int, where: str) -> Word:
    """Decode a word of 32 bits; where : file and line for errors."""
    try:
        return Word(Code(whole >> 28), whole >> 22 & 63, whole >> 16 & 63, whole & 0xFFFF)
    except ValueError:
        raise MapperError(f"{where}: unknown listing code {whole >> 28:04b}") from None


def text_of(words: Iterable[Word]) -> Iterator[str]:
    """Yield a line per word: its number in hexadecimal, and its meaning."""
    for word in words:
        yield f"{encode_word(word):08x}  {_said(word)}"


def words_of_text(lines: Iterable[str], where: str) -> list[Word]:
    """Read the words of such lines; empty lines and lines that begin with # are skipped.

    Raises `MapperError` that names a line whose text contradicts its number.
    """
    words = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        first, _, said = line.strip().partition("  ")
        try:
            whole = int(first, 16)
        except ValueError:
            raise MapperError(f"{where}: line {number}: {first!r} is not a hex word") from None
        word = decode_word(whole, f"{where}: line {number}")
        if said != _said(word):
            raise MapperError(
                f"{where}: line {number}: text {said!r} contradicts its number: {_said(word)!r}"
            )
        words.append(word)
    return words


def _said(word: Word) -> str:
    code, a, b, immediate = word
    if code is Code.LOOP:
        return f"LOOP {_name(STAGES, a)} {immediate + 1}"
    if code is Code.BASE:
        half = "high" if b >= len(BUFFERS) else "low"
        return f"BASE {_name(BUFFERS, b % len(BUFFERS))} {half} {immediate:#06x}"
    if code in (Code.HIGH, Code.LOW):
        return f"STRIDE {_name(BUFFERS, b)} of {a} {code.name.lower()} {immediate:#06x}"
    if code is Code.PAIRS:
        return f"PAIRS {'high' if b else 'low'} {immediate:#06x}"
    if code is Code.COMPUTE:
        return f"COMPUTE {_name(COMPUTES, a)} {immediate:#06x}"
    return f"{code.name} {immediate}" if code is Code.START else code.name


def _name(names: tuple[str, ...], number: int) -> str:
    return names[number] if number < len(names) else str(number)
