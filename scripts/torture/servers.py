"""Servers that misbehave, on the loopback address."""

from __future__ import annotations

import contextlib
import functools
import http.server
import importlib.util
import os
import re
import signal
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from scripts.torture.bench import NEURONS, SMALL, SYNAPSES
from scripts.torture.family import Family, Random, one_of
from scripts.torture.outcomes import REFUSED, RIGHT, WRONG, Outcome, unclear
from scripts.torture.results import plain_json, results
from scripts.torture.running import run
from storage.blobs import readahead, remote
from tests.mapper.helpers import random_network

TIMEOUT = 1  # seconds without progress until a command gives up
MEMORY = 150 << 20  # bytes above the start, 100 MiB and half as much for noise
LONGEST = 120.0  # wall seconds of a command, on a busy machine
MIDWAY = "changes midway"
WAYS = ("well", "hang", "drip", "shorter", "longer", "other range", "whole", "changed", "garbage",
        "redirect", "close", "error", "not found", "no length", "huge", MIDWAY)  # fmt: skip
FORMS = ("If-Match honoured", "If-Match ignored", "weak tags", "no tags")
"""How a server of a file that changes midway marks its versions."""
PIECE = 2000  # bytes of a request for a file that changes midway, which takes several
SAID = "changed while it was read"
READERS = ("info {} --json", "verify {} --json", "export {} new.csv --json",
           f"run {{}} {SMALL} -q -o new")  # fmt: skip
ENOUGH = 3  # requests that are served well, at most, before the server misbehaves


class Servers(Family):
    """Web servers that hang, drip, lie about lengths and ranges, change or redirect a file."""

    name = "servers"
    share = 1.5

    def skipped(self) -> str:
        return "" if importlib.util.find_spec("obstore") else "no package obstore"

    def case(self, seed: int, random: Random) -> Outcome:
        way, reader = one_of(random, WAYS), one_of(random, READERS)
        good = int(random.integers(ENOUGH + 1))
        changes = way == MIDWAY
        form = one_of(random, FORMS) if changes else ""
        good, other = (max(good, 1), _other()) if changes else (good, b"")
        prepare = _small_requests if changes else None
        work = self.bench.fresh()
        data = (work / "net.bin").read_bytes()
        right = run(reader.format("net.bin").split(), work)
        files = _written(work)
        self.bench.fresh()
        with _serving(Served(data, way, good, form, other)) as url:
            os.environ["MAPPER_STORE_TIMEOUT"] = str(TIMEOUT)
            ran = run(reader.format(url).split(), work, prepare, longest=LONGEST)
        what = f"mapper {reader.format('URL')}: after {good} requests: {way} {form}".rstrip()
        if fault := unclear(ran):
            return Outcome(self.name, seed, fault[0], what, fault[1])
        if ran.grown > MEMORY:
            return Outcome(self.name, seed, WRONG, what, f"{ran.grown >> 20} MiB: {ran.said}")
        if ran.code:
            how = WRONG if way == "well" or (changes and SAID not in ran.said) else REFUSED
            return Outcome(self.name, seed, how, what, ran.said, ran.seconds, ran.grown)
        out = plain_json(ran.out).replace(url, "net.bin")
        same = out == plain_json(right.out) and _written(work).keys() == files.keys()
        mapping = "new/mapping.npz"
        same &= _written(work).get(mapping) == files.get(mapping)
        how, said = (RIGHT, "") if same else (WRONG, out[-500:])
        return Outcome(self.name, seed, how, what, said, grown=ran.grown)


def _written(work: Path) -> dict[str, str]:
    return {name: one for name, one in results(work).items() if name.startswith("new")}


def _small_requests() -> None:
    """Let a command read a small file in several requests."""
    remote.TAIL = readahead.SMALLEST_PAGE = readahead.LARGEST_PAGE = PIECE


@functools.cache
def _other() -> bytes:
    """Return another network of about the same size."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.bin"
        random_network(path, NEURONS, SYNAPSES + 1, block_size=128, seed=1)
        return path.read_bytes()


class Served(NamedTuple):
    """A file, and the way in which it is served after some requests that are served well.

    form : of `FORMS`, for a file that changes midway; other : its second version
    """

    data: bytes
    way: str
    good: int
    form: str
    other: bytes


@contextlib.contextmanager
def _serving(served: Served) -> Any:
    """Serve a file in a forked process, and yield its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            _serve(listener, served)
        os._exit(0)
    port = listener.getsockname()[1]
    listener.close()
    try:
        yield f"http://127.0.0.1:{port}/net.bin"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _serve(listener: socket.socket, served: Served) -> None:
    """Answer requests in this process until it is killed."""
    server = http.server.ThreadingHTTPServer(("", 0), _Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.daemon_threads = True
    _Handler.served, _Handler.left = served, served.good
    _Handler.address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.serve_forever()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Served
    left: int
    address: str
    guard = threading.Lock()

    def do_GET(self) -> None:
        served = self.served
        with self.guard:
            _Handler.left -= 1
            way = served.way if _Handler.left < 0 else "well"
        self.later = way in ("changed", MIDWAY)
        data = {"changed": served.data[::-1], MIDWAY: served.other}.get(way, served.data)
        if way == MIDWAY and served.form == FORMS[0] and self.headers.get("If-Match"):
            self._head(412, 0)
            return
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "bytes=0-"))
        first, last = found.groups() if found else ("0", "")
        size = len(data)
        start = int(first) if first else max(0, size - int(last or 0))
        end = min(int(last) + 1, size) if first and last else size
        if way == "hang":
            time.sleep(LONGEST)
        elif way == "close":
            self.connection.close()
            self.close_connection = True
        elif way == "redirect":
            self._head(302, 0, Location=f"{self.address}/again.bin")
        elif way in ("error", "not found"):
            self._head(503 if way == "error" else 404, 0)
        elif way == "garbage":
            self.wfile.write(os.urandom(500))
            self.close_connection = True
        elif way == "whole":
            self._head(200, size)
            self._send(data)
        else:
            self._part(data, start, end, way)

    do_HEAD = do_GET  # noqa: N815

    def _part(self, data: bytes, start: int, end: int, way: str) -> None:
        """Answer a range request, rightly or not."""
        size, count = len(data), max(0, end - start)
        told = size if way != "huge" else 1 << 50
        if way == "other range":
            start, end = max(0, start - 7), max(0, end - 7)
        place = f"bytes {start}-{max(start, end - 1)}/{told}"
        length = count + {"shorter": -5, "longer": 5}.get(way, 0)
        self._head(206, None if way == "no length" else max(0, length), **{"Content-Range": place})
        if way == "drip":
            for at in range(start, end):
                time.sleep(0.4)
                self._send(data[at : at + 1])
        self._send(data[start : start + count])
        if way in ("no length", "longer"):
            self.close_connection = True

    def _head(self, code: int, length: int | None, **more: str) -> None:
        self.send_response(code)
        if length is not None:
            self.send_header("Content-Length", str(length))
        form = self.served.form
        day = "Tue, 24" if self.later and form else "Mon, 23"
        self.send_header("Last-Modified", f"{day} Nov 2026 09:00:00 GMT")
        if form != "no tags":
            self.send_header("ETag", 'W/"one"' if form == "weak tags" else f'"{self.later}"')
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, data: bytes) -> None:
        if self.command != "HEAD":
            with contextlib.suppress(ConnectionError):
                self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""
