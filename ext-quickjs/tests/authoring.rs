//! What authors start from, and what tells them what is wrong.

mod support;

use haft_ext_quickjs::{Language, check, declarations, scaffold};
use support::{World, call, tools};

#[tokio::test]
async fn a_new_skill_works_and_its_test_passes() {
    let mut languages = vec![Language::JavaScript];
    if cfg!(feature = "typescript") {
        languages.push(Language::TypeScript);
    }
    for language in languages {
        let folder = tempfile::tempdir().unwrap();
        let files = scaffold(folder.path(), "hello-you", language).unwrap();
        assert_eq!(files.len(), 6);
        let report = check(&folder.path().join("hello-you")).await.unwrap();
        assert!(report.is_fine(), "{report:?}");
        assert_eq!(report.tools[0].name, "hello-you__greet");
        assert_eq!(report.tests.len(), 1);
        let again = scaffold(folder.path(), "hello-you", language).unwrap_err();
        assert_eq!(again.kind(), haft_api::ErrorKind::AlreadyExists);
        for bad in ["", "a b", "../x", "a__b"] {
            assert!(scaffold(folder.path(), bad, language).is_err(), "{bad:?}");
        }
    }
}

#[tokio::test]
async fn a_check_says_what_is_wrong() {
    let world = World::new()
        .skill(
            "t",
            &tools(&[("a", "return args.x;"), ("b", "throw new Error('no');")]),
        )
        .file(
            "t/tests.jsonl",
            r#"{"name":"a","arguments":{"x":"1"},"expect":"1"}
{"name":"a","arguments":{"x":"1"},"expect":"2"}
{"name":"b","expect_error":"no"}
{"name":"b"}
{"name":"c"}
{"what":1}
"#,
        );
    let report = check(&world.path().join("t")).await.unwrap();
    let failed: Vec<bool> = report
        .tests
        .iter()
        .map(|test| test.failure.is_some())
        .collect();
    assert_eq!(failed, [false, true, false, true, true, true], "{report:?}");
    let broken = World::new().skill("t", "const tools = ;");
    let report = check(&broken.path().join("t")).await.unwrap();
    assert!(!report.is_fine() && report.problems[0].to_string().contains("t/index.js:1"));
    let error = check(world.path()).await.unwrap_err();
    assert!(error.to_string().contains("manifest.json"), "{error}");
}

/// Every global of the table is there, and every function that the types
/// promise of a namespace.
#[tokio::test]
async fn what_is_declared_is_there() {
    let text = declarations();
    let mut wanted: Vec<String> = Vec::new();
    let mut namespace: Option<String> = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("declare ") {
            let name = rest.split(' ').nth(1).unwrap_or_default();
            let name: String = name.chars().take_while(|c| c.is_alphanumeric()).collect();
            wanted.push(name.clone());
            let opens = rest.starts_with("const") && rest.ends_with('{');
            namespace = opens.then_some(name);
        } else if line.starts_with('}') {
            namespace = None;
        } else if let (Some(of), Some((member, _))) = (&namespace, line.trim().split_once('('))
            && line.starts_with("  ")
            && !line.starts_with("   ")
            && !line.trim().starts_with('/')
        {
            let member = member.split('<').next().unwrap_or_default();
            wanted.push(format!("{of}.{member}"));
        }
    }
    assert!(
        wanted.len() > 60 && wanted.contains(&"state.setPartial".to_owned()),
        "{wanted:?}"
    );
    let body = format!(
        "return {}.filter((path) => path.split('.').reduce((of, name) => of?.[name], globalThis) === undefined);",
        serde_json::to_string(&wanted).unwrap()
    );
    let world = World::new().skill("t", &tools(&[("t", &body)]));
    assert_eq!(call(&world.start(), "t__t", "{}").await.text, "[]");
}
