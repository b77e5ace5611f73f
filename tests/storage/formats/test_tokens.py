"""The tokenizer compared with Python's parsing of numbers and lines."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.errors import BadInputError
from storage.formats.text import reader as text_module
from storage.formats.text.reader import TextReader
from storage.formats.text.tokens import real_values

number = st.one_of(
    st.integers(-(2**63) + 1, 2**63 - 1).map(str),
    st.integers(0, 99).map(str),
    st.decimals(-1000, 1000, places=3).map(str),
    st.floats(-1e9, 1e9, allow_nan=False).map(lambda x: f"{x:.6e}"),
)
line = st.one_of(
    st.lists(number, max_size=5).map(" ".join),
    st.lists(number, min_size=1, max_size=3).map(lambda x: "\t".join(x) + " % rest 1 2"),
    st.just("% only a comment"),
    st.just("  "),
)


def naive(text: str) -> tuple[list[list[float]], list[int]]:
    """Return numbers line by line, and which lines hold only comments."""
    lines, notes = [], []
    for content in text.split("\n")[:-1]:
        plain, percent, _ = content.partition("%")
        lines.append([float(word) for word in plain.split()])
        notes.append(int(bool(percent) and not plain.split()))
    return lines, notes


def read_all(path: Path) -> tuple[list[list[float]], list[int]]:
    lines: list[list[float]] = []
    notes: list[int] = []
    open_line: list[float] = []
    with TextReader(path) as reader:
        for tokens in reader.chunks():
            start = 0
            assert tokens.first_line == len(lines) + 1
            values = real_values(tokens.mantissa, tokens.exponent).tolist()
            for end, note in zip(tokens.ends.tolist(), tokens.notes.tolist(), strict=True):
                lines.append(open_line + values[start:end])
                notes.append(note)
                open_line, start = [], end
            open_line += values[start:]
    assert not open_line
    return lines, notes


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(line, max_size=8), st.sampled_from([9, 30, 1 << 20]), st.booleans())
def test_equals_python(tmp_path: Path, lines: list[str], chunk: int, final_newline: bool) -> None:
    text = "\n".join(lines)
    if final_newline or not lines or not lines[-1]:
        text += "\n"
    path = tmp_path / "numbers"
    path.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_module, "CHUNK_BYTES", chunk)
        found, notes = read_all(path)
    expected, expected_notes = naive(text if text.endswith("\n") else text + "\n")
    assert notes == expected_notes
    assert [len(row) for row in found] == [len(row) for row in expected]
    flat, wanted = (list(itertools.chain.from_iterable(rows)) for rows in (found, expected))
    np.testing.assert_allclose(flat, wanted, rtol=4e-16, atol=1e-320)


def test_whole_numbers_are_exact(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_text(
        "9223372036854775807 9223372036854775808 -5 3.0 3e2 0.5 0.000 12345678901234567890.5\n"
    )
    with TextReader(path) as reader:
        (tokens,) = reader.chunks()
    assert tokens.mantissa[:4].tolist() == [2**63 - 1, 922337203685477580, -5, 3]
    assert tokens.exponent[:7].tolist() == [0, 1, 0, 0, 2, -1, 0]
    assert real_values(tokens.mantissa, tokens.exponent)[-1] == pytest.approx(1.2345678901234568e19)


def test_beyond_float64(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_text("54e7444 5e-7444 -1e999 1e308 3e-310\n")
    with TextReader(path) as reader:
        (tokens,) = reader.chunks()
    found = real_values(tokens.mantissa, tokens.exponent).tolist()
    assert found == [np.inf, 0, -np.inf, 1e308, pytest.approx(3e-310, abs=1e-322)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2\n3 x7\n", "line 2: 'x7' is not a number"),
        ("1 2\n3 4z\n", "line 2: '4z' is not a number"),
        ("1 2\n\n% c\n- 4", "line 4: '-' is not a number"),
        ("1e 2", "line 1: '1e' is not a number"),
        ("1\nNaN", "line 2: NaN is not a finite number"),
        ("-inf", "line 1: -inf is not a finite number"),
        ("1,,2\n", "line 1: a value is missing"),
        ("1,2\n3,\n", "line 2: a value is missing"),
        (",2\n", "line 1: a value is missing"),
        ("1.2.3", "line 1: '1.2.3' is not a number"),
        ("1\x00\x01", "line 1: contains a zero byte: not text"),
    ],
)
def test_faults_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "numbers"
    path.write_text(text)
    with TextReader(path, commas=b",") as reader, pytest.raises(BadInputError) as caught:
        list(reader.chunks())
    assert message in str(caught.value)
    assert re.match(re.escape(str(path)) + r": line \d+: .*; ", str(caught.value))


def test_lines_before_numbers(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(b"\xef\xbb\xbf% note\n\nhead er\r\n1 2\n")
    with TextReader(path) as reader:
        assert reader.peek() == "head er"
        assert reader.next_line() == "head er"
        assert reader.line == 3
        (tokens,) = reader.chunks()
        assert reader.fraction == 1.0
    assert (tokens.first_line, tokens.mantissa.tolist()) == (4, [1, 2])


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="cannot read: No such file"):
        TextReader(tmp_path / "none")
