"""Commands on networks in an object store give the same results as on the file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mapper import map_network
from mapper.cli import main as cli
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network
from tests.objects import put, s3_server, web_server

pytestmark = [pytest.mark.jit, pytest.mark.filterwarnings("default")]  # warnings of moto

ADDRESS = "s3://lab/some/net.bin"
RUN = ("--chip", "8x8", "--neurons-per-core", "20", "--memory", "256MiB", "--preset", "fast",
       "--set", "level-budget=0")  # fmt: skip


@pytest.fixture
def network(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A network file with a copy in a bucket."""
    path = random_network(folder / "net.bin", 1200, 9000)
    with s3_server(monkeypatch) as endpoint:
        put(f"{endpoint}/lab/some/net.bin", path.read_bytes())
        yield path


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_every_command(network: Path, folder: Path, run: Run) -> None:
    def both(*words: str | Path) -> None:
        told = []
        for name in (str(network), ADDRESS):
            ended = run(*(name if word == "NET" else word for word in words), "--json")
            assert ended.code == 0, ended.err
            told.append(json.loads(ended.out.replace(name, "NET")))
            told[-1].get("resources", {}).clear()
            for key in ("stages", "seconds"):
                told[-1].pop(key, None)
        assert told[0].keys() == told[1].keys()
        for key in ("metrics", "neurons", "synapses", "memory"):
            assert told[0].get(key) == told[1].get(key)

    both("info", "NET")
    both("verify", "NET")
    both("check", "NET", "--chip", "8x8")
    for name, output in ((str(network), "file"), (ADDRESS, "object")):
        assert run("run", name, *RUN, "-o", output).code == 0
    for name in ("mapping.npz", "traffic.npz"):
        assert (folder / "file" / name).read_bytes() == (folder / "object" / name).read_bytes()
    report = json.loads((folder / "object" / "report.json").read_bytes())
    assert report["network"]["path"] == ADDRESS
    network.unlink()
    for words in (
        ("score", ADDRESS, "object/mapping.npz", "--chip", "8x8"),
        ("verify", "object"),
        ("verify", "file", "--network", ADDRESS),
        ("report", "object"),
        ("export", ADDRESS, "net.csv"),
        ("export", "object", "mapping.csv"),
        ("import", ADDRESS, "rated.bin", "--rates", "uniform"),
        ("simulate", "object"),
    ):
        ended = run(*words)
        assert ended.code == 0, (words, ended.err)


@pytest.mark.heavy
def test_from_python(network: Path) -> None:
    mappings = [map_network(name, "8x8", preset="fast").core for name in (network, ADDRESS)]
    assert (mappings[0] == mappings[1]).all()


@pytest.mark.heavy
def test_resume_after_the_network_has_moved(network: Path, folder: Path, run: Run) -> None:
    """The network is identified by its length and checksum."""
    assert run("run", ADDRESS, *RUN, "-o", "out").code == 0
    other = shutil.move(network, folder / "moved.bin")
    again = run("run", other, *RUN, "-o", "out", "--resume")
    assert (again.code, "already complete" in again.err) == (0, True)
    random_network(folder / "other.bin", 1200, 9001)
    again = run("run", "other.bin", *RUN, "-o", "out", "--resume")
    assert (again.code, "made with network" in again.err) == (1, True)


