"""Objects in stores: ranges, prefetch, failures; networks in them."""

from __future__ import annotations

import pickle
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.address import RemotePath, path_of
from storage.blobs import readahead
from storage.blobs.access import TIMEOUT, Pin, StoreAccess, current_access, store_access
from storage.blobs.opening import open_blob
from storage.blobs.readahead import BEHIND, IN_FLIGHT, ReadAhead
from storage.errors import BadInputError, ChangedObjectError, CorruptError, MissingExtraError
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter
from tests.objects import WebServer, put, s3_server, web_server
from tests.reference import storage as naive
from tests.storage.strategies import random_edges


@pytest.fixture
def web() -> Iterator[WebServer]:
    pytest.importorskip("obstore")
    with web_server() as server:
        yield server


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "net.bin"
    with NetworkWriter(path, 300, block_size=7) as writer:
        writer.add(*naive.columns(random_edges(300, 9000, 5)))
        writer.finish()
    return path


def test_addresses() -> None:
    for text in ("s3://lab/a/net.bin", "https://host:80/net.bin", "gs://b/x", "az://c/d e/ü"):
        path = path_of(text)
        assert isinstance(path, RemotePath)
        assert str(path) == text == str(pickle.loads(pickle.dumps(path)))
        assert path.absolute() == path
        assert path.is_file()
        assert not path.is_dir()
    assert path_of("S3://lab/net.bin") == path_of("s3://lab/net.bin")
    assert str(path_of("s3://lab/a/net.bin").parent / "b") == "s3://lab/a/b"
    assert path_of("s3://lab/a/net.bin").name == "net.bin"
    for text in ("s3:/lab/net.bin", "ftp://lab/net.bin", "s3://lab", "net.bin", "/a/b"):
        assert not isinstance(path_of(text), RemotePath)
    assert path_of(Path("a")) == Path("a")


