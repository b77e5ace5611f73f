"""Judge a reader on one input: it returns, or raises an error of the project with one clear line.

A reader may neither raise another exception or warning, nor print to standard error, nor need more
than two seconds or more memory than `MOST_BYTES`.
"""

from __future__ import annotations

import re
import resource
import signal
import time
import traceback
import tracemalloc
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from chipsim.errors import ChipError
from hw.errors import HwError
from mapper.errors import MapperError
from storage.errors import StorageError, StorageWarning

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 2.0  # processor seconds
MOST_BYTES = 100 << 20  # above the start
LONGEST_LINE = 2000  # letters of an error
ERRORS = (MapperError, StorageError, ChipError, HwError)


class Fault(NamedTuple):
    """A violation.

    what : its kind, and the error if there is one; where : the last line of the project involved
    details : traceback
    """

    what: str
    where: str
    details: str

    @property
    def key(self) -> str:
        """Identity: equal faults of many inputs are reported once."""
        return f"{self.what.partition(':')[0]} at {self.where.rpartition(':')[0]}"

    def __str__(self) -> str:
        return f"{self.what} at {self.where}"


class LateError(BaseException):
    """The reader was still running after `LONGEST`; not an `Exception`, which readers catch."""


def judge(
    read: Callable[[Path], object],
    path: Path,
    expected: tuple[str, ...] = (),
    seconds: float = LONGEST,
) -> tuple[Fault | None, object]:
    """Run a reader; return the fault, if any, and the value read.

    expected : names of exceptions that are part of the reader's interface
    seconds : of processor time that it may take
    """
    try:
        with _time_limit(seconds), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("error", UserWarning)
            warnings.simplefilter("ignore", StorageWarning)
            warnings.filterwarnings("ignore", "Reading `.npy` or `.npz` file")  # advice of numpy
            return None, read(path)
    except LateError as error:
        return Fault("slow", _place(error), traceback.format_exc()), None
    except ERRORS as error:
        return _fault_of_error(error), None
    except Exception as error:  # every other exception is a fault
        if type(error).__name__ in expected:
            return None, None
        text = " ".join(str(error).split())[:200]
        what = f"{type(error).__name__}: {text}"
        return Fault(what, _place(error), traceback.format_exc()), None


def measured(
    read: Callable[[Path], object], path: Path, expected: tuple[str, ...] = ()
) -> tuple[Fault | None, object]:
    """Run `judge`, and also compare the peak of allocated memory with `MOST_BYTES`."""
    tracemalloc.start()
    try:
        found = judge(read, path, expected)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if found[0] is None and peak > MOST_BYTES:
        return Fault(f"memory: {peak >> 20} MiB", f"{path.name}:0", ""), None
    return found


def fingerprint(value: object) -> int:
    """Return a hash of values, equal for equal contents."""
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):
        array: Any = value
        return zlib.crc32(f"{array.dtype}{array.shape}".encode(), zlib.crc32(array.tobytes()))
    if isinstance(value, dict):
        return fingerprint([*value, *value.values()])
    if isinstance(value, list | tuple):
        return zlib.crc32(repr([fingerprint(one) for one in value]).encode())
    inner = getattr(value, "__dict__", None)
    slots = getattr(type(value), "__slots__", None) or getattr(
        type(value), "__struct_fields__", None
    )
    if inner or slots:
        names = [*(inner or ()), *(slots or ())]
        return fingerprint([getattr(value, name, None) for name in names])
    return zlib.crc32(re.sub(r" at 0x\w+", "", repr(value)).encode())


def limit_memory() -> None:
    """Refuse allocations above `MOST_BYTES` from here on, with some room for libraries."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + 2 * MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _fault_of_error(error: Exception) -> Fault | None:
    text, cause = str(error), error.__cause__ or error.__context__
    details = traceback.format_exc()
    if not text.strip() or not text.isprintable() or len(text) > LONGEST_LINE:
        return Fault(f"text: {ascii(text)[:200]}", _place(error), details)
    while cause is not None:
        if isinstance(cause, MemoryError):
            return Fault(f"memory: {text[:100]}", _place(cause), details)
        cause = cause.__cause__ or cause.__context__
    return None


def _place(error: BaseException) -> str:
    """Return the last line of the project in a traceback, as FILE:FUNCTION:LINE."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if Path(one.filename).is_relative_to(ROOT)]
    own = [one for one in own if "scripts" not in Path(one.filename).parts] or own
    last = own[-1]
    return f"{Path(last.filename).relative_to(ROOT)}:{last.name}:{last.lineno}"


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    begin = time.process_time()

    def late(_number: int, _frame: FrameType | None) -> None:
        raise LateError

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if time.process_time() - begin > seconds:
        raise LateError
