"""What starts processes and reaches them, as an executor sees it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from mapper.distributed.relay import Reach
from mapper.distributed.shared import SharedFolder
from mapper.distributed.workers import RowSource

LOOKS_EVERY = 2.0  # seconds between two questions whether a worker that is silent is there


def new_account() -> dict[str, float]:
    """What workers have done in a stage, before it begins.

    calls : of all of them together; seconds : that the driver waited for these
    cpu_seconds : processor time of the workers; bytes_to, bytes_from : sent to and by them
    bytes_shared : that they wrote into the folder that all see
    """
    amounts = ("calls", "seconds", "cpu_seconds", "bytes_to", "bytes_from", "bytes_shared")
    return dict.fromkeys(amounts, 0)


class LostError(Exception):
    """A worker does not answer any more."""


class Engine(Protocol):
    """What starts processes and reaches them.

    patience : seconds that a run waits without any worker
    lost : addresses of workers that were lost
    moved : shards that slow workers have given to others
    shared : the folder that all of them see
    exchanged : bytes of rows that a worker may hold in an exchange
    """

    patience: float
    lost: list[str]
    moved: int
    exchanged: int

    @property
    def shared(self) -> SharedFolder: ...

    def addresses(self) -> list[str]:
        """Of the workers that are there, ascending; raises `ResumableError` if nobody knows."""

    def own(self, address: str, source: RowSource) -> Any:
        """An `Owner` on a worker, whose methods return futures of what they would.

        Raises `LostError` if the worker is lost, or what opening rows does.
        """

    def reach(self, address: str, owner: Any) -> Reach:
        """What other workers reach an owner by; goes to these."""

    def account(self, stage: str, **amounts: float) -> None:
        """Add to what a stage has taken: see `new_account`."""


def result_within(future: Any, seconds: float) -> Any:
    """Return the result of a future; raises `TimeoutError` if it takes longer.

    Dask raises `UnboundLocalError` instead if the timeout first cancels its own wait
    (`distributed.utils.sync` keeps no exception but those of the class `Exception`).
    """
    try:
        return future.result(timeout=seconds)
    except UnboundLocalError as error:
        raise TimeoutError(f"no result within {seconds:g} s") from error


def result_of(
    future: Any, address: str, engine: Engine, check: Callable[[], None] = lambda: None
) -> Any:
    """What a worker returns; raises `LostError`, or what `check` does meanwhile.

    future : of a call; None if it could not be made
    """
    looked = time.monotonic()
    ended = False
    while future is not None:
        try:
            return result_within(future, 1.0)
        except TimeoutError as error:
            if ended:  # and that is what it gives
                raise LostError(address) from error
            ended = future.done()  # it may have come a moment later
            if ended:
                continue
            check()
            if time.monotonic() - looked > LOOKS_EVERY:
                if address not in engine.addresses():  # though its connection may stay open
                    raise LostError(address) from error
                looked = time.monotonic()
        except (OSError, RuntimeError) as error:
            raise LostError(address) from error
    raise LostError(address)
