use super::*;

fn read(text: &str) -> (Vec<Suite>, Vec<String>) {
    let mut reader = Reader::default();
    let mut suites = Vec::new();
    for line in text.lines() {
        if let Some(Update::Suite(suite)) = reader.line(line) {
            suites.push(suite);
        }
    }
    suites.extend(reader.end());
    (suites, reader.other)
}

fn pair(test: &str, why: &str) -> (String, String) {
    (test.to_owned(), why.to_owned())
}

const WHOLE: &str = "\
   Compiling haft-core v0.1.0
     Running unittests src/lib.rs (target/debug/deps/haft_core-0123456789abcdef)

running 4 tests
test a ... ok
test m::b ... ok
test c ... ignored, too slow
test d - should panic ... FAILED

successes:

---- a stdout ----
hello
---- m::b stdout ----
skipped: no pip here
skipped: no server either

successes:
    a
    m::b

failures:

---- d stdout ----
skipped: a failure is no skip
boom

failures:
    d

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

error: test failed, to rerun pass `-p haft-core --lib`
     Running tests/turns.rs (target/debug/deps/turns-0123456789abcdef)

running 1 test
test x ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests haft_core

running 1 test
test core/src/lib.rs - f (line 3) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

#[test]
fn suites_come_with_their_tests() {
    let (suites, other) = read(WHOLE);
    assert_eq!(suites.len(), 3);
    assert_eq!(suites[0].name, "haft_core src/lib.rs");
    assert_eq!(suites[0].passed, 1);
    assert_eq!(suites[0].failed, ["d"]);
    let skipped = [
        pair("c", "too slow"),
        pair("m::b", "no pip here; no server either"),
    ];
    assert_eq!(suites[0].skipped, skipped);
    let output = suites[0].output.join("\n");
    assert!(
        output.contains("boom") && !output.contains("hello"),
        "{output}"
    );
    assert_eq!(
        (suites[1].name.as_str(), suites[1].passed),
        ("tests/turns.rs", 1)
    );
    assert_eq!(
        (suites[2].name.as_str(), suites[2].passed),
        ("haft_core docs", 1)
    );
    assert!(other.iter().any(|line| line.contains("Compiling")));
    assert!(other.iter().any(|line| line.contains("to rerun pass")));
}

#[test]
fn progress_counts_each_test() {
    let mut reader = Reader::default();
    let done: Vec<_> = WHOLE
        .lines()
        .filter_map(|line| match reader.line(line) {
            Some(Update::Progress { done, of, .. }) => Some(format!("{done}/{of}")),
            _ => None,
        })
        .collect();
    assert_eq!(
        done,
        [
            "0/4", "1/4", "2/4", "3/4", "4/4", "0/1", "1/1", "0/1", "1/1"
        ]
    );
}

#[test]
fn a_crash_is_a_failure_of_its_suite() {
    let check = |text: &str| {
        let header = "     Running tests/turns.rs (target/debug/deps/turns-0123456789abcdef)\n";
        let next = "     Running tests/x.rs (target/debug/deps/x-0123456789abcdef)\n\nrunning 1 test\n\
            test x ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured";
        let (suites, _) = read(&format!("{header}{text}{next}"));
        assert_eq!(suites.len(), 2, "{suites:?}");
        assert_eq!(suites[0].name, "tests/turns.rs");
        assert_eq!(suites[0].failed, [CRASHED]);
        assert_eq!(suites[1].passed, 1);
    };
    let end = "error: test failed, to rerun pass `-p haft-core --test turns`\n\n\
        Caused by:\n  process didn't exit successfully (signal: 6, SIGABRT)\n";
    check(end);
    check(&format!("\nrunning 2 tests\ntest a ... ok\n{end}"));
    check(&format!(
        "\nrunning 1 test\ntest a ... ok\n\nsuccesses:\n{end}"
    ));

    let (suites, _) = read("running 2 tests\ntest a ... ok");
    assert_eq!(
        (suites[0].passed, suites[0].failed.as_slice()),
        (1, &[CRASHED.to_owned()][..])
    );
    assert_eq!(suites[0].output, ["test a ... ok"]);
}

#[test]
fn what_tests_print_counts_for_nothing() {
    let (suites, _) = read(
        "running 2 tests
test a ... ok
a child's words without an end: test b ... ok
running 9 tests
test result: ok. 9 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

successes:

---- a stdout ----
running 9 tests
test c ... FAILED
test result: ok. 9 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
     Running tests/turns.rs (target/debug/deps/turns-0123456789abcdef)
---- b stdout ----
skipped: no pip here
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
",
    );
    assert_eq!(suites.len(), 1, "{suites:?}");
    assert_eq!((suites[0].passed, suites[0].failed.len()), (1, 0));
    assert_eq!(suites[0].skipped, [pair("b", "no pip here")]);
}
