"""Processes without the certificate of a run cannot run code on its scheduler or its workers."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import psutil
import pytest

from mapper.distributed.slurm_step import SlurmStep
from mapper.distributed.start import start_workers
from mapper.errors import UsageError
from mapper.executors.worker_interface import Asked
from tests.mapper.distributed.test_batch import SBATCH, SCANCEL, Command
from tests.mapper.distributed.test_failures import cluster

pytest.importorskip("cryptography")
pytest.importorskip("distributed")

from mapper.distributed.certificates import (
    CERTIFICATE,
    KEY,
    make_certificate,
    require_private,
    tls_settings,
)

STRANGER = """
import asyncio, pickle, sys
from pathlib import Path
import dask
from distributed import Security, rpc
from mapper.distributed.certificates import make_certificate, tls_settings

folder, addresses = Path(sys.argv[1]), sys.argv[2:]
make_certificate(folder / "other")
with dask.config.set(tls_settings(folder / "other")):
    own = Security()
given = {"function": pickle.dumps(Path.touch), "args": pickle.dumps((folder / "touched",))}

async def attempt(address, security, method):
    peer = rpc(address, connection_args=security.get_connection_args("client"), timeout=3)
    try:
        await getattr(peer, method)(**given)
    except (OSError, RuntimeError, ValueError, AttributeError):
        pass
    await peer.close_rpc()

async def all_attempts():
    for address in addresses:
        host = address.partition("://")[2]
        for method in ("run", "run_function"):  # of workers and nannies; of schedulers
            for protocol, security in (("tcp", Security()), ("tls", own)):
                await attempt(f"{protocol}://{host}", security, method)
        print("runs code" if (folder / "touched").exists() else "refuses")
        (folder / "touched").unlink(missing_ok=True)

asyncio.run(all_attempts())
"""
"""Tries to run code at some addresses, without a certificate and with one that it makes itself."""


def attempts(folder: Path, *addresses: str) -> set[str]:
    """Return the calls of a stranger that the processes at these addresses accept."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, str(folder), *addresses],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(addresses)
    return set(done.stdout.splitlines())


def http_answers(process: psutil.Process) -> list[tuple[str, int]]:
    """Return the addresses where a process and its children speak HTTP, and the status of a page.

    Other listeners end the connection: they require TLS.
    """
    found = []
    for one in (process, *process.children(recursive=True)):
        for listener in one.net_connections("inet"):
            if listener.status == psutil.CONN_LISTEN:
                connection = HTTPConnection(listener.laddr.ip, listener.laddr.port, timeout=5)
                with suppress(OSError, HTTPException):
                    connection.request("GET", "/health")
                    found.append((listener.laddr.ip, connection.getresponse().status))
                connection.close()
    return found


def listeners(client: Any) -> list[str]:
    """Return the addresses of the scheduler, the workers, and their nannies."""
    identity = client.sync(client.scheduler.identity, n_workers=-1)
    workers = identity["workers"].values()
    nannies = [one["nanny"] for one in workers if one["nanny"]]
    return [identity["address"], *identity["workers"], *nannies]


@pytest.mark.heavy
@pytest.mark.jit
def test_local_workers_refuse_strangers(two_workers: Any, tmp_path: Path) -> None:
    found = listeners(two_workers.client)
    assert len(found) == 5
    assert all(address.startswith("tls://127.0.0.1:") for address in found)
    served = http_answers(psutil.Process())
    assert len(served) == 3  # the HTTP servers of Dask, without any page
    assert set(served) == {("127.0.0.1", 404)}
    assert attempts(tmp_path / "stranger", *found) == {"refuses"}


@pytest.mark.heavy
@pytest.mark.jit
def test_a_scheduler_without_a_certificate_runs_the_code(tmp_path: Path) -> None:
    """The attempt is one that succeeds without protection; a note says so."""
    with (
        cluster(tmp_path, 1, protected=False) as (file, _),
        start_workers(Asked(str(file)), tmp_path) as workers,
    ):
        assert attempts(tmp_path / "stranger", *listeners(workers.client)) == {"runs code"}
        assert "start the scheduler with a certificate (mapper docs howto/" in workers.note