@settings(max_examples=100)
@given(
    st.binary(max_size=400),
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(0, 420), st.integers(0, 90)), max_size=30),
)
def test_any_ranges(data: bytes, page: int, ranges: list[tuple[int, int]]) -> None:
    view = memoryview(data)
    with ReadAhead(lambda start, size: view[start : start + size], len(data), 1) as ahead:
        ahead.page = page
        for start, size in ranges:
            assert ahead.read(start, size) == data[start : start + size]
            assert len(ahead._pages) <= IN_FLIGHT + BEHIND + -(-size // page) + 1


@pytest.mark.parametrize("threads", [1, 4])
def test_sequential_reads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are fetched once each, several at a time; twice in two passes.

    All threads finish a round before the next one begins, which bounds their distance.
    """
    monkeypatch.setattr(readahead, "SMALLEST_PAGE", 100)
    data = random.Random(1).randbytes(9950)
    fetched: list[int] = []
    lock = threading.Lock()

    def fetch(start: int, size: int) -> memoryview:
        with lock:
            fetched.append(start)
        assert size <= 100
        return memoryview(data)[start : start + size]

    starts = range(0, len(data), 30)
    turns = [starts[i : i + threads] for i in range(0, len(starts), threads)]
    with ReadAhead(fetch, len(data), 1) as ahead, ThreadPoolExecutor(threads) as pool:
        for _ in range(2):
            pieces = [
                one for turn in turns for one in pool.map(lambda at: ahead.read(at, 30), turn)
            ]
            assert b"".join(pieces) == data
            assert len(ahead._pages) <= IN_FLIGHT + BEHIND
    assert len(fetched) <= 2 * 100 + 20


def test_random_reads_fetch_only_their_range() -> None:
    data = random.Random(1).randbytes(1 << 16)
    fetched: list[tuple[int, int]] = []

    def fetch(start: int, size: int) -> memoryview:
        fetched.append((start, size))
        return memoryview(data)[start : start + size]

    with ReadAhead(fetch, len(data), 1) as ahead:
        ahead.page = 100
        wanted = [(at, 50) for at in range(60000, 1000, -1000)]
        for start, size in wanted:
            assert ahead.read(start, size) == data[start : start + size]
    assert fetched == wanted


def contents(path: Path, threads: int = 1) -> object:
    with NetworkFile(path) as net:
        return net.meta, net.identity, naive.flatten(net.blocks(threads=threads))


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.filterwarnings("default")  # warnings of moto
def test_s3(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = contents(network)
    with s3_server(monkeypatch) as endpoint:
        put(f"{endpoint}/lab/some/net.bin", network.read_bytes())
        assert contents(path_of("s3://lab/some/net.bin"), 2) == expected
        for key in ("lab/none.bin", "other/net.bin"):
            with pytest.raises(BadInputError, match=f"^s3://{key}: no such object; check"):
                NetworkFile(path_of(f"s3://{key}"))
        put(f"{endpoint}/lab/text", b"just text")
        with pytest.raises(CorruptError, match=r"^s3://lab/text: not a complete zip archive"):
            NetworkFile(path_of("s3://lab/text"))
        # without a signature the server denies access
        with pytest.raises(BadInputError, match="the store denies access; check credentials"):
            NetworkFile(path_of(f"{endpoint}/lab/some/net.bin"))


@pytest.mark.heavy
def test_a_web_server(network: Path, web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page ranges, several at a time, and no byte twice in a pass except for the tail."""
    monkeypatch.setattr("storage.blobs.remote.TAIL", 100)
    monkeypatch.setattr(readahead, "SMALLEST_PAGE", 1 << 10)
    monkeypatch.setattr(readahead, "LARGEST_PAGE", 1 << 10)
    web.objects["/a/net.bin"] = network.read_bytes()
    web.delay = 0.02  # requests overlap, also on a busy machine
    assert contents(path_of(f"{web.url}/a/net.bin"), 2) == contents(network)
    assert max(size for _, size in web.ranges) <= 1 << 12  # the directory, in one piece
    assert 1 < web.most <= IN_FLIGHT + 1
    size = network.stat().st_size
    assert sum(read for _, read in web.ranges) < 2 * size + (1 << 13)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("failure", [500, 503, 0])
def test_a_range_that_fails_once(failure: int, network: Path, web: WebServer) -> None:
    web.objects["/net.bin"] = network.read_bytes()
    for place in range(2):
        web.failures = [failure]
        with NetworkFile(path_of(f"{web.url}/net.bin")) as net:
            if place:
                web.failures = [failure]
                net._archive._blob._tail = b""  # type: ignore[attr-defined]
            assert naive.flatten(net.blocks(threads=2)) == contents(network)[2]  # type: ignore[index]
        assert not web.failures


@pytest.mark.heavy
def test_ranges_that_keep_failing(network: Path, web: WebServer) -> None:
    web.objects["/net.bin"] = network.read_bytes()
    path = path_of(f"{web.url}/net.bin")
    web.failures = [500] * 50
    with pytest.raises(BadInputError, match=r"net\.bin: cannot read: .*; check address") as told:
        NetworkFile(path)
    assert "\n" not in str(told.value)
    assert 0 < len(web.failures) < 50
    web.failures = []
    with pytest.raises(BadInputError, match="no such object"):
        NetworkFile(path_of(f"{web.url}/none"))
    web.failures = [403] * 9
    with pytest.raises(BadInputError, match="the store denies access"):
        NetworkFile(path)


LARGE = 20_000  # bytes


@pytest.fixture
def stalling(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> WebServer:
    """A server whose clients time out after half a second."""
    monkeypatch.setenv(TIMEOUT, "0.5")
    web.objects["/net.bin"] = random.Random(2).randbytes(LARGE)
    return web


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("delay", "drip", "failures"),
    [
        (30.0, None, []),
        (0.0, (1, 0.05), []),
        (0.0, (20, 0.1), []),  # 200 bytes per second
        (0.3, None, [500] * 9),  # each attempt is within the timeout, both together are not
        (0.3, (1, 0.05), [0]),
    ],
)
def test_a_store_that_stalls(
    stalling: WebServer, delay: float, drip: tuple[int, float] | None, failures: list[int]
) -> None:
    stalling.delay, stalling.drip, stalling.failures = delay, drip, failures
    began = time.monotonic()
    match = (
        r"net\.bin: the store stalled: fewer than 512 bytes in 0\.5 s; check endpoint .*, or set"
    )
    with pytest.raises(BadInputError, match=match):
        open_blob(path_of(f"{stalling.url}/net.bin"))
    assert 0.4 < time.monotonic() - began < 1.5


@pytest.mark.heavy
def test_a_slow_store(stalling: WebServer) -> None:
    """A request may take longer than the timeout, as long as it progresses."""
    stalling.drip = (1000, 0.05)
    began = time.monotonic()
    with open_blob(path_of(f"{stalling.url}/net.bin")) as blob:
        assert blob.read(0, LARGE) == stalling.objects["/net.bin"]
    assert time.monotonic() - began > 0.8


@pytest.mark.heavy
def test_pages_that_stall(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing a reader does not wait for pending requests."""
    monkeypatch.setattr("storage.blobs.remote.TAIL", 100)
    monkeypatch.setattr(readahead, "SMALLEST_PAGE", 1 << 10)
    monkeypatch.setattr(readahead, "LARGEST_PAGE", 1 << 10)
    web.objects["/net.bin"] = bytes(LARGE)
    blob = open_blob(path_of(f"{web.url}/net.bin"))
    web.delay = 60.0
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(blob.read, 0, 10)
        while not web.busy:
            time.sleep(0.01)
        began = time.monotonic()
        blob.close()
        assert time.monotonic() - began < 1
        with pytest.raises(CancelledError):
            read.result()


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e9", "soon"])
def test_bad_timeouts(value: str, web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIMEOUT, value)
    with pytest.raises(BadInputError, match=f"^{TIMEOUT}={value}: not a timeout; give seconds"):
        open_blob(path_of(f"{web.url}/net.bin"))


LATER = "Tue, 24 Nov 2026 09:00:00 GMT"


def replace_object(web: WebServer, size: int, tag: str | None, modified: str) -> None:
    web.objects["/net.bin"] = bytes(size)
    web.modified["/net.bin"] = modified
    if tag is not None:
        web.tags["/net.bin"] = tag


@pytest.mark.heavy
@pytest.mark.parametrize("ignores", [False, True])
@pytest.mark.parametrize(
    ("first", "then", "size", "modified"),
    [
        ('"one"', '"two"', LARGE, ""),
        ('"one"', None, LARGE + 1, ""),  # a store that does not update its tags
        ('"one"', '"two"', 60, LATER),  # later ranges begin after the end
        (None, None, LARGE, LATER),
        (None, None, LARGE - 1, ""),
        ('W/"one"', 'W/"one"', LARGE, LATER),
    ],
)
def test_objects_that_change_while_they_are_read(
    first: str | None, then: str | None, size: int, modified: str, ignores: bool, web: WebServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("storage.blobs.remote.TAIL", 100)
    monkeypatch.setattr(readahead, "SMALLEST_PAGE", 1 << 10)
    monkeypatch.setattr(readahead, "LARGEST_PAGE", 1 << 10)
    web.ignores = ignores
    web.objects["/net.bin"] = bytes(LARGE)
    if first:
        web.tags["/net.bin"] = first
    usual = "Mon, 23 Nov 2026 09:00:00 GMT"
    web.changes[3] = lambda: replace_object(web, size, then, modified or usual)
    said = f"^{web.url}/net.bin: changed while it was read; repeat the command when it is complete$"
    with open_blob(path_of(f"{web.url}/net.bin")) as blob:
        assert blob.read(5000, 100) == bytes(100)
        assert blob.read(9000, 100) == bytes(100)
        with pytest.raises(ChangedObjectError, match=said):
            blob.read(15000, 100)
    assert web.conditions == [None] + 3 * [first if first == '"one"' else None]


@pytest.mark.heavy
@pytest.mark.parametrize("tag", ['"one"', 'W/"one"', None])
def test_objects_that_do_not_change(tag: str | None, web: WebServer) -> None:
    """Also if a weak tag differs, as for another compression of the same bytes."""
    web.objects["/net.bin"] = random.Random(2).randbytes(LARGE)
    if tag:
        web.tags["/net.bin"] = tag
    with store_access(StoreAccess()):
        for _ in range(2):
            with open_blob(path_of(f"{web.url}/net.bin")) as blob:
                assert blob.read(0, LARGE) == web.objects["/net.bin"]
            if tag != '"one"':
                web.tags["/net.bin"] = 'W/"two"'


@pytest.mark.heavy
def test_a_command_reads_one_version(web: WebServer) -> None:
    """Also when it opens an object again, in any thread or process; the next command may differ."""
    path = path_of(f"{web.url}/net.bin")
    web.objects["/net.bin"], web.tags["/net.bin"] = b"first", '"one"'
    with store_access(StoreAccess()):
        open_blob(path).close()
        copied = pickle.loads(pickle.dumps(current_access()))
        web.objects["/net.bin"], web.tags["/net.bin"] = b"other", '"two"'
        with ThreadPoolExecutor(1) as pool:
            failure = pool.submit(open_blob, path).exception()
            assert isinstance(failure, ChangedObjectError)
        del web.objects["/net.bin"]
        with pytest.raises(ChangedObjectError, match=r"net\.bin: was deleted while it was read"):
            open_blob(path)
        web.objects["/net.bin"] = b"other"
    with store_access(copied), pytest.raises(ChangedObjectError):
        open_blob(path)
    with store_access(StoreAccess()), open_blob(path) as blob:
        assert blob.read(0, 9) == b"other"


def test_versions_of_stores() -> None:
    """A strong tag counts, then the version, then the time."""
    told = {"size": 5, "e_tag": '"a"', "version": "v1", "last_modified": "then"}
    assert Pin.of(told) == Pin.of(told | {"version": "v2", "last_modified": "now"})
    for tag in ('W/"a"', None):
        weak = told | {"e_tag": tag}
        assert Pin.of(weak) == Pin.of(weak | {"last_modified": "now"})
        assert Pin.of(weak) != Pin.of(weak | {"version": "v2"})
        assert not Pin.of(weak).tag
        old = weak | {"version": None}
        assert Pin.of(old) != Pin.of(old | {"last_modified": "now"})
        assert Pin.of(old) != Pin.of(old | {"size": 6})


def test_the_timeout_of_a_command_has_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TIMEOUT, raising=False)
    assert StoreAccess().timeout() == 30
    monkeypatch.setenv(TIMEOUT, "7")
    assert StoreAccess().timeout() == 7
    assert StoreAccess(0.5).timeout() == 0.5


@pytest.mark.heavy
def test_no_server() -> None:
    pytest.importorskip("obstore")
    with pytest.raises(
        BadInputError, match=r"^http://127.0.0.1:1/a/net.bin: cannot read: "
    ) as told:
        NetworkFile(path_of("http://127.0.0.1:1/a/net.bin"))
    assert "\n" not in str(told.value)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_damage(network: Path, web: WebServer) -> None:
    """The error equals the file's error, with the address."""
    path = path_of(f"{web.url}/net.bin")
    good = network.read_bytes()
    for place in range(0, len(good), 997):
        damaged = bytearray(good)
        damaged[place] ^= 0xFF
        network.write_bytes(damaged)
        web.objects["/net.bin"] = bytes(damaged)
        told = []
        for each in (network, path):
            try:
                told.append(str(contents(each)))
            except CorruptError as error:
                told.append(str(error).removeprefix(str(each)))
        assert told[0] == told[1]


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("storage.extras.import_module", missing)
    match = r"^s3://lab/net.bin: .* need the extra remote: pip install 'neuromapper\[remote\]'$"
    with pytest.raises(MissingExtraError, match=match):
        NetworkFile(path_of("s3://lab/net.bin"))
