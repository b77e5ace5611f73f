"""Range reads of objects in stores (S3, Google Cloud, Azure, any web server).

The package `obstore` of the extra `remote` sends the requests. It reads credentials, regions and
endpoints from the environment, like the stores' own tools.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from storage.address import RemotePath
from storage.blobs.access import OPTION, TIMEOUT, Pin, current_access
from storage.blobs.blob import Blob
from storage.blobs.readahead import DEFAULT_BUFFER, ReadAhead
from storage.blobs.requests import ObjectRange, Requests, StalledError
from storage.errors import BadInputError, ChangedObjectError, MissingObjectError
from storage.extras import require_extra

TAIL = 1 << 18  # bytes at the end fetched with the size: archives keep their directory there
_RETRIES = {
    "max_retries": 1,
    "backoff": {
        "init_backoff": timedelta(seconds=0.2), "max_backoff": timedelta(seconds=2), "base": 2,
    },
    "retry_timeout": timedelta(seconds=30),
}  # fmt: skip
_TIMES = {"connect_timeout": "10s", "timeout": "1d", "allow_http": True}  # see `Requests`
_MISSING = (FileNotFoundError,)  # the error of obstore is a subclass
_BEYOND = "416 Range Not Satisfiable"  # in the message of an error without a separate class
_REASON = re.compile(r'(?:message|error): "([^"]{1,200})"|<Message>([^<]{1,200})</Message>')


class RemoteBlob(Blob):
    """An object read in ranges; a failed request is retried once.

    All requests of a command read the version of the first one, and end after its timeout without
    progress, including the retry; see `storage.blobs.access`.
    """

    path: RemotePath

    def __init__(self, path: RemotePath, buffer: int = DEFAULT_BUFFER) -> None:
        """buffer : bytes to prefetch

        Raises `MissingExtraError` without the extra `remote`, `BadInputError` if the object cannot
        be read, `ChangedObjectError` if it has changed since the command read it first.
        """
        self.path = path
        obstore = require_extra("obstore", "remote", path, "addresses of objects")
        self._errors = obstore.exceptions
        folder, _, key = path.url.rpartition("/")
        access = current_access()
        self._pins, seconds = access.pins, access.timeout()
        try:
            store = obstore.store.from_url(folder, client_options=_TIMES, retry_config=_RETRIES)
        except (self._errors.BaseError, ValueError) as error:
            raise BadInputError(
                f"{path}: not an address of an object: {_first_of(error)}"
            ) from error

        async def get(wanted: Any) -> Any:
            pin = self._pins.get(path.url)
            match = {"if_match": pin.tag} if pin and pin.tag else {}
            found = await obstore.get_async(store, key, options={"range": wanted, **match})
            told = Pin.of(found.meta)
            if self._pins.setdefault(path.url, told) != told:
                raise ChangedObjectError(self._changed("changed"))
            return found

        self._requests = Requests(get, seconds, self._is_passing)
        try:
            self.size, self._tail = self._read({"suffix": TAIL})
        except BaseException:
            self._requests.close()
            raise
        self._ahead = ReadAhead(self._range, self.size, buffer)

    def read(self, start: int, size: int) -> bytes:
        at = start - (self.size - len(self._tail))
        if at >= 0:
            return bytes(self._tail[at : at + size])
        return self._ahead.read(start, size)

    def _range(self, start: int, size: int) -> memoryview:
        return memoryview(self._read((start, start + size)).data)

    def _read(self, wanted: Any) -> ObjectRange:
        try:
            return self._requests.read(wanted)
        except (self._errors.BaseError, OSError, StalledError) as error:
            raise self._refused(error) from error

    def _is_passing(self, error: Exception) -> bool:
        """Return whether the error may be temporary, so that the request is retried."""
        errors = self._errors
        lasting = (
            *_MISSING, errors.PermissionDeniedError, errors.UnauthenticatedError,
            errors.PreconditionError,
        )  # fmt: skip
        passing = isinstance(error, errors.BaseError | OSError) and not isinstance(error, lasting)
        return passing and _BEYOND not in str(error)

    def _refused(self, error: Exception) -> BadInputError:
        errors = self._errors
        pinned = self.path.url in self._pins
        if pinned and isinstance(error, _MISSING):
            return ChangedObjectError(self._changed("was deleted"))
        # all ranges lie within the size of the first response
        if pinned and (isinstance(error, errors.PreconditionError) or _BEYOND in str(error)):
            return ChangedObjectError(self._changed("changed"))
        if isinstance(error, _MISSING):
            what = "no such object; check bucket and key"
            return MissingObjectError(f"{self.path}: {what}")
        if isinstance(error, errors.PermissionDeniedError | errors.UnauthenticatedError):
            return BadInputError(
                f"{self.path}: the store denies access; check credentials, region and permissions"
            )
        if isinstance(error, StalledError):
            return BadInputError(
                f"{self.path}: the store stalled: {error}; check endpoint and network, or set "
                f"{OPTION} or {TIMEOUT} to more seconds"
            )
        return BadInputError(
            f"{self.path}: cannot read: {_first_of(error)}; check address, endpoint and network"
        )

    def _changed(self, how: str) -> str:
        return f"{self.path}: {how} while it was read; repeat the command when it is complete"

    def forget(self) -> None:
        self._ahead.forget()

    def close(self) -> None:
        self._requests.close()  # first: the prefetch threads wait for requests
        self._ahead.close()


def _first_of(error: Exception) -> str:
    """Return the message of a store error without its nested causes, which can fill pages."""
    text = str(error)
    if found := _REASON.search(text):
        return found[1] or found[2]
    line = text.strip().partition("\n")[0]
    return line if len(line) <= 160 else f"{line[:157]}..."
