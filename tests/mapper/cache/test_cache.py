"""The cache: keys, room, and what happens if it cannot be used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pytest

from mapper.cache import cache as module
from mapper.cache import location
from mapper.cache.cache import FILE, OFF, Cache
from mapper.cache.digests import code_digest, digest
from mapper.errors import UsageError
from storage.errors import StorageWarning

MOST = 1 << 20


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class Fields:
    a: int
    b: float


VALUES: list[Any] = [
    None, 0, 1, True, 1.0, -0.0, 0.0, "1", b"1", "", b"", (), [1], (1, 2), (12,), ((1,), 2), {},
    {"a": 1}, {"a": (1,)}, {"b": 1}, Pair(1, 2), Fields(1, 2.0), Fields(1, 3.0), Path("1"),
    np.arange(3), np.arange(3.0), np.arange(3)[:, None], np.int32(1), frozenset({1, 2}),
]  # fmt: skip


def test_different_inputs_have_different_digests() -> None:
    found = {digest(value) for value in VALUES} | {digest(), digest(1, 2), digest(12)}
    assert len(found) == len(VALUES) + 3 - 1  # (1,) and [1] would be equal; neither is in the list
    assert digest((1, 2), [3]) == digest([1, 2], (3,))
    assert digest(np.arange(6)[::2]) == digest(np.array([0, 2, 4]))
    assert digest({1, 2, 3}) == digest({3, 2, 1})


def test_values_without_a_digest() -> None:
    for value in (object(), np.array([None]), len):
        with pytest.raises(TypeError, match="digest"):
            digest(value)


def test_other_code_has_other_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(1)
    code = code_digest()
    monkeypatch.setattr("mapper.cache.digests.code_digest", lambda: bytes(reversed(code)))
    assert digest(1) != before


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path, MOST)


def test_results_are_found_again(cache: Cache, tmp_path: Path) -> None:
    slot = cache.slot("work", 1, "two")
    assert slot.get() is None
    slot.put(b"result")
    assert Cache(tmp_path, MOST).slot("work", 1, "two").get() == b"result"
    assert cache.slot("work", 1, "three").get() is None
    assert cache.slot("other work", 1, "two").get() is None
    assert cache.contents().kinds["work"][0] == 1
    cache.clear()
    assert slot.get() is None
    assert cache.contents().kinds == {}


def test_old_results_make_room(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ones that were not used for longest are dropped; the file stays within its limit."""
    random, now = np.random.default_rng(1), [1e6]
    monkeypatch.setattr(module.time, "time", lambda: now[0])
    results = {number: random.bytes(20_000) for number in range(120)}
    for number, content in results.items():
        now[0] += 2 * module.FRESH
        cache.slot("work", number).put(content)
        assert cache.slot("work", 0).get() == results[0]  # used all the time
    found = {number: cache.slot("work", number).get() for number in results}
    kept = [number for number, content in found.items() if content is not None]
    assert kept[0] == 0
    assert kept[1:] == list(range(121 - len(kept), 120))
    assert len(kept) >= 20
    assert all(found[number] == results[number] for number in kept)
    assert cache.contents().size <= MOST
    cache.slot("work", "large").put(random.bytes(MOST // 2))
    assert cache.slot("work", "large").get() is None


def test_an_error_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = Cache(tmp_path / "file", MOST)
    with pytest.warns(StorageWarning, match="the cache is not used: .*file"):
        assert cache.slot("work", 1).get() is None
    cache.slot("work", 1).put(b"result")  # warnings are errors
    assert not cache.is_on


def test_a_deleted_file_loses_only_time(cache: Cache, tmp_path: Path) -> None:
    slot = cache.slot("work", 1)
    slot.put(b"result")
    (tmp_path / FILE).unlink()
    assert slot.get() is None
    slot.put(b"result")
    assert slot.get() == b"result"


def test_the_cache_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAPPER_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("MAPPER_CACHE_SIZE", "0")
    assert Cache.of_user() is OFF
    assert not OFF.slot("work", object()).is_on
    monkeypatch.setenv("MAPPER_CACHE_SIZE", "1GiB")
    assert (Cache.of_user().folder, Cache.of_user().most) == (tmp_path, 1 << 30)
    monkeypatch.setenv("MAPPER_CACHE_SIZE", "much")
    with pytest.raises(UsageError, match="MAPPER_CACHE_SIZE: 'much' is not a size"):
        Cache.of_user()
    monkeypatch.delenv("MAPPER_CACHE_SIZE")
    assert Cache.of_user().most == 2 << 30
    monkeypatch.delenv("MAPPER_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert location.cache_folder() == tmp_path / "caches" / "mapper"
    assert location.catalogue_folder() == tmp_path / "data" / "mapper"


def test_network_file_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mount(NamedTuple):
        mountpoint: str
        fstype: str

    mounts = [Mount("/", "ext4"), Mount(str(tmp_path), "nfs4"), Mount(f"{tmp_path}/here", "tmpfs")]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: mounts)
    monkeypatch.setenv("MAPPER_CACHE_SIZE", "1GiB")
    assert not location.is_shared(tmp_path.parent)
    assert not location.is_shared(tmp_path / "here" / "x")
    monkeypatch.setenv("MAPPER_CACHE_DIR", str(tmp_path / "x"))
    with pytest.warns(StorageWarning, match="the cache is off: .*network file system"):
        assert Cache.of_user() is OFF
