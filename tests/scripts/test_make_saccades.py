"""Events of moving images: exact for a point and an edge, and files that models read."""

from __future__ import annotations

import gzip
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from mapper.spiking.discretise import model_of_graph
from mapper.spiking.pipeline import samples_of
from mapper.spiking.reference import run_reference
from storage.samples.spikes import read_spike_samples

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_saccades.py"
OFF, ON = 0, 1


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_saccades", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Event = tuple[int, int, int, int]
"""Tick, polarity, row and column."""


def events(image: Any, ticks: int, threshold: float) -> list[Event]:
    """Return the events of one image in order."""
    values = np.array(image, np.float64)
    found = script().saccades(values[None], ticks, threshold)
    sensor = (2, values.shape[0] + 6, values.shape[1] + 6)
    places = np.unravel_index(found.neuron, sensor)
    return list(zip(found.tick.tolist(), *(part.tolist() for part in places), strict=True))


def test_a_point_jumps_between_the_corners() -> None:
    """One tick per saccade: from the right top to the middle below, to the left top, and back."""
    assert events([[1.0]], 3, 1.0) == [
        (0, OFF, 0, 6), (0, ON, 6, 3),
        (1, OFF, 6, 3), (1, ON, 0, 0),
        (2, OFF, 0, 0), (2, ON, 0, 6),
    ]  # fmt: skip


def test_a_large_change_sends_an_event_per_tick() -> None:
    """A change of two thresholds takes two ticks; the second event is lost if it changes back."""
    assert events([[1.0]], 3, 0.5) == [
        (0, OFF, 0, 6), (0, ON, 6, 3),
        (1, OFF, 0, 6), (1, OFF, 6, 3), (1, ON, 0, 0),
        (2, OFF, 0, 0), (2, ON, 0, 6),
    ]  # fmt: skip


def test_a_vertical_edge_moves_between_pixels() -> None:
    """Two ticks per saccade: the edge is at columns 6, 4.5, 3, 1.5, 0, 3 and 6 of the sensor.

    The image is one column, so tall that row 10 of the sensor is inside it in all ticks. At column
    4.5 it has half of its brightness in columns 4 and 5.
    """
    row = [event for event in events(np.ones((20, 1)), 6, 0.5) if event[2] == 10]
    assert [(tick, polarity, column) for tick, polarity, _, column in row] == [
        (0, OFF, 6), (0, ON, 4), (0, ON, 5),
        (1, OFF, 4), (1, OFF, 5), (1, OFF, 6), (1, ON, 3),  # half of column 3 stays unseen
        (2, OFF, 3), (2, ON, 1), (2, ON, 2),
        (3, OFF, 1), (3, OFF, 2), (3, ON, 0),
        (4, OFF, 0), (4, ON, 3),
        (5, OFF, 3), (5, ON, 6),
    ]  # fmt: skip


def test_events_add_up_to_the_change_of_brightness() -> None:
    """The image returns to its first place, so each pixel gets as much brighter as darker.

    It moves so slowly that no pixel changes by more than a threshold per tick.
    """
    module = script()
    image = np.random.default_rng(0).random((1, 8, 8))
    found = module.saccades(image, 600, 0.0625)
    counts = np.bincount(found.neuron, minlength=2 * 14 * 14).reshape(2, -1)
    assert np.abs(counts[ON] - counts[OFF]).max() <= 1
    assert counts.sum() > 1000


def test_events_do_not_depend_on_other_images() -> None:
    module = script()
    images = np.random.default_rng(1).random((4, 5, 7))
    whole, one = module.saccades(images, 30, 0.2), module.saccades(images[2:3], 30, 0.2)
    own = whole.sample == 2
    assert np.array_equal(whole.tick[own], one.tick)
    assert np.array_equal(whole.neuron[own], one.neuron)
    key = (whole.sample * 30 + whole.tick) * 1000 + whole.neuron
    assert (np.diff(key) > 0).all()


def run(*words: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, words)], capture_output=True, text=True, check=False
    )


def idx(values: np.ndarray[Any, Any]) -> bytes:
    head = np.array([0x800 + values.ndim, *values.shape], ">u4")
    return head.tobytes() + values.astype(np.uint8).tobytes()


@pytest.mark.heavy
def test_files_are_read_as_samples(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    images = rng.integers(0, 256, (5, 28, 28)).astype(np.uint8)
    labels = np.array([3, 1, 4, 1, 5], np.uint8)
    np.savez(tmp_path / "x.npz", x=images[:, None], y=labels)
    (tmp_path / "images").write_bytes(idx(images))
    (tmp_path / "labels.gz").write_bytes(gzip.compress(idx(labels)))
    words = ("--samples", 3, "--ticks", 30, "--threshold", 0.5, "-o")
    for name, paths in (("a.npz", ["x.npz"]), ("b.npz", ["images", "labels.gz"])):
        done = run(*(tmp_path / path for path in paths), *words, tmp_path / name)
        assert "3 samples of 30 ticks, 2x34x34, " in done.stdout, done.stderr
    one, other = (
        read_spike_samples(tmp_path / name, {"input": (2, 34, 34)}) for name in ("a.npz", "b.npz")
    )
    assert (one.samples, one.ticks) == (3, 30)
    assert one.labels is not None
    assert one.labels.tolist() == [3, 1, 4]
    assert all(np.array_equal(*pair) for pair in zip(one[:4], other[:4], strict=True))
    expected = script().saccades(images[:3] / 255, 30, 0.5)
    assert np.array_equal(one.neuron, expected.neuron)


def test_faults_take_one_line(tmp_path: Path) -> None:
    module = script()
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 3)))
    np.savez(tmp_path / "b.npz", x=np.zeros((2, 3)), y=[1, 2])
    (tmp_path / "c").write_bytes(idx(np.zeros((2, 3, 3)))[:-1])
    cases = (
        (["a.npz"], "holds x; give x and y"),
        (["b.npz"], r"images have shape \(2, 3\) and labels \(2,\)"),
        (["c", "c"], r"its size does not match its shape \(2, 3, 3\)"),
        (["a.npz", "c"], "not an idx file of 3 axes of bytes"),
    )
    for names, text in cases:
        with pytest.raises(ValueError, match=text):
            module.read_images([tmp_path / name for name in names])
    with pytest.raises(ValueError, match="images have values from 0 to 2; give bytes, or 0 to 1"):
        module.brightness(np.array([0.0, 2.0]))


@pytest.mark.heavy
def test_a_network_trained_on_recordings_reads_the_digits(data_dir: Path, tmp_path: Path) -> None:
    """Mirrored directions or swapped polarities lose 8 to 15 of 100 digits at this threshold."""
    images, words = data_dir / "models" / "mnist_test_1000.npz", ("--threshold", 0.4, "-o")
    done = run(images, "--samples", 40, *words, tmp_path / "e.npz")
    assert done.returncode == 0, done.stderr
    model = model_of_graph(data_dir / "nir" / "cnn_sinabs.nir", 1e-3, "subtract")
    samples = samples_of(model, tmp_path / "e.npz")
    counts = run_reference(model, samples).spikes[model.outputs[0].population].counts(40, 10)
    assert samples.labels is not None
    assert np.mean(counts.argmax(axis=1) == samples.labels) >= 0.95
