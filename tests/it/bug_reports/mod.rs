//! What users of real agents reported about context management, with their numbers, as checks of the
//! policy language: a small policy of each faulty design and of its fix, on a session of known sizes.
//!
//! Which test a report of the collection has, by its number there; the readers' (9 to 11) are in `ingest_claude_code`, those
//! about thinking and pairing (69 to 80) in `provider` and `provider_misses`.
//!
//! | report | tests |
//! |--:|---|
//! | 1 | `prices::long_lived_writes_have_their_own_price` |
//! | 2 | `prices::long_lived_writes_have_their_own_price` |
//! | 2 | `audit_detectors::usage_that_contradicts_itself` |
//! | 3 | `prices::the_table_keeps_the_published_multiples` |
//! | 3 | `prices::long_lived_writes_have_their_own_price` |
//! | 4 | `prices::the_tier_is_chosen_by_the_whole_prompt_and_covers_writes` |
//! | 5 | `prices::cached_tokens_count_towards_the_threshold` |
//! | 5 | `prices::the_tier_is_chosen_by_the_whole_prompt_and_covers_writes` |
//! | 6 | `prices::cached_tokens_are_billed_once` |
//! | 7 | `prices::cached_tokens_are_billed_once` |
//! | 8 | `prices::a_read_without_a_price_is_not_free` |
//! | 12 | `vendors::the_hit_rate_has_one_denominator` |
//! | 13 | `server_side::every_class_of_every_iteration_is_billed` |
//! | 14 | `audit_reports::writes_per_plain_token_are_no_churn` |
//! | 15 | `audit_reports::a_timestamp_inside_a_result_breaks_nothing` |
//! | 15 | `provider::a_timestamp_in_a_new_tool_result_is_no_break` |
//! | 16 | `provider::a_volatile_tail_rewrites_the_transcript_and_a_moving_marker_does_not` |
//! | 16 | `audit_reports::a_frozen_breakpoint_rewrites_the_transcript_at_every_round` |
//! | 16 | `vendors::a_frozen_breakpoint_costs_five_times_as_much` |
//! | 17 | `provider::a_wide_fan_out_leaves_the_look_back_and_a_lagging_marker_doubles_it` |
//! | 18 | `provider::a_wide_fan_out_leaves_the_look_back_and_a_lagging_marker_doubles_it` |
//! | 18 | `provider::a_fifth_marker_is_refused` |
//! | 19 | `audit_reports::a_suffix_that_snaps_back_to_the_floor_is_a_saw_tooth` |
//! | 20 | `edits::a_target_at_the_trigger_clears_at_every_request` |
//! | 21 | `edits::every_transition_that_does_not_append_is_counted_and_priced` |
//! | 22 | `edits::of_two_copies_the_one_that_was_not_sent_yet_goes_for_free` |
//! | 23 | `edits::a_gate_belongs_on_bytes_and_not_on_a_count` |
//! | 24 | `edits::a_smaller_request_can_be_dearer` |
//! | 24 | `audit_reports::a_prune_that_makes_the_smaller_request_dearer` |
//! | 25 | `edits::most_fresh_input_of_pruning_in_place_was_in_the_cache_before` |
//! | 26 | `edits::a_moving_strip_of_thinking_breaks_at_every_render` |
//! | 27 | `edits::projecting_the_same_history_twice_gives_the_same` |
//! | 28 | `edits::gated_on_the_gap_nothing_is_cleared_while_the_cache_is_warm` |
//! | 29 | `edits::a_pass_on_a_cold_cache_costs_nothing_extra` |
//! | 30 | `edits::a_summary_written_anew_at_every_call_leaves_nothing_to_read` |
//! | 31 | `edits::steps_of_twenty_break_a_twentieth_of_the_requests` |
//! | 32 | `providers::a_date_in_the_system_prompt_breaks_once_at_local_midnight` |
//! | 32 | `audit_reports::a_date_in_the_system_prompt_breaks_at_midnight` |
//! | 32 | `vendors::a_date_in_the_system_prompt_costs_three_dollars_at_midnight` |
//! | 33 | `providers::a_volatile_byte_pins_every_read_to_what_stands_before_it` |
//! | 33 | `audit_reports::a_timestamp_in_the_prefix_pins_reads_to_the_static_base` |
//! | 34 | `providers::tools_in_another_order_are_told_from_other_tools` |
//! | 34 | `provider_kinds::tools_in_another_order_are_read_from_nowhere` |
//! | 35 | `providers::a_slice_of_memory_in_the_system_prompt_misses_at_each_word_of_the_user` |
//! | 36 | `provider_kinds::a_gateway_that_moves_system_messages_to_the_front_breaks_at_zero` |
//! | 37 | `providers::a_file_that_every_run_writes_anew_costs_its_conversation_at_each` |
//! | 38 | `providers::a_catalogue_read_from_disk_breaks_at_its_block_when_a_file_was_edited` |
//! | 39 | `provider_kinds::text_put_in_front_pins_what_is_cached` |
//! | 39 | `audit_reports::text_injected_in_front_pins_reads_until_a_compaction` |
//! | 40 | `providers::a_cliff_of_the_provider_is_what_the_simulator_would_have_read` |
//! | 40 | `providers::a_limit_to_what_is_read_is_rounded_to_the_grid` |
//! | 40 | `audit_reports::a_cliff_on_the_provider_s_side_is_told_from_it` |
//! | 41 | `providers::a_resume_that_serialises_anew_breaks_at_the_first_block_that_differs` |
//! | 42 | `vendors::taking_an_image_out_pays_after_two_thousand_turns` |
//! | 42 | `audit_reports::an_image_that_becomes_a_file_pointer` |
//! | 43 | `edits::images_that_make_way_one_by_one_break_at_each_of_them` |
//! | 43 | `audit_reports::evicting_an_image_at_every_image_is_a_saw_tooth` |
//! | 44 | `provider_kinds::an_image_that_loses_the_history_leaves_the_system_prompt` |
//! | 44 | `audit_reports::an_image_message_invalidates_the_whole_history` |
//! | 45 | `provider_kinds::what_stands_behind_the_last_breakpoint_is_written_by_every_spawn` |
//! | 46 | `provider_kinds::parallel_requests_write_until_the_first_answer_begins` |
//! | 46 | `audit_reports::parallel_requests_each_write_the_cache` |
//! | 47 | `provider::a_read_keeps_the_entry_and_life_runs_from_the_start` |
//! | 47 | `vendors::a_read_renews_the_life_of_an_entry` |
//! | 47 | `audit_reports::a_read_refreshes_the_entry_and_life_runs_from_start_to_start` |
//! | 48 | `vendors::more_pings_pay_up_to_a_point` |
//! | 48 | `vendors::the_books_of_pings_close` |
//! | 49 | `vendors::the_what_if_of_a_life_is_what_runs_cost` |
//! | 49 | `audit_lives::each_life_has_its_cost_and_its_regret` |
//! | 49 | `break_even::the_long_life_pays_from_a_share_of_gaps` |
//! | 50 | `providers::busts_that_nothing_explains_are_predicted_as_hits` |
//! | 51 | `provider_kinds::a_level_of_effort_that_was_used_before_is_still_cached` |
//! | 52 | `vendors::a_compaction_with_the_conversations_prefix_pays_a_tenth` |
//! | 52 | `summaries::a_summarizer_that_is_sent_the_conversation_reads_it_from_the_cache` |
//! | 53 | `triggers::cached_tokens_count_once` |
//! | 54 | `triggers::a_trigger_does_not_depend_on_the_cache` |
//! | 55 | `triggers::a_trigger_far_below_the_window_compacts_all_the_time` |
//! | 56 | `triggers::a_share_of_the_window_says_of_which_window` |
//! | 57 | `triggers::what_a_compaction_took_is_fetched_again` |
//! | 58 | `triggers::usage_from_before_an_edit_is_no_anchor` |
//! | 59 | `triggers::a_breaker_ends_a_thrash` |
//! | 60 | `triggers::a_summary_that_is_larger_is_thrown_away` |
//! | 61 | `summaries::summaries_that_accumulate_raise_the_floor` |
//! | 62 | `triggers::a_check_before_the_request_sees_the_results_that_just_came` |
//! | 63 | `triggers::a_tier_stops_at_what_is_left_and_not_at_what_it_saved` |
//! | 64 | `triggers::calibration_adds_what_is_new_to_what_was_reported` |
//! | 65 | `triggers::an_image_does_not_count_by_its_base64` |
//! | 66 | `triggers::passes_are_at_most_growth_by_budget` |
//! | 67 | `triggers::what_reads_an_offloaded_file_is_not_offloaded_again` |
//! | 68 | `triggers::offloaded_files_have_distinct_and_short_names` |

mod edits;
mod providers;
mod summaries;
mod triggers;
mod vendors;

/// The table above names what is there.
#[test]
fn every_report_has_the_test_that_the_table_names() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let table = read("tests/it/bug_reports/mod.rs").expect("this file");
    let cells = table.lines().filter_map(|line| line.strip_prefix("//! | ")?.split_once(" | `"));
    let mut reports: Vec<&str> = Vec::new();
    for (report, test) in cells {
        let (module, test) = test.trim_end_matches("` |").split_once("::").expect("module and test");
        let places = ["tests/it", "tests/it/bug_reports", "src/provider"];
        let sources = places.iter().filter_map(|folder| read(&format!("{folder}/{module}.rs")));
        let is_there = |source: String| source.contains(&format!("fn {test}("));
        assert!(sources.into_iter().any(is_there), "report {report}: no {test} in {module}");
        reports.push(report);
    }
    for report in (1..=8).chain(12..=68) {
        assert!(reports.contains(&report.to_string().as_str()), "report {report} has no test");
    }
}