@pytest.mark.heavy
def test_refused(network: Path, fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (
        ("info", "NET"),
        ("verify", "NET"),
        ("run", "NET", *RUN),
        ("export", "NET", "a.csv"),
    ):
        told = fails(*("s3://lab/none.bin" if word == "NET" else word for word in words))
        assert "s3://lab/none.bin: no such object; check bucket and key" in told
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert "cannot read" in fails("info", ADDRESS)

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("storage.extras.import_module", missing)
    told = fails("check", ADDRESS, "--chip", "4x4", code=2)
    assert told.endswith("need the extra remote: pip install 'neuromapper[remote]'")
    with pytest.raises(Exception, match="need the extra remote"):
        map_network(ADDRESS, "4x4")


@pytest.mark.heavy
def test_a_store_that_stalls(
    folder: Path, run: Run, fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("obstore")
    path = random_network(folder / "net.bin", 300, 2000)
    with web_server() as server:
        address = f"{server.url}/net.bin"
        server.objects["/net.bin"] = path.read_bytes()
        server.drip = (1, 0.05)
        monkeypatch.setenv("MAPPER_STORE_TIMEOUT", "0.3")
        for words in (("info", address), ("verify", address), ("run", address, *RUN)):
            told = fails(*words)
            assert f"{address}: the store stalled: fewer than 307 bytes in 0.3 s; check" in told
        monkeypatch.setenv("MAPPER_STORE_TIMEOUT", "3600")
        for words in (
            ("info", address), ("verify", address), ("run", address, *RUN),
            ("export", address, "a.csv"), ("check", address, "--chip", "8x8"),
            ("import", address, "b.bin"),
            ("score", address, "b.npz", "--chip", "8x8"), ("place", address, "--chip", "8x8"),
            ("partition", address, "--parts", "2", "-o", "c"),
        ):  # fmt: skip
            told = fails(*words, "--timeout", "0.2")
            assert f"{address}: the store stalled: fewer than 205 bytes in 0.2 s; check" in told
            assert told.endswith("or set --timeout or MAPPER_STORE_TIMEOUT to more seconds")
        for wrong in ("0", "-1", "nan", "soon", "1e9"):
            ended = run("info", address, f"--timeout={wrong}")
            assert (ended.code, "is not a timeout; give seconds" in ended.err) == (2, True)
        monkeypatch.setenv("MAPPER_STORE_TIMEOUT", "never")
        assert "MAPPER_STORE_TIMEOUT=never: not a timeout" in fails("info", address)


@pytest.mark.heavy
@pytest.mark.parametrize("ignores", [False, True])
def test_a_network_that_changes_midway(
    folder: Path, run: Run, ignores: bool, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Both versions are valid: each command reads one of them, or names the change."""
    pytest.importorskip("obstore")
    monkeypatch.setattr("storage.blobs.remote.TAIL", 1000)
    for name in ("SMALLEST_PAGE", "LARGEST_PAGE"):
        monkeypatch.setattr(f"storage.blobs.readahead.{name}", 1 << 12)
    first, other = (
        random_network(folder / f"{n}.bin", 1200, 9000, seed=n, block_size=64).read_bytes()
        for n in (1, 2)
    )
    assert run("run", "1.bin", *RUN, "-o", "out").code == 0

    said = "changed while it was read; repeat the command when it is complete"

    def change() -> None:
        server.objects["/net.bin"], server.tags["/net.bin"] = other, '"two"'

    with web_server() as server:
        address, server.ignores = f"{server.url}/net.bin", ignores
        for words in (
            ("info", "NET"), ("verify", "NET"), ("check", "NET", "--chip", "8x8"),
            ("export", "NET", "a.csv"), ("run", "NET", *RUN, "-o", "new"),
            ("import", "NET", "b.bin"), ("score", "NET", "out/mapping.npz", "--chip", "8x8"),
            ("verify", "out", "--network", "NET"),
        ):  # fmt: skip
            line = [address if word == "NET" else word for word in words]
            before = set(folder.iterdir())
            for requests in (1, 2):
                server.objects["/net.bin"], server.tags["/net.bin"] = first, '"one"'
                server.asked.clear()
                server.changes = {requests: change}
                ended = run(*line)
                if server.changes:  # metadata, for which fewer requests suffice
                    assert (ended.code, words[0] in ("info", "check")) == (0, True)
                else:
                    assert (ended.code, ended.err) == (1, f"mapper {words[0]}: {address}: {said}\n")
            assert set(folder.iterdir()) == before
        server.changes.clear()
        server.objects["/net.bin"], server.tags["/net.bin"] = first, '"one"'
        assert run("info", address).code == 0
        server.objects["/net.bin"], server.tags["/net.bin"] = other, '"two"'
        assert run("info", address).code == 0


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_nothing_is_loaded_without_an_address(network: Path) -> None:
    import subprocess
    import sys

    code = "import sys; import mapper; from mapper.cli.main import main; main(sys.argv[1:]); "
    code += "sys.exit('obstore' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, "info", str(network)], check=False)
    assert done.returncode == 0


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_workers_read_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the driver, with a network that exceeds its memory."""
    pytest.importorskip("distributed")
    sheet = "generate cortex net.bin --side 200 --fanout 60 --seed 1"
    assert cli.main(sheet.split()) == 0
    how = "--chip 13x13 --memory 280MiB --set level-budget=1000000 -q --json"
    with s3_server(monkeypatch) as endpoint:
        put(f"{endpoint}/lab/some/net.bin", (folder / "net.bin").read_bytes())
        for output, name, *more in (
            ("file", "net.bin"), ("object", ADDRESS), ("workers", ADDRESS, "--workers", "2"),
        ):  # fmt: skip
            assert cli.main(["run", name, *how.split(), "-o", output, *more]) == 0
    reports = [
        json.loads((folder / each / "report.json").read_bytes())
        for each in ("file", "object", "workers")
    ]
    for each in ("object", "workers"):
        for name in ("mapping.npz", "traffic.npz"):
            assert (folder / each / name).read_bytes() == (folder / "file" / name).read_bytes()
    assert "workers" in reports[2]
    assert reports[1]["metrics"] == reports[0]["metrics"]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_networks_in_several_files(folder: Path, run: Run, fails: Callable[..., str]) -> None:
    """From any source and with every command, with the results of the single file."""
    network = random_network(folder / "net.bin", 1200, 9000, block_size=64)
    again = network.read_bytes()
    assert run("import", "net.bin", "net.shards", "--files", "4").code == 0
    assert len(list((folder / "net.shards").iterdir())) == 5
    assert run("import", "net.shards", "back.bin").code == 0
    assert (folder / "back.bin").read_bytes() == again
    for name in ("net.bin", "net.shards"):
        assert run("run", name, *RUN, "-o", f"{name}-out").code == 0
    mappings = [
        (folder / f"{each}-out/mapping.npz").read_bytes() for each in ("net.bin", "net.shards")
    ]
    assert mappings[0] == mappings[1]
    network.unlink()
    for words in (
        ("info", "net.shards"), ("verify", "net.shards"), ("verify", "net.shards-out"),
        ("check", "net.shards", "--chip", "8x8"), ("export", "net.shards", "net.csv"),
        ("score", "net.shards", "net.bin-out/mapping.npz", "--chip", "8x8"),
        ("import", "net.shards", "rated.bin", "--rates", "uniform"),
        ("import", "net.shards", "rated.shards", "--rates", "uniform", "--files", "3"),
        ("import", "net.csv", "other.shards", "--files", "2"), ("info", "other.shards"),
        ("run", "net.shards", *RUN, "-o", "net.shards-out", "--resume"),
        ("report", "net.shards-out"), ("simulate", "net.shards-out"),
    ):  # fmt: skip
        ended = run(*words)
        assert ended.code == 0, (words, ended.err)
    assert "is not empty" in fails("import", "net.shards", "other.shards", "--files", "2")
    (folder / "net.shards" / "part-00002.bin").unlink()
    for words in (("info", "net.shards"), ("verify", "net.shards"), ("run", "net.shards", *RUN)):
        assert "part-00002.bin: cannot read: No such file" in fails(*words)
    (folder / "net.shards" / "network.json").unlink()
    assert "is a folder; name a network file" in fails("run", "net.shards", *RUN, code=2)
