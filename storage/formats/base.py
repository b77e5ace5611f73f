"""Descriptions of formats: name, detection, and the module that reads or writes them.

Nothing here needs compiled kernels. A format's module is imported on first use, so the list of
formats for help texts loads fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from storage.errors import BadInputError
from storage.files import open_input
from storage.plugins import blaming
from storage.printable import plain

if TYPE_CHECKING:
    from storage.formats.losses import Loss
    from storage.store.meta import NetworkMeta
    from storage.store.network import NetworkFile
    from storage.store.writer import NetworkWriter

HEAD_BYTES = 4096
GZIP_MAGIC = b"\x1f\x8b"
UTF16 = (b"\xff\xfe", b"\xfe\xff")  # byte order marks
DEFAULT_MEMORY = 256 << 20

Progress = Callable[[float], None]
"""Callback for the fraction of the source that has been read, 0 .. 1."""


def _ignore(fraction: float) -> None:
    """Discard the progress."""


class ImportJob(NamedTuple):
    """One import: source, destination and resources.

    memory : bytes for sorting; vertex attributes, and the ids of sparse ones, are additional
    weights : meaning of the numbers of synapses, see `NetworkWriter`
    """

    source: Path
    destination: Path
    memory: int = DEFAULT_MEMORY
    threads: int | None = None
    progress: Progress = _ignore
    weights: str = "rate"

    @property
    def keeps_weights(self) -> bool:
        """Return whether the network gets synaptic weights, with their signs."""
        return self.weights != "rate"

    def writer(
        self, neurons: int, *, undirected: bool = False, weights_are_rates: bool = True
    ) -> NetworkWriter:
        """Open the network file for writing."""
        from storage.store.writer import NetworkWriter

        return NetworkWriter(
            self.destination,
            neurons,
            undirected=undirected,
            weights_are_rates=weights_are_rates,
            weights=self.weights,
            memory=self.memory,
            threads=self.threads,
        )


def kept_weights(are: str, asked: bool, traffic: str | None) -> tuple[str, str | None]:
    """Return the fields `weights` and `traffic` of an `ImportJob`.

    asked : whether the user set `are`; traffic : see `import_network`
    """
    from storage.store.traffic import BOTH_WEIGHTS, RATE_WEIGHTS, SYNAPSE_WEIGHTS, UNIFORM, WEIGHTS

    if are == RATE_WEIGHTS:
        return RATE_WEIGHTS, WEIGHTS if asked and traffic is None else traffic
    if traffic == WEIGHTS:
        return BOTH_WEIGHTS, traffic
    return SYNAPSE_WEIGHTS, UNIFORM if asked else traffic


def plain_suffix(path: Path) -> str:
    """Return the extension in lower case, ignoring a final ``.gz``: ``a.mtx.gz`` gives .mtx."""
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def is_text(head: bytes) -> bool:
    return b"\0" not in head


@dataclass(frozen=True, slots=True)
class Importer:
    """A format that networks are read from.

    extensions : for example ``.graph``; a text format is detected by extension (and text content)
    magic : first bytes of a file; a format that has them is detected by them alone
    inside : for a magic number shared by formats: reads the file to decide whether it has this
        format; None if that is undecided, and the extension decides
    binary : not text, but without a magic number; detected by extension alone
    gzip : whether gzipped files are also read
    module : name of the module with ``load(job)``
    probe : for formats without a magic number: whether the head of a file matches
    heading : for text: whether the head alone shows this format, under any file name
    shape : for text with one of the extensions: whether the layout of the file shows this format;
        not asked if the user names columns
    takes : names of additional options of ``load``
    several : a file may refer to others, so it cannot come from standard input
    like : format whose import calls the same kernels, if the table of kernels has no row for this
    package : name and version of the package that adds the format, "" for this one
    """

    name: str
    about: str
    extensions: tuple[str, ...]
    module: str
    magic: bytes = b""
    inside: Callable[[Path], bool | None] | None = None
    binary: bool = False
    gzip: bool = False
    probe: Callable[[bytes], bool] | None = None
    heading: Callable[[bytes], bool] | None = None
    shape: Callable[[Path, bytes], bool] | None = None
    takes: tuple[str, ...] = ()
    several: bool = False
    like: str = ""
    package: str = ""

    def sniff(self, head: bytes, path: Path) -> bool:
        """Return whether a file with this (decompressed) `head` seems to have this format."""
        named = plain_suffix(path) in self.extensions
        if self.magic:
            found = head.startswith(self.magic)
            if found and self.inside is not None:
                inside = self.inside(path)
                return named if inside is None else inside
            return found
        if self.probe is not None:
            return self.probe(head)
        if self.heading is not None and self.heading(head):
            return True
        if self.shape is not None:
            return named and is_text(head) and self.shape(path, head)
        return named and (self.binary or is_text(head))

    @property
    def kernels(self) -> str:
        """Return the kind of work whose kernels an import calls."""
        return f"import/{self.like or self.name}"

    @property
    def weights_are(self) -> str:
        """Meaning of the file's number per synapse: "synapse", its weight, or "rate"."""
        return "synapse" if "traffic" in self.takes else "rate"

    def kept_weights(self, asked: str | None, traffic: str | None) -> tuple[str, str | None]:
        """Return the fields `weights` and `traffic` of an `ImportJob`.

        asked : "rate" or "synapse", None for `weights_are`; traffic : see `import_network`
        """
        return kept_weights(asked or self.weights_are, asked is not None, traffic)

    def load(self, job: ImportJob, extra: Mapping[str, Any] | None = None) -> NetworkMeta:
        """Convert a file; raise `BadInputError` and leave no file if the source is invalid.

        extra : additional options; None counts as not given
        """
        source = job.source
        given = {name: value for name, value in (extra or {}).items() if value is not None}
        for name in given:
            if name not in self.takes:
                raise BadInputError(f"{source}: {self.name} files do not take the option `{name}`")
        if not self.gzip and _is_gzipped(source):
            raise BadInputError(f"{source}: is gzipped; decompress it first (gunzip)")
        try:
            with blaming(self.package, f"{source}: format {self.name}"):
                load = import_module(self.module).load
                return cast("NetworkMeta", load(job, **given))
        except BadInputError as error:
            # errors of the writer do not name the file
            if str(error).startswith(f"{plain(str(source))}:"):
                raise
            raise BadInputError(f"{source}: {error}") from error
        except MemoryError as error:
            raise BadInputError(
                f"{source}: needs more memory than available; check the sizes in the file"
            ) from error


