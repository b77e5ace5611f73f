"""Contract of all importers: valid files are read, damage ends in one line that names the file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from mapper.extend.contract import MOST_SAID, unclear
from mapper.extend.formats import read_whole
from storage.errors import BadInputError, StorageError
from storage.formats import FORMATS, import_network
from tests.storage.formats.damage import outcome
from tests.storage.formats.samples import SAMPLES, Sample

ROOT = Path(__file__).resolve().parents[3]
LIBRARIES = {"nir": "h5py", "sonata": "h5py", "onnx": "onnx", "parquet": "pyarrow"}
LONGEST = 600  # seconds for all damage to one format, usually about 10
EACH = [(name, sample) for name, samples in SAMPLES.items() for sample in samples]
EVERY_SAMPLE = pytest.mark.parametrize(
    ("name", "sample"), EACH, ids=[sample.name for _, sample in EACH]
)
EVERY_FORMAT = pytest.mark.parametrize("name", FORMATS)


def need(name: str) -> None:
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name], reason=f"{name} files need it")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder only for networks."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def test_every_format_has_a_sample() -> None:
    assert list(SAMPLES) == list(FORMATS)


@pytest.mark.heavy
@pytest.mark.sample(10)
@EVERY_SAMPLE
def test_samples_are_read(name: str, sample: Sample, tmp_path: Path, out: Path) -> None:
    need(name)
    source = tmp_path / sample.name
    source.write_bytes(sample.make(tmp_path))
    for format in (None, name):
        meta = import_network(source, out / "net.bin", format)
        assert read_whole(out / "net.bin") == (sample.neurons, sample.synapses)
        assert (meta.neurons, meta.synapses) == (sample.neurons, sample.synapses)
        assert [path.name for path in out.iterdir()] == ["net.bin"]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@EVERY_FORMAT
def test_damage_ends_in_one_line(name: str, tmp_path: Path) -> None:
    """In a process with limited memory: truncated, altered bytes, also gzipped."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        pytest.skip("numpy warns about hashes modulo 2^64 if the JIT is off")
    if not Path("/proc/self/statm").exists():
        pytest.skip("memory is measured only on Linux")
    need(name)
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "tests.storage.formats.damage",
        name,
        str(tmp_path),
    ]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=LONGEST,
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    assert not done.stdout
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.sample(103)
@EVERY_FORMAT
@pytest.mark.parametrize("other", SAMPLES)
def test_a_file_of_another_format(name: str, other: str, tmp_path: Path, out: Path) -> None:
    need(name)
    need(other)
    sample = SAMPLES[other][0]
    assert outcome(tmp_path / sample.name, sample.make(tmp_path), out, name) == ""


@EVERY_SAMPLE
def test_no_content(name: str, sample: Sample, tmp_path: Path, out: Path) -> None:
    source = tmp_path / sample.name
    for content in (b"", b"\0", b"\n", b"\xff" * 5000, b"0\n" * 3000):
        for format in (None, name):
            if content or format is None:
                assert outcome(source, content, out, format) == ""
    source.write_bytes(b"")
    with pytest.raises(BadInputError, match="is empty; download or save it again"):
        import_network(source, out / "net.bin", name)


@EVERY_FORMAT
def test_unreadable_file(name: str, tmp_path: Path, out: Path) -> None:
    sample = SAMPLES[name][0]
    source = tmp_path / sample.name
    for reason in ("No such file", "Is a directory", "Permission denied"):
        if reason == "Is a directory":
            source.mkdir()
        if reason == "Permission denied":
            if os.geteuid() == 0:
                continue  # root may read everything
            source.rmdir()
            source.write_bytes(b"1 2\n")
            source.chmod(0)
        for format in (None, name):
            with pytest.raises(StorageError, match=reason) as caught:
                import_network(source, out / "net.bin", format)
            assert unclear(str(caught.value), source) == ""
    assert list(out.iterdir()) == []


def test_unclear_messages(tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    assert unclear(f"{source}: line 3: 'x' is not a number", source) == ""
    for message in ("line 3: 'x' is not a number", "", f"{source}: line 3:\nbad", f"{source}: bad"):
        assert unclear(message, source)
    assert unclear(f"{source}: line 3: \x1b[31m is bad", source)
    assert unclear(f"{source}: line 3: " + "x" * MOST_SAID, source)
