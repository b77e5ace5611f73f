"""Comparison of a compiled model with the model in ONNX Runtime, as tables of the page."""

from __future__ import annotations

from typing import Any, NamedTuple

from mapper.reporting.cells import Cell, Head, Table, counted, table


class Judged(NamedTuple):
    """One line of summary, and a table of all compared values; None if nothing was compared."""

    line: str
    rows: Table | None = None


def judged(report: dict[str, Any]) -> Judged | None:
    """Return the comparison of the last `simulate --check`, or else of the compilation.

    None for a report without a comparison.
    """
    found = report.get("simulation", {}).get("judge") or report.get("judge")
    if found is None:
        return None
    if found["why"] or not found["rows"]:
        return Judged(f"Not compared with ONNX Runtime: {found['why'] or 'no value in common'}.")
    rows = found["rows"]
    exact = [row for row in rows if _is_exact(row)]
    ties = sum(row["ties"] for row in rows)
    parts = [
        f"{counted(len(rows), 'map or output', 'maps and outputs')} of "
        f"{counted(found['frames'], 'frame')} compared with the model in ONNX Runtime",
        f"{len(exact)} exact" + (f", {counted(ties, 'tie')}" if ties else ""),
    ]
    if len(exact) < len(rows):
        worst = min((row for row in rows if not _is_exact(row)), key=_quality)
        parts.append(f"worst: {_label(worst)}, {_shown(worst).shown}")
    if found["left_out"]:
        parts.append(f"{counted(len(found['left_out']), 'map')} left out")
    heads = ("Value", "Layer", "Elements", "SQNR or differences", "Expected", "Ties")
    table_ = table(
        "Compared with ONNX Runtime",
        heads,
        [
            (
                Head(row["name"]),
                Cell(", ".join(row["nodes"]) or "output"),
                Cell(row["elements"]),
                _shown(row),
                Cell(*_expected(row)),
                Cell(row["ties"]),
            )
            for row in rows
        ],
    )
    return Judged("; ".join(parts) + ".", table_)


def _is_exact(row: dict[str, Any]) -> bool:
    if row["wanted"] is None:
        return not row["differences"]
    return row["signal"] is None


def _quality(row: dict[str, Any]) -> tuple[bool, float]:
    """Return a key from worst to best: values that depart first, then by SQNR."""
    if row["wanted"] is None:
        return not row["departs"], -float(row["differences"] or 0)
    return not row["departs"], float(row["signal"])


def _label(row: dict[str, Any]) -> str:
    return f"layer {', '.join(row['nodes'])}" if row["nodes"] else f"output {row['name']}"


def _shown(row: dict[str, Any]) -> Cell:
    if row["wanted"] is None:
        differences = row["differences"] or 0
        return Cell(differences, counted(differences, "difference") if differences else "exact")
    return Cell(row["signal"], "exact" if row["signal"] is None else f"{row['signal']:.1f} dB")


def _expected(row: dict[str, Any]) -> tuple[Any, str]:
    if row["wanted"] is None:
        return 0, "exact"
    return row["wanted"], f"{row['wanted']:.1f} dB"
