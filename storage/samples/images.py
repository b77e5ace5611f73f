"""Folders of images: each file is a sample of rows x columns x channels, 0 to 255."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.extras import require
from storage.files import read_error, read_input
from storage.samples.form import InputShape, sizes
from storage.samples.sources import SampleSource

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
MOST_BYTES = 1 << 28  # of a file
MODES = {1: "L", 3: "RGB"}


class ImageSource(SampleSource):
    """The images of a folder, by name; or of its subfolders, each of which is a class, by name.

    They are converted to grey or RGB if the model has one or three channels. They are not resized.
    """

    def __init__(self, path: Path, taken: InputShape) -> None:
        super().__init__(path)
        self._library = require("PIL.Image", "images", path, "images")
        if taken.channels not in MODES:
            raise BadInputError(
                f"{path}: the model needs {taken.channels} channels, images have 1 or 3; give the "
                "samples as .npy or .npz"
            )
        self._mode = MODES[taken.channels]
        self._taken = taken
        self._files = self._images(path)
        if not self._files:
            folders = [one for one in self._entries(path) if one.is_dir()]
            per_class = [self._images(folder) for folder in folders]
            self._files = [file for files in per_class for file in files]
            counts = [len(files) for files in per_class]
            if self._files and min(counts) == 0:
                raise BadInputError(
                    f"{folders[counts.index(0)]}: contains no images; each subfolder is a class"
                )
            self.labels = np.repeat(np.arange(len(counts)), counts)
        if not self._files:
            raise BadInputError(f"{path}: contains no images ({', '.join(ENDINGS)})")
        self.count = len(self._files)
        self.shape = (*self._map_size(), taken.channels)
        self._colours: set[str] = set()

    def _map_size(self) -> tuple[int, ...]:
        with self._opened(self._files[0]) as image:
            return image.height, image.width

    def _entries(self, folder: Path) -> list[Path]:
        try:
            return sorted(folder.iterdir())
        except OSError as error:
            raise read_error(folder, error) from error

    def _images(self, folder: Path) -> list[Path]:
        files = [one for one in self._entries(folder) if one.is_file()]
        found = [one for one in files if one.suffix.lower() in ENDINGS]
        if found and len(found) < len(files):
            self.notes.append(
                f"{folder}: {len(files) - len(found)} files ignored: not images by their extension"
            )
        return found

    def _opened(self, path: Path) -> Any:
        # Pillow reads as many bytes as a chunk declares, which a file would allocate
        file = io.BytesIO(read_input(path, MOST_BYTES))
        try:
            with warnings.catch_warnings():  # the size is compared with the model's
                warnings.simplefilter("ignore", self._library.DecompressionBombWarning)
                return self._library.open(file)
        except (OSError, ValueError, SyntaxError, self._library.DecompressionBombError) as error:
            raise _unreadable(path, error) from error

    def read(self, first: int, count: int) -> NDArray[np.uint8]:
        made = np.empty((count, *self.shape), np.uint8)
        for at, path in enumerate(self._files[first : first + count]):
            with self._opened(path) as image:
                if (image.height, image.width) != self.shape[:2]:
                    raise BadInputError(
                        f"{path}: has {sizes((image.height, image.width))} pixels, "
                        f"{self._files[0].name} has {sizes(self.shape[:2])}; scale all images to "
                        "the size of the model"
                    )
                if image.mode != self._mode and image.mode not in self._colours:
                    self._colours.add(image.mode)
                    self.notes.append(
                        f"{path}: {image.mode} converted to {self._mode}, as the model needs "
                        f"{self._taken.channels} channels"
                    )
                try:
                    pixels = np.asarray(image.convert(self._mode), np.uint8)
                except (OSError, ValueError, SyntaxError) as error:
                    raise _unreadable(path, error) from error
            made[at] = pixels.reshape(self.shape)
        return made

    def close(self) -> None:
        """Do nothing: files are open only while they are read."""


def _unreadable(path: Path, error: BaseException) -> BadInputError:
    return BadInputError(f"{path}: not a readable image ({' '.join(str(error).split())[:120]})")
