"""The acceptance list of the compiler: each mechanism, and tests that show it.

`test_acceptance.py` holds it to the tests that there are. A row without a test stands in `OPEN`,
which may only get shorter.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """tests : module::function below tests/"""

    title: str
    tests: tuple[str, ...] = ()


ROWS = {
    "A01": Row(
        "graph of nodes and tensors",
        (
            "compiler/quantise/test_convert.py::test_layers_name_their_nodes_through_all_stages",
            "mapper/cli/test_compile.py::test_keep_graphs_and_switches",
        ),
    ),
    "A02": Row(
        "guards of shapes",
        (
            "compiler/frontend/test_float.py::test_a02_auto_pad",
            "compiler/frontend/test_refused.py::test_a02_dense_layers_and_sums_of_other_sizes",
            "compiler/frontend/test_float.py::test_a02_initialisers_that_are_inputs_too_and_an_open_batch_axis",
            "compiler/frontend/test_float.py::test_a02_opsets",
        ),
    ),
    "A03": Row(
        "dense layers as convolutions",
        (
            "compiler/frontend/test_float.py::test_a03_gemm",
            "compiler/passes/test_float_passes.py::test_a03_dense_layers_become_convolutions",
            "compiler/frontend/test_float.py::test_a03_matmul_and_a_bias_behind_it",
        ),
    ),
    "A04": Row(
        "padding for all axes",
        ("compiler/graph/test_tensor.py::test_a04_padding_is_written_for_all_axes",),
    ),
    "A05": Row(
        "channels last inside",
        (
            "compiler/frontend/test_float.py::test_a05_layers_behind_each_other_need_no_reshape",
            "compiler/frontend/test_layout.py::test_a05_channels_last_exports_lose_their_transposes",
            "compiler/graph/test_tensor.py::test_a05_what_onnx_sees_and_what_is_stored",
            "compiler/frontend/test_float.py::test_a05_what_a_dense_layer_sees_of_a_map",
        ),
    ),
    "A06": Row(
        "batch normalisation folded",
        (
            "compiler/passes/test_float_passes.py::test_a06_batchnorm_behind_a_dense_layer_and_after_each_other",
            "compiler/passes/test_float_passes.py::test_a06_batchnorm_folded",
            "compiler/passes/test_float_passes.py::test_a06_batchnorm_that_cannot_be_folded",
        ),
    ),
    "A07": Row(
        "fused macro nodes store one map",
        (
            "mapper/cli/test_compile.py::test_from_a_model_to_cores",
            "compiler/codegen/test_programs.py::test_residual_network",
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
            "compiler/passes/test_integer_passes.py::test_a09_siblings_become_one_convolution",
            "compiler/passes/test_integer_passes.py::test_a09_joined_siblings_on_cores",
        ),
    ),
    "A10": Row(
        "concatenation behind pooling",
        (
            "compiler/passes/test_integer_passes.py::test_a10_concatenation_goes_behind_pooling_and_activation",
            "compiler/passes/test_integer_passes.py::test_a10_concatenation_of_rows_and_columns_stays",
        ),
    ),
    "A11": Row(
        "pooling before activation",
        (
            "compiler/passes/test_pool_first.py::test_a11_pooling_goes_first",
            "compiler/passes/test_pool_first.py::test_a11_pooling_stays_where_it_changes_results",
        ),
    ),
    "A12": Row(
        "one requantisation for each macro node",
        ("compiler/schedule/test_order.py::test_sums_end_in_one_requantisation",),
    ),
    "A13": Row(
        "addresses one behind the other",
        ("compiler/memory/test_planner.py::test_lives_that_meet_do_not_overlap",),
    ),
    "A14": Row("padding that is stored"),
    "A15": Row(
        "concatenation in shared memory",
        (
            "compiler/memory/test_regions.py::test_a15_concatenation_takes_no_instruction",
            "compiler/memory/test_regions.py::test_a15_split_owns_the_region",
        ),
    ),
    "A16": Row(
        "strides in a shared region",
        ("compiler/memory/test_regions.py::test_a15_concatenation_takes_no_instruction",),
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
            "compiler/quantise/test_convert.py::test_a20_headroom_of_inputs_inner_tensors_and_outputs",
            "compiler/quantise/test_ranges.py::test_a20_chosen_ends_make_the_scales",
            "compiler/quantise/test_real_models.py::test_a20_resnet_8",
            "compiler/quantise/test_ranges.py::test_a20_entropy_clips_far_numbers_and_zeros_do_not_decide",
        ),
    ),
    "A21": Row(
        "8 and 16 bits, with and without zero points",
        (
            "compiler/codegen/test_wide.py::test_a21_resnet_8_in_16_bits_end_to_end",
            "compiler/quantise/test_convert.py::test_a21_integers_are_near_in_all_precisions",
            "compiler/quantise/test_correction.py::test_a21_a_bound_just_below_a_power_of_two_is_shifted_once_more",
            "compiler/quantise/test_real_models.py::test_a21_resnet_8_in_16_bits",
        ),
    ),
    "A22": Row(
        "input's zero point in the bias",
        (
            "compiler/integer/test_formulas.py::test_a22_no_sum_exceeds_the_bound",
            "compiler/integer/test_reference.py::test_a22_convolutions_with_the_zero_point_around_the_map",
            "compiler/quantise/test_correction.py::test_a22_sums_beyond_an_accumulator_name_the_layer_and_the_bound",
            "compiler/integer/test_formulas.py::test_a22_the_zero_point_of_the_input_is_in_the_bias",
        ),
    ),
    "A23": Row(
        "output's zero point behind the shift",
        (
            "compiler/integer/test_formulas.py::test_a23_all_sums_of_a_layer",
            "compiler/integer/test_reference.py::test_a23_requantised_sums_by_channel",
            "compiler/quantise/test_convert.py::test_a23_leaky_layers_add_their_zero_point_behind_the_shift",
            "compiler/integer/test_formulas.py::test_a23_requantisation",
        ),
    ),
    "A24": Row(
        "multiplier and shift",
        (
            "compiler/integer/test_formulas.py::test_a24_factors_that_are_not_finite",
            "compiler/integer/test_formulas.py::test_a24_factors_that_no_shift_makes_name_the_layer",
            "compiler/integer/test_formulas.py::test_a24_multipliers_are_the_mantissas_of_float32",
            "compiler/integer/test_formulas.py::test_a24_multipliers_at_the_ends_of_the_shift",
        ),
    ),
    "A25": Row(
        "rounding shift",
        (
            "compiler/integer/test_formulas.py::test_a25_halves",
            "compiler/quantise/test_convert.py::test_a25_roundings_differ_in_halves_alone",
            "compiler/integer/test_formulas.py::test_a25_halves_away_from_zero_need_one_addend",
            "compiler/integer/test_formulas.py::test_a25_rounding_shift_at_its_ends",
        ),
    ),
    "A26": Row(
        "one scale where maps meet",
        (
            "compiler/quantise/test_convert.py::test_a26_addends_keep_scales_of_their_own",
            "compiler/quantise/test_convert.py::test_a26_tensors_of_a_concatenation_have_one_scale",
            "compiler/quantise/test_convert.py::test_a26_what_moves_or_picks_integers_keeps_their_scale",
        ),
    ),
    "A27": Row(
        "biases that overflow",
        (
            "compiler/quantise/test_convert.py::test_biases_that_no_accumulator_holds_name_the_layer",
            "compiler/quantise/test_correction.py::test_a22_sums_beyond_an_accumulator_name_the_layer_and_the_bound",
        ),
    ),
    "A28": Row(
        "two products of one multiplier",
        (
            "compiler/codegen/test_dual.py::test_a28_bytes_are_those_of_the_plain_program_in_fewer_cycles",
        ),
    ),
    "A29": Row(
        "width of its ports",
        (
            "compiler/codegen/test_dual.py::test_a28_bytes_are_those_of_the_plain_program_in_fewer_cycles",
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
        ("compiler/schedule/test_search.py::test_tiles_fit_half_of_the_buffers",),
    ),
    "A35": Row(
        "what a loop replaces",
        ("compiler/schedule/test_search.py::test_what_moves_between_steps",),
    ),
    "A36": Row(
        "cycles of nested loops",
        ("compiler/schedule/test_search.py::test_counts_that_fall_outwards_take_fewest_cycles",),
    ),
    "A37": Row(
        "stalls of memory",
        (
            "compiler/schedule/test_search.py::test_search_against_fixed_rules",
            "compiler/schedule/test_search.py::test_stalls_by_hand",
            "compiler/schedule/test_search.py::test_what_moves_between_steps",
        ),
    ),
    "A38": Row(
        "search of tilings",
        (
            "compiler/schedule/test_onchip.py::test_schedules_change_cycles_and_no_result",
            "compiler/schedule/test_search.py::test_search_against_fixed_rules",
            "compiler/schedule/test_search.py::test_search_finds_what_enumeration_finds",
        ),
    ),
    "A39": Row(
        "weights row by row",
        (
            "compiler/schedule/test_onchip.py::test_weights_that_enter_row_by_row",
            "compiler/schedule/test_search.py::test_small_planes_wait_for_weights",
        ),
    ),
    "A40": Row(
        "first tile",
        ("compiler/schedule/test_search.py::test_first_tile",),
    ),
    "A41": Row(
        "listings of loops",
        (
            "compiler/codegen/loops/test_listing.py::test_a41_a_listing_visits_the_addresses_of_the_program",
            "compiler/integer/test_formulas.py::test_a41_leaky_relu_is_the_larger_of_two_products",
            "compiler/codegen/loops/test_listing.py::test_a41_tiles_that_are_alike_are_loops",
        ),
    ),
    "A42": Row(
        "every stored map beside the reference",
        (
            "compiler/partition/test_hostplan.py::test_dump_of_all_maps",
            "mapper/cli/test_compile.py::test_from_a_model_to_cores",
            "compiler/codegen/test_programs.py::test_bitx_programs_equal_the_reference",
        ),
    ),
    "B03": Row(
        "products of bits",
        (
            "compiler/codegen/test_binary.py::test_b03_layers_of_bits",
            "compiler/integer/test_binary.py::test_b03_convolutions_of_bits_have_zeros_around_them",
            "compiler/integer/test_binary.py::test_b04_popcount_of_like_bits_is_the_product",
        ),
    ),
    "B04": Row(
        "popcount with a tail",
        (
            "compiler/codegen/test_binary.py::test_b03_layers_of_bits",
            "compiler/integer/test_binary.py::test_b04_popcount_of_like_bits_is_the_product",
        ),
    ),
    "B05": Row(
        "signs before a layer",
        ("compiler/frontend/test_binary.py::test_b05_signs_before_a_layer",),
    ),
    "B06": Row(
        "packed bits",
        ("compiler/integer/test_binary.py::test_b06_channel_c_is_bit_c_of_its_vector",),
    ),
    "B07": Row(
        "magnitude of kernels",
        (
            "compiler/codegen/test_binary.py::test_b07_kernels_of_several_magnitudes_are_computed_in_bytes",
            "compiler/integer/test_binary.py::test_b07_binary_weights_have_one_magnitude_a_kernel",
        ),
    ),
    "B08": Row(
        "normalisation behind a binary layer",
        ("compiler/codegen/test_binary.py::test_b15_residual_sums_stay_in_bytes",),
    ),
    "B09": Row(
        "thresholds",
        (
            "compiler/codegen/test_binary.py::test_b09_pooled_sums_become_bits",
            "compiler/frontend/test_binary.py::test_b09_sums_of_a_trained_model",
            "compiler/integer/test_binary.py::test_b09_literal_thresholds",
            "compiler/frontend/test_binary.py::test_b09_what_becomes_part_of_a_sign",
        ),
    ),
    "B10": Row(
        "first layer as windows",
        ("compiler/codegen/test_programs.py::test_calls_of_a_first_layer",),
    ),
    "B11": Row(
        "packing of bits hidden",
        (
            "compiler/schedule/test_packing.py::test_b11_packing_is_hidden_on_the_core",
            "compiler/schedule/test_packing.py::test_b11_pieces_that_the_host_packs",
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
            "compiler/integer/test_against_onnxruntime.py::test_b15_sums_equal_onnxruntime",
            "compiler/integer/test_formulas.py::test_b15_addition_with_two_scales",
            "compiler/integer/test_reference.py::test_b15_sums_of_maps",
        ),
    ),
    "C01": Row(
        "verification loop",
        (
            "compiler/codegen/test_wide.py::test_c01_some_layers_in_16_bits",
            "compiler/quantise/test_verify.py::test_c01_a_method_that_was_asked_for_is_the_only_one",
            "compiler/quantise/test_verify.py::test_c01_attempts_are_a_finite_list_in_their_order",
            "compiler/quantise/test_verify.py::test_c01_every_fourth_sample_is_verified_with_at_least_16",
        ),
    ),
    "C02": Row(
        "models of integer operators",
        ("compiler/frontend/test_quantised_models.py::test_c02_logits_equal_those_of_onnxruntime",),
    ),
    "C03": Row("macro records"),
    "C04": Row(
        "files of a compiled model",
        (
            "mapper/cli/test_compile.py::test_from_a_model_to_cores",
            "compiler/bad_input/test_contents.py::test_info_of_a_folder",
        ),
    ),
    "C05": Row(
        "T-mode of the feature memory",
        (
            "compiler/memory/test_layouts.py::test_c05_channels_are_padded_to_four",
            "compiler/memory/test_layouts.py::test_c05_planes",
        ),
    ),
    "C06": Row(
        "V-mode of the feature memory",
        (
            "compiler/memory/test_layouts.py::test_c06_elements_are_padded_to_a_segment",
            "compiler/memory/test_layouts.py::test_c06_vectors_of_elements",
        ),
    ),
    "C07": Row(
        "static and dynamic weights",
        (
            "compiler/memory/test_dynamic_weights.py::test_c07_a_slow_host_stalls_the_products",
            "compiler/memory/test_dynamic_weights.py::test_c07_weights_of_the_host",
        ),
    ),
    "C08": Row(
        "which weights are dynamic",
        (
            "compiler/memory/test_weights.py::test_c08_fifteen_layers",
            "compiler/memory/test_weights.py::test_c08_the_choice_equals_brute_force",
        ),
    ),
    "C09": Row(
        "small memories",
        (
            "compiler/memory/test_dynamic_weights.py::test_c09_a_memory_that_holds_no_layer_is_named",
            "compiler/memory/test_dynamic_weights.py::test_c09_tables_are_loaded_again",
        ),
    ),
    "C15": Row(
        "stages and usage",
        ("compiler/bad_input/test_contents.py::test_c15_stages_and_memories_are_told",),
    ),
    "D01": Row(
        "models that are quantised",
        ("compiler/frontend/test_requantshift.py::test_d01_sums_pools_and_dense_layers",),
    ),
    "D02": Row(
        "patterns and functions",
        ("compiler/partition/test_patterns.py::test_groups_have_a_target_and_a_name",),
    ),
    "D03": Row(
        "packing of maps",
        (
            "compiler/test_maps.py::test_d03_maps_are_read_as_they_were_packed",
            "compiler/test_maps.py::test_d03_blocks_of_channels_lie_behind_each_other",
        ),
    ),
    "D04": Row(
        "where to pack",
        (
            "compiler/partition/test_packing.py::test_rules",
            "compiler/partition/test_packing.py::test_there_are_as_few_packs_as_can_be",
        ),
    ),
    "D05": Row(
        "padding with the zero point",
        (
            "compiler/codegen/test_presets.py::test_d05_d10_programs_equal_the_reference",
            "compiler/frontend/test_qdq.py::test_convolutions",
            "compiler/frontend/test_qoperator.py::test_convolutions",
            "compiler/integer/test_against_onnxruntime.py::test_d05_convolutions_equal_onnxruntime",
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
            "compiler/frontend/test_requantshift.py::test_every_golden_activation_has_a_node_of_its_own",
            "compiler/frontend/test_requantshift.py::test_levels",
        ),
    ),
    "D08": Row(
        "clamp",
        (
            "compiler/codegen/test_operators.py::test_roundings_and_zero_points",
            "compiler/frontend/test_qdq.py::test_activations_alone",
            "compiler/frontend/test_qoperator.py::test_clip_of_integers_is_none_where_it_changes_nothing",
            "compiler/frontend/test_quantised_models.py::test_d08_whole_number_networks_make_every_activation",
        ),
    ),
    "D09": Row(
        "two schedules of the bias",
        ("compiler/codegen/test_operators.py::test_d09_bias_before_or_behind_the_products",),
    ),
    "D10": Row(
        "operations of the ALU",
        (
            "compiler/codegen/test_presets.py::test_d05_d10_programs_equal_the_reference",
            "chipsim/npu/test_execute.py::test_random_programs_equal_the_twin",
            "hw/npu/test_isa.py::test_codes_of_ops_and_kinds",
        ),
    ),
    "D11": Row(
        "driver in C",
        (
            "compiler/codegen/test_cdriver.py::test_a_compiled_network_prints_the_hash_of_what_the_simulator_makes",
            "compiler/codegen/test_cdriver.py::test_d11_binary_layers_end_in_sums_of_32_bits",
            "compiler/codegen/test_cdriver.py::test_random_programs_leave_the_memories_of_the_simulator",
        ),
    ),
    "D12": Row(
        "nodes of the host",
        ("compiler/partition/test_hostplan.py::test_work_to_and_fro",),
    ),
}
OPEN = frozenset(
    (
        "A14",
        "C03",
    )
)
"""Rows without a test."""
