//! Listing and searching.

use serde_json::json;

use crate::bench::Bench;

async fn project(bench: &Bench) {
    for (path, content) in [
        ("README.md", "hello needle\n"),
        (".gitignore", "target/\n*.log\n!keep.log\n/only-top\n"),
        (".env", "needle=1\n"),
        (".git/config", "needle\n"),
        (".github/ci.yml", "needle\n"),
        (
            "src/main.rs",
            "fn main() {\n    // Needle\n    needle();\n}\n",
        ),
        ("src/lib.rs", "pub mod deep;\n"),
        ("src/deep/mod.rs", "needle(1)\n"),
        ("src/deep/.gitignore", "ignored.rs\n"),
        ("src/deep/ignored.rs", "needle\n"),
        ("src/only-top", "x\n"),
        ("only-top", "x\n"),
        ("target/debug/out.rs", "needle\n"),
        ("a.log", "needle\n"),
        ("keep.log", "x\n"),
    ] {
        bench.put(path, content).await;
    }
    bench
        .put("src/data.bin", b"needle\0needle\n".to_vec())
        .await;
}

#[tokio::test]
async fn a_folder_is_listed_to_the_depth_asked_for() {
    for (kind, bench) in Bench::each().await {
        project(&bench).await;
        let check = async |arguments, expected: &[&str]| {
            let text = bench.ok("list_files", arguments).await;
            assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{kind}");
        };
        check(
            json!({"path":"src"}),
            &[
                "src/data.bin",
                "src/deep/",
                "src/lib.rs",
                "src/main.rs",
                "src/only-top",
            ],
        )
        .await;
        check(
            json!({"depth":2}),
            &[
                ".env",
                ".git/",
                ".github/",
                ".github/ci.yml",
                ".gitignore",
                "README.md",
                "a.log",
                "keep.log",
                "only-top",
                "src/",
                "src/data.bin",
                "src/deep/",
                "src/lib.rs",
                "src/main.rs",
                "src/only-top",
                "target/ (ignored)",
            ],
        )
        .await;
        bench.session.make_dir("none").await.unwrap();
        check(json!({"path":"none"}), &["[the folder is empty]"]).await;
    }
}

#[tokio::test]
async fn files_are_found_by_pattern_in_order() {
    for (kind, bench) in Bench::each().await {
        project(&bench).await;
        let check = async |arguments: serde_json::Value, expected: &[&str]| {
            let text = bench.ok("glob", arguments.clone()).await;
            assert_eq!(
                text.lines().collect::<Vec<_>>(),
                expected,
                "{kind} {arguments}"
            );
        };
        check(
            json!({"pattern":"*.rs"}),
            &["src/deep/mod.rs", "src/lib.rs", "src/main.rs"],
        )
        .await;
        check(
            json!({"pattern":"src/*.rs"}),
            &["src/lib.rs", "src/main.rs"],
        )
        .await;
        check(json!({"pattern":"**/mod.rs"}), &["src/deep/mod.rs"]).await;
        check(
            json!({"pattern":"*.rs","path":"src/deep"}),
            &["src/deep/mod.rs"],
        )
        .await;
        check(
            json!({"pattern":"deep/*.rs","path":"src"}),
            &["src/deep/mod.rs"],
        )
        .await;
        check(json!({"pattern":"*.log"}), &["keep.log"]).await;
        check(json!({"pattern":"only-top"}), &["src/only-top"]).await;
        check(
            json!({"pattern":"*.yml","hidden":true}),
            &[".github/ci.yml"],
        )
        .await;
        check(json!({"pattern":".github/**"}), &[".github/ci.yml"]).await;
        check(json!({"pattern":"**/deep/"}), &["src/deep/"]).await;
        let absolute = format!("{}/src/*.rs", bench.session.workspace());
        check(json!({"pattern":absolute}), &["src/lib.rs", "src/main.rs"]).await;
        let text = bench.ok("glob", json!({"pattern":"*.py"})).await;
        assert!(text.starts_with("[no files match"), "{kind}: {text}");
        let text = bench.told("glob", json!({"pattern":"a["})).await;
        assert!(text.contains("isn't valid"), "{kind}: {text}");
    }
}

