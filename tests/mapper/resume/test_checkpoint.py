"""Steps are executed once per scratch, however often a run is started."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mapper.results.output import scratch_in
from mapper.resume.checkpoint import Arrays, Checkpoint, completed_steps
from storage.errors import StorageWarning
from storage.scratch.scratch import Scratch

KEPT: Arrays = {
    "part": np.array([3, 1, 2], np.int32),
    "weights": np.array([2**40, -1]),
    "none": np.empty(0, np.int32),
}


class Counted:
    """Work that counts its calls."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.calls = 0

    def __call__(self) -> Arrays:
        self.calls += 1
        return self.arrays


def same(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].dtype == values.dtype
        assert found[name].tolist() == values.tolist()


def test_a_step_is_done_once(tmp_path: Path) -> None:
    work = Counted(KEPT)
    with Scratch(tmp_path / "scratch") as scratch:
        steps = Checkpoint(scratch)
        assert not steps.done("split")
        same(steps.run_once("split", work), KEPT)
        assert steps.done("split")
        again = steps.run_once("split", work)
        same(again, KEPT)
        again["part"][0] = 7  # returned arrays may be modified
        same(steps.run_once("split", work), KEPT)
    assert work.calls == 1


def test_another_run_finds_completed_steps(tmp_path: Path) -> None:
    work, other = Counted(KEPT), Counted({"x": np.zeros(4, np.int64)})
    with Scratch(tmp_path / "scratch") as scratch:
        Checkpoint(scratch).run_once("refine 4.1", work)
    with Scratch(tmp_path / "scratch") as scratch:
        steps = Checkpoint(scratch)
        assert steps.done("refine 4.1")
        assert not steps.done("refine 4")
        same(steps.run_once("refine 4.1", work), KEPT)
        same(steps.run_once("refine 4", other), other.arrays)
    assert (work.calls, other.calls) == (1, 1)


def test_a_failed_step_is_not_completed(tmp_path: Path) -> None:
    def fail() -> Arrays:
        raise KeyboardInterrupt

    work = Counted(KEPT)
    with Scratch(tmp_path / "scratch") as scratch:
        steps = Checkpoint(scratch)
        with pytest.raises(KeyboardInterrupt):
            steps.run_once("blocks", fail)
        assert not steps.done("blocks")
        same(steps.run_once("blocks", work), KEPT)


def test_a_step_is_completed_when_all_its_arrays_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed between two arrays repeats the step."""
    with Scratch(tmp_path / "scratch") as scratch:
        put = Scratch.put_array

        def killed(self: Scratch, name: str, array: np.ndarray) -> None:
            if name.endswith("weights"):
                raise KeyboardInterrupt
            put(self, name, array)

        monkeypatch.setattr(Scratch, "put_array", killed)
        with pytest.raises(KeyboardInterrupt):
            Checkpoint(scratch).run_once("blocks", lambda: KEPT)
        monkeypatch.undo()
    work = Counted(KEPT)
    with Scratch(tmp_path / "scratch") as scratch:
        same(Checkpoint(scratch).run_once("blocks", work), KEPT)
    assert work.calls == 1


def test_spare_scratch_is_deleted_with_its_context(tmp_path: Path) -> None:
    with Scratch(tmp_path / "s") as scratch:
        steps = Checkpoint(scratch)
        with steps.spare() as one, steps.nested("inner").spare() as other:
            one.put("a", b"1")
            assert "a" not in other
            assert one.path.parent.parent == scratch.path
        assert [path.name for path in scratch.path.iterdir()] == ["records"]
        with pytest.raises(KeyboardInterrupt), steps.spare():
            raise KeyboardInterrupt
        assert [path.name for path in scratch.path.iterdir()] == ["records"]


def lose(path: Path, name: str) -> None:
    """Damage the value of a name."""
    data = bytearray(path.read_bytes())
    data[data.index(name.encode()) + len(name) + 9] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        (
            "steps/cluster/part/dtype",
            r", with 22 records and the results of 3 steps \(cluster to attempt 2/nets\); the run "
            "continues from the start",
        ),
        (
            "steps/first parts/part/dtype",
            r", with 15 records and the results of 2 steps \(first parts to attempt 2/nets\); the "
            "run continues after step cluster",
        ),
        (
            "steps/attempt 2/nets/weights/dtype",
            ", with 6 records and the results of step attempt 2/nets; the run continues after step "
            "first parts",
        ),
        (
            "last",
            ", with 1 record; the run continues after step attempt 2/nets",
        ),
    ],
)
def test_lost_steps_are_named(tmp_path: Path, damaged: str, said: str) -> None:
    folder = tmp_path / "scratch"
    with Scratch(folder) as scratch:
        steps = Checkpoint(scratch)
        for where, name in (
            (steps, "cluster"), (steps, "first parts"), (steps.nested("attempt 2"), "nets"),
        ):  # fmt: skip
            where.run_once(name, Counted(KEPT))
        scratch.put("last", b"of no step")
        assert completed_steps(scratch.names()) == ["cluster", "first parts", "attempt 2/nets"]
    lose(folder / "records", damaged)
    match = rf"scratch: [\d,]+ bytes of the earlier run are damaged or incomplete{said}$"
    with pytest.warns(StorageWarning, match=match), scratch_in(folder) as scratch:
        assert damaged not in scratch
    with scratch_in(folder) as scratch:
        assert not scratch.dropped


def test_an_incomplete_record_is_no_lost_step(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    with Scratch(folder) as scratch:
        Checkpoint(scratch).run_once("cluster", Counted(KEPT))
    with (folder / "records").open("ab") as file:
        file.write(b"half a record")
    match = (
        "scratch: 13 bytes of the earlier run are damaged or incomplete; the run continues after "
        "step cluster$"
    )
    with pytest.warns(StorageWarning, match=match), scratch_in(folder) as scratch:
        assert Checkpoint(scratch).done("cluster")
