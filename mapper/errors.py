"""Errors of the command line and the pipeline, with their exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

OWN = ("mapper", "storage", "chipsim", "hw")
BAD_INPUT, USAGE, DOES_NOT_FIT, BEYOND_LIMITS, INTERRUPTED, CLOSED_PIPE = 1, 2, 3, 4, 130, 141


class MapperError(Exception):
    """An error described in one line: subject, problem, remedy. Ends a command with `exit_code`."""

    exit_code = BAD_INPUT

    def __init__(self, message: str) -> None:
        from storage.errors import one_line  # after the check of the installation

        super().__init__(one_line(message))


class HiddenPackageError(MapperError, ImportError):
    """A folder or module of the user hides a package of mapper."""

    def __init__(self, message: str) -> None:
        # `storage`, which makes messages printable, may be the hidden package
        line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message)
        ImportError.__init__(self, line)


class CheckFailedError(MapperError):
    """A verification found something wrong."""


class HostNodeError(MapperError):
    """A node of the host cannot process its inputs; the message names the node."""


class UsageError(MapperError):
    """The arguments of a command or call are invalid."""

    exit_code = USAGE


class DoesNotFitError(MapperError):
    """The network does not fit the chip."""

    exit_code = DOES_NOT_FIT


class CannotResumeError(MapperError):
    """The files of an earlier run are for another network or other settings."""


_OPTION = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)")
_OUTPUT = re.compile(r"(?<![\w-])-o(?![\w-])")
RESUME = "continue with --resume"  # the advice of a `ResumableError`


class ResumableError(MapperError):
    """The workers of a run were lost; its finished steps remain for --resume."""


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Replace the advice to resume by the advice to start again, where nothing can be resumed."""
    try:
        yield
    except ResumableError as error:
        raise MapperError(str(error).replace(RESUME, "start again")) from error


@contextmanager
def as_mapper_errors() -> Iterator[None]:
    """Convert errors of files, networks, chips and cores to a `MapperError` with the same line."""
    from chipsim.errors import ChipError
    from hw.errors import HwError, NotBuiltError
    from storage.errors import MemoryShortError, MissingExtraError, StorageError

    try:
        yield
    except MissingExtraError as error:
        raise UsageError(str(error)) from error
    except (MemoryShortError, NotBuiltError) as error:
        raise DoesNotFitError(str(error)) from error
    except (StorageError, ChipError, HwError) as error:
        raise MapperError(str(error)) from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise MapperError(f"{where}{error.strerror or error}") from error


@contextmanager
def as_argument_errors() -> Iterator[None]:
    """Convert errors as `as_mapper_errors` does, and name options as arguments of Python.

    Messages call arguments by the options of the command: `--max-loss` is `max_loss`.
    """
    try:
        with as_mapper_errors():
            yield
    except MapperError as error:
        named = name_arguments(str(error))
        if named == str(error):
            raise
        raise type(error)(named) from error


def name_arguments(text: str) -> str:
    """Return a message with options of the command as arguments of Python."""
    return _OUTPUT.sub("output", _OPTION.sub(lambda found: found[1].replace("-", "_"), text))


def known_error(error: Exception) -> tuple[str, int] | None:
    """Return message and exit code of an error that the user can fix, None for other errors."""
    from chipsim.errors import ChipError
    from hw.errors import HwError, NotBuiltError
    from storage.errors import MemoryShortError, MissingExtraError, StorageError

    if isinstance(error, MapperError):
        return str(error), error.exit_code
    if isinstance(error, MemoryShortError | NotBuiltError):
        return str(error), DOES_NOT_FIT
    if isinstance(error, MissingExtraError):
        return str(error), USAGE
    if isinstance(error, StorageError | ChipError | HwError):
        return str(error), BAD_INPUT
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}", BAD_INPUT
    if isinstance(error, ModuleNotFoundError):
        package = str(error.name).partition(".")[0]
        if package not in OWN:  # packages of extras raise MissingExtraError
            return f"the package {package} is missing; install mapper again with pip", BAD_INPUT
    if _is_out_of_memory(error):
        return "out of memory; lower --memory or use a larger machine", BAD_INPUT
    return None


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether memory ran out; zipfile raises `ValueError` while it handles the error."""
    while error is not None and not isinstance(error, MemoryError):
        error = error.__cause__ or error.__context__
    return error is not None


def shown(value: Any) -> str:
    """Format a value for a message: in full if short, the start of a long text, else the type."""
    text = repr(value)
    if len(text) <= 40 and "\n" not in text and not text.startswith("<"):
        return text
    if isinstance(value, str):
        return f"{value[:24]!r}..."
    return f"a {type(value).__qualname__}"
