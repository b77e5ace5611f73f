"""B: a matrix unit for bits."""

from __future__ import annotations

from tests.compiler.acceptance.row import Row

ROWS = {
    "B01": Row(
        "integer and binary products in one program",
        (
            "hw/npu/test_core.py::test_three_ways",
            "hw/npu/test_isa.py::test_codes_of_ops_and_kinds",
        ),
    ),
    "B02": Row(
        "a binary unit in the same core",
        (
            "hw/npu/test_array.py::test_b02_cores_with_and_without_bits_have_the_same_buffers",
            "hw/npu/test_array.py::test_b02_b04_sums_of_bits_share_the_ports_of_the_integer_ones",
            "mapper/cli/test_hw_npu_command.py::test_b02_cells_of_a_core",
        ),
    ),
    "B03": Row(
        "products of bits",
        (
            "compiler/codegen/test_binary.py::test_b03_layers_of_bits",
            "compiler/numerics/test_binary.py::test_b03_convolutions_of_bits_have_zeros_around_them",
            "compiler/numerics/test_binary.py::test_b04_popcount_of_equal_bits_is_the_product",
        ),
    ),
    "B04": Row(
        "popcount with a tail",
        (
            "hw/npu/test_array.py::test_b02_b04_sums_of_bits_share_the_ports_of_the_integer_ones",
            "compiler/codegen/test_binary.py::test_b03_layers_of_bits",
            "compiler/numerics/test_binary.py::test_b04_popcount_of_equal_bits_is_the_product",
        ),
    ),
    "B05": Row(
        "signs before a layer",
        ("compiler/transforms/test_cases.py::test_pass_on_a_graph",),
    ),
    "B06": Row(
        "packed bits",
        ("compiler/numerics/test_binary.py::test_b06_channel_c_is_bit_c_of_its_vector",),
    ),
    "B07": Row(
        "magnitude of kernels",
        (
            "compiler/codegen/test_binary.py::test_b07_kernels_of_several_magnitudes_are_computed_in_bytes",
            "compiler/numerics/test_binary.py::test_b07_binary_weights_have_one_magnitude_per_kernel",
            "compiler/quantisation/test_binary_layers.py::test_b07_b08_results_are_rounded_once",
        ),
    ),
    "B08": Row(
        "normalisation after a binary layer",
        (
            "compiler/codegen/test_binary.py::test_b15_residual_sums_stay_in_bytes",
            "compiler/quantisation/test_binary_layers.py::test_b07_b08_results_are_rounded_once",
            "compiler/quantisation/test_binary_layers.py::test_b08_scales_and_offsets_of_normalisation_join_those_of_the_kernels",
        ),
    ),
    "B09": Row(
        "thresholds",
        (
            "compiler/codegen/test_binary.py::test_b09_pooled_sums_become_bits",
            "compiler/frontend/test_binary.py::test_b09_sums_of_a_trained_model",
            "compiler/transforms/test_cases.py::test_pass_on_a_graph",
            "compiler/numerics/test_binary.py::test_b09_literal_thresholds",
            "compiler/numerics/test_binary.py::test_b09_pooling_of_bits_is_or",
            "compiler/numerics/test_binary.py::test_b09_thresholds_of_channels",
        ),
    ),
    "B10": Row(
        "first layer by im2col",
        (
            "compiler/codegen/test_programs.py::test_calls_of_a_first_layer",
            "compiler/codegen/test_windows.py::test_b10_cycles_of_a_first_layer",
            "compiler/codegen/test_windows.py::test_b10_windows_on_the_core_give_the_same_bytes",
            "compiler/transforms/test_cases.py::test_pass_on_a_graph",
        ),
    ),
    "B11": Row(
        "bit packing is hidden",
        (
            "compiler/tiling/test_packing.py::test_b11_packing_is_hidden_on_the_core",
            "compiler/tiling/test_packing.py::test_b11_chunks_that_the_host_packs",
        ),
    ),
    "B12": Row(
        "host and cores",
        (
            "compiler/frontend/test_refused.py::test_other_operators_go_to_the_host_with_a_reason",
            "compiler/frontend/test_refused.py::test_kernels_that_are_not_constant_go_to_the_host",
        ),
    ),
    "B13": Row(
        "dumps of both levels",
        (
            "compiler/partition/test_patterns.py::test_both_levels_are_dumped",
            "mapper/cli/test_compile.py::test_keep_graphs_and_switches",
            "mapper/cli/test_compile.py::test_disassemble",
        ),
    ),
    "B14": Row(
        "ablation",
        ("compiler/test_options.py::test_b14_an_ablation_has_a_row_for_every_pass",),
    ),
    "B15": Row(
        "residual sums",
        (
            "compiler/codegen/test_binary.py::test_b15_residual_sums_stay_in_bytes",
            "compiler/numerics/test_against_onnxruntime.py::test_b15_sums_equal_onnxruntime",
            "compiler/numerics/test_formulas.py::test_b15_addition_with_two_scales",
            "compiler/numerics/test_formulas.py::test_b15_invalid_scales_name_the_addition",
            "compiler/numerics/test_formulas.py::test_b15_scales_too_far_apart_name_the_addition",
            "compiler/numerics/test_formulas.py::test_b15_sums_stay_in_32_bits",
            "compiler/numerics/test_reference.py::test_b15_sums_of_maps",
        ),
    ),
}
