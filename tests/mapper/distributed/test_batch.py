"""Batch-system jobs and processes of srun: job scripts, and fake commands that start them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mapper.distributed.slurm_step import slurm_step
from mapper.distributed.start import ask_workers, check_workers, start_workers
from mapper.errors import UsageError
from mapper.executors.worker_interface import SYSTEMS, Asked
from tests.mapper.distributed.conftest import Command, Mapped
from tests.mapper.distributed.test_failures import RUN, STREAMED, mapping_in, run

SUBMITTED_BY = {
    "slurm": "sbatch", "pbs": "qsub", "lsf": "bsub", "sge": "qsub", "oar": "oarsub",
    "htcondor": "condor_submit",
}  # fmt: skip
SBATCH = """#!{python}
import subprocess, sys, time
log = open("jobs.log", "a")
process = subprocess.Popen(["bash", sys.argv[-1]], stdout=log, stderr=log, start_new_session=True)
# the script is removed once it is submitted, so it is read first
time.sleep(0.5)
print("Submitted batch job", process.pid)
"""
SCANCEL = """#!{python}
import os, signal, sys
for job in sys.argv[1:]:
    try:
        os.killpg(int(job), signal.SIGKILL)
    except ProcessLookupError:
        pass
"""
SRUN = """
import os, subprocess, sys
count = int(sys.argv[1])
command = sys.argv[2:]
started = [
    subprocess.Popen(command, env={
        **os.environ, "SLURM_PROCID": str(rank), "SLURM_NTASKS": str(count), "SLURM_JOB_ID": "7",
        "SLURM_STEP_ID": "0", "SLURM_CPUS_PER_TASK": "1",
    })
    for rank in range(count)
]
sys.exit(max(process.wait() for process in started))
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_scripts_of_jobs(
    system: str, command: Command, configured: Callable[..., None], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Queue and account come from the user, threads and memory from the options; one worker per
    job.
    """
    from mapper.distributed.certificates import make_certificate
    from mapper.distributed.clusters import batch_cluster

    monkeypatch.setenv("NUMBA_CACHE_DIR", "/local/numba")
    command(SUBMITTED_BY[system])
    prologue = ["module load python"]
    configured(system, cores=4, memory="2GiB", disk="1GiB", job_script_prologue=prologue)
    if system == "oar":
        configured(system, memory_per_core_property_name="not_applicable")
    if system in ("slurm", "pbs"):
        configured(system, queue="long", account="lab")
    asked, keys = Asked(f"{system}:2", 8, 3 << 30), tmp_path / "keys of a run"
    make_certificate(keys)
    with batch_cluster(system, asked, tmp_path / "logs", keys) as cluster:
        script = cluster.job_script()
        assert cluster.scheduler.address.startswith("tls://")
    assert "--nthreads 8" in script
    assert "--memory-limit 3.00GiB" in script
    assert "--nworkers" not in script
    assert "module load python" in script
    for line in ("MALLOC_TRIM_THRESHOLD_=268435456", "MALLOC_MMAP_THRESHOLD_=268435456",
                 "DASK_DISTRIBUTED__COMM__COMPRESSION=False", "NUMBA_CACHE_DIR=/local/numba",
                 "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL=False"):  # fmt: skip
        assert f"export {line}" in script
    for role in ("CA_FILE", "WORKER__CERT"):
        name = f"DASK_DISTRIBUTED__COMM__TLS__{role}"
        assert f"export {name}='{tmp_path}/keys of a run/certificate.pem'" in script.replace(
            "''", "'"
        )
    assert "--protocol tls://" in script
    assert "--no-dashboard" in script
    if system == "slurm":
        lines = ("-p long", "-A lab", "--cpus-per-task=8", "--mem=3G")
        assert all(f"#SBATCH {line}" in script for line in lines)


@pytest.mark.parametrize("system", SYSTEMS)
def test_without_the_commands_of_a_system(
    system: str, configured: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=f"^--workers {system}:N: `{SUBMITTED_BY[system]}` is not"):
        start_workers(Asked(f"{system}:2", 1, 1 << 30), tmp_path)


def test_without_a_size(command: Command, configured: Callable[..., None], tmp_path: Path) -> None:
    command("sbatch")
    with pytest.raises(UsageError, match=r"set jobqueue\.slurm\.memory .* or give --worker-memory"):
        start_workers(Asked("slurm:2", 1), tmp_path)


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    message = r"^--workers slurm:N needs the extra jobqueue: pip install '.*\[jobqueue\]'"
    with pytest.raises(UsageError, match=message):
        start_workers(Asked("slurm:2", 1, 1 << 30), tmp_path)


@pytest.mark.jit
def test_a_refused_job(command: Command, configured: Callable[..., None], tmp_path: Path) -> None:
    command("sbatch", "#!/bin/sh\necho 'sbatch: error: Invalid account or partition' >&2\nexit 1\n")
    with pytest.raises(UsageError, match=r"^--workers slurm:2: sbatch: error: Invalid account"):
        start_workers(Asked("slurm:2", 1, 1 << 30), tmp_path)


@pytest.mark.heavy
@pytest.mark.jit
def test_jobs_that_do_not_start(
    command: Command, configured: Callable[..., None], tmp_path: Path
) -> None:
    command("sbatch", "#!/bin/sh\necho Submitted batch job 9999999\n")
    command("scancel", f"#!/bin/sh\necho $* >> {tmp_path}/cancelled\n")
    with pytest.raises(UsageError, match=r"^--workers slurm:2: no job has started within 1 s"):
        start_workers(Asked("slurm:2", 1, 1 << 30, 1.0), tmp_path)
    assert (tmp_path / "cancelled").read_text().split() == ["9999999"] * 2


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_jobs_give_the_same_mapping(
    mapped: Mapped, command: Command, configured: Callable[..., None], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """With a fake sbatch that runs the job locally."""
    monkeypatch.chdir(tmp_path)
    command("sbatch", SBATCH)
    command("scancel", SCANCEL)
    configured("slurm", local_directory=str(tmp_path))
    expected = mapped()
    with start_workers(Asked("slurm:2", 1, 2 << 30), tmp_path) as workers:
        assert np.array_equal(mapped(workers), expected)
        facts = workers.facts()
        assert (facts["count"], facts["threads"], facts["replaced"]) == (2, 2, 0)
        assert [given for _, given in workers.limits()] == [2 << 30] * 2
        assert not workers.note


def srun(folder: Path, count: int, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SRUN, str(count), sys.executable, "-c", STREAMED, *RUN, *words],
        cwd=folder, timeout=300, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_processes_of_srun_give_the_same_mapping(network: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    assert run(tmp_path, "-o", "whole").returncode == 0
    words = ("-o", "out", "--workers", "srun", "--worker-memory", "2GiB", "-q", "--json")
    done = srun(tmp_path, 4, *words)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert mapping_in(tmp_path / "out") == mapping_in(tmp_path / "whole")
    report = (tmp_path / "out" / "report.json").read_text()
    assert '"count": 2' in report
    assert not list(tmp_path.glob(".mapper-*"))


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_processes_of_srun_end_with_a_driver_that_fails(network: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    done = srun(tmp_path, 3, "-o", "out", "--workers", "srun", "--set", "fill=7")
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.glob(".mapper-*"))


def test_srun_outside_of_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    with pytest.raises(UsageError, match=r"^--workers srun: not started by srun"):
        slurm_step(tmp_path / "out")
    for name, value in (("PROCID", 0), ("NTASKS", 2), ("JOB_ID", 7), ("STEP_ID", 0)):
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    with pytest.raises(UsageError, match=r"worker\), srun started 2; use srun -n 3"):
        slurm_step(tmp_path / "out")
    monkeypatch.setenv("SLURM_NTASKS", "3")
    step = slurm_step(tmp_path / "out")
    assert (step.rank, step.workers, step.drives) == (0, 1, False)
    assert step.file.parent == tmp_path / ".mapper-7.0"


def test_srun_without_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mapper.distributed.slurm_step.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"^--workers needs the extra distributed"):
        slurm_step(tmp_path / "out")


def test_options_of_started_workers() -> None:
    assert ask_workers("slurm:4", 8) == Asked("slurm:4", None)
    assert ask_workers("slurm:4", 8, 2, 1 << 30) == Asked("slurm:4", 2, 1 << 30)
    with pytest.raises(UsageError, match="--worker-threads applies only to workers"):
        ask_workers("tcp://a:1", 8, 2)
    with pytest.raises(UsageError, match="srun is a command-line value"):
        check_workers("srun")
