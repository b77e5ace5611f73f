"""How a command accesses objects in stores: its timeout, and the version of each object.

Object stores have no open files: each request may find another version of an object. A command
pins an object by the entity tag of the first response (RFC 9110, section 8.8.3). Later requests
are conditional on it (``If-Match``, section 13.1.1), and their responses are compared, as some
servers ignore the condition.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from storage.errors import BadInputError

TIMEOUT = "MAPPER_STORE_TIMEOUT"
"""Environment variable: seconds without progress that end a request."""
OPTION = "--timeout"
"""The same as an option of commands."""
DEFAULT_TIMEOUT = 30.0
LONGEST_TIMEOUT = 86400.0


class Pin(NamedTuple):
    """Identity of a version of an object.

    tag : strong entity tag, or "": weak ones may be equal for different bytes
    mark : without a tag, the version of the store (``x-amz-version-id``, ``x-goog-generation``),
        or else the time of the last modification
    """

    size: int
    tag: str
    mark: str

    @classmethod
    def of(cls, meta: Any) -> Pin:
        """Return the identity in the metadata of a response, as `obstore` describes them."""
        tag = str(meta["e_tag"] or "")
        if tag and not tag.startswith("W/"):
            return cls(int(meta["size"]), tag, "")
        return cls(int(meta["size"]), "", str(meta["version"] or meta["last_modified"]))


@dataclass(slots=True)
class StoreAccess:
    """Access of a command to objects; workers receive a copy.

    seconds : without progress that end a request; None for the environment, or else the default
    pins : versions of objects by address
    """

    seconds: float | None = None
    pins: dict[str, Pin] = field(default_factory=dict)

    def timeout(self) -> float:
        """Return the seconds without progress that end a request.

        Raises `BadInputError` if the environment variable is not a number of seconds in range.
        """
        if self.seconds is not None:
            return self.seconds
        text = os.environ.get(TIMEOUT, "")
        try:
            return parse_timeout(text) if text else DEFAULT_TIMEOUT
        except ValueError as error:
            raise BadInputError(f"{TIMEOUT}={text}: {error}") from error


def parse_timeout(text: str) -> float:
    """Return a timeout in seconds; raise `ValueError` if it is not a number in range."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST_TIMEOUT:
        raise ValueError(
            f"not a timeout; give seconds, more than 0 and at most {LONGEST_TIMEOUT:.0f}"
        )
    return seconds


_commands: list[StoreAccess] = []  # accesses of commands that run


@contextmanager
def store_access(access: StoreAccess) -> Iterator[None]:
    """Use an access for all objects that are opened in the block, by any thread."""
    _commands.append(access)
    try:
        yield
    finally:  # calls in several threads may end in any order
        del _commands[next(i for i, one in enumerate(_commands) if one is access)]


def current_access() -> StoreAccess:
    """Return the access of the command that runs; outside of commands, a new one."""
    return _commands[-1] if _commands else StoreAccess()
