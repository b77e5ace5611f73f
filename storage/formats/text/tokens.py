"""Tokenizer that converts text to numbers with their line numbers.

Each number becomes an integer mantissa and a decimal exponent, so that whole numbers are exact up
to 2^63 - 1 and one tokenizer reads both ids and decimals.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from numba import njit
from numpy.typing import NDArray

from storage.errors import BadInputError

SAFE_DIGITS = 18  # any number with this many digits is below 2^63
MAX_SHOWN = 24  # most characters of a faulty token in a message

_OTHER, _BLANK, _NEWLINE, _COMMA, _COMMENT = range(5)
_COMMENTED, _IN_LINE, _AFTER_COMMA, _NOTE = range(4)  # indices into the tokenizer's state
_FINE, _BAD_NUMBER, _MISSING = range(3)
_POWERS = np.array([float(f"1e{k}") for k in range(309)] + [np.inf])


@njit(cache=True, nogil=True, inline="always")
def _parse_number(data, kinds, i, value, digits):
    """Parse the rest of a number after its first digits, from position `i` on.

    value, digits : value and count of the digits before `i`, without sign
    Returns (mantissa without sign, exponent, position after the number, whether it is a number).
    """
    power = np.int64(0)
    while i < data.size and 48 <= data[i] <= 57:
        digit = np.int64(data[i]) - 48
        if power == 0 and value <= (9223372036854775807 - digit) // 10:
            value = value * 10 + digit
        else:
            power += 1
        digits += 1
        i += 1
    if i < data.size and data[i] == 46:
        i += 1
        full = 1 if power > 0 else 0
        while i < data.size and 48 <= data[i] <= 57:
            digit = np.int64(data[i]) - 48
            if full == 0 and value <= (9223372036854775807 - digit) // 10:
                value = value * 10 + digit
                power -= 1
            else:
                full = 1
            digits += 1
            i += 1
    if digits and i < data.size and (data[i] == 69 or data[i] == 101):
        i += 1
        down = i < data.size and data[i] == 45
        if i < data.size and (data[i] == 45 or data[i] == 43):
            i += 1
        raised = np.int64(0)
        digits = 0
        while i < data.size and 48 <= data[i] <= 57:
            raised = min(raised * 10 + np.int64(data[i]) - 48, np.int64(9999))
            digits += 1
            i += 1
        power += -raised if down else raised
    if not digits or (i < data.size and kinds[data[i]] == _OTHER):
        return value, power, i, False
    while power < 0 and value % 10 == 0 and value != 0:
        value //= 10
        power += 1
    return value, min(max(power, -9999), 9999) if value else 0, i, True


# Without reference counting (`_nrt=False`), as the kernel allocates nothing and is a hot loop.
@njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]
def _tokenise(data, kinds, state, mantissa, exponent, ends, notes):
    """Parse numbers of `data`, which ends between two tokens.

    kinds : ndarray[uint8], shape (256,), kind of each byte
    state : ndarray[int64], shape (4,), carried from chunk to chunk
    mantissa, exponent : output, one entry per number; value = mantissa * 10^exponent
    ends : output: count of numbers before each newline
    notes : output: 1 for lines with only a comment
    Returns (numbers, lines, fault, position of the fault).
    """
    tokens = lines = i = 0
    commented, in_line, after_comma, note = state[0], state[1], state[2], state[3]
    while i < data.size:
        kind = kinds[data[i]]
        if (commented and kind != _NEWLINE) or kind == _BLANK:
            i += 1
        elif kind == _NEWLINE:
            if after_comma:
                return tokens, lines, _MISSING, i
            ends[lines] = tokens
            notes[lines] = 1 if note and not in_line else 0
            lines += 1
            commented = in_line = note = 0
            i += 1
        elif kind == _COMMENT:
            commented = note = 1
            i += 1
        elif kind == _COMMA:
            if after_comma or not in_line:
                return tokens, lines, _MISSING, i
            after_comma = 1
            i += 1
        else:
            start = i
            negative = data[i] == 45
            if negative or data[i] == 43:
                i += 1
            value = np.int64(0)
            power = 0
            digits = -i
            stop = min(i + SAFE_DIGITS, data.size)
            while i < stop and 48 <= data[i] <= 57:
                value = value * 10 + (np.int64(data[i]) - 48)
                i += 1
            digits += i
            # Commonly a whole number ends here.
            if not digits or (i < data.size and not 0 < kinds[data[i]] <= _NEWLINE):
                value, power, i, fine = _parse_number(data, kinds, i, value, digits)
                if not fine:
                    return tokens, lines, _BAD_NUMBER, start
            mantissa[tokens] = -value if negative else value
            exponent[tokens] = power
            tokens += 1
            in_line = 1
            after_comma = 0
    state[0], state[1], state[2], state[3] = commented, in_line, after_comma, note
    return tokens, lines, _FINE, 0


def real_values(
    mantissa: NDArray[np.int64], exponent: NDArray[np.int16]
) -> NDArray[np.int64] | NDArray[np.float64]:
    """Return values of tokens: int64 if all whole, else float64 (exact up to 15 digits)."""
    if not exponent.any():
        return mantissa
    size = np.abs(exponent)
    power = _POWERS[np.minimum(size, 308)]
    with np.errstate(over="ignore", invalid="ignore"):  # where() evaluates both sides
        values = np.where(exponent < 0, mantissa / power, mantissa * power)
        if size.max() > 308:  # second factor for numbers near the limits of float64
            power = _POWERS[np.clip(size - 308, 0, 309)]
            values = np.where(exponent < 0, values / power, values * power)
    return values


@dataclass(frozen=True, slots=True)
class Tokens:
    """The numbers of a piece of text.

    mantissa : ndarray[int64], shape (numbers,)
    exponent : ndarray[int16], shape (numbers,); 0 for a whole number below 2^63
    ends : ndarray[int64], shape (lines,), numbers before the end of each line; numbers after the
        last end belong to a line that continues in the next piece
    notes : ndarray[uint8], shape (lines,), 1 for lines with only a comment
    first_line : number of the first line, from 1
    """

    mantissa: NDArray[np.int64]
    exponent: NDArray[np.int16]
    ends: NDArray[np.int64]
    notes: NDArray[np.uint8]
    first_line: int

    def line_of(self, token: int) -> int:
        """Return the line number of a token."""
        return self.first_line + int(np.searchsorted(self.ends, token, side="right"))


class Tokenizer:
    """Turns consecutive pieces of a file into `Tokens`.

    commas : bytes that separate numbers, at most one between two; blanks always do
    comments : bytes that start a comment, which extends to the end of the line
    blanks : additional bytes that count as blanks
    """

    def __init__(self, path: Path, commas: bytes, comments: bytes, blanks: bytes) -> None:
        self._path = path
        self._state = np.zeros(4, np.int64)
        self._kinds = np.zeros(256, np.uint8)
        for text, kind in (
            (b" \t\r\v\f" + blanks, _BLANK),
            (b"\n", _NEWLINE),
            (commas, _COMMA),
            (comments, _COMMENT),
        ):
            self._kinds[list(text)] = kind

    def read(self, data: bytes, first_line: int) -> Tokens:
        """Parse the numbers of `data`, which must not end inside a number.

        first_line : number of the line that `data` starts in
        Raises `BadInputError` with the line of a token that is not a number.
        """
        raw = np.frombuffer(data, np.uint8)
        most = (raw.size + 1) // 2
        mantissa, exponent = np.empty(most, np.int64), np.empty(most, np.int16)
        lines = data.count(b"\n")
        ends, notes = np.empty(lines, np.int64), np.empty(lines, np.uint8)
        count, seen, fault, at = _tokenise(
            raw, self._kinds, self._state, mantissa, exponent, ends, notes
        )
        if fault != _FINE:
            self._complain(data, fault, at, first_line + seen)
        return Tokens(mantissa[:count], exponent[:count], ends, notes, first_line)

    def _complain(self, data: bytes, fault: int, at: int, line: int) -> NoReturn:
        where = f"{self._path}: line {line}"
        if fault == _MISSING:
            raise BadInputError(f"{where}: a value is missing; fill in or delete the line")
        end = at
        while end < len(data) and end - at < MAX_SHOWN and self._kinds[data[end]] == _OTHER:
            end += 1
        token = data[at:end].decode("latin-1")
        if token.lstrip("+-").lower() in ("nan", "inf", "infinity"):
            raise BadInputError(f"{where}: {token} is not a finite number; repair it")
        raise BadInputError(
            f"{where}: {token!r} is not a number; repair it, or name another --format"
        )
