//! Reading, writing and editing.

use haft_api::Part;
use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn text_is_read_in_numbered_pages() {
    for (kind, bench) in Bench::each().await {
        bench.put("a.txt", "one\ntwo\nthree\n").await;
        let check = async |arguments, expected: &str| {
            assert_eq!(bench.ok("read_file", arguments).await, expected, "{kind}");
        };
        check(
            json!({"path":"a.txt"}),
            "     1\tone\n     2\ttwo\n     3\tthree\n",
        )
        .await;
        let page = "     2\ttwo\n[lines 2-2 of 3; go on with offset 3]\n";
        check(json!({"path":"./a.txt","offset":2,"limit":1}), page).await;
        let absolute = format!("{}/a.txt", bench.session.workspace());
        check(json!({"path":absolute,"offset":3}), "     3\tthree\n").await;
        bench.put("empty", "").await;
        check(json!({"path":"empty"}), "[the file is empty]\n").await;
        let text = bench
            .told("read_file", json!({"path":"a.txt","offset":9}))
            .await;
        assert!(text.contains("only 3 lines"), "{text}");
    }
}

#[tokio::test]
async fn a_huge_file_is_paged_without_being_held() {
    for (kind, bench) in Bench::each().await {
        // 5 MB: several reads of the session.
        let content: String = (1..=200_000)
            .map(|n| format!("line number {n:012}\n"))
            .collect();
        bench.put("big", content).await;
        let text = bench
            .ok(
                "read_file",
                json!({"path":"big","offset":150_000,"limit":2}),
            )
            .await;
        let expected = "150000\tline number 000000150000\n150001\tline number 000000150001\n";
        assert!(text.starts_with(expected), "{kind}: {text}");
        assert!(text.contains("go on with offset 150002"), "{kind}: {text}");
        let text = bench.ok("read_file", json!({"path":"big"})).await;
        assert!(text.len() < 25_000, "{kind}: {}", text.len());
        let text = bench
            .told("read_file", json!({"path":"big","offset":200_001}))
            .await;
        assert!(text.contains("only 200000 lines"), "{kind}: {text}");
    }
}

