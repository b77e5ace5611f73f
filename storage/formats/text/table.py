"""Text tables of numbers: lines with the same number of columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.text.reader import TextReader
from storage.formats.text.tokens import real_values


@dataclass(frozen=True, slots=True)
class Rows:
    """Some lines of a table.

    mantissa : ndarray[int64], shape (rows, columns)
    exponent : ndarray[int16], shape (rows, columns)
    lines : ndarray[int64], shape (rows,), the line of each row
    """

    reader: TextReader
    mantissa: NDArray[np.int64]
    exponent: NDArray[np.int16]
    lines: NDArray[np.int64]

    def ids(self, column: int, lowest: int = 0, highest: int = 2**63 - 1) -> NDArray[np.int64]:
        """Return a column of whole numbers; raise `BadInputError` with the first other one."""
        values = self.whole(column)
        self._reject(values < 0, column, "is negative; ids start from 0")
        if lowest or highest < 2**63 - 1:
            wrong = (values < lowest) | (values > highest)
            self._reject(wrong, column, f"is outside {lowest}..{highest}")
        return values

    def whole(self, column: int) -> NDArray[np.int64]:
        """Return a column of whole numbers, possibly negative; see `ids`."""
        self._reject(self.exponent[:, column] != 0, column, "is not a whole number below 2^63")
        return self.mantissa[:, column]

    def weights(self, column: int) -> NDArray[np.int64] | NDArray[np.float64]:
        """Return a column of weights with their signs, int64 if all are whole."""
        values = real_values(self.mantissa[:, column], self.exponent[:, column])
        self._reject(~np.isfinite(values), column, "is too large; scale the weights down")
        return values

    def _reject(self, wrong: NDArray[np.bool_], column: int, fault: str) -> None:
        if not wrong.any():
            return
        row = int(np.flatnonzero(wrong)[0])
        power = int(self.exponent[row, column])
        value = f"{self.mantissa[row, column]}" + (f"e{power}" if power else "")
        value = f"{float(value):g}" if -300 < power < 280 and power else value
        raise BadInputError(f"{self.reader.where(int(self.lines[row]))}: {value} {fault}")


def table_rows(reader: TextReader, columns: int) -> Iterator[Rows]:
    """Yield the rest of a file as rows, skipping empty lines and comments.

    Raises `BadInputError` with the first line that has a different number of columns.
    """
    for tokens in reader.chunks(whole_lines=True):
        ends = tokens.ends
        if tokens.mantissa.size > (ends[-1] if ends.size else 0):
            raise BadInputError(
                f"{reader.where(reader.line + 1)}: the line is longer than 2 MB; "
                f"put each {columns} numbers on a separate line"
            )
        counts = np.diff(ends, prepend=0)
        filled = np.flatnonzero(counts)
        wrong = filled[counts[filled] != columns]
        if wrong.size:
            line = int(wrong[0])
            raise BadInputError(
                f"{reader.where(tokens.first_line + line)}: {counts[line]} columns instead of "
                f"{columns}; use the same columns in each line"
            )
        shape = (filled.size, columns)
        yield Rows(
            reader,
            tokens.mantissa.reshape(shape),
            tokens.exponent.reshape(shape),
            tokens.first_line + filled,
        )
