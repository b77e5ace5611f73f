"""The test cases of ONNX itself, each one node or a small model.

Supported cases equal the reference implementation; others end with one line.
"""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.compiler.model import HANDLERS, open_model
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.reference import MIXED
from mapper.compiler.transforms.registry import optimise
from mapper.errors import MapperError
from tests.storage.formats.onnx_models import onnx, reference

READ_OTHERWISE = {
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
}
"""For corners, ONNX Runtime uses the integer size of the result, the reference the real size."""
EXACT = 2e-4  # relative: float32 sums have another order


def cases() -> list[tuple[str, Any, list[Any]]]:
    """Return name, model and inputs of the cases with an operator that cores compute."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from the cases themselves
        found = collect_testcases(None)
    return [
        (case.name, case.model, list(case.data_sets[0][0]))
        for case in found
        if case.model is not None
        and case.data_sets
        and any(node.op_type in HANDLERS for node in case.model.graph.node)
    ]


def with_one_sample(model: Any, given: list[Any]) -> np.ndarray | None:
    """Reduce a model to one input of one sample; return its data, or None if it has no array
    input."""
    graph = model.graph
    inputs = [one for one in graph.input if one.name not in {t.name for t in graph.initializer}]
    if not inputs or not isinstance(given[0], np.ndarray) or given[0].ndim == 0:
        return None
    for info, array in list(zip(inputs, given, strict=True))[1:]:
        if isinstance(array, np.ndarray) and array.dtype != object:
            graph.initializer.append(onnx.numpy_helper.from_array(array, info.name))
            graph.input.remove(info)
    sizes = inputs[0].type.tensor_type.shape.dim
    if len(sizes) < 2 or given[0].shape[0] < 2:
        return np.asarray(given[0])
    sizes[0].dim_value = 1
    del graph.value_info[:]
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")
    return np.asarray(given[0][:1])


def outcome(model: Any, data: np.ndarray, path: Path) -> str:
    """Return "equal", "refused", "unknown" to the reference, or a description of the fault."""
    onnx.save(model, str(path))
    name = model.graph.input[0].name
    try:
        wanted = reference.ReferenceEvaluator(model).run(None, {name: data})
    except Exception:  # any error of cases of other versions
        return "unknown"
    try:
        graph = open_model(path).build(())
        optimise(graph)
        view = graph.inputs[name]
        outputs = list(graph.outputs.items())
        made = run_graph(
            graph,
            {view.tensor: view.stored(data.astype(np.float32))},
            MIXED,
            [one.tensor for _, one in outputs],
        )
    except MapperError:
        return "refused"
    order = [output.name for output in model.graph.output]
    for output, one in outputs:
        array, right = one.frame(made[one.tensor]), np.asarray(wanted[order.index(output)])
        if array.shape != right.shape:
            return f"{output} has shape {array.shape}, not {right.shape}"
        if right.dtype.kind in "biuf":
            right = right.astype(np.float64)
            largest = max(1e-3, float(np.abs(right[np.isfinite(right)]).max(initial=0)))
            equal = (array == right) | (np.isnan(array) & np.isnan(right))  # infinite numbers, too
            difference = np.abs(np.where(equal, 0, array - right)).max(initial=0)
            if not difference <= EXACT * largest:
                return f"{output} differs by {difference}"
    return "equal"


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.filterwarnings("ignore")  # from the reference implementation
def test_cases_of_onnx(tmp_path: Path) -> None:
    ends: Counter[str] = Counter()
    wrong = {}
    for name, model, given in cases():
        data = with_one_sample(model, given)
        if data is None or data.dtype.kind not in "fiub" or data.dtype.itemsize == 2:
            continue  # float16 and float64 round differently
        end = outcome(model, data, tmp_path / "case.onnx")
        ends[end if end in ("equal", "refused", "unknown") else "wrong"] += 1
        if end not in ("equal", "refused", "unknown"):
            wrong[name] = end
    assert not wrong.keys() - READ_OTHERWISE
    assert ends["equal"] > 250
