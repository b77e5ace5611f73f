"""Sessions of onnxruntime whose integers are exact on every processor."""

from __future__ import annotations

from typing import Any

from storage.formats.layers.onnxruns import runtime

KEEPS_INT8 = ("session.qdqisint8allowed", "1")
# Products of uint8 and int8 are added in 16 bits with saturation where a processor has no VNNI
# instructions; with this option the weights become uint8, whose kernels are exact
# (onnxruntime_session_options_config_keys.h).
EXACT_PRODUCTS = ("session.x64quantprecision", "1")


def session_of(model: Any, *, as_written: bool = False) -> Any:
    """Return a session of a file or of the bytes of a model; as written, no nodes are fused.

    Raises `ImportError` where onnxruntime is not installed.
    """
    ort = runtime()

    def opened(*entries: tuple[str, str]) -> Any:
        options = ort.SessionOptions()
        if as_written:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        for entry in entries:
            options.add_session_config_entry(*entry)
        given = model if isinstance(model, bytes) else str(model)
        return ort.InferenceSession(given, options, providers=["CPUExecutionProvider"])

    if as_written:
        return opened()
    try:
        return opened(KEEPS_INT8, EXACT_PRODUCTS)
    except ort.capi.onnxruntime_pybind11_state.NotImplemented:
        # The option also converts weights for maps of int8, for which there are no kernels;
        # products of
        # int8 and int8 are exact without it.
        return opened(KEEPS_INT8)