#[tokio::test]
async fn what_is_not_text_is_said_to_be_what_it_is() {
    for (kind, bench) in Bench::each().await {
        let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
        png.extend([0, 1, 2, 3]);
        bench.put("p.txt", png.clone()).await;
        let called = bench
            .try_call("read_file", json!({"path":"p.txt"}))
            .await
            .unwrap();
        let Some(Part::Image { media_type, data }) = called.output.parts.get(1) else {
            panic!("{kind}: {:?}", called.output);
        };
        assert_eq!(
            (media_type.as_str(), data.as_str()),
            ("image/png", "iVBORw0KGgoAAQID")
        );
        assert!(called.text().contains("image/png, 12 bytes"));

        png.resize(4_000_000, 0);
        bench.put("large.png", png).await;
        let text = bench.ok("read_file", json!({"path":"large.png"})).await;
        assert!(
            text.contains("too large") && text.contains("4000000"),
            "{kind}: {text}"
        );

        bench.put("x", b"\x7fELF\x02\x01\x01\0\0\0".to_vec()).await;
        let text = bench.ok("read_file", json!({"path":"x"})).await;
        assert!(
            text.contains("binary") && text.contains("ELF") && text.contains("10 bytes"),
            "{text}"
        );

        bench.put("latin", b"stra\xdfe\n".to_vec()).await;
        let text = bench.ok("read_file", json!({"path":"latin"})).await;
        assert!(
            text.contains("stra\u{fffd}e") && text.contains("not valid UTF-8"),
            "{kind}: {text}"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_read_or_written_is_told_with_its_reason() {
    for (kind, bench) in Bench::each().await {
        bench.put("dir/file", "x").await;
        let check = async |name: &str, arguments: serde_json::Value, words: &[&str]| {
            let text = bench.told(name, arguments.clone()).await;
            for word in words {
                assert!(text.contains(word), "{kind} {name} {arguments}: {text}");
            }
            assert!(
                !text.contains("read_file:") && !text.contains("write_file:"),
                "{text}"
            );
        };
        check("read_file", json!({"path":"none"}), &["none"]).await;
        check("read_file", json!({"path":"dir"}), &["dir"]).await;
        check("read_file", json!({"path":"../up"}), &["../up"]).await;
        check("read_file", json!({"path":"/etc/passwd"}), &["/etc/passwd"]).await;
        check(
            "write_file",
            json!({"path":"../up","content":""}),
            &["../up"],
        )
        .await;
        check("write_file", json!({"path":"dir","content":""}), &["dir"]).await;
        check(
            "edit",
            json!({"path":"none","old":"a","new":"b"}),
            &["none"],
        )
        .await;
        check(
            "edit",
            json!({"path":"/etc/passwd","old":"a","new":"b"}),
            &["/etc/passwd"],
        )
        .await;
        check("list_files", json!({"path":"none"}), &["none"]).await;
        check("glob", json!({"pattern":"*","path":"none"}), &["none"]).await;
        check("grep", json!({"pattern":"x","path":"none"}), &["none"]).await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_out_of_the_workspace_is_not_written_through() {
    let bench = Bench::local().await;
    let target = bench.root().parent().unwrap().join("target");
    std::fs::write(&target, "mine").unwrap();
    std::os::unix::fs::symlink(&target, bench.root().join("notes.txt")).unwrap();
    for (name, arguments) in [
        ("write_file", json!({"path":"notes.txt","content":"pwned"})),
        (
            "edit",
            json!({"path":"notes.txt","old":"mine","new":"pwned"}),
        ),
        ("read_file", json!({"path":"notes.txt"})),
    ] {
        let text = bench.told(name, arguments).await;
        assert!(text.contains(target.to_str().unwrap()), "{name}: {text}");
    }
    assert_eq!(std::fs::read_to_string(target).unwrap(), "mine");
}

#[tokio::test]
async fn files_are_made_with_their_folders_and_replaced() {
    for (kind, bench) in Bench::each().await {
        let text = bench
            .ok("write_file", json!({"path":"a/b/c","content":"x\ny"}))
            .await;
        assert_eq!(text, "created a/b/c: 3 bytes, 2 lines", "{kind}");
        let text = bench
            .ok("write_file", json!({"path":"a/b/c","content":"z\n"}))
            .await;
        assert_eq!(
            text, "replaced a/b/c, which had 3 bytes: 2 bytes, 1 lines",
            "{kind}"
        );
        assert_eq!(bench.get("a/b/c").await, b"z\n");
    }
}

#[tokio::test]
async fn an_edit_replaces_what_it_names_and_nothing_else() {
    for (kind, bench) in Bench::each().await {
        bench.put("f", "\u{feff}one\r\ntwo\r\ntwo\r\nthree").await;
        let text = bench
            .ok("edit", json!({"path":"f","old":"one\ntwo\n","new":"1\n"}))
            .await;
        assert_eq!(text, "replaced 1 occurrence in f, line 1", "{kind}");
        let text = bench
            .ok("edit", json!({"path":"f","old":"t","new":"T","all":true}))
            .await;
        assert_eq!(text, "replaced 2 occurrences in f, lines 2, 3", "{kind}");
        let expected = "\u{feff}1\r\nTwo\r\nThree";
        assert_eq!(
            String::from_utf8(bench.get("f").await).unwrap(),
            expected,
            "{kind}"
        );
    }
}

#[tokio::test]
async fn an_edit_that_cannot_be_made_says_what_is_there() {
    for (kind, bench) in Bench::each().await {
        let content = "fn a() {\n    one();\n}\n\nfn b() {\n    one();\n}\n";
        bench.put("f.rs", content).await;
        let check = async |old: &str, words: &[&str]| {
            let text = bench
                .told("edit", json!({"path":"f.rs","old":old,"new":"x"}))
                .await;
            for word in words {
                assert!(text.contains(word), "{kind} {old:?}: {text}");
            }
            assert_eq!(bench.get("f.rs").await, content.as_bytes());
        };
        check("one();", &["2 times", "lines 2, 6", "`all`"]).await;
        check(
            "\tone();\n}\n\nfn b",
            &["not found", "     2\t    one();", "Only spaces"],
        )
        .await;
        check(
            "fn b() {\n    two();\n",
            &["not found", "     5\tfn b() {", "     6\t"],
        )
        .await;
        check("completely different", &["not found", "read the file"]).await;
        let same = json!({"path":"f.rs","old":"fn a","new":"fn a"});
        assert!(bench.told("edit", same).await.contains("same"), "{kind}");
        bench.put("bin", b"a\0b".to_vec()).await;
        let binary = json!({"path":"bin","old":"a","new":"b"});
        assert!(
            bench.told("edit", binary).await.contains("binary"),
            "{kind}"
        );
    }
}

/// A script of mode 0755 with CRLF and without a last line end.
#[cfg(unix)]
#[tokio::test]
async fn an_edit_keeps_mode_owner_line_ends_and_the_missing_last_one() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
    let bench = Bench::local().await;
    let path = bench.root().join("run.sh");
    std::fs::write(&path, "#!/bin/sh\r\necho one\r\necho two").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    // Only root can give a file away.
    let _ = std::os::unix::fs::chown(&path, Some(1234), Some(1234));
    let before = std::fs::metadata(&path).unwrap();
    bench
        .ok(
            "edit",
            json!({"path":"run.sh","old":"echo one\necho two\n","new":"echo 1\necho 2\n"}),
        )
        .await;
    let after = std::fs::metadata(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, "#!/bin/sh\r\necho 1\r\necho 2");
    assert_eq!(after.mode() & 0o7777, 0o755);
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_of_one_file_at_the_same_time_all_survive() {
    for (kind, bench) in Bench::each().await {
        bench
            .put("f", (0..6).map(|n| format!("<{n}>\n")).collect::<String>())
            .await;
        let mut tasks = Vec::new();
        for n in 0..6 {
            let bench = bench.clone();
            tasks.push(tokio::spawn(async move {
                let arguments =
                    json!({"path":"f","old":format!("<{n}>"),"new":format!("done {n}")});
                bench.ok("edit", arguments).await
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let expected: String = (0..6).map(|n| format!("done {n}\n")).collect();
        assert_eq!(
            String::from_utf8(bench.get("f").await).unwrap(),
            expected,
            "{kind}"
        );
    }
}
