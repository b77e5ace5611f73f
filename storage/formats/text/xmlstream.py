"""XML documents, parsed as a stream without building a tree.

A document that declares entities is refused before any is expanded, and external references are
never fetched.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from storage.errors import BadInputError

READ_BYTES = 1 << 20
LONGEST = 2 << 20  # most bytes of a tag, which the parser scans again with each piece


class XmlStream(ABC):
    """Parses a document in pieces and calls the methods of a subclass for its tags.

    Names of tags have no namespace. Raises `BadInputError` with the line of the first fault.
    """

    def __init__(self, path: Path, root: str) -> None:
        """root : the outermost tag"""
        self._path, self._root = path, root
        self._open: list[str] = []  # open tags
        self._fed = 0
        self._parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._finish
        parser.CharacterDataHandler = self._data
        parser.EntityDeclHandler = self._refuse_entity

    def feed(self, piece: bytes, last: bool = False) -> None:
        """Parse the next bytes of the document."""
        try:
            self._parser.Parse(piece, last)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise BadInputError(
                f"{self._path}: line {error.lineno}: not valid XML ({reason}); "
                "is the file complete?"
            ) from error
        except BadInputError:
            raise
        except (LookupError, ValueError) as error:  # errors of Python's codecs
            raise BadInputError(
                f"{self._path}: line 1: unknown encoding ({error}); save it as UTF-8"
            ) from error
        self._fed += len(piece)
        if self._fed - max(0, self._parser.CurrentByteIndex) > LONGEST:
            self._complain("a tag or comment is longer than 2 MB; is the file damaged?")

    @property
    def _line(self) -> int:
        return self._parser.CurrentLineNumber

    def _where(self) -> str:
        return f"{self._path}: line {self._line}"

    def _complain(self, fault: str) -> NoReturn:
        raise BadInputError(f"{self._where()}: {fault}")

    def _refuse_entity(self, *_: object) -> None:
        self._complain("declares an entity; remove it")

    def _required(self, attributes: dict[str, str], name: str, tag: str) -> str:
        if name not in attributes:
            self._complain(f"a <{tag}> has no {name}")
        return attributes[name]

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(" ")[2]
        parent = self._open[-1] if self._open else None
        self._open.append(tag)
        if parent is None and tag != self._root:
            self._complain(f"the document is a <{tag[:40]}>, not <{self._root}>")
        self._start(tag, parent, attributes)

    def _finish(self, tag: str) -> None:
        self._end(self._open.pop())

    @abstractmethod
    def _start(self, tag: str, parent: str | None, attributes: dict[str, str]) -> None:
        """Process the start of a tag; `_open` ends with it."""

    @abstractmethod
    def _end(self, tag: str) -> None:
        """Process the end of a tag, which `_open` no longer has."""

    @abstractmethod
    def _data(self, text: str) -> None:
        """Process text between tags."""
