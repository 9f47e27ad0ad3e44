//! The web's interfaces as far as they go: what passes is listed, and what
//! passes without being listed, or the other way round, is told.

mod support;

use std::path::Path;

use support::{World, call};

const LIST: &str = "tests/web/passes.txt";

#[tokio::test]
async fn what_passes_is_what_is_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let mut passes = Vec::new();
    let mut failures = Vec::new();
    for file in [
        "blob", "encoding", "events", "fetch", "streams", "tasks", "url",
    ] {
        let source = format!(
            "{}\nconst tools = [{{ name: 'run', async execute() {{\n{}\nawait Promise.all(pending); return results; }} }}];",
            read("harness.js"),
            read(&format!("{file}.js"))
        );
        let world = World::new().skill("web", &source);
        let outcome = call(&world.start(), "web__run", "{}").await;
        let results: Vec<(String, Option<String>)> = serde_json::from_str(&outcome.text)
            .unwrap_or_else(|error| panic!("{file}: {error}: {outcome:?}"));
        for (name, failure) in results {
            match failure {
                None => passes.push(format!("{file}: {name}")),
                Some(why) => failures.push(format!("{file}: {name}: {why}")),
            }
        }
    }
    passes.sort();
    let listed = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(LIST)).unwrap();
    let listed: Vec<&str> = listed.lines().collect();
    let missing: Vec<_> = listed
        .iter()
        .filter(|one| !passes.iter().any(|p| p == *one))
        .collect();
    let new: Vec<_> = passes
        .iter()
        .filter(|one| !listed.contains(&one.as_str()))
        .collect();
    assert!(
        missing.is_empty() && new.is_empty(),
        "listed and failing: {missing:#?}\npassing and not listed in {LIST}: {new:#?}\nfailures: {failures:#?}"
    );
}