@pytest.mark.heavy
@pytest.mark.jit
def test_a_scheduler_with_a_certificate_refuses_strangers(tmp_path: Path) -> None:
    """The file of the scheduler is in the folder of the certificate, or the user has no access."""
    with cluster(tmp_path, 1) as (file, _):
        with start_workers(Asked(str(file)), tmp_path) as workers:
            found = listeners(workers.client)
            assert not workers.note
        assert attempts(tmp_path / "stranger", *found) == {"refuses"}
        for where in (found[0], str(file.rename(tmp_path / "moved.json"))):
            with pytest.raises(UsageError, match="the scheduler requires a certificate; give its"):
                start_workers(Asked(where), tmp_path)


@pytest.mark.heavy
@pytest.mark.jit
def test_batch_jobs_refuse_strangers(
    command: Command, configured: Callable[..., None], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The jobs read the key from the shared folder, which is then as before."""
    monkeypatch.chdir(tmp_path)
    command("sbatch", SBATCH)
    command("scancel", SCANCEL)
    configured("slurm", local_directory=str(tmp_path))
    shared = tmp_path / "shared folder"
    shared.mkdir()
    with start_workers(Asked("slurm:1", 1, 2 << 30, shared=shared), tmp_path) as workers:
        (certificate,) = shared.iterdir()
        require_private(certificate)
        assert attempts(tmp_path / "stranger", *listeners(workers.client)) == {"refuses"}
    assert not list(shared.iterdir())


@pytest.mark.heavy
@pytest.mark.jit
def test_the_scheduler_of_srun_refuses_strangers(tmp_path: Path) -> None:
    from distributed import Client

    from mapper.distributed.clusters import security_of

    step = SlurmStep(0, 3, tmp_path / ".mapper-7.0")
    program = f"from mapper.distributed.slurm_step import *; {step!r}.serve(None, None)"
    with subprocess.Popen(
        [sys.executable, "-c", f"from pathlib import PosixPath; {program}"],
        stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            while not step.file.exists():
                assert process.poll() is None
                time.sleep(0.05)
            require_private(step.folder)
            assert http_answers(psutil.Process(process.pid)) == [("127.0.0.1", 404)]
            with Client(scheduler_file=str(step.file), security=security_of(step.folder)) as client:
                (address,) = listeners(client)
                assert attempts(tmp_path / "stranger", address) == {"refuses"}
            process.wait(30)  # it ends with its last client
            assert not step.folder.exists()
        finally:
            process.kill()


def test_the_key_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "certificate"
    before = os.umask(0)
    try:
        make_certificate(folder)
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    assert modes == {"certificate": 0o700, CERTIFICATE: 0o600, KEY: 0o600}
    with pytest.raises(OSError, match="not empty"):
        make_certificate(folder)
    assert {path.name for path in tmp_path.iterdir()} == {"certificate"}


@pytest.mark.parametrize("mode", [0o770, 0o701, 0o744])
def test_a_folder_of_others_is_refused(tmp_path: Path, mode: int) -> None:
    """Whoever writes there could replace the key and the address of the scheduler."""
    folder = tmp_path / "certificate"
    folder.mkdir(mode=0o700)
    require_private(folder)
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(UsageError, match="other accounts can access the keys of the workers"):
        require_private(tmp_path / "link")
    folder.chmod(mode)
    with pytest.raises(UsageError, match="other accounts can access the keys of the workers"):
        require_private(folder)


def test_two_runs_do_not_trust_each_other(tmp_path: Path) -> None:
    """Also with the strictest checks of OpenSSL."""
    for name in ("one", "two"):
        make_certificate(tmp_path / name)
    for name, trusted in (("one", True), ("two", False)):
        sides = {}
        for server, folder in ((True, "one"), (False, name)):
            purpose = ssl.Purpose.CLIENT_AUTH if server else ssl.Purpose.SERVER_AUTH
            context = ssl.create_default_context(purpose, cafile=tmp_path / folder / CERTIFICATE)
            context.load_cert_chain(tmp_path / folder / CERTIFICATE, tmp_path / folder / KEY)
            context.verify_mode, context.check_hostname = ssl.CERT_REQUIRED, False
            context.verify_flags |= ssl.VERIFY_X509_STRICT
            sides[server] = context
        assert shake_hands(sides[True], sides[False]) == trusted


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> bool:
    """Return whether both sides accept each other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
    return all(end.version() for end in ends)


def test_settings_name_all_roles(tmp_path: Path) -> None:
    found = tls_settings(tmp_path)
    assert found["distributed.comm.require-encryption"]
    assert sum(value == str(tmp_path / KEY) for value in found.values()) == 3
    assert sum(value == str(tmp_path / CERTIFICATE) for value in found.values()) == 4
