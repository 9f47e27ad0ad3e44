//! What this host promises its users, each promise with the tests that hold it to
//! it; and that those tests are there.

use std::path::Path;

/// Promises, and names of tests.
const PROMISES: &[(&str, &[&str])] = &[
    // Loading.
    (
        "a script's tools appear with name, description and schema, its commands with name and description",
        &["tools_appear_with_name_description_schema_and_effects"],
    ),
    (
        "a folder with an `init.lua` requires its own modules, and modules of one name don't collide",
        &["extensions_share_nothing"],
    ),
    (
        "a returned table registers too; what is missing or of the wrong type is named with its file",
        &[
            "a_returned_table_stands_in_place_of_a_call",
            "what_is_wrong_is_named_and_registers_nothing",
        ],
    ),
    (
        "two of one name are refused within a script and across, and a script that fails registers nothing",
        &[
            "what_is_wrong_is_named_and_registers_nothing",
            "names_are_one_of_a_kind_across_extensions",
        ],
    ),
    (
        "top-level code runs once; a bad script is skipped, a changed one loaded, a failed change undone",
        &[
            "top_level_code_runs_once",
            "what_is_wrong_is_named_and_registers_nothing",
            "one_that_hangs_the_state_while_it_loads_is_left_out",
            "a_change_is_loaded_and_a_failed_one_keeps_the_old",
        ],
    ),
    (
        "settings leave tools out, and it is said which",
        &["tools_can_be_left_out_and_it_is_said"],
    ),
    (
        "`panto` is another name of `haft`",
        &["tools_appear_with_name_description_schema_and_effects"],
    ),
    // Calls.
    (
        "results belong to their calls whatever order they finish in",
        &["results_belong_to_their_calls_whatever_order_they_come_in"],
    ),
    (
        "module-level state lives across calls and batches",
        &["state_lives_across_calls_and_batches"],
    ),
    (
        "one that raises leaves its siblings alone; its result is marked as an error, and names the tool",
        &["one_that_raises_leaves_its_siblings_alone"],
    ),
    (
        "arguments and results of every shape lose nothing, or are a clear error",
        &[
            "results_take_every_shape",
            "results_that_would_lose_something_are_errors",
            "what_is_decoded_is_encoded_as_it_was",
            "what_json_cannot_say_is_refused_with_its_place",
            "nothing_is_lost_of_a_list_whose_last_index_stands_after_other_keys",
        ],
    ),
    (
        "an unknown tool, or bad arguments, cost that call alone",
        &["unknown_tools_and_bad_arguments_cost_their_own_call"],
    ),
    (
        "no slot stays empty, even where the state is lost",
        &["code_that_cannot_be_interrupted_costs_the_state_and_not_the_host"],
    ),
    // Asynchrony.
    (
        "what waits suspends its own call alone",
        &[
            "many_sleep_at_once",
            "requests_are_made_and_redirects_keep_to_the_grant",
        ],
    ),
    (
        "two that a timer resumes, two programs and two readers overlap",
        &[
            "a_coroutine_that_a_script_kept_is_not_another_calls",
            "two_programs_overlap_as_two_readers_do",
        ],
    ),
    (
        "a call that nothing can resume fails promptly",
        &["a_call_that_nothing_can_resume_fails_promptly"],
    ),
    (
        "a coroutine that was abandoned can't write in another batch, nor one call forge another",
        &[
            "an_abandoned_coroutine_cannot_answer_for_another",
            "a_coroutine_that_a_script_kept_is_not_another_calls",
        ],
    ),
    (
        "background work neither holds a batch open nor dies with it",
        &["background_work_neither_holds_a_batch_nor_dies_with_it"],
    ),
    (
        "scripts written for libuv's binding run unchanged, and what a raw callback raises is logged",
        &[
            "a_coroutine_is_resumed_from_a_callback",
            "programs_run_and_their_output_comes_in_pieces",
            "files_work_at_once_and_with_callbacks",
            "connections_are_made",
            "a_script_of_promises_and_callbacks_runs_unchanged",
            "an_error_in_a_raw_callback_is_logged_and_the_host_lives",
        ],
    ),
    // Limits.
    (
        "loops end at the deadline in whatever they are wrapped; memory and recursion are errors of their call",
        &[
            "loops_end_at_the_deadline",
            "memory_and_recursion_are_errors_of_their_call",
            "an_extension_that_hoards_runs_out_before_the_others_do",
        ],
    ),
    (
        "times and sizes are the extension's to declare and the settings' to decide",
        &[
            "calls_have_the_time_that_their_extension_declares",
            "the_settings_have_the_last_word_on_each_limit",
            "loading_and_callbacks_have_their_own_time",
            "memory_is_held_to_what_the_extension_declares",
        ],
    ),
    (
        "an interrupt closes the coroutine and kills its programs",
        &["an_interrupt_closes_the_coroutine_and_kills_its_processes"],
    ),
    (
        "no script ends the host, loads bytecode or a C module, or reaches what it has no grant for",
        &[
            "what_cannot_be_stopped_is_refused_or_given_up",
            "grants_are_named_when_they_are_missing",
            "scripts_cannot_reach_the_loader_itself",
            "a_c_module_is_loaded_by_its_grant_and_not_without",
        ],
    ),
    (
        "a stuck script leaves its callers' timers alone",
        &["a_stuck_script_leaves_its_callers_timers_alone"],
    ),
    // Commands.
    (
        "a command takes the rest of the line, may wait, and its errors come back",
        &["commands_take_the_rest_of_the_line"],
    ),
    // Authors.
    (
        "the types for editors say what there is, and a new extension works with its test",
        &[
            "the_annotations_say_what_there_is",
            "a_scaffold_works_and_passes_its_own_test",
        ],
    ),
    // What others fell into.
    (
        "a hook is there in coroutines that were made before the call",
        &["coroutines_made_while_loading_are_under_the_limits"],
    ),
    (
        "`gsub` with a callback that loops, and `__close` that does",
        &["loops_end_at_the_deadline"],
    ),
    (
        "`__gc` is refused, for nothing can stop one",
        &["what_cannot_be_stopped_is_refused_or_given_up"],
    ),
    (
        "integer keys beyond 2^53",
        &["choices_can_be_made", "results_take_every_shape"],
    ),
    (
        "a table with holes",
        &["results_that_would_lose_something_are_errors"],
    ),
    (
        "results of a mebibyte, and 10,000 arrays in each other",
        &[
            "a_mebibyte_comes_back_whole",
            "results_that_would_lose_something_are_errors",
        ],
    ),
    (
        "waiting in the author's own coroutines and iterators",
        &["waiting_works_in_the_authors_own_coroutines"],
    ),
    (
        "waiting where nothing can be suspended names the C function",
        &["waiting_where_nothing_can_be_suspended_is_a_clear_error"],
    ),
    (
        "methods of strings are nobody's to change",
        &["extensions_share_nothing"],
    ),
    (
        "a spinner delays a sleeper by milliseconds",
        &["a_spinner_delays_a_sleeper_by_milliseconds"],
    ),
    (
        "`string.rep` of a gigabyte is an error of memory",
        &["memory_and_recursion_are_errors_of_their_call"],
    ),
    (
        "errors that are tables keep their fields",
        &["errors_that_are_tables_keep_their_fields"],
    ),
    (
        "a panic of the host is no script's to catch",
        &["a_panic_of_the_host_is_no_scripts_to_catch"],
    ),
    (
        "pure Lua libraries run as they are",
        &["pure_lua_libraries_run_unchanged_in_a_tool"],
    ),
    ("an idle host sleeps", &["an_idle_host_is_not_woken"]),
];

#[test]
fn every_promise_has_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = String::new();
    gather(&root.join("tests"), &mut sources);
    gather(&root.join("src"), &mut sources);
    for (promise, tests) in PROMISES {
        assert!(!tests.is_empty(), "{promise}");
        for test in *tests {
            let declared = [format!("\nfn {test}("), format!("async fn {test}(")];
            let times = declared.map(|text| sources.matches(&text).count());
            assert_eq!(times.iter().sum::<usize>(), 1, "{promise}: {test}");
        }
    }
}

fn gather(folder: &Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}
