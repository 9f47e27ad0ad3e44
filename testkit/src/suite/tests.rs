use super::*;

fn suite() -> Vec<Case> {
    vec![
        Case::new("kept", "a promise", || async { Ok(()) }),
        Case::new("skipped", "a promise", || async {
            Err(Unmet::NotClaimed("no claim".to_owned()))
        }),
        Case::new("broken", "a promise", || async {
            Err("expected 1, got 2".to_owned().into())
        }),
        Case::new("panics", "a promise", || async { panic!("boom") }),
        Case::new("hangs", "a promise", std::future::pending).limit(Duration::from_millis(50)),
    ]
}

#[tokio::test]
async fn a_report_tells_kept_from_skipped_from_broken() {
    let report = run_all(suite()).await;
    assert_eq!(report.broken(), ["broken", "panics", "hangs"]);
    assert_eq!(report.skipped(), ["skipped"]);
    assert!(!report.is_kept());
    let text = report.to_string();
    for line in [
        "kept     kept",
        "skipped  skipped: no claim",
        "BROKEN   broken: a promise",
        "expected 1, got 2",
        "panicked: boom",
        "expected an end within 50ms, got none",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

#[test]
fn one_case_passes_or_panics_with_its_message() {
    run_case(&suite(), "kept");
    run_case(&suite(), "skipped");
    let check = |name: &str, word: &str| {
        let caught = std::panic::catch_unwind(|| run_case(&suite(), name)).unwrap_err();
        let message = haft_api::panic_message(&*caught);
        assert!(message.contains(word), "{message}");
    };
    check("broken", "broken: a promise\nexpected 1, got 2");
    check("panics", "boom");
    check("no such", "no case `no such`");
}
