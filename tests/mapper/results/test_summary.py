"""Summaries: at most 24 lines, no broken number, and a verdict that matches the rows."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from mapper.cli.compile_tables import compared_rows
from mapper.results.summary import Row, mapping_rows, next_steps, resources_row, summary

LOADS = {"link_load_max": 507_308.4, "link_load_mean": 153_729.8}
METRICS: dict[str, Any] = {
    "cores_used": 62, "core_fill_mean": 0.97, "cut_weight": 9_262_699.6, "cut_fraction": 0.96,
    "hops_total": 34_609_659.25, "hops_mean": 3.581, "hops_max": 13, **LOADS,
    "core": {"hops_total": 5_811_349.0, "packets": 1_444_042, **LOADS},
    "multicast": {"hops_total": 1_335_083.0, "connectivity": 1_444_042, **LOADS},
    "tick_cycles": 507_331.4, "tick_bound": "links",
}  # fmt: skip
REPORT = {
    "network": {"neurons": 7717, "synapses": 2_847_428},
    "chip": {"width": 8, "height": 8, "unavailable": [3], "delivery": "synapse"},
    "metrics": METRICS,
}
RESOURCES = {"seconds": 5.84, "peak_rss_bytes": 400 << 20}


def printed(rows: list[Row], width: int) -> list[str]:
    """Return the lines of a summary on a terminal of that width."""
    out = io.StringIO()
    Console(file=out, width=width).print(summary("net.bin on 8x8", rows))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(
    ("objective", "hops"),
    [("hops", "34,609,659.2"), ("core", "5,811,349"), ("multicast", "1,335,083")],
)
def test_a_mapping_on_terminals_of_several_widths(objective: str, hops: str, width: int) -> None:
    rows = [*mapping_rows(REPORT, {"source": "rates"}, objective), resources_row(RESOURCES)]
    rows += next_steps("out/report.html", "mapper info out", "mapper simulate out")
    lines = printed(rows, width)
    text = "\n".join(lines)
    for whole in ("7,717", "2,847,428", "62 of 63", hops, "507,308.4", "507,331.4", "5.8 s"):
        assert whole in text
    assert max(map(len, lines)) <= width
    if width >= 80:
        assert len(lines) <= 24


def test_no_traffic_between_cores() -> None:
    report = {**REPORT, "metrics": {**METRICS, "cut_weight": 0}}
    assert mapping_rows(report, None)[-1] == Row("traffic between cores", "none")


@pytest.mark.parametrize(
    ("departs", "verdict"), [((False, False), "agree with"), ((True, False), "1 depart from")]
)
def test_the_comparison_with_onnx_runtime(departs: tuple[bool, bool], verdict: str) -> None:
    rows = [{"departs": one, "ties": 2} for one in departs]
    judge = {"why": "", "frames": 8, "left_out": ["m"], "rows": rows}
    (row,) = compared_rows(judge)
    assert (row.value, row.remark) == (
        2, f"{verdict} ONNX Runtime in 8 frames, 4 ties; 1 left out",
    )  # fmt: skip
