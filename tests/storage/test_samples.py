"""Samples for models: four kinds of files, conversion to a model's input, and bad input."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import BadInputError
from storage.samples import (
    Normalisation,
    SampleForm,
    SampleTable,
    open_samples,
    parse_form,
    read_samples,
    require_samples,
)
from storage.samples.form import InputShape

PLAIN = SampleForm()
numbers = st.floats(-1e6, 1e6)


@pytest.fixture
def maps() -> np.ndarray:
    return np.random.default_rng(1).normal(0, 1, (7, 3, 4, 5)).astype(np.float32)


def written(path: Path, x: np.ndarray, labels: np.ndarray | None = None) -> Path | SampleTable:
    """Write a file of the kind given by its extension; `.memory` keeps the arrays in memory."""
    if path.suffix == ".memory":
        return SampleTable(str(path), {"x": x, **({} if labels is None else {"y": labels})})
    if path.suffix == ".npy":
        np.save(path, x)
    elif path.suffix == ".npz":
        np.savez_compressed(path, x=x, **({} if labels is None else {"y": labels}))
    else:
        assert labels is not None
        rows = np.column_stack([labels, x.reshape(len(x), math.prod(x.shape[1:]))])
        lines = (",".join(f"{value:.9g}" for value in row) for row in rows.tolist())
        path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "memory"])
def test_all_kinds_of_files_give_equal_samples(tmp_path: Path, maps: np.ndarray, kind: str) -> None:
    labels = np.arange(7)
    path = written(tmp_path / f"some.{kind}", maps, labels)
    with open_samples(path, (3, 4, 5), PLAIN) as samples:
        assert len(samples) == 7
        assert (samples.labels is None) == (kind == "npy")
        if samples.labels is not None:
            assert samples.labels.tolist() == labels.tolist()
        for first, count in [(5, 2), (0, 3), (2, 1), (0, 7), (6, 9)]:  # forwards and backwards
            made = samples.read(first, count)
            assert made.dtype == np.float32
            assert np.array_equal(made, maps[first : first + count])
        assert np.array_equal(np.concatenate(list(samples.batches(3))), maps)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_samples_in_fortran_order(tmp_path: Path, maps: np.ndarray, save: Any) -> None:
    save(tmp_path / "a.npz", x=np.asfortranarray(maps))
    np.save(tmp_path / "a.npy", np.asfortranarray(maps))
    for name in ("a.npz", "a.npy"):
        with open_samples(tmp_path / name, (3, 4, 5), PLAIN) as samples:
            assert np.array_equal(samples.read(2, 3), maps[2:5])


@pytest.mark.parametrize("kind", ["uint8", "int64", "float16", "float64", "bool", ">f4"])
def test_samples_of_other_number_types(tmp_path: Path, kind: str) -> None:
    x = (np.arange(12).reshape(2, 6) % 5).astype(kind)
    for name in ("a.npy", "a.npz"):
        found = read_samples(written(tmp_path / name, x), (6,), PLAIN)
        assert np.array_equal(found.x, x.astype(np.float32))


def test_only_the_first_samples_are_read(tmp_path: Path, maps: np.ndarray) -> None:
    path = written(tmp_path / "a.npz", maps, np.arange(7))
    found = read_samples(path, (3, 4, 5), PLAIN, 4)
    assert np.array_equal(found.x, maps[:4])
    assert found.labels is not None
    assert found.labels.tolist() == [0, 1, 2, 3]
    assert found.notes == []
    (note,) = read_samples(path, (3, 4, 5), PLAIN, 9).notes
    assert "has 7 samples, fewer than the 9 requested" in note


def test_later_samples_are_not_decompressed(tmp_path: Path) -> None:
    """A damaged end of an archive does not affect samples before it."""
    x = np.random.default_rng(0).normal(0, 1, (300, 1000))
    path = written(tmp_path / "a.npz", x, np.arange(300))
    raw = bytearray(path.read_bytes())
    at = raw.rindex(b"PK\3\4") // 2 + len(raw) // 4
    raw[at : at + 64] = bytes(64)
    path.write_bytes(raw)
    with open_samples(path, (1000,), PLAIN) as samples:
        assert np.array_equal(samples.read(0, 5), x[:5].astype(np.float32))
        with pytest.raises(BadInputError, match="damaged"):
            samples.read(0, 300)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("kind", ["npy", "csv"])
def test_layouts(tmp_path: Path, maps: np.ndarray, kind: str, channels_last: bool) -> None:
    """Data in either layout, flat or not, for models of either layout."""
    last = np.moveaxis(maps, 1, -1)
    wanted = last if channels_last else maps
    for layout, data in (("nchw", maps), ("nhwc", last)):
        path = written(tmp_path / f"{layout}.{kind}", data, np.arange(7))
        found = read_samples(
            path, wanted.shape[1:], parse_form(None, layout), channels_last=channels_last
        )
        assert np.array_equal(found.x, wanted)
        assert found.notes == []


def test_layouts_of_one_dimension(tmp_path: Path) -> None:
    signals = np.random.default_rng(0).normal(0, 1, (5, 8, 3)).astype(np.float32)
    path = written(tmp_path / "a.npy", signals)
    found = read_samples(path, (3, 8), parse_form(None, "nhwc"))
    assert np.array_equal(found.x, signals.transpose(0, 2, 1))


def test_rows_for_maps_of_several_channels_are_noted(tmp_path: Path, maps: np.ndarray) -> None:
    path = written(tmp_path / "a.npy", maps.reshape(7, -1))
    found = read_samples(path, (3, 4, 5), PLAIN)
    assert np.array_equal(found.x, maps)
    assert "rows of 60 numbers are read as 3x4x5, channels first" in found.notes[0]


@pytest.mark.parametrize("shape", [(6, 28), (1, 6, 28), (6, 28, 1), (168,)])
def test_axes_of_one_do_not_matter(tmp_path: Path, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(0, 1, (2, *shape)).astype(np.float32)
    found = read_samples(written(tmp_path / "a.npy", x), (1, 6, 28), PLAIN)
    assert np.array_equal(found.x, x.reshape(2, 1, 6, 28))


def test_maps_for_a_model_of_rows(tmp_path: Path, maps: np.ndarray) -> None:
    found = read_samples(written(tmp_path / "a.npy", maps), (60,), PLAIN)
    assert np.array_equal(found.x, maps.reshape(7, 60))


def test_a_header_line_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,a,b\n3,1,2\n\n4,5,6.5,\n")
    found = read_samples(path, (2,), PLAIN)
    assert found.x.tolist() == [[1, 2], [5, 6.5]]
    assert found.labels is not None
    assert found.labels.tolist() == [3, 4]
    assert "line 1 is skipped as a header" in found.notes[0]


# -- normalisation ---------------------------------------------------------------------------------


def test_normalisation_per_channel(tmp_path: Path, maps: np.ndarray) -> None:
    form = parse_form("scale=1/255, mean=.1,.2,.3, std=0.5", None)
    found = read_samples(written(tmp_path / "a.npy", maps), (3, 4, 5), form)
    mean = np.array([0.1, 0.2, 0.3])[:, None, None]
    assert np.allclose(found.x, (maps / 255 - mean) / 0.5, rtol=1e-6)
    last = read_samples(
        written(tmp_path / "b.npy", np.moveaxis(maps, 1, -1)), (4, 5, 3), form, channels_last=True
    )
    assert np.array_equal(last.x, np.moveaxis(found.x, 1, -1))


def test_scale_comes_before_mean_and_deviation() -> None:
    assert Normalisation.parse("std=4,mean=1,scale=1/2") == Normalisation(0.5, (1.0,), (4.0,))
    assert Normalisation.parse("") == Normalisation()
    data = np.full((1, 2), 6.0)
    made = Normalisation(0.5, (1.0,), (4.0,)).apply(data, InputShape((2,)))
    assert made.tolist() == [[0.5, 0.5]]


@given(
    numbers.filter(bool), st.lists(numbers, min_size=1, max_size=4),
    st.lists(numbers.filter(bool), min_size=1, max_size=4), st.sampled_from(["nchw", "nhwc", None]),
)  # fmt: skip
def test_forms_round_trip(scale: float, mean: list[float], std: list[float], layout: Any) -> None:
    form = SampleForm(layout, Normalisation(scale, tuple(mean), tuple(std)))
    assert SampleForm.from_json(form.to_json()) == form


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("variance=3", "'variance' is unknown; the keys are scale, mean, std"),
        ("255", "'255' has no key"),
        ("scale=1,scale=2", "scale is a duplicate"),
        ("scale=1,2", "scale must be one number"),
        ("scale=0", "must not be zero"),
        ("std=1,0,1", "must not be zero"),
        ("mean=abc", "mean is 'abc'; give a number"),
        ("scale=1/0", "give a number, or a fraction"),
        ("mean=nan", "give a number"),
        ("std=inf", "give a number"),
        ("mean=", "mean is ''"),
    ],
)
def test_bad_normalisations(text: str, says: str) -> None:
    with pytest.raises(BadInputError) as error:
        parse_form(text, None)
    assert str(error.value).startswith("normalise: ")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_bad_forms(tmp_path: Path, maps: np.ndarray) -> None:
    with pytest.raises(BadInputError, match="layout 'chwn' is unknown; give nchw or nhwc"):
        parse_form(None, "chwn")
    with pytest.raises(BadInputError, match="normalise: 3 is not text"):
        SampleForm.from_json({"normalise": 3})
    path = written(tmp_path / "a.npy", maps)
    with pytest.raises(BadInputError, match="mean has 2 numbers, the model's input has 3 channels"):
        read_samples(path, (3, 4, 5), parse_form("mean=1,2", None))


# -- bad input -------------------------------------------------------------------------------------


def refusal(
    path: Path | SampleTable, shape: tuple[int, ...] = (3, 4, 5), form: SampleForm = PLAIN
) -> str:
    with pytest.raises(BadInputError) as error:
        read_samples(path, shape, form)
    assert str(path.name) in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "memory"])
def test_error_names_both_sizes(tmp_path: Path, maps: np.ndarray, kind: str) -> None:
    path = written(tmp_path / f"a.{kind}", maps, np.arange(7))
    given = "60" if kind == "csv" else "3x4x5"
    assert f"a sample has {given} numbers, the model needs 3x28x28" in refusal(path, (3, 28, 28))


def test_error_suggests_the_other_layout(tmp_path: Path, maps: np.ndarray) -> None:
    path = written(tmp_path / "a.npy", np.moveaxis(maps, 1, -1))
    assert "has 4x5x3 numbers, the model needs 3x4x5; give layout nhwc" in refusal(path)
    said = refusal(path, (3, 4, 5), parse_form(None, "nchw"))
    assert "give layout nhwc" in said
    path = written(tmp_path / "b.npy", maps)
    said = refusal(path, (3, 4, 5), parse_form(None, "nhwc"))
    assert "the model needs 4x5x3 in this layout; give layout nchw" in said


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "memory"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_error_names_the_sample_that_is_not_finite(
    tmp_path: Path, maps: np.ndarray, kind: str, value: float
) -> None:
    maps[5, 1, 2, 3] = value
    path = written(tmp_path / f"a.{kind}", maps, np.arange(7))
    assert "sample 5 (of 0 to 6) contains NaN or infinite" in refusal(path)
    assert len(read_samples(path, (3, 4, 5), PLAIN, 5).x) == 5  # the samples before it are valid


def test_numbers_too_large_for_float32(tmp_path: Path) -> None:
    path = written(tmp_path / "a.npy", np.array([[1.0], [1e300]]))
    assert "sample 1 (of 0 to 1) contains NaN or infinite" in refusal(path, (1,))


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "memory"])
def test_samples_of_zeros_and_no_samples(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path / f"zero.{kind}", np.zeros((200, 60)), np.arange(200))
    assert "all 200 samples are zero" in refusal(path)
    path = written(tmp_path / f"none.{kind}", np.zeros((0, 60)), np.arange(0))
    assert "has no samples" in refusal(path)


def test_one_nonzero_sample_suffices(tmp_path: Path) -> None:
    x = np.zeros((200, 60))
    x[150, 3] = 1
    assert read_samples(written(tmp_path / "a.npz", x), (60,), PLAIN).x.sum() == 1
    with pytest.raises(BadInputError, match="all 100 samples are zero"):
        read_samples(tmp_path / "a.npz", (60,), PLAIN, 100)


def test_error_lists_arrays_if_x_is_missing(tmp_path: Path, maps: np.ndarray) -> None:
    np.savez(tmp_path / "a.npz", images=maps, labels=np.arange(7))
    assert "has only arrays images, labels; save the samples as x" in refusal(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz")
    for name in ("only", "input:0"):  # the only array, or named like the model's input
        np.savez(tmp_path / "c.npz", **{name: np.ones((2, 3)), "y": np.arange(2)})
        with open_samples(tmp_path / "c.npz", (3,), PLAIN, name="input:0") as samples:
            assert samples.labels is not None
            np.testing.assert_array_equal(samples.read(0, 2), np.ones((2, 3)))
    np.savez(tmp_path / "d.npz", **{"input:0": np.ones((2, 3)), "x": np.zeros((5, 3))})
    with open_samples(tmp_path / "d.npz", (3,), PLAIN, name="input:0") as samples:
        assert samples.notes == [f"{tmp_path / 'd.npz'}: arrays x are not used"]
    assert "has only arrays nothing" in refusal(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", x=maps, z=maps)
    (note,) = read_samples(tmp_path / "c.npz", (3, 4, 5), PLAIN).notes
    assert note.endswith("arrays z are not used")


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (np.arange(6), "x has 7 samples, but y has 6 labels"),
        (np.arange(8).reshape(8, 1), "x has 7 samples, but y has 8 labels"),
        (np.zeros((7, 10)), "y has shape 7x10 of float64; labels must be one whole number"),
        (np.array(list("abcdefg")), "labels must be one whole number"),
        (np.arange(7) + 0.5, "labels must be whole class numbers from 0"),
        (np.arange(7) - 1, "labels must be whole class numbers from 0"),
        (np.full(7, np.nan), "labels must be whole class numbers from 0"),
    ],
)
def test_bad_labels(tmp_path: Path, maps: np.ndarray, labels: np.ndarray, says: str) -> None:
    for kind in ("npz", "memory"):
        assert says in refusal(written(tmp_path / f"a.{kind}", maps, labels))


@pytest.mark.parametrize("kind", ["npy", "npz", "memory"])
@pytest.mark.parametrize("value", [1j, "a", None, np.datetime64("2020")])
def test_arrays_without_numbers(tmp_path: Path, kind: str, value: Any) -> None:
    path = written(tmp_path / f"a.{kind}", np.array([[value] * 60]))
    assert "save real numbers, such as float32" in refusal(path)
    with pytest.raises(BadInputError, match="save real numbers"):
        require_samples(path)


def test_ragged_lists_are_no_array() -> None:
    table = SampleTable("calibrate", {"x": [[1, 2], [3]]})
    assert "calibrate: x is not an array" in refusal(table, (2,))


def test_only_headers_are_read(tmp_path: Path, maps: np.ndarray) -> None:
    """A file without samples is refused before a model is read; other faults are found later."""
    objects = np.array([[{}]])
    np.savez(tmp_path / "a.npz", x=objects, y=np.arange(1))
    np.savez(tmp_path / "b.npz", x=maps, z=objects)
    with pytest.raises(BadInputError, match=r"a\.npz: x holds Python objects; save real numbers"):
        require_samples(tmp_path / "a.npz")
    require_samples(tmp_path / "b.npz")  # z is ignored
    (tmp_path / "c.npz").write_bytes(b"PK damaged")
    require_samples(tmp_path / "c.npz")  # damage is reported when samples are read
    (tmp_path / "d.npy").write_text("text")
    for name in ("d.npy", "e.txt", "f.csv"):
        with pytest.raises(BadInputError, match=name):
            require_samples(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no samples"),
        ("1,2,3\n4,5\n", "line 2: has 1 numbers after the label, but the first sample has 2"),
        ("1,2,3\n4,5,x\n", "line 2: contains a value that is not a number"),
        ("1,2,3\nb,5,6\n", "line 2: starts with b'b'"),
        ("1\n2\n", "line 1: has no numbers after the label"),
        ("1.5,2,3\n", "labels must be whole class numbers"),
    ],
)
def test_bad_tables(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    assert says in refusal(tmp_path / "a.csv", (2,))


@pytest.mark.parametrize("kind", ["npy", "npz", "csv"])
def test_missing_and_invalid_files(tmp_path: Path, kind: str, maps: np.ndarray) -> None:
    refusal(tmp_path / f"missing.{kind}")
    (tmp_path / f"other.{kind}").write_bytes(b"\x89PNG" * 5)
    refusal(tmp_path / f"other.{kind}")
    path = written(tmp_path / f"cut.{kind}", maps, np.arange(7))
    path.write_bytes(path.read_bytes()[: -len(path.read_bytes()) // 3])
    refusal(path)
    for size in range(0, 200, 7):
        path.write_bytes(written(tmp_path / f"b.{kind}", maps, np.arange(7)).read_bytes()[:size])
        refusal(path)


def test_error_lists_supported_extensions(tmp_path: Path) -> None:
    (tmp_path / "a.mat").write_bytes(b"")
    assert "not a file of samples; give .npz (arrays x and y), .npy, .csv" in refusal(
        tmp_path / "a.mat"
    )
    with pytest.raises(BadInputError, match="the number of samples is 0"):
        read_samples(tmp_path / "a.npy", (1,), PLAIN, 0)


def test_an_archive_with_a_false_size(tmp_path: Path) -> None:
    """A header that claims terabytes is rejected."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40, 60)}
    )
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", head.getvalue() + bytes(480))
    assert "does not match its shape" in refusal(tmp_path / "a.npz")