def _is_gzipped(path: Path) -> bool:
    with open_input(path) as file:
        return file.read(len(GZIP_MAGIC)) == GZIP_MAGIC


@dataclass(frozen=True, slots=True)
class Exporter:
    """A format that networks are written to.

    module : name of the module with ``save(net, destination)``, which returns the losses that can
        be found only by reading the synapses
    holds : parts of a network that it stores, from `losses.KINDS`
    partly : parts that it stores for some networks; the module returns the parts lost
    text : is text, gzipped if the name ends in ``.gz``
    nodes : writes a second file with the nodes; see `sonataconfig.nodes_beside`
    package : name and version of the package that adds the format, "" for this one
    """

    name: str
    about: str
    extensions: tuple[str, ...]
    module: str
    holds: tuple[str, ...] = ()
    partly: tuple[str, ...] = ()
    text: bool = False
    nodes: bool = False
    package: str = ""

    def save(self, net: NetworkFile, destination: Path) -> list[Loss]:
        """Write the file; it gets its name only when it is complete.

        Returns the parts of the network that it does not hold.
        """
        if not self.text and destination.name.lower().endswith(".gz"):
            raise BadInputError(
                f"{destination}: {self.name} files are not gzipped; remove .gz from the name"
            )
        with blaming(self.package, f"{destination}: format {self.name}"):
            save: Any = import_module(self.module).save
            return [*self.losses(net), *save(net, destination)]

    def losses(self, net: NetworkFile) -> list[Loss]:
        """Return the parts of a network that this format loses, judged by the metadata."""
        from storage.formats.losses import find_losses

        return list(find_losses(net, (*self.holds, *self.partly)))


class FileFormat(NamedTuple):
    """A format that another package adds: its reader, its writer, or both.

    Both have the name of the entry point.
    """

    reader: Importer | None = None
    writer: Exporter | None = None
