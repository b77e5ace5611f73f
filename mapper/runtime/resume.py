"""Going on with a run that was interrupted or killed."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

from chipsim.chip.model import Chip
from mapper.errors import CannotResumeError
from mapper.settings import Settings
from mapper.version import version
from storage.errors import BadInputError, StorageWarning
from storage.files import real_path, write_file

NETWORK_KEYS = ("network bytes", "network checksum")  # of a network file, see its `identity`
RUN = "run.json"  # in the folder of a run at work: what it was started with


def describe_run(network: Path, chip: Chip, settings: Settings) -> dict[str, Any]:
    """What decides the result of a run; the number of threads does not."""
    asked = {name: value for name, value in settings.to_json().items() if name != "threads"}
    return {
        "version": version(),
        **_describe_network(network),
        "chip": chip.to_json(),
        **asked,
    }


def _describe_network(network: Path) -> dict[str, Any]:
    """What tells a network from others: of a network file it is the same wherever that lies."""
    from storage.store.network import NetworkFile, is_network_name

    if is_network_name(network):
        with NetworkFile(network) as opened:
            return dict(zip(NETWORK_KEYS, opened.identity, strict=True))
    status = network.stat()
    return {
        "network": str(real_path(network)),
        "network size": status.st_size,
        "network changed": status.st_mtime_ns,
    }


def planned_memory(folder: Path) -> int | None:
    """The memory that the run in a folder was planned with, or None without such a run."""
    earlier = _read(folder)
    return None if earlier is None else int(earlier["memory_bytes"])


def take_up(folder: Path, run: dict[str, Any], made: Path) -> bool:
    """Whether a run like this one was at work in the folder; then its steps are still good.

    Otherwise `made`, the folder of what such a run has made, is removed, and this run is noted.
    Raises `CannotResumeError` if it was another one.
    """
    earlier = _read(folder)
    if earlier is None:
        if made.exists():
            text = f"{folder / RUN} is damaged: nothing of the earlier run is taken up again"
            warnings.warn(text, StorageWarning, stacklevel=2)
            shutil.rmtree(made)
        write_file(folder / RUN, json.dumps(run).encode())
        return False
    for name, value in run.items():
        if earlier.get(name) != value:
            raise CannotResumeError(
                f"{folder}: was started with {name} {_short(earlier.get(name))}, now it is "
                f"{_short(value)}; repeat the same command, or leave out --resume"
            )
    return True


def require_same(report: dict[str, Any], output: Path, run: dict[str, Any]) -> None:
    """Raise `CannotResumeError` if a complete result is that of another run.

    report : its report.json; run : see `describe_run`. The memory is not compared, for what is free
    changes.
    """
    network, earlier = report["network"], {**report["settings"], "chip": report["chip"]}
    if "imported_from" in network:
        earlier["network"] = network["imported_from"]
    elif "bytes" in network:  # reports of earlier versions lack it
        earlier |= dict(zip(NETWORK_KEYS, (network["bytes"], network["checksum"]), strict=True))
    now = json.loads(json.dumps(run))
    for name in now.keys() & earlier.keys() - {"memory_bytes", "threads"}:
        if earlier[name] != now[name]:
            raise CannotResumeError(
                f"{output}: is complete, made with {name} {_short(earlier[name])}, now it is "
                f"{_short(now[name])}; give --force without --resume to replace it"
            )


def is_whole(network: Path, threads: int) -> bool:
    """Whether a network that an earlier run has made is there, complete and undamaged.

    It has that name only since it was complete; but a crash of the machine may have harmed it.
    """
    from storage.store.network import NetworkFile

    if not network.is_file():
        return False
    try:
        with NetworkFile(network) as made:
            made.check(threads)
    except BadInputError as error:
        warnings.warn(f"{error}: it is made again", StorageWarning, stacklevel=2)
        return False
    return True


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _read(folder: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((folder / RUN).read_bytes())
    except (OSError, ValueError):
        return None
    whole = isinstance(found, dict) and isinstance(found.get("memory_bytes"), int)
    return found if whole else None
