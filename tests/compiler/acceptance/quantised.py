"""D: models that are already quantised."""

from __future__ import annotations

from tests.compiler.acceptance.row import Row

ROWS = {
    "D01": Row(
        "quantised models",
        (
            "compiler/frontend/test_qdq.py::test_convolutions",
            "compiler/frontend/test_qonnx.py::test_levels_of_all_kinds",
            "compiler/frontend/test_qoperator.py::test_convolutions",
            "compiler/frontend/test_requantshift.py::test_d01_sums_pools_and_dense_layers",
        ),
    ),
    "D02": Row(
        "patterns and functions",
        (
            "compiler/partition/test_patterns.py::test_d02_groups_have_a_target_and_a_name",
            "compiler/partition/test_patterns.py::test_d02_groups_of_a_residual_block",
        ),
    ),
    "D03": Row(
        "packing of maps",
        (
            "compiler/test_maps.py::test_d03_blocks_of_channels_are_consecutive",
            "compiler/test_maps.py::test_d03_packed_maps_round_trip",
            "compiler/test_maps.py::test_d03_rows_and_pixels_may_have_gaps",
        ),
    ),
    "D04": Row(
        "where to pack",
        (
            "compiler/partition/test_packing.py::test_rules",
            "compiler/partition/test_packing.py::test_the_number_of_packs_is_minimal",
        ),
    ),
    "D05": Row(
        "padding with the zero point",
        (
            "compiler/codegen/test_presets.py::test_d05_d10_programs_equal_the_reference",
            "compiler/frontend/test_qdq.py::test_convolutions",
            "compiler/frontend/test_qoperator.py::test_convolutions",
            "compiler/numerics/test_against_onnxruntime.py::test_d05_convolutions_equal_onnxruntime",
            "compiler/quantisation/test_convert.py::test_d05_padding_is_the_zero_point",
        ),
    ),
    "D06": Row(
        "fused bias",
        (
            "compiler/codegen/test_presets.py::test_d05_d10_programs_equal_the_reference",
            "compiler/frontend/test_qoperator.py::test_convolutions",
        ),
    ),
    "D07": Row(
        "multiply, shift, zero point",
        (
            "compiler/codegen/test_operators.py::test_roundings_and_zero_points",
            "compiler/frontend/test_qoperator.py::test_convolutions",
            "compiler/frontend/test_requantshift.py::test_every_golden_activation_has_its_own_node",
            "compiler/frontend/test_requantshift.py::test_levels",
        ),
    ),
    "D08": Row(
        "clamp",
        (
            "compiler/codegen/test_operators.py::test_roundings_and_zero_points",
            "compiler/frontend/test_qdq.py::test_activations_alone",
            "compiler/frontend/test_qoperator.py::test_clip_of_integers_without_effect_is_removed",
            "compiler/frontend/test_quantised_models.py::test_d08_integer_networks_equal_every_activation",
        ),
    ),
    "D09": Row(
        "two schedules of the bias",
        (
            "compiler/codegen/test_operators.py::test_d09_bias_before_or_after_the_products",
            "compiler/codegen/test_operators.py::test_d09_bias_first_saves_cycles_of_the_alu",
        ),
    ),
    "D10": Row(
        "operations of the ALU",
        (
            "compiler/codegen/test_presets.py::test_d05_d10_programs_equal_the_reference",
            "chipsim/npu/test_execute.py::test_random_programs_match_reference",
            "hw/npu/test_isa.py::test_codes_of_ops_and_kinds",
        ),
    ),
    "D11": Row(
        "driver in C",
        (
            "compiler/codegen/test_cdriver.py::test_a_compiled_network_prints_the_hash_of_the_simulator",
            "compiler/codegen/test_cdriver.py::test_d11_binary_layers_end_in_sums_of_32_bits",
            "compiler/codegen/test_cdriver.py::test_random_programs_leave_the_memories_of_the_simulator",
        ),
    ),
    "D12": Row(
        "host nodes",
        ("compiler/partition/test_hostplan.py::test_work_alternates_between_cores_and_host",),
    ),
}
