"""Resource usage of the operating system, also on systems with fewer counters than Linux."""

from __future__ import annotations

import builtins
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from mapper.monitoring import resources
from mapper.monitoring.monitor import Monitor


def test_usage_is_of_this_process() -> None:
    rss = psutil.Process().memory_info().rss
    assert 0 < resources.anonymous_bytes() < 2 * rss
    assert resources.peak_rss_bytes() > rss // 2
    assert 0 < resources.available_bytes() <= psutil.virtual_memory().total


def test_bytes_moved_grow_with_writes(tmp_path: Path) -> None:
    before = resources.bytes_moved()
    (tmp_path / "a").write_bytes(bytes(1 << 20))
    (tmp_path / "a").read_bytes()
    after = resources.bytes_moved()
    assert [new - old >= 1 << 20 for old, new in zip(before, after, strict=True)] == [True, True]


def test_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on macOS: no /proc, no cgroups, no counters of moved bytes."""
    monkeypatch.setattr(resources, "_STATUS", tmp_path / "none")
    monkeypatch.setattr(resources, "_CGROUP_LIMITS", ())
    monkeypatch.delattr(psutil.Process, "io_counters")
    assert resources.anonymous_bytes() > 1 << 20
    assert resources.available_bytes() > 0
    assert resources.bytes_moved() == (0, 0)


def test_without_the_module_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where psutil reports the peak."""
    plain = builtins.__import__

    def no_resource(name: str, *rest: Any, **more: Any) -> Any:
        if name == "resource":
            raise ImportError(name)
        return plain(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", no_resource)
    figures = SimpleNamespace(rss=5, peak_wset=7)
    monkeypatch.setattr(resources, "_process", lambda: SimpleNamespace(memory_info=lambda: figures))
    assert resources.peak_rss_bytes() == 7


def test_a_cgroup_limits_the_available_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limit, used = tmp_path / "max", tmp_path / "current"
    monkeypatch.setattr(resources, "_CGROUP_LIMITS", ((str(limit), str(used)),))
    limit.write_text("1000\n")
    used.write_text("400\n")
    assert resources.available_bytes() == 600
    used.write_text("4000\n")
    assert resources.available_bytes() == 0
    limit.write_text("max\n")
    assert resources.available_bytes() > 1000


def test_compilation_is_not_run_time() -> None:
    monitor = Monitor()
    with monitor.untimed():
        time.sleep(0.2)
    assert 0 <= monitor.resources()["seconds"] < 0.2


def test_without_free_descriptors_samples_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    with resources.PeakSampler() as sampler:
        peak = sampler.take()

        def full() -> int:
            raise OSError(24, "Too many open files")

        monkeypatch.setattr(resources, "anonymous_bytes", full)
        sampler.take()
        assert sampler.overall >= peak > 0
