"""C: from ONNX to an accelerator with memories for maps, weights and packets."""

from __future__ import annotations

from tests.compiler.acceptance.row import Row

ROWS = {
    "C01": Row(
        "verification loop",
        (
            "compiler/codegen/test_wide.py::test_c01_some_layers_in_16_bits",
            "compiler/quantisation/test_verify.py::test_c01_a_requested_method_is_the_only_one",
            "compiler/quantisation/test_verify.py::test_c01_attempts_are_a_finite_list_in_their_order",
            "compiler/quantisation/test_verify.py::test_c01_every_fourth_sample_verifies_at_least_16",
            "compiler/quantisation/test_verify.py::test_c01_layers_on_the_host_get_real_numbers_and_give_them_back",
            "compiler/quantisation/test_verify.py::test_c01_losses_of_layers",
            "compiler/quantisation/test_verify.py::test_c01_own_losses_by_hand",
            "compiler/quantisation/test_verify.py::test_c01_scores_with_and_without_labels",
            "compiler/quantisation/test_verify.py::test_c01_clipped_shares",
            "compiler/quantisation/test_verify.py::test_c01_the_best_of_all_attempts_is_kept",
            "compiler/quantisation/test_verify.py::test_c01_the_first_accurate_attempt_ends_the_loop",
            "compiler/quantisation/test_verify.py::test_c01_the_worst_layers_get_16_bits_one_by_one",
            "mapper/cli/test_compile_samples.py::test_c01_samples_to_verify_with",
        ),
    ),
    "C02": Row(
        "models of integer operators",
        ("compiler/frontend/test_quantised_models.py::test_c02_logits_equal_those_of_onnxruntime",),
    ),
    "C03": Row(
        "macro records",
        (
            "compiler/bad_input/test_contents.py::test_c03_macro_records_of_a_folder",
            "compiler/codegen/test_macros.py::test_c03_a_literal_record",
            "compiler/codegen/test_macros.py::test_c03_files_round_trip",
            "compiler/codegen/test_macros.py::test_c03_ops_and_flags_have_their_numbers",
            "compiler/codegen/test_macros.py::test_c03_programs_are_generated_from_records_alone",
            "compiler/codegen/test_macros.py::test_c03_random_records_round_trip",
        ),
    ),
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
            "compiler/memory/test_layouts.py::test_c05_planes_as_vectors",
            "compiler/codegen/test_windows.py::test_b10_windows_on_the_core_give_the_same_bytes",
        ),
    ),
    "C06": Row(
        "V-mode of the feature memory",
        (
            "compiler/memory/test_layouts.py::test_c06_a_map_of_one_pixel_is_a_vector_of_elements",
            "compiler/memory/test_layouts.py::test_c06_elements_are_padded_to_a_segment",
            "compiler/memory/test_layouts.py::test_c06_vectors_of_elements",
        ),
    ),
    "C07": Row(
        "static and dynamic weights",
        (
            "chipsim/npu/test_arrivals.py::test_c07_one_core_equals_its_queues",
            "chipsim/npu/test_arrivals.py::test_c07_stalls_match_cycle_by_cycle_reference",
            "compiler/memory/test_dynamic_weights.py::test_c07_a_slow_host_stalls_the_products",
            "compiler/memory/test_dynamic_weights.py::"
            "test_c07_compiler_and_simulator_agree_on_cycles",
            "compiler/memory/test_dynamic_weights.py::test_c07_weights_streamed_from_the_host",
            "hw/npu/test_formal.py::test_the_core_keeps",
            "hw/npu/test_streams.py::test_slow_hosts",
        ),
    ),
    "C08": Row(
        "which weights are dynamic",
        (
            "compiler/memory/test_dynamic_weights.py::test_c08_a_layer_larger_than_the_memory",
            "compiler/memory/test_weights.py::test_c08_fifteen_layers",
            "compiler/memory/test_weights.py::test_c08_the_choice_equals_brute_force",
        ),
    ),
    "C09": Row(
        "small memories",
        (
            "compiler/memory/test_dynamic_weights.py::test_c09_a_memory_that_holds_no_layer_is_named",
            "compiler/memory/test_dynamic_weights.py::test_c09_tables_are_loaded_again",
            "compiler/codegen/test_windows.py::test_headers_that_do_not_fit_are_named",
            "compiler/bad_input/test_contents.py::test_c15_stages_and_memories_are_reported",
        ),
    ),
    "C10": Row(
        "windows of a map in planes",
        (
            "chipsim/npu/test_windows.py::test_c10_four_filters_keep_up_with_the_array",
            "chipsim/npu/test_windows.py::test_c10_windows_are_columns_of_im2col",
            "compiler/codegen/test_windows.py::test_b10_windows_on_the_core_give_the_same_bytes",
            "hw/npu/test_window_unit.py::test_c10_c12_random_windows_in_hardware",
        ),
    ),
    "C11": Row(
        "packet headers",
        (
            "chipsim/npu/test_windows.py::test_c11_header",
            "compiler/codegen/test_windows.py::test_c11_headers_of_a_layer",
        ),
    ),
    "C12": Row(
        "a chain of filters",
        (
            "chipsim/npu/test_windows.py::test_c12_filters_cycle_by_cycle",
            "compiler/transforms/test_few_channels.py::test_c12_order_of_columns",
            "hw/npu/test_window_unit.py::test_c10_c12_random_windows_in_hardware",
        ),
    ),
    "C13": Row(
        "multiplier of 26 bits, shift of 6",
        (
            "hw/npu/test_core.py::test_three_ways",
            "hw/npu/test_isa.py::test_bits_of_scales",
        ),
    ),
    "C14": Row(
        "one clock: documented",
        ("compiler/test_acceptance.py::test_c14_a_second_clock_is_left_out",),
    ),
    "C15": Row(
        "stages and usage",
        ("compiler/bad_input/test_contents.py::test_c15_stages_and_memories_are_reported",),
    ),
    "C16": Row(
        "sizes of a core",
        (
            "chipsim/test_chip_tables.py::test_bad_values_name_file_and_key",
            "hw/npu/test_core.py::test_unsupported_cores_are_named",
            "hw/npu/test_core.py::test_three_ways",
        ),
    ),
}
