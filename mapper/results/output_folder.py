"""The output folder of a run: at any time it holds either the old or the complete new result.

A running command keeps its files in DIR.partial::

    run.json        inputs of the run
    result/         becomes DIR
    finished.json   written last: result/ is complete; holds its inode number, and the number of
                    the earlier DIR
    old/            only if folders cannot be exchanged: the earlier DIR while it is renamed

A killed command leaves DIR.partial. The next command can always recover: result/ is complete if
its inode number is in finished.json; if DIR has this number already, the rest is removed. A lock
(`storage.locks`) keeps two commands from the same folder.
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
from mapper.resume.resume import RUN, take_up
from storage.errors import LockedError, StorageError, StorageWarning
from storage.exchange import exchange, rename, sync_folder, sync_later, sync_tree
from storage.files import PARTIAL, real_path, require_output_name, write_error, write_file
from storage.jsontext import parse_json
from storage.locks import OutputLock

REPORT = "report.json"
IMPORTED = "network.bin"  # the network of the run, if it was imported
RESULT, FINISHED, OLD = "result", "finished.json", "old"
MOST_READS = 10  # attempts to read a folder that is replaced repeatedly
PATIENCE = 2.0  # seconds to wait for another command to rename a folder

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Work:
    """A folder to fill.

    folder : path to write to; it is renamed at the end
    resumed : it still holds the files of an earlier run of the same kind
    """

    folder: Path
    resumed: bool


def partial_folder(path: Path) -> Path:
    """Return the folder that holds the files of `path` while a run is active."""
    path = real_path(path)
    return path.with_name(path.name + PARTIAL)


@contextmanager
def output_folder(
    path: Path, force: bool, resume: bool = False, run: dict[str, Any] | None = None
) -> Iterator[Work]:
    """Yield a folder to fill, which becomes `path` when the block ends without an error.

    With `run`, Ctrl-C, a killed process and a `ResumableError` leave PATH.partial: `resume`
    continues it, otherwise the next run removes it. Any other error removes it, and so does Ctrl-C
    without `run`.

    force : replace an existing output
    run : inputs that determine the result; stored, and compared when a run is resumed

    Raises `MapperError` if `path` exists and `force` is not set, `WriteError` if it cannot be
    created, `LockedError` if another command is writing it, `CannotResumeError` if the inputs of
    the earlier run differ.
    """
    if not path.name or path.name == "..":
        raise MapperError(f"{path}: cannot be replaced; name a new folder with -o")
    if path.name == "-":
        raise MapperError("-: standard output is not supported here; name a folder with -o")
    require_output_name(path)
    target, partial = real_path(path), partial_folder(path)
    _require_free(path, force)  # before the lock: a command that must fail stops no other
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
            sync_folder(partial)
            sync_folder(partial.parent)
        except OSError as error:
            if partial.is_dir() and not (partial / RUN).exists():
                _remove(partial)
            raise write_error(path, error) from error
        try:
            with sync_later(partial):
                yield Work(partial / RESULT, resumed)
            try:
                _finish(target, partial)
            except OSError as error:
                raise write_error(path, error) from error
        except (KeyboardInterrupt, CannotResumeError, ResumableError) as error:
            if run is None and isinstance(error, KeyboardInterrupt):
                _remove(partial)
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
        raise MapperError(f"{path}: is not the output of a run; choose another folder with -o")


def is_complete(path: Path) -> bool:
    """Return whether the output is complete, so that nothing is left to resume.

    A complete result gets its name, unless there is something else meanwhile.

    Raises `LockedError` if a command is writing it.
    """
    if not path.name or path.name == ".." or not real_path(path).parent.is_dir():
        return False
    target, partial = real_path(path), partial_folder(path)
    with OutputLock(target):
        if _is_other(target, partial):
            return False
        try:
            _settle(target, partial, finish=True)
        except OSError as error:
            raise write_error(path, error) from error
        return not partial.exists() and (target / REPORT).is_file()


def _finish(target: Path, partial: Path) -> None:
    """Rename the complete result to its final path, and remove the previous one."""
    sync_tree(partial / RESULT)
    mark = {"folder": (partial / RESULT).stat().st_ino, "replaces": _number(target)}
    write_file(partial / FINISHED, json.dumps(mark).encode())
    _publish(target, partial)
    _remove(partial)


def _publish(target: Path, partial: Path) -> None:
    new, old = partial / RESULT, partial / OLD
    if not target.exists():
        rename(new, target)
    elif not exchange(new, target):
        rename(target, old)
        try:
            rename(new, target)
        except BaseException:
            if not target.exists():
                rename(old, target)
            raise


def _settle(target: Path, partial: Path, finish: bool) -> None:
    """Repair the state that a killed command left; the caller holds the lock.

    finish : publish a complete result; otherwise it is published only if the previous one has
        been renamed already
    """
    finished = _mark(partial).get("folder")
    nameless = not target.exists() and (partial / OLD).is_dir()
    if finished is not None:
        if _number(partial / RESULT) == finished and (finish or nameless):
            _publish(target, partial)
        if _number(target) == finished:
            _remove(partial)
    if not target.exists() and (partial / OLD).is_dir():
        rename(partial / OLD, target)
    # A damaged or copied mark: the folder cannot be trusted. No run.json: not a run, or a folder
    # whose removal was cut short.
    if partial.exists() and ((partial / FINISHED).exists() or not (partial / RUN).exists()):
        _remove(partial)


def _number(folder: Path) -> int | None:
    """Return the inode number of a folder; None if it does not exist."""
    try:
        return folder.stat().st_ino
    except OSError:
        return None


def _mark(partial: Path) -> dict[str, Any]:
    """Return the content of finished.json; {} if it is missing or damaged."""
    try:
        found = parse_json((partial / FINISHED).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("folder"), int) else {}


def _is_other(target: Path, partial: Path) -> bool:
    """Return whether the target is neither the complete result nor what this was to replace.

    The user may have put it there after the command was killed.
    """
    mark = _mark(partial)
    return "replaces" in mark and target.exists() and _number(target) not in mark.values()


def _remove(partial: Path) -> None:
    """Remove the partial folder; a warning names files that cannot be removed.

    If removal is cut short, the next call continues it, because of the order of removal: a run
    without run.json is not resumed, and finished.json is removed last.
    """
    failed: list[str] = []
    if partial.is_symlink() or not partial.is_dir():
        if partial.is_symlink() or partial.exists():
            _unlink(partial, failed)
    else:
        _unlink(partial / RUN, failed)
        try:
            for entry in sorted(partial.iterdir(), key=lambda entry: entry.name == FINISHED):
                if entry.is_symlink() or not entry.is_dir():
                    _unlink(entry, failed)
                else:
                    _remove_tree(entry, failed)
            if not failed:
                partial.rmdir()
        except OSError as error:
            _note(failed, str(partial), error)
    if failed:
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        warnings.warn(
            f"cannot remove {failed[0]}{more}; remove {partial} by hand",
            StorageWarning,
            stacklevel=3,
        )


def remove_folder(folder: Path, final: Path | None = None) -> None:
    """Remove a folder, if it exists; a warning names it if it cannot be removed.

    final : its name in the complete output, by default the same
    """
    failed: list[str] = []
    _remove_tree(folder, failed)
    if failed:
        why = failed[0].rpartition(": ")[2]
        warnings.warn(
            f"cannot remove {final or folder}: {why}; remove it by hand",
            StorageWarning,
            stacklevel=3,
        )


def _remove_tree(folder: Path, failed: list[str]) -> None:
    if sys.version_info >= (3, 12):
        shutil.rmtree(folder, onexc=lambda _, name, error: _note(failed, name, error))
    else:
        shutil.rmtree(folder, onerror=lambda _, name, told: _note(failed, name, told[1]))


def _note(failed: list[str], name: str, error: BaseException) -> None:
    if not isinstance(error, FileNotFoundError):
        failed.append(f"{name}: {getattr(error, 'strerror', None) or error}")


def _unlink(path: Path, failed: list[str]) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        failed.append(f"{path}: {error.strerror or error}")


@contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    """Lock an output folder and its report until the block ends.

    If the parent folder is not writable, no command can replace the folder either: only the
    report is locked.
    """
    with ExitStack() as stack:
        target = real_path(folder)
        if os.access(target.parent, os.W_OK):
            stack.enter_context(OutputLock(target))
        stack.enter_context(OutputLock(target / REPORT))
        yield


def read_folder(folder: Path, read: Callable[[], T]) -> T:
    """Return the result of `read` on an output folder: entirely old or entirely new content.

    If a run replaces the folder meanwhile, it is read again.
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
    """Return `path`, after publishing a result that a killed command left unnamed."""
    deadline = time.monotonic() + PATIENCE
    while path.name and not path.exists() and (partial_folder(path) / OLD).is_dir():
        try:
            with OutputLock(real_path(path)):
                _settle(real_path(path), partial_folder(path), finish=False)
        except LockedError:  # another command is doing it
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        except OSError as error:
            raise write_error(path, error) from error
    return path
