"""The working folder of a partition: NAME.work, next to the file that is written.

A run that is killed or interrupted leaves it, and `--resume` continues there; any other end
removes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from mapper.errors import CannotResumeError, MapperError, ResumableError
from mapper.results.output_folder import Work, remove_folder
from mapper.resume.resume import take_up
from storage.files import real_path, require_file_name, writing
from storage.locks import OutputLock

ENDING = ".work"
FILES = "files"  # in the folder: the imported graph, scratch and log


def working_folder(output: Path, folder: Path | None) -> Path:
    """Return the working folder of an output; folder : where to create it, None for next to it."""
    output = real_path(output)
    return (real_path(folder) if folder else output.parent) / (output.name + ENDING)


def require_output(output: Path, force: bool) -> None:
    """Raise `MapperError` for a file that exists, unless `force`; `WriteError` for a bad name."""
    require_file_name(output)
    if output.exists() and not force:
        raise MapperError(f"{output}: exists; choose another file with -o, or give --force")


@contextmanager
def _locked(output: Path, folder: Path) -> Iterator[None]:
    """Lock an output and its working folder; their own folders must exist."""
    with ExitStack() as locks:
        for path in dict.fromkeys((output, folder)):
            with writing(path):
                real_path(path).parent.stat()
            locks.enter_context(OutputLock(path))
        yield


def remove_work(output: Path, folder: Path) -> None:
    """Remove the working folder of a finished run that was killed before it did so."""
    with _locked(output, folder):
        remove_folder(folder)


@contextmanager
def work_folder(output: Path, folder: Path, resume: bool, about: dict[str, Any]) -> Iterator[Work]:
    """Yield a folder for the files of a run, locked together with its output.

    folder : see `working_folder`
    about : inputs that determine the result; compared when a run is resumed
    Raises `CannotResumeError` if the earlier run in the folder differs, `LockedError` if another
    command is writing the same output.
    """
    with _locked(output, folder):
        if not resume:
            remove_folder(folder)
        with writing(folder):
            folder.mkdir(exist_ok=True)
            resumed = take_up(folder, about, folder / FILES)
            (folder / FILES).mkdir(exist_ok=True)
        try:
            yield Work(folder / FILES, resumed)
        except (KeyboardInterrupt, CannotResumeError, ResumableError):
            raise
        except BaseException:
            remove_folder(folder)
            raise
        remove_folder(folder)
