"""Addresses of objects in stores, accepted wherever a network path is accepted."""

from __future__ import annotations

import os
from pathlib import Path, PosixPath

SCHEMES = ("s3", "gs", "az", "https", "http")


class RemotePath(PosixPath):
    """Path of an object in a store: SCHEME://HOST/KEY.

    Creating a path sends no request: whether the object exists is found out when it is read.
    """

    def __str__(self) -> str:
        scheme, *rest = self.parts
        return f"{scheme}//{'/'.join(rest)}"

    def __fspath__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[type, tuple[str, ...]]:
        return type(self), self.parts

    def absolute(self) -> RemotePath:
        return self

    def exists(self, **_: bool) -> bool:
        return True

    def is_file(self, **_: bool) -> bool:
        return True

    def is_dir(self, **_: bool) -> bool:
        return False

    @property
    def url(self) -> str:
        """Return the address as a URL."""
        return str(self)


def path_of(text: str | os.PathLike[str]) -> Path:
    """Return a `Path`, or a `RemotePath` if the text starts with one of the `SCHEMES`."""
    if isinstance(text, Path):
        return text
    text = os.fspath(text)
    scheme, colon, rest = text.partition("://")
    if colon and scheme.lower() in SCHEMES and len(rest.strip("/").split("/")) > 1:
        return RemotePath(f"{scheme.lower()}:", *rest.split("/"))
    return Path(text)
