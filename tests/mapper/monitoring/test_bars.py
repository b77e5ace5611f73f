"""Progress in Python: functions, and bars in notebooks and terminals, quiet elsewhere."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from mapper.errors import UsageError
from mapper.monitoring import bars
from mapper.monitoring.bars import progress_of, require_progress


class Handle:
    """Records the pictures of a display."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def update(self, forms: dict[str, str], raw: bool) -> None:
        assert raw and forms.keys() == {"text/plain", "text/html"}
        self.shown.append(forms["text/html"])


class Notebook(SimpleNamespace):
    """IPython in the kernel of a notebook, with the displays of a cell."""

    def __init__(self, kernel: object = "kernel") -> None:
        super().__init__(displays=[])
        self.shell = SimpleNamespace(kernel=kernel)

    def get_ipython(self) -> object:
        return self.shell

    def display(self, forms: dict[str, str], raw: bool, display_id: bool) -> Handle:
        assert display_id
        handle = Handle()
        handle.update(forms, raw)
        self.displays.append(handle)
        return handle


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    found = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", found)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", found)  # type: ignore[arg-type]
    monkeypatch.setattr(bars, "DELAY", 0.0)
    monkeypatch.setattr(bars, "INTERVAL", 0.0)
    return found


@pytest.mark.parametrize("given", [None, True])
def test_a_bar_in_a_notebook(given: bool | None, notebook: Notebook) -> None:
    with progress_of(given) as show:
        show("coarsen <1>", 0.0)
        show("coarsen <1>", 0.421)
        show("place", 7.0)  # of a pass with more work than expected
    (handle,) = notebook.displays
    first, second, third, last = handle.shown
    assert 'value="0.421" max="1"' in second and "coarsen &lt;1&gt; 42%" in second
    assert 'value="0.000"' in first and 'value="1.000"' in third and "place 100%" in third
    assert last == ""


def test_the_bar_is_removed_after_an_error(notebook: Notebook) -> None:
    with pytest.raises(KeyError), progress_of(None) as show:
        show("place", 0.5)
        raise KeyError
    assert notebook.displays[0].shown[-1] == ""


def test_short_work_draws_nothing(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "DELAY", 60.0)
    with progress_of(None) as show:
        show("place", 0.5)
    assert notebook.displays == []


def test_updates_are_limited(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "INTERVAL", 60.0)
    with progress_of(None) as show:
        for step in range(1000):
            show("place", step / 1000)
    assert len(notebook.displays[0].shown) == 2  # the first one, and its removal


@pytest.mark.parametrize("given", [None, False, True])
def test_nothing_is_drawn_elsewhere(
    given: bool | None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in a pipe nor in IPython on a terminal."""
    shell = Notebook(kernel=None)
    monkeypatch.setitem(sys.modules, "IPython", shell)  # type: ignore[arg-type]
    with progress_of(given) as show:
        show("place", 0.5)
    assert shell.displays == []
    assert capfd.readouterr() == ("", "")


def test_no_bar_on_request(notebook: Notebook) -> None:
    with progress_of(False) as show:
        show("place", 0.5)
    assert notebook.displays == []


def test_a_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes the pipe for a terminal
    monkeypatch.setenv("TERM", "xterm")
    with progress_of(True) as show:
        show("place [red]", 0.5)
    out, err = capsys.readouterr()
    assert out == ""
    assert "place [red]" in err and "50%" in err


def test_a_function_gets_all_calls() -> None:
    seen: list[tuple[str, float]] = []
    with progress_of(lambda stage, fraction: seen.append((stage, fraction))) as show:
        show("place", 0.5)
    assert seen == [("place", 0.5)]


def test_other_objects_are_refused() -> None:
    for good in (None, True, False, print):
        require_progress(good)
    with pytest.raises(UsageError, match=r"progress is 3; give a function .* or True for a bar"):
        require_progress(3)
