"""Interface of the engine that starts and reaches worker processes, as used by executors."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from mapper.distributed.relay import Reach
from mapper.executors.shared import SharedFolder
from mapper.executors.workers import RowSource

LOOKS_EVERY = 2.0  # seconds between checks that a worker without answer is alive


def new_account() -> dict[str, float]:
    """Return the totals of a stage, all zero.

    calls : number of calls to all workers; seconds : wall time that the driver waited for them
    cpu_seconds : processor time of the workers; bytes_to, bytes_from : traffic to and from workers
    bytes_shared : bytes written by workers into the shared folder
    """
    amounts = ("calls", "seconds", "cpu_seconds", "bytes_to", "bytes_from", "bytes_shared")
    return dict.fromkeys(amounts, 0)


class LostError(Exception):
    """A worker was lost: it does not answer."""


class Engine(Protocol):
    """Interface of an engine: starts worker processes and reaches them.

    patience : seconds that a run waits while it has no workers
    lost : addresses of lost workers
    moved : number of shards moved from stragglers to other workers
    shared : folder that all workers see
    exchanged : bytes of rows per worker in an exchange
    """

    patience: float
    lost: list[str]
    moved: int
    exchanged: int

    @property
    def shared(self) -> SharedFolder: ...

    def addresses(self) -> list[str]:
        """Return the addresses of live workers, ascending; raises `ResumableError` if unknown."""

    def own(self, address: str, source: RowSource) -> Any:
        """Create an `Owner` on a worker; its methods return futures.

        Raises `LostError` if the worker is lost, or the error of opening the rows.
        """

    def reach(self, address: str, owner: Any) -> Reach:
        """Return a reference through which other workers reach an owner; it can be pickled."""

    def account(self, stage: str, **amounts: float) -> None:
        """Add to the totals of a stage; see `new_account`."""


def result_within(future: Any, seconds: float) -> Any:
    """Return the result of a future; raise `TimeoutError` if it takes longer than `seconds`.

    Dask raises `UnboundLocalError` instead if the timeout first cancels its own wait
    (`distributed.utils.sync` stores only exceptions of the class `Exception`).
    """
    try:
        return future.result(timeout=seconds)
    except UnboundLocalError as error:
        raise TimeoutError(f"no result within {seconds:g} s") from error


def result_of(
    future: Any, address: str, engine: Engine, check: Callable[[], None] = lambda: None
) -> Any:
    """Return the result of a worker's call; raise `LostError`, or an error of `check`.

    future : of the call; None if the call could not be sent
    check : called about once per second while waiting
    """
    looked = time.monotonic()
    ended = False
    while future is not None:
        try:
            return result_within(future, 1.0)
        except TimeoutError as error:
            if ended:  # the timeout is the call's own error
                raise LostError(address) from error
            ended = future.done()  # it may have finished just after the timeout
            if ended:
                continue
            check()
            if time.monotonic() - looked > LOOKS_EVERY:
                if address not in engine.addresses():  # its connection may still be open
                    raise LostError(address) from error
                looked = time.monotonic()
        except (OSError, RuntimeError) as error:
            raise LostError(address) from error
    raise LostError(address)
