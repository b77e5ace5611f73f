"""Samples for models from folders of images: classes, colours, and bad images."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from storage.errors import BadInputError
from storage.samples import parse_form, read_samples
from tests.storage.test_samples import PLAIN, refusal


def test_missing_pillow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    assert "pip install 'neuromapper[images]'" in refusal(tmp_path)


def images(folder: Path, pixels: np.ndarray, ending: str = "png", first: int = 0) -> Path:
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    folder.mkdir(exist_ok=True, parents=True)
    for number, one in enumerate(pixels, first):
        image.fromarray(one).save(folder / f"{number:02}.{ending}")
    return folder


def test_images_of_a_folder_by_name(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), np.uint8)
    folder = images(tmp_path / "a", pixels)
    found = read_samples(folder, (3, 6, 5), parse_form("scale=1/255", None))
    assert np.array_equal(found.x, (pixels / 255).transpose(0, 3, 1, 2).astype(np.float32))
    assert found.labels is None
    last = read_samples(folder, (6, 5, 3), PLAIN, 2, channels_last=True)
    assert np.array_equal(last.x, pixels[:2])
    (folder / "notes.txt").write_text("")
    assert "1 files ignored: not images" in read_samples(folder, (3, 6, 5), PLAIN).notes[0]


def test_subfolders_of_images_are_classes(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 6, 5), np.uint8)
    images(tmp_path / "all" / "cats", pixels[:2])
    images(tmp_path / "all" / "dogs", pixels[2:])
    found = read_samples(tmp_path / "all", (1, 6, 5), PLAIN)
    assert np.array_equal(found.x[:, 0], pixels)
    assert found.labels is not None
    assert found.labels.tolist() == [0, 0, 1, 1, 1]
    (tmp_path / "all" / "none").mkdir()
    with pytest.raises(BadInputError, match="none: contains no images; each subfolder is a class"):
        read_samples(tmp_path / "all", (1, 6, 5), PLAIN)


def test_converted_colours_are_noted(tmp_path: Path) -> None:
    grey = np.random.default_rng(0).integers(0, 256, (2, 6, 5), np.uint8)
    folder = images(tmp_path / "a", grey)
    found = read_samples(folder, (3, 6, 5), PLAIN)
    assert np.array_equal(found.x, np.repeat(grey[:, None], 3, 1))
    assert any("L converted to RGB, as the model needs 3 channels" in note for note in found.notes)


def test_bad_images(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 6, 5, 3), np.uint8)
    folder = images(tmp_path / "a", pixels)
    assert "a sample has 6x5x3 numbers, the model needs 8x8x3 in this layout" in refusal(
        folder, (3, 8, 8)
    )
    with pytest.raises(BadInputError, match="the model needs 4 channels, images have 1 or 3"):
        read_samples(folder, (4, 6, 5), PLAIN)
    images(folder, np.zeros((1, 7, 5, 3), np.uint8), first=2)
    with pytest.raises(BadInputError, match=r"has 7x5 pixels, 00.png has 6x5"):
        read_samples(folder, (3, 6, 5), PLAIN)
    (folder / "01.png").write_bytes((folder / "01.png").read_bytes()[:60])
    with pytest.raises(BadInputError, match=r"01.png: not a readable image"):
        read_samples(folder, (3, 6, 5), PLAIN, 2)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInputError, match="contains no images"):
        read_samples(tmp_path / "empty", (3, 6, 5), PLAIN)
