"""What a format is: a name, the files that it recognises, and the module that does the work.

Nothing here needs compiled kernels; a format's module is imported when it is used, so that the
list of formats is there at once for help texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from storage.errors import BadInputError
from storage.files import open_input

if TYPE_CHECKING:
    from storage.formats.losses import Loss
    from storage.store.meta import NetworkMeta
    from storage.store.network import NetworkFile
    from storage.store.writer import NetworkWriter

HEAD_BYTES = 4096
GZIP_MAGIC = b"\x1f\x8b"
UTF16 = (b"\xff\xfe", b"\xfe\xff")  # how text of that encoding starts
DEFAULT_MEMORY = 256 << 20

Progress = Callable[[float], None]
"""Is called with the fraction of the source that has been read, 0 .. 1."""


def _ignore(fraction: float) -> None:
    """No one wants to know."""


class ImportJob(NamedTuple):
    """What every importer is asked: which file is to become which network, and by what means.

    memory : bytes for sorting; vertex attributes, and the ids of sparse ones, come on top
    weights : what the numbers of synapses are, as of `NetworkWriter`
    """

    source: Path
    destination: Path
    memory: int = DEFAULT_MEMORY
    threads: int | None = None
    progress: Progress = _ignore
    weights: str = "rate"

    @property
    def keeps_weights(self) -> bool:
        """Whether the network is to have synaptic weights, with their signs."""
        return self.weights != "rate"

    def writer(
        self, neurons: int, *, undirected: bool = False, weights_are_rates: bool = True
    ) -> NetworkWriter:
        """The open network file."""
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
    """What an `ImportJob` is to say of weights that are rates or synapses, and of the traffic.

    asked : whether somebody said so; traffic : as of `import_network`
    """
    from storage.store.traffic import BOTH_WEIGHTS, RATE_WEIGHTS, SYNAPSE_WEIGHTS, UNIFORM, WEIGHTS

    if are == RATE_WEIGHTS:
        return RATE_WEIGHTS, WEIGHTS if asked and traffic is None else traffic
    if traffic == WEIGHTS:
        return BOTH_WEIGHTS, traffic
    return SYNAPSE_WEIGHTS, UNIFORM if asked else traffic


def plain_suffix(path: Path) -> str:
    """The last part of the name in lower case, a final ``.gz`` apart: ``a.mtx.gz`` is .mtx."""
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def is_text(head: bytes) -> bool:
    return b"\0" not in head


def plain(text: str) -> str:
    """A message in which names out of a file do no harm to a terminal: all can be printed."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@dataclass(frozen=True, slots=True)
class Importer:
    """A format that networks are read from.

    extensions : as in ``.graph``; a text format is recognised by them (and by holding text)
    magic : bytes that such a file starts with; a format that has one is recognised by it alone
    inside : for a magic number that formats share: looks into a file whether it is of this one;
        None if that is open, and the extension decides
    binary : no text, but without a magic number; it is recognised by its extensions alone
    gzip : whether it is read gzipped as well
    module : name of the module with ``load(job)``
    probe : for formats without a magic number: whether the head of a file looks like one
    heading : for text: whether its head shows by itself, under any name, that it is of this format
    takes : names of further options of ``load``
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
    takes: tuple[str, ...] = ()

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether a file that starts with `head` (unzipped if need be) looks like this format."""
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
        return named and (self.binary or is_text(head))

    @property
    def weights_are(self) -> str:
        """What the number is that a file has for a synapse: "synapse", its weight, or "rate"."""
        return "synapse" if "traffic" in self.takes else "rate"

    def kept_weights(self, asked: str | None, traffic: str | None) -> tuple[str, str | None]:
        """What an `ImportJob` is to say of weights, and what ``load`` of the traffic.

        asked : "rate" or "synapse", None for `weights_are`; traffic : as of `import_network`
        """
        return kept_weights(asked or self.weights_are, asked is not None, traffic)

    def load(self, job: ImportJob, extra: Mapping[str, Any] | None = None) -> NetworkMeta:
        """Convert; raises `BadInputError` and leaves no file if the source breaks its rules.

        extra : further options; those that are None count as not given
        """
        source = job.source
        given = {name: value for name, value in (extra or {}).items() if value is not None}
        for name in given:
            if name not in self.takes:
                raise BadInputError(f"{source}: {self.name} files have no option `{name}`")
        if not self.gzip and _is_gzipped(source):
            raise BadInputError(f"{source}: is gzipped; unzip it first, as gunzip does")
        load = import_module(self.module).load
        try:
            return cast("NetworkMeta", load(job, **given))
        except BadInputError as error:
            # what the writer finds out does not name the file
            where = "" if str(error).startswith(f"{source}:") else f"{source}: "
            message = plain(f"{where}{error}")
            if message == str(error):
                raise
            raise BadInputError(message) from error
        except MemoryError as error:
            raise BadInputError(
                f"{source}: it asks for more memory than there is; are its sizes right?"
            ) from error


def _is_gzipped(path: Path) -> bool:
    with open_input(path) as file:
        return file.read(len(GZIP_MAGIC)) == GZIP_MAGIC


@dataclass(frozen=True, slots=True)
class Exporter:
    """A format that networks are written to.

    module : name of the module with ``save(net, destination)``, which returns what was lost that
        only a reading of the synapses tells
    holds : what of a network has a place in it, of `losses.KINDS`
    partly : what has one in some networks; the module says of which it had none
    text : it is text, and gzipped if the name ends in ``.gz``
    nodes : a second file is written, of the nodes; see `sonataconfig.nodes_beside`
    """

    name: str
    about: str
    extensions: tuple[str, ...]
    module: str
    holds: tuple[str, ...] = ()
    partly: tuple[str, ...] = ()
    text: bool = False
    nodes: bool = False

    def save(self, net: NetworkFile, destination: Path) -> list[Loss]:
        """Write the file; it appears under its name only when it is complete.

        Returns what of the network it does not hold.
        """
        if not self.text and destination.name.lower().endswith(".gz"):
            raise BadInputError(
                f"{destination}: {self.name} files are not gzipped; leave .gz out of the name"
            )
        save: Any = import_module(self.module).save
        return [*self.losses(net), *save(net, destination)]

    def losses(self, net: NetworkFile) -> list[Loss]:
        """What of a network has no place in this format, as far as its attributes tell."""
        from storage.formats.losses import find_losses

        return list(find_losses(net, (*self.holds, *self.partly)))


def named(formats: dict[str, Any], name: str) -> Any:
    """The format called `name`; raises `BadInputError` that lists them all."""
    if name not in formats:
        raise BadInputError(f"no format is called {name!r}; there are {', '.join(formats)}")
    return formats[name]