#[tokio::test]
async fn lines_are_found_by_regular_expression() {
    for (kind, bench) in Bench::each().await {
        project(&bench).await;
        let check = async |arguments: serde_json::Value, expected: &[&str]| {
            let text = bench.ok("grep", arguments.clone()).await;
            assert_eq!(
                text.lines().collect::<Vec<_>>(),
                expected,
                "{kind} {arguments}"
            );
        };
        check(
            json!({"pattern":"needle"}),
            &[
                "README.md:1:hello needle",
                "src/deep/mod.rs:1:needle(1)",
                "src/main.rs:3:    needle();",
            ],
        )
        .await;
        check(
            json!({"pattern":"needle\\(\\d\\)"}),
            &["src/deep/mod.rs:1:needle(1)"],
        )
        .await;
        check(
            json!({"pattern":"needle","ignore_case":true,"glob":"main.rs"}),
            &["src/main.rs:2:    // Needle", "src/main.rs:3:    needle();"],
        )
        .await;
        check(
            json!({"pattern":"Needle","context":1,"path":"src/main.rs"}),
            &[
                "src/main.rs-1-fn main() {",
                "src/main.rs:2:    // Needle",
                "src/main.rs-3-    needle();",
            ],
        )
        .await;
        check(
            json!({"pattern":"needle","path":"src","glob":"deep/*.rs"}),
            &["src/deep/mod.rs:1:needle(1)"],
        )
        .await;
        check(
            json!({"pattern":"needle","path":".env"}),
            &[".env:1:needle=1"],
        )
        .await;
        check(
            json!({"pattern":"needle","hidden":true,"glob":"*.yml"}),
            &[".github/ci.yml:1:needle"],
        )
        .await;
        check(
            json!({"pattern":"needle","limit":1}),
            &[
                "README.md:1:hello needle",
                "[only the first 1 matching lines: use a narrower pattern, path or glob]",
            ],
        )
        .await;
        let text = bench.ok("grep", json!({"pattern":"nowhere"})).await;
        assert!(text.starts_with("[no matches in "), "{kind}: {text}");
        let text = bench.told("grep", json!({"pattern":"("})).await;
        assert!(text.contains("isn't valid"), "{kind}: {text}");
    }
}

#[tokio::test]
async fn what_was_left_out_is_said() {
    let bench = Bench::local().await;
    bench.put("large", vec![b'x'; 8 * 1024 * 1024 + 1]).await;
    bench.put("small", "needle").await;
    let text = bench.ok("grep", json!({"pattern":"needle"})).await;
    assert_eq!(text.lines().next(), Some("small:1:needle"));
    assert!(text.contains("large was left out"), "{text}");
    let many: String = (0..3000)
        .map(|n| format!("needle {n} in a long line of hay\n"))
        .collect();
    bench.put("many", many).await;
    let text = bench
        .ok("grep", json!({"pattern":"needle","limit":2000}))
        .await;
    assert!(
        text.len() < 25_000 && text.contains("[only the first "),
        "{}",
        text.len()
    );
    for n in 0..1500 {
        bench
            .put(&format!("folder/a-file-with-a-long-name-{n:05}"), "")
            .await;
    }
    let text = bench.ok("list_files", json!({"path":"folder"})).await;
    let listed = text
        .lines()
        .filter(|line| line.starts_with("folder/"))
        .count();
    let more = format!("[{} more entries", 1500 - listed);
    assert!(text.len() < 25_000 && text.contains(&more), "{listed}");
    let text = bench.ok("glob", json!({"pattern":"folder/*"})).await;
    let found = text
        .lines()
        .filter(|line| line.starts_with("folder/"))
        .count();
    assert!(text.contains(&format!("[{} more", 1500 - found)), "{found}");
}

/// More entries than a page of a listing has, with the rules on the second page.
#[tokio::test]
async fn large_folders_are_walked_page_by_page() {
    let bench = Bench::local().await;
    for n in 0..1200 {
        bench.put(&format!("#{n:04}.txt"), "").await;
    }
    bench.put(".gitignore", "*9.txt\n").await;
    bench.put("z.txt", "").await;
    let text = bench.ok("glob", json!({"pattern":"*.txt"})).await;
    let found: Vec<_> = text.lines().collect();
    assert_eq!(found.len(), 1200 - 120 + 1);
    assert!(found.contains(&"z.txt") && !found.contains(&"#0009.txt"));
}

#[cfg(unix)]
#[tokio::test]
async fn links_are_shown_but_not_followed() {
    let bench = Bench::local().await;
    bench.put("real/f.rs", "needle\n").await;
    std::os::unix::fs::symlink("real", bench.root().join("link")).unwrap();
    std::os::unix::fs::symlink(".", bench.root().join("self")).unwrap();
    std::os::unix::fs::symlink("/etc", bench.root().join("etc")).unwrap();
    let text = bench.ok("list_files", json!({"depth":5})).await;
    assert_eq!(text, "etc@\nlink@\nreal/\nreal/f.rs\nself@\n");
    assert_eq!(
        bench.ok("glob", json!({"pattern":"*.rs"})).await,
        "real/f.rs\n"
    );
    assert_eq!(
        bench.ok("grep", json!({"pattern":"needle"})).await,
        "real/f.rs:1:needle\n"
    );
}
