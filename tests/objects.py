"""Object stores inside the test process: an S3 server, and a web server with injected failures."""

from __future__ import annotations

import contextlib
import re
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

BUCKET = "lab"


@contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start an S3 server with an empty bucket, set the environment for it, and yield its
    address.
    """
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    pytest.importorskip("obstore")
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        for name, value in {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "one",
            "AWS_SECRET_ACCESS_KEY": "two",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        reset = f"{endpoint}/moto-api/reset"  # delete objects of earlier tests in this process
        urllib.request.urlopen(urllib.request.Request(reset, method="POST")).close()
        put(f"{endpoint}/{BUCKET}", b"")
        yield endpoint
    finally:
        server.stop()


def put(url: str, data: bytes) -> None:
    """Create a bucket or an object."""
    kind = {"Content-Type": "application/octet-stream"}
    urllib.request.urlopen(urllib.request.Request(url, data, kind, method="PUT")).close()


class WebServer(ThreadingHTTPServer):
    """Web server of `objects` with range requests.

    failures : status codes for the next requests, 0 for a broken connection
    ranges : (start, size) of the requests so far; conditions : their headers If-Match
    most : maximum of concurrent requests
    delay : seconds before each answer
    drip : bytes per piece and seconds before each piece, or None
    tags : entity tags of objects; modified : their times of modification, if not the usual one
    ignores : whether it ignores the condition If-Match
    changes : actions that change it; each key is the number of requests answered before
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.failures: list[int] = []
        self.ranges: list[tuple[int, int]] = []
        self.most = self.busy = 0
        self.lock = threading.Lock()
        self.asked: Counter[str] = Counter()
        self.delay = 0.0
        self.drip: tuple[int, float] | None = None
        self.tags: dict[str, str] = {}
        self.modified: dict[str, str] = {}
        self.ignores = False
        self.changes: dict[int, Callable[[], None]] = {}
        self.conditions: list[str | None] = []
        self.stopped = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: WebServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.server
        with server.lock:
            server.changes.pop(sum(server.asked.values()), lambda: None)()
            server.asked[self.path] += 1
            server.conditions.append(self.headers.get("If-Match"))
            server.busy += 1
            server.most = max(server.most, server.busy)
            failure = server.failures.pop(0) if server.failures else None
        try:
            if not server.stopped.wait(server.delay):
                self._answer(failure)
        finally:
            with server.lock:
                server.busy -= 1

    def _answer(self, failure: int | None) -> None:
        data, tag = self.server.objects.get(self.path), self.server.tags.get(self.path)
        if data and not self.server.ignores and self.headers.get("If-Match", tag) != tag:
            failure = 412
        if failure == 0:
            self.close_connection = True
            self.connection.close()
            return
        if failure is not None or data is None:
            self.send_response(404 if failure is None else failure)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "bytes=0-"))
        assert found
        if found[1]:
            start, end = int(found[1]), min(int(found[2] or len(data) - 1) + 1, len(data))
        else:
            start, end = max(0, len(data) - int(found[2])), len(data)
        if start >= end:
            self.send_response(416)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        with self.server.lock:
            self.server.ranges.append((start, end - start))
        self.send_response(206)
        self.send_header("Content-Length", str(end - start))
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        when = self.server.modified.get(self.path, "Mon, 23 Nov 2026 09:00:00 GMT")
        self.send_header("Last-Modified", when)
        if tag is not None:
            self.send_header("ETag", tag)
        self.end_headers()
        size, pause = self.server.drip or (end - start or 1, 0.0)
        with contextlib.suppress(ConnectionError):  # the client no longer waits
            for at in range(start, end, size):
                if self.server.stopped.wait(pause):
                    return
                self.wfile.write(data[at : min(at + size, end)])

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def web_server() -> Iterator[WebServer]:
    """Run a `WebServer` in a thread."""
    with WebServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.stopped.set()
            server.shutdown()
            thread.join()
