"""Tables of results as arrays, and as data frames of other packages."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from mapper.errors import UsageError
from mapper.frames import to_columns, to_frame

ROWS = [
    {"name": "a", "cycles": 3, "share": 0.5, "whole": True, "loss": None},
    {"name": "b", "cycles": 4, "share": 1, "whole": False, "loss": 2, "late": 7},
]


def test_columns_have_the_types_of_their_values() -> None:
    found = to_columns(ROWS)
    assert list(found) == ["name", "cycles", "share", "whole", "loss", "late"]
    kinds = {name: one.dtype.kind for name, one in found.items()}
    assert kinds == {
        "name": "O", "cycles": "i", "share": "f", "whole": "b", "loss": "f", "late": "f"
    }  # fmt: skip
    assert found["cycles"].tolist() == [3, 4]
    assert np.isnan(found["loss"]).tolist() == [True, False]
    assert to_columns([]) == {}


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_made_by_the_package(library: str, monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setitem(sys.modules, library, SimpleNamespace(DataFrame=dict))
    frame = to_frame(ROWS, library)
    assert list(frame["cycles"]) == [3, 4]


def test_refused_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="library is 'excel'; give pandas or polars"):
        to_frame(ROWS, "excel")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pandas is missing; install it with: pip install pandas"):
        to_frame(ROWS)
