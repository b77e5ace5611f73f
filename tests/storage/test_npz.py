"""Archives of arrays."""

from __future__ import annotations

import io

import numpy as np
import pytest

from storage.npz import npz_bytes


def test_written_archives_have_only_the_given_arrays() -> None:
    """Also with numpy 2.0, where an argument `allow_pickle` would become an array."""
    arrays = {"a": np.arange(3), "b": np.float64(2.5)}
    data = npz_bytes(arrays)
    assert data == npz_bytes(arrays)
    with np.load(io.BytesIO(data)) as file:
        assert set(file.files) == {"a", "b"}
        assert (file["a"].tolist(), float(file["b"])) == ([0, 1, 2], 2.5)
    with pytest.raises(TypeError, match="c has objects"):
        npz_bytes({"c": np.array([None])})
