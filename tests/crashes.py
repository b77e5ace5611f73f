"""Processes that die at a chosen change of a file, and state machines that use them."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from mapper.results import output_folder
from storage.files import PartialFile

EVENTS = {
    "open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.truncate", "tests.call"
}  # fmt: skip
"""Events before which a process may die."""
DEATH = 9
"""Exit code of a process that died."""
MORE = 20  # times as many examples in the thorough tier
Act = Callable[[], object]

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def dies(act: Act, count: int) -> bool:
    """Return whether a child process that calls `act` dies before its `count`-th change of a file.

    It dies without cleaning up and without writing its buffers, like a process that is killed.
    """
    child = os.fork()
    if not child:
        _die_at(count)
        _end(act)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, DEATH)
    return code == DEATH


class Paused:
    """A child process that calls `act` with a function that waits for `go`."""

    def __init__(self, act: Callable[[Act], object]) -> None:
        ready, self._ready = os.pipe()
        self._wait, self._go = os.pipe()
        self._child = os.fork()
        if not self._child:
            os.close(self._go)
            _end(lambda: act(self._pause))
        os.close(self._ready)
        os.close(self._wait)
        assert os.read(ready, 1) == b"r", "it ended before it paused"
        os.close(ready)

    def _pause(self) -> None:
        os.write(self._ready, b"r")
        os.read(self._wait, 1)

    def go(self) -> None:
        """Let it run to its end."""
        os.write(self._go, b"g")
        assert self._wait_for() == 0

    def kill(self) -> None:
        os.kill(self._child, signal.SIGKILL)
        assert self._wait_for() == -signal.SIGKILL

    def _wait_for(self) -> int:
        os.close(self._go)
        return os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])


def explore(
    machine: type[RuleBasedStateMachine], config: pytest.Config, examples: int, steps: int
) -> None:
    """Run random sequences of the rules of a state machine."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples * (MORE if config.option.thorough else 1),
            stateful_step_count=steps, suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip


def names(folder: Path) -> list[str]:
    """Return the names in a folder in order."""
    return sorted(path.name for path in folder.iterdir())


def _end(act: Act) -> None:
    """End this process after a call."""
    code = 1
    try:
        act()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _die_at(count: int) -> None:
    """Let this process die before an event."""
    left = count

    def hook(event: str, _: object) -> None:
        nonlocal left
        if event in EVENTS:
            left -= 1
            if left == 0:
                os._exit(DEATH)

    def seen(call: Callable[..., Any]) -> Callable[..., Any]:
        def both(*given: Any) -> Any:
            sys.audit("tests.call")
            done = call(*given)
            sys.audit("tests.call")
            return done

        return both

    output_folder.exchange = seen(output_folder.exchange)  # type: ignore[attr-defined]
    PartialFile.write = seen(PartialFile.write)  # type: ignore[method-assign]
    os.fsync, os.pwrite = seen(os.fsync), seen(os.pwrite)
    sys.addaudithook(hook)
