"""Shared fixtures, test tiers, and the tests that need the JIT."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import hypothesis
import numba
import numpy as np
import pytest

from tests.kernel_cache import refresh
from tests.tiers import Some, commits, left_out, some_of

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # some tests import ONNX Runtime themselves
# An example may take long: the machine may be busy, and the first call of a kernel compiles it.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
# Tests leave the user's cache and catalogue alone; the cache is off where no test is about it.
os.environ.setdefault("MAPPER_CACHE_SIZE", "0")
_catalogue = Path(tempfile.gettempdir(), f"mapper-tests-{os.getpid()}")
os.environ.setdefault("MAPPER_CACHE_DIR", str(_catalogue))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--thorough", action="store_true", help="run all cases of sampled tests")
    group.addoption(
        "--most", type=int, default=math.inf, help="run so many cases of a test, at most"
    )
    group.addoption(
        "--turn", type=int, help="run sampled cases of this commit (default: number of commits)"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    worker = hasattr(config, "workerinput")
    if worker:
        config.option.turn = config.workerinput["turn"]
    elif config.option.turn is None:
        config.option.turn = commits()
    if (
        config.option.hypothesis_seed is None
    ):  # other examples at each commit, the same for one commit
        config.option.hypothesis_seed = str(config.option.turn)
    if not (worker or numba.config.DISABLE_JIT):
        refresh()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send the turn to a pytest-xdist process: it may start after another commit."""
    node.workerinput["turn"] = node.config.option.turn


def pytest_unconfigure() -> None:
    shutil.rmtree(_catalogue, ignore_errors=True)


def pytest_report_header(config: pytest.Config) -> str:
    cases = "all cases" if config.option.thorough else "a sample of the cases"
    return f"tests with many cases: {cases}, --turn {config.option.turn}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect cases of other commits, and skip tests marked `jit` if the JIT is off.

    Pages of the documentation run last: they need nearly all kernels, which are compiled by then.
    """
    if not config.option.thorough:
        dropped = left_out(items, config.option.turn, config.option.most)
        config.hook.pytest_deselected(items=[item for item in items if item in dropped])
        items[:] = [item for item in items if item not in dropped]
    items.sort(key=lambda item: "docs" in item.path.parts)
    if not numba.config.DISABLE_JIT:
        return
    skip = pytest.mark.skip(reason="sufficiently tested in the compiled pass")
    for item in items:
        if "jit" in item.keywords:
            item.add_marker(skip)


_states: dict[tuple[str, str], Any] = {}  # of the generators of modules, after their import


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order(request: pytest.FixtureRequest) -> None:
    """Let a test draw the same numbers whatever other tests of its process drew before."""
    module = getattr(request.node, "module", None)
    for name, value in vars(module).items() if module else ():
        if isinstance(value, np.random.Generator):
            known = _states.setdefault((module.__name__, name), value.bit_generator.state)
            value.bit_generator.state = known


@pytest.fixture
def some(request: pytest.FixtureRequest) -> Some:
    """Sample the values of a loop, different ones at each commit; the thorough tier uses all."""
    option = request.config.option
    return some_of(request.node.nodeid, None if option.thorough else option.turn)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real inputs: $MAPPER_DATA or shared/data next to the repository."""
    named = os.environ.get("MAPPER_DATA")
    root = Path(__file__).resolve().parents[1]
    folder = Path(named) if named else root.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no real data: set MAPPER_DATA to the folder with graphs/")
    return folder
