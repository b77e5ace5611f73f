"""Compilation of kernels with messages and a progress bar."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from mapper.kernels import warmup
from mapper.monitoring.bars import bar_on


def compile_once(console: Console, works: Iterable[str], threads: int) -> warmup.Compiled:
    """Compile the kernels of some tasks that are not in the cache, and report it.

    Only the first use after an installation compiles. Times reported by a run exclude compilation.
    """
    with bar_on(console) as bar:
        task = bar.add_task("compiling kernels", total=1.0, visible=False)

        def on_start(count: int) -> None:
            many = "1 kernel" if count == 1 else f"{count} kernels"
            console.print(f"compiling {many}, once after installation ...", soft_wrap=True)
            bar.update(task, visible=True)

        def on_wait() -> None:
            console.print(
                "waiting for another mapper process that compiles kernels ...", soft_wrap=True
            )

        found = warmup.compile_kernels(
            works, threads, on_start, lambda share: bar.update(task, completed=share), on_wait
        )
    if found.failed:
        console.print(
            f"note: {len(found.failed)} kernels could not be compiled ahead; they are compiled at "
            "first use",
            soft_wrap=True,
        )
    if found.processes:
        console.print(f"compiling kernels: done in {found.seconds:.0f} s", soft_wrap=True)
    return found
