"""A: a compiler for an accelerator of convolutions."""

from __future__ import annotations

from tests.compiler.acceptance.row import Row

ROWS = {
    "A01": Row(
        "graph of nodes and tensors",
        (
            "compiler/ir/test_graph.py::test_a01_graphs_round_trip_through_files",
            "compiler/ir/test_graph.py::test_a01_nodes_are_in_an_executable_order",
            "compiler/quantisation/test_convert.py::test_layers_name_their_nodes_through_all_stages",
            "mapper/cli/test_compile.py::test_keep_graphs_and_switches",
        ),
    ),
    "A02": Row(
        "checks of shapes",
        (
            "compiler/frontend/test_float.py::test_a02_auto_pad",
            "compiler/frontend/test_float.py::test_a02_initialisers_as_inputs_and_an_open_batch_axis",
            "compiler/frontend/test_float.py::test_a02_opsets",
            "compiler/frontend/test_refused.py::test_a02_dense_layers_and_sums_of_other_sizes",
            "compiler/frontend/test_refused.py::test_a02_other_models",
            "compiler/frontend/test_refused.py::test_a02_wrong_shapes_name_the_node_and_the_sizes",
        ),
    ),
    "A03": Row(
        "dense layers as convolutions",
        (
            "compiler/frontend/test_float.py::test_a03_gemm",
            "compiler/transforms/test_cases.py::test_pass_on_a_graph",
            "compiler/frontend/test_float.py::test_a03_matmul_followed_by_a_bias",
        ),
    ),
    "A04": Row(
        "padding for all axes",
        ("compiler/ir/test_tensor.py::test_a04_padding_is_written_for_all_axes",),
    ),
    "A05": Row(
        "channels last internally",
        (
            "compiler/frontend/test_float.py::test_a05_consecutive_layers_need_no_reshape",
            "compiler/frontend/test_layout.py::test_a05_channels_last_exports_lose_their_transposes",
            "compiler/ir/test_tensor.py::test_a05_onnx_order_and_stored_order",
            "compiler/frontend/test_float.py::test_a05_element_order_of_a_dense_layer",
        ),
    ),
    "A06": Row(
        "batch normalisation folded",
        ("compiler/transforms/test_cases.py::test_pass_on_a_graph",),
    ),
    "A07": Row(
        "fused macro nodes store one map",
        (
            "compiler/codegen/test_programs.py::test_residual_network",
            "compiler/transforms/test_fuse.py::test_a07_fewer_maps_get_memory_and_less_is_stored",
            "compiler/transforms/test_fuse.py::test_a07_operators_after_a_layer_are_one_macro_node",
            "mapper/cli/test_compile.py::test_from_a_model_to_cores",
        ),
    ),
    "A08": Row(
        "constants folded",
        (
            "compiler/frontend/test_float.py::test_a08_constants_by_nodes_and_weights_that_are_computed",
        ),
    ),
    "A09": Row(
        "sibling convolutions merged",
        (
            "compiler/transforms/test_cases.py::test_pass_on_a_graph",
            "compiler/transforms/test_on_cores.py::test_a09_a10_changed_graphs_on_cores",
        ),
    ),
    "A10": Row(
        "concatenation after pooling",
        (
            "compiler/transforms/test_cases.py::test_pass_on_a_graph",
            "compiler/transforms/test_on_cores.py::test_a09_a10_changed_graphs_on_cores",
        ),
    ),
    "A11": Row(
        "pooling before activation",
        ("compiler/transforms/test_cases.py::test_pass_on_a_graph",),
    ),
    "A12": Row(
        "one requantisation for each macro node",
        (
            "compiler/transforms/test_fuse.py::test_a12_each_macro_node_requantises_once",
            "compiler/tiling/test_order.py::test_sums_end_in_one_requantisation",
        ),
    ),
    "A13": Row(
        "consecutive addresses",
        ("compiler/memory/test_planner.py::test_overlapping_lifetimes_share_no_vector",),
    ),
    "A14": Row(
        "stored padding",
        (
            "compiler/memory/test_padding.py::test_a14_addresses",
            "compiler/memory/test_padding.py::test_a14_consumers_use_the_largest_border",
            "compiler/memory/test_padding.py::test_a14_pairs_and_16_bits",
            "compiler/memory/test_padding.py::test_a14_parts_of_a_concatenation_have_one_border",
            "compiler/memory/test_padding.py::test_a14_random_networks",
            "compiler/memory/test_padding.py::test_a14_residual_networks_on_all_cores",
            "compiler/memory/test_padding.py::test_a14_resnet_8",
            "compiler/memory/test_padding.py::test_a14_the_padded_map_is_read_from_its_base",
        ),
    ),
    "A15": Row(
        "concatenation in shared memory",
        (
            "compiler/memory/test_regions.py::test_a15_concatenation_needs_no_instruction",
            "compiler/memory/test_regions.py::test_a15_eight_concatenations_of_squeezenet",
            "compiler/memory/test_regions.py::test_a15_split_owns_the_region",
        ),
    ),
    "A16": Row(
        "strides in a shared region",
        ("compiler/memory/test_regions.py::test_a15_concatenation_needs_no_instruction",),
    ),
    "A17": Row(
        "addresses of a YOLO network",
        ("compiler/memory/test_regions.py::test_a17_two_maps_of_a_yolo_network",),
    ),
    "A18": Row(
        "a map stored twice",
        (
            "compiler/memory/test_regions.py::test_a18_a_map_in_two_regions_is_stored_twice",
            "compiler/memory/test_regions.py::test_a18_dense_block",
        ),
    ),
    "A19": Row(
        "concatenation of rows and columns",
        ("compiler/memory/test_regions.py::test_a19_concatenation_of_rows_and_columns",),
    ),
    "A20": Row(
        "calibration",
        (
            "compiler/quantisation/test_convert.py::test_a20_headroom_of_inputs_inner_tensors_and_outputs",
            "compiler/quantisation/test_ranges.py::test_a20_selected_ends_determine_the_scales",
            "compiler/quantisation/test_ranges.py::test_a20_entropy_clips_outliers_and_ignores_zeros",
            "compiler/quantisation/test_ranges.py::test_a20_mse_selects_the_best_of_its_steps",
            "compiler/quantisation/test_ranges.py::test_a20_percentile_clips_a_ten_thousandth_on_each_side",
            "compiler/quantisation/test_ranges.py::test_a20_ranges_are_independent_of_batches",
            "compiler/quantisation/test_ranges_file.py::test_a20_ranges_are_read_back",
            "mapper/cli/test_compile_samples.py::test_a20_ranges_in_place_of_samples",
            "compiler/quantisation/test_ranges.py::test_a20_scales_by_hand",
            "compiler/quantisation/test_ranges.py::test_a20_scales_cover_their_range_and_zero_is_exact",
            "compiler/quantisation/test_ranges.py::test_a20_uniform_numbers_are_not_clipped",
            "compiler/quantisation/test_ranges.py::test_a20_weights_are_symmetric_by_channel_or_tensor",
            "compiler/quantisation/test_real_models.py::test_a20_resnet_8",
        ),
    ),
    "A21": Row(
        "8 and 16 bits, with and without zero points",
        (
            "compiler/codegen/test_wide.py::test_a21_resnet_8_in_16_bits_end_to_end",
            "compiler/quantisation/test_convert.py::test_a21_integers_are_accurate_in_all_precisions",
            "compiler/quantisation/test_correction.py::test_a21_a_bound_just_below_a_power_of_two_is_shifted_once_more",
            "compiler/quantisation/test_correction.py::test_a21_sums_of_16_bit_fit_the_multiplier_and_biases_the_shift",
            "compiler/quantisation/test_real_models.py::test_a21_resnet_8_in_16_bits",
            "compiler/quantisation/test_verify.py::test_a21_comparison_of_precisions_and_methods",
        ),
    ),
    "A22": Row(
        "input's zero point in the bias",
        (
            "compiler/numerics/test_formulas.py::test_a22_no_sum_exceeds_the_bound",
            "compiler/numerics/test_formulas.py::test_a22_the_zero_point_of_the_input_is_in_the_bias",
            "compiler/numerics/test_reference.py::test_a22_convolutions_with_the_zero_point_around_the_map",
            "compiler/numerics/test_reference.py::test_a22_folding_is_subtracting_before_multiplying",
            "compiler/quantisation/test_correction.py::test_a22_sums_beyond_an_accumulator_name_the_layer_and_the_bound",
        ),
    ),
    "A23": Row(
        "output's zero point after the shift",
        (
            "compiler/numerics/test_formulas.py::test_a23_all_sums_of_a_layer",
            "compiler/numerics/test_formulas.py::test_a23_requantisation",
            "compiler/numerics/test_formulas.py::test_a23_the_zero_point_is_added_after_the_shift",
            "compiler/numerics/test_reference.py::test_a23_requantised_sums_by_channel",
            "compiler/quantisation/test_convert.py::test_a23_leaky_layers_add_their_zero_point_after_the_shift",
            "compiler/quantisation/test_convert.py::test_a23_zero_points_in_the_bias_are_close_but_not_equal",
        ),
    ),
    "A24": Row(
        "multiplier and shift",
        (
            "compiler/numerics/test_formulas.py::test_a24_factors_that_are_not_finite",
            "compiler/numerics/test_formulas.py::test_a24_factors_beyond_the_range_of_shifts_name_the_layer",
            "compiler/numerics/test_formulas.py::test_a24_multipliers_are_the_mantissas_of_float32",
            "compiler/numerics/test_formulas.py::test_a24_multipliers_at_the_ends_of_the_shift",
        ),
    ),
    "A25": Row(
        "rounding shift",
        (
            "compiler/numerics/test_formulas.py::test_a25_halves",
            "compiler/numerics/test_formulas.py::test_a25_halves_away_from_zero_need_one_addend",
            "compiler/numerics/test_formulas.py::test_a25_rounding_shift_at_its_ends",
            "compiler/numerics/test_formulas.py::test_a25_rounding_shift_of_all_small_numbers",
            "compiler/numerics/test_formulas.py::test_a25_rounding_shift_of_wide_numbers",
            "compiler/quantisation/test_convert.py::test_a25_roundings_differ_only_in_halves",
        ),
    ),
    "A26": Row(
        "one scale where maps meet",
        (
            "compiler/quantisation/test_convert.py::test_a26_addends_keep_their_own_scales",
            "compiler/quantisation/test_convert.py::test_a26_tensors_of_a_concatenation_have_one_scale",
            "compiler/quantisation/test_convert.py::test_a26_moved_or_selected_integers_keep_their_scale",
        ),
    ),
    "A27": Row(
        "biases that overflow",
        (
            "compiler/quantisation/test_convert.py::test_biases_beyond_an_accumulator_name_the_layer",
            "compiler/quantisation/test_correction.py::test_a22_sums_beyond_an_accumulator_name_the_layer_and_the_bound",
        ),
    ),
    "A28": Row(
        "two products of one multiplier",
        (
            "chipsim/npu/test_dual_multiplier.py::test_a28_all_triples_of_bytes",
            "hw/npu/test_array.py::test_a28_a_million_random_triples_in_hardware",
            "hw/npu/test_array.py::test_a28_all_triples_of_the_elaborated_multiplier",
            "hw/npu/test_array.py::test_a28_corners_and_random_triples_in_hardware",
            "hw/npu/test_formal.py::test_the_core_keeps",
            "compiler/codegen/test_dual.py::test_a28_bytes_equal_the_plain_program_in_fewer_cycles",
        ),
    ),
    "A29": Row(
        "width of its ports",
        (
            "chipsim/npu/test_dual_multiplier.py::test_a29_products_that_may_be_added_before_they_are_parted",
            "chipsim/npu/test_dual_multiplier.py::test_a29_the_port_holds_all_operands",
            "compiler/codegen/test_dual.py::test_a28_bytes_equal_the_plain_program_in_fewer_cycles",
        ),
    ),
    "A30": Row(
        "pairs of pixels",
        (
            "compiler/codegen/test_dual.py::test_a30_a31_random_networks",
            "compiler/codegen/test_dual.py::test_a30_halves_and_neighbours",
        ),
    ),
    "A31": Row(
        "pairs of kernels",
        (
            "compiler/codegen/test_dual.py::test_a30_a31_random_networks",
            "compiler/codegen/test_dual.py::test_a31_kernels",
            "compiler/codegen/test_dual.py::test_a31_output_blocks_in_pairs",
        ),
    ),
    "A32": Row(
        "biases of both",
        ("compiler/codegen/test_dual.py::test_a30_a31_random_networks",),
    ),
    "A33": Row(
        "four products: documented",
        ("compiler/test_acceptance.py::test_a33_four_products_in_one_multiplier_are_documented",),
    ),
    "A34": Row(
        "tiles fit half a buffer",
        ("compiler/tiling/test_search.py::test_tiles_fit_half_of_the_buffers",),
    ),
    "A35": Row(
        "buffers replaced by a loop",
        ("compiler/tiling/test_search.py::test_traffic_between_steps",),
    ),
    "A36": Row(
        "cycles of nested loops",
        ("compiler/tiling/test_search.py::test_counts_decreasing_outwards_take_fewest_cycles",),
    ),
    "A37": Row(
        "stalls of memory",
        (
            "compiler/tiling/test_search.py::test_search_against_fixed_rules",
            "compiler/tiling/test_search.py::test_stalls_by_hand",
            "compiler/tiling/test_search.py::test_traffic_between_steps",
        ),
    ),
    "A38": Row(
        "search of tilings",
        (
            "compiler/tiling/test_onchip.py::test_schedules_change_cycles_and_no_result",
            "compiler/tiling/test_search.py::test_search_against_fixed_rules",
            "compiler/tiling/test_search.py::test_search_finds_what_enumeration_finds",
        ),
    ),
    "A39": Row(
        "weights loaded row by row",
        (
            "compiler/tiling/test_onchip.py::test_weights_that_enter_row_by_row",
            "hw/npu/test_core.py::test_three_ways",
            "compiler/tiling/test_search.py::test_small_planes_wait_for_weights",
        ),
    ),
    "A40": Row(
        "first tile",
        ("compiler/tiling/test_search.py::test_first_tile",),
    ),
    "A41": Row(
        "loop listings",
        (
            "compiler/codegen/loops/test_listing.py::test_a41_a_listing_visits_the_addresses_of_the_program",
            "compiler/numerics/test_formulas.py::test_a41_leaky_relu_is_the_larger_of_two_products",
            "compiler/codegen/loops/test_listing.py::test_a41_equal_tiles_are_loops",
        ),
    ),
    "A42": Row(
        "every stored map compared with the reference",
        (
            "compiler/codegen/test_programs.py::test_bitx_programs_equal_the_reference",
            "compiler/partition/test_check.py::test_a42_a_wrong_parameter_shows",
            "compiler/partition/test_check.py::test_a42_a_wrong_weight_shows_in_its_layer_and_later",
            "compiler/partition/test_check.py::test_a42_differences_end_the_command_with_an_error",
            "compiler/partition/test_hostplan.py::test_dump_of_all_maps",
            "mapper/cli/test_compile.py::test_from_a_model_to_cores",
        ),
    ),
}
