"""The output folder of a run: at every moment it is what it was before, or the whole new result.

While a run is at work, all that it makes is in DIR.partial::

    run.json        what the run was started with
    result/         what will be DIR
    finished.json   only at the end: result/ is complete; the number that the system knows it by
    old/            only where folders can't be exchanged: the earlier DIR, while it has no name

A command that was killed leaves this behind. Whatever the moment, the next one can tell what is
there: result/ is complete if it is the folder that finished.json speaks of, and if that one is
DIR already, the rest is waste. A lock (`storage.locks`) keeps two commands from one folder.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mapper.errors import CannotResumeError, MapperError, ResumableError
from mapper.runtime.resume import RUN, take_up
from storage.errors import LockedError, StorageError, StorageWarning
from storage.exchange import exchange, sync_folder
from storage.files import real_path, write_error, write_file
from storage.locks import OutputLock

REPORT = "report.json"
IMPORTED = "network.bin"  # the network of the run, if that is no file of the user's
RESULT, FINISHED, OLD = "result", "finished.json", "old"
MOST_READS = 10  # of a folder that is replaced again and again
PATIENCE = 2.0  # seconds for another command to put a folder in its place

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Work:
    """A folder to fill.

    folder : where to write; it gets its name at the end
    resumed : what an earlier run of the same kind has left is still in it
    """

    folder: Path
    resumed: bool


def partial_folder(path: Path) -> Path:
    """Where a run at work keeps what will be the folder `path`."""
    path = real_path(path)
    return path.with_name(path.name + ".partial")


@contextmanager
def output_folder(
    path: Path, force: bool, resume: bool = False, run: dict[str, Any] | None = None
) -> Iterator[Work]:
    """A folder to fill, which becomes `path` when the block ends without an error.

    Ctrl-C leaves PATH.partial as it is, and so does a killed process, or a `ResumableError`; with
    `resume` it is taken up again, else removed. Any other error removes it.

    force : replace an output that is there
    run : what decides the result; it is kept, and compared when a run is resumed

    Raises `MapperError` if `path` exists and `force` is not set, `WriteError` if it can't be made,
    `LockedError` if another command is writing it, `CannotResumeError` if that was another run.
    """
    if not path.name or path.name == "..":
        raise MapperError(f"{path}: cannot be replaced; name a folder of its own with -o")
    if path.name == "-":
        raise MapperError("-: is not standard output here; name a folder with -o")
    target, partial = real_path(path), partial_folder(path)
    with OutputLock(target):
        try:
            _settle(target, partial, finish=resume)
        except OSError as error:
            raise write_error(path, error) from error
        _require_free(path, force)
        try:
            if not resume:
                _remove(partial)
            partial.mkdir(exist_ok=resume)
            resumed = run is not None and take_up(partial, run, partial / RESULT)
            (partial / RESULT).mkdir(exist_ok=True)
        except OSError as error:
            if partial.is_dir() and not (partial / RUN).exists():
                _remove(partial)
            raise write_error(path, error) from error
        try:
            yield Work(partial / RESULT, resumed)
            try:
                _finish(target, partial)
            except OSError as error:
                raise write_error(path, error) from error
        except (KeyboardInterrupt, CannotResumeError, ResumableError):
            raise
        except BaseException:
            _remove(partial)
            raise


def _require_free(path: Path, force: bool) -> None:
    if not path.exists():
        return
    if not force:
        raise MapperError(f"{path}: exists; choose another folder with -o, or give --force")
    if not path.is_dir() or (any(path.iterdir()) and not (path / REPORT).is_file()):
        raise MapperError(f"{path}: is not the output of a run; choose another with -o")


def is_complete(path: Path) -> bool:
    """Whether there is nothing left to resume, as the output is there.

    Raises `LockedError` if a command is at work on it.
    """
    if not path.name or path.name == ".." or not real_path(path).parent.is_dir():
        return False
    target, partial = real_path(path), partial_folder(path)
    with OutputLock(target):
        try:
            _settle(target, partial, finish=True)
        except OSError as error:
            raise write_error(path, error) from error
        return not partial.exists() and (target / REPORT).is_file()


def _finish(target: Path, partial: Path) -> None:
    """Give what is complete its name, and remove what was there before."""
    sync_folder(partial / RESULT)
    mark = {"folder": (partial / RESULT).stat().st_ino}
    write_file(partial / FINISHED, json.dumps(mark).encode())
    sync_folder(partial)
    _publish(target, partial)
    _remove(partial)


def _publish(target: Path, partial: Path) -> None:
    new, old = partial / RESULT, partial / OLD
    if not target.exists():
        new.rename(target)
    elif not exchange(new, target):
        target.rename(old)
        try:
            new.rename(target)
        except BaseException:
            old.rename(target)
            raise
    sync_folder(target.parent)


def _settle(target: Path, partial: Path, finish: bool) -> None:
    """Put right what a killed command has left half done: the lock is ours.

    finish : a result that is complete gets its name; else that is done only where the one before
        has lost it already
    """
    finished = _number_in(partial / FINISHED)
    nameless = not target.exists() and (partial / OLD).is_dir()
    if finished is not None:
        if _number(partial / RESULT) == finished and (finish or nameless):
            _publish(target, partial)
        if _number(target) == finished:
            _remove(partial)
    if not target.exists() and (partial / OLD).is_dir():
        (partial / OLD).rename(target)
    # a mark that is damaged, or copied: nothing there can be relied on; or no run, or what is
    # left of one that was being removed
    if partial.exists() and ((partial / FINISHED).exists() or not (partial / RUN).exists()):
        _remove(partial)


def _number(folder: Path) -> int | None:
    """What the system knows a folder by, whatever its name; None if there is none."""
    try:
        return folder.stat().st_ino
    except OSError:
        return None


def _number_in(mark: Path) -> int | None:
    try:
        found = json.loads(mark.read_bytes())
    except (OSError, ValueError):
        return None
    number = found.get("folder") if isinstance(found, dict) else None
    return number if isinstance(number, int) else None


def _remove(partial: Path) -> None:
    """Remove what a run leaves behind; a warning names what can't be removed.

    If that is cut short it goes on next time, as the marks go in this order: a run without
    run.json is not resumed, and finished.json stays until nothing else is there.
    """
    failed: list[str] = []

    def note(_: Any, name: str, error: BaseException) -> None:
        if not isinstance(error, FileNotFoundError):
            failed.append(f"{name}: {getattr(error, 'strerror', None) or error}")

    if partial.is_symlink() or not partial.is_dir():
        if partial.is_symlink() or partial.exists():
            _unlink(partial, failed)
    else:
        _unlink(partial / RUN, failed)
        try:
            for entry in sorted(partial.iterdir(), key=lambda entry: entry.name == FINISHED):
                if entry.is_symlink() or not entry.is_dir():
                    _unlink(entry, failed)
                elif sys.version_info >= (3, 12):
                    shutil.rmtree(entry, onexc=note)
                else:
                    shutil.rmtree(entry, onerror=lambda f, name, told: note(f, name, told[1]))
            if not failed:
                partial.rmdir()
        except OSError as error:
            note(None, str(partial), error)
    if failed:
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        warnings.warn(
            f"left behind, as it cannot be removed: {failed[0]}{more}; remove {partial} by hand",
            StorageWarning,
            stacklevel=3,
        )


def _unlink(path: Path, failed: list[str]) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        failed.append(f"{path}: {error.strerror or error}")


@contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    """Keeps other commands from an output folder, and from its report, until the block ends.

    Where the folder that it lies in can't be written to, nobody replaces it either: then the
    report alone is locked.
    """
    with ExitStack() as stack:
        target = real_path(folder)
        if os.access(target.parent, os.W_OK):
            stack.enter_context(OutputLock(target))
        stack.enter_context(OutputLock(target / REPORT))
        yield


def read_folder(folder: Path, read: Callable[[], T]) -> T:
    """What `read` finds in an output folder: all of it old or all of it new.

    A run may replace the folder meanwhile; then it is read once more.
    """
    for _ in range(MOST_READS - 1):
        before = _number(find_folder(folder))
        try:
            found = read()
        except (MapperError, StorageError, OSError):
            if _number(folder) == before:
                raise
        else:
            if _number(folder) == before:
                return found
    return read()


def find_folder(path: Path) -> Path:
    """`path`, after what was left without a name when a command was killed has got its name."""
    deadline = time.monotonic() + PATIENCE
    while path.name and not path.exists() and (partial_folder(path) / OLD).is_dir():
        try:
            with OutputLock(real_path(path)):
                _settle(real_path(path), partial_folder(path), finish=False)
        except LockedError:  # its owner does it, and now
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        except OSError as error:
            raise write_error(path, error) from error
    return path
