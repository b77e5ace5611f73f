"""Resuming of interrupted or killed runs."""

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
from storage.jsontext import parse_json
from storage.store.network import NetworkFile, is_network_name

# identity of a network file, see its `identity`
NETWORK_KEYS = ("network bytes", "network checksum")
RUN = "run.json"  # in the folder of a running run: its parameters


def describe_run(network: Path, chip: Chip, settings: Settings) -> dict[str, Any]:
    """Return the parameters that determine the result of a run; excludes the number of threads."""
    return describe_job(network, settings, {"chip": chip.to_json()})


def describe_job(network: Path, settings: Settings, more: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs that determine a result; more : in addition to network and settings."""
    asked = {name: value for name, value in settings.to_json().items() if name != "threads"}
    return {"version": version(), **_describe_network(network), **more, **asked}


def _describe_network(network: Path) -> dict[str, Any]:
    """Return the identity of a network; for a network file it is independent of the path."""
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
    """Return the memory that the run in a folder was planned with; None without a run."""
    earlier = _read(folder)
    return None if earlier is None else int(earlier["memory_bytes"])


def take_up(folder: Path, run: dict[str, Any], made: Path) -> bool:
    """Return whether an equal run is present in the folder, so that its steps can be reused.

    Otherwise the folder `made` with results of an earlier run is removed, and this run is recorded.
    Raises `CannotResumeError` if a different run is present.
    """
    earlier = _read(folder)
    if earlier is None:
        if made.exists():
            text = f"{folder / RUN} is damaged: the earlier run cannot be resumed"
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
    """Raise `CannotResumeError` if a complete result belongs to a different run.

    report : contents of its report.json; run : see `describe_run`. The memory is not compared, as
        free memory varies.
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
                f"{_short(now[name])}; use --force without --resume to replace it"
            )


def is_whole(network: Path, threads: int) -> bool:
    """Return whether a network written by an earlier run exists, complete and undamaged.

    It gets this name only when it is complete, but a crash of the machine may damage it.
    """
    if not network.is_file():
        return False
    try:
        with NetworkFile(network) as made:
            made.check(threads)
    except BadInputError as error:
        warnings.warn(f"{error}: it is written again", StorageWarning, stacklevel=2)
        return False
    return True


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _read(folder: Path) -> dict[str, Any] | None:
    try:
        found = parse_json((folder / RUN).read_bytes())
    except (OSError, ValueError):
        return None
    whole = isinstance(found, dict) and isinstance(found.get("memory_bytes"), int)
    return found if whole else None
