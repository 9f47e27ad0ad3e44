//! What a skill keeps: state, database, files, credentials.

mod support;

use std::os::unix::fs::symlink;
use std::time::Duration;

use haft_ext_quickjs::RpcAnswer;
use serde_json::json;
use support::{World, body, call, call_within, tools, until};

/// What several bodies come to in one skill, one after the other.
async fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let outcome = body(text).await;
        assert!(outcome.text.contains(expected), "{text}: {outcome:?}");
    }
}

#[tokio::test]
async fn rows_come_back_as_they_were_stored() {
    check(&[
        (
            "db.exec('CREATE TABLE t (a TEXT, b INTEGER, c REAL, d BLOB, e)');
             db.exec('INSERT INTO t VALUES (?, ?, ?, ?, ?)', ['123', 7, 0.5, new Uint8Array([1, 2, 255]), null]);
             return db.get('SELECT * FROM t');",
            r#"{"a":"123","b":7,"c":0.5,"d":"AQL/","e":null}"#,
        ),
        (
            "db.exec('CREATE TABLE t (a)');
             return [db.exec('INSERT INTO t VALUES (?), (?)', ['001', true]), db.all('SELECT a FROM t'), db.get('SELECT 1 WHERE 0')];",
            r#"[2,[{"a":"001"},{"a":1}],null]"#,
        ),
        (
            "db.exec('CREATE TABLE t (a INTEGER)');
             db.exec('INSERT INTO t VALUES (?)', [9223372036854775807n]);
             db.exec('INSERT INTO t VALUES (9007199254740992)', []);
             db.exec('INSERT INTO t VALUES (?)', [-5]);
             return db.all('SELECT a, typeof(a) AS t FROM t').map((row) => [typeof row.a, String(row.a), row.t]);",
            r#"[["bigint","9223372036854775807","integer"],["number","9007199254740992","integer"],["number","-5","integer"]]"#,
        ),
        (
            "db.exec('CREATE VIRTUAL TABLE t USING fts5(body)');
             db.exec('INSERT INTO t VALUES (?), (?)', ['the quick brown fox', 'a lazy dog']);
             return db.all('SELECT body FROM t WHERE t MATCH ?', ['quick']);",
            r#"[{"body":"the quick brown fox"}]"#,
        ),
        (
            "db.exec('CREATE TABLE a (x); CREATE TABLE b (x); INSERT INTO a VALUES (1)');
             return db.all(\"SELECT name FROM sqlite_master ORDER BY name\").length;",
            "2",
        ),
        (
            "db.kvSet('k', { a: [1, 'x'] }); db.kvSet('gone', 1); db.kvSet('gone', undefined);
             return [db.kvGet('k'), db.kvGet('gone'), db.kvGet('none')];",
            r#"[{"a":[1,"x"]},null,null]"#,
        ),
        ("db.exec('VACUUM'); return 'fine';", "fine"),
        ("return db.get('SELECT ? AS a', [\"'; DROP TABLE t; --\"]).a;", "'; DROP TABLE t; --"),
        ("db.exec('no sql at all');", "syntax error"),
        ("db.exec('SELECT ?', [{}]);", "parameter 1"),
        ("db.exec('SELECT ?', [2n ** 70n]);", "no 64-bit integer"),
    ])
    .await;
}

#[tokio::test]
async fn no_statement_leaves_the_skills_database() {
    let world = World::new();
    let target = world.path().join("escaped.db");
    let target = target.display();
    for sql in [
        format!("ATTACH '{target}' AS other"),
        format!("attach database 'file:{target}?mode=rwc' as other"),
        format!("VACUUM INTO '{target}'"),
        "SELECT load_extension('x')".to_owned(),
        "PRAGMA temp_store_directory = '/'".to_owned(),
        "PRAGMA trusted_schema = 1".to_owned(),
    ] {
        let text = format!("db.exec({sql:?}); return 'escaped';");
        let outcome = body(&text).await;
        assert!(outcome.is_error, "{sql}: {outcome:?}");
        assert!(!std::path::Path::new(&target.to_string()).exists(), "{sql}");
    }
}

#[tokio::test]
async fn a_statement_without_end_is_stopped_at_the_calls_deadline() {
    let sql =
        "WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c";
    let text = format!("return db.get({sql:?});");
    let world = World::new()
        .skill(
            "t",
            &tools(&[("t", &text), ("ping", "return db.get('SELECT 1 AS a').a;")]),
        )
        .limits(|limits| limits.wedge_ms = 5_000);
    let host = world.start();
    let outcome = call_within(&host, "t__t", Duration::from_millis(200)).await;
    assert!(
        outcome.is_error && outcome.text.contains("time was over"),
        "{outcome:?}"
    );
    assert_eq!(call(&host, "t__ping", "{}").await.text, "1");
}

#[tokio::test]
async fn state_survives_and_is_seen_without_asking() {
    let source = tools(&[
        (
            "set",
            "state.set('count', 1); state.setPartial({ name: 'x', list: [1], gone: 1 }); state.delete('gone');
             state.set('none', undefined); return state.keys();",
        ),
        ("get", "return [state.get('count'), state.get('list'), state.get('gone') === undefined];"),
    ]);
    let world = World::new().skill("t", &source);
    let host = world.start();
    assert_eq!(
        call(&host, "t__set", "{}").await.text,
        r#"["count","list","name"]"#
    );
    let published = r#"{"count":1,"list":[1],"name":"x"}"#;
    until("it is published", || {
        host.snapshot("t").unwrap().state.get() == published
    })
    .await;
    host.stop("t").await.unwrap();
    drop(host);
    let host = world.start();
    assert_eq!(call(&host, "t__get", "{}").await.text, "[1,[1],true]");
    assert_eq!(host.snapshot("t").unwrap().state.get(), published);
    check(&[
        ("state.set('a', 'x'.repeat(17 << 20));", "QuotaExceededError"),
        ("state.set('a', 'x'); const a = state.get('a'); state.set('b', { a }); return state.get('b');", r#"{"a":"x"}"#),
        ("const a = {}; a.a = a; state.set('a', a);", "circular"),
        ("state.set('__proto__', { x: 1 }); return [state.get('__proto__'), ({}).x === undefined];", r#"[{"x":1},true]"#),
    ])
    .await;
}

#[tokio::test]
async fn files_are_the_skills_own_alone() {
    check(&[
        (
            "data.write('a/b.txt', 'kept'); return [data.read('a/b.txt'), data.read('none')];",
            r#"["kept",null]"#,
        ),
        ("data.write('../escaped', 'x');", "leads out"),
        ("data.read('/etc/passwd');", "leads out"),
        ("data.read('a/../../state.json');", "leads out"),
        ("fs.read('/etc/passwd');", "lacks the grant `read`"),
        ("fs.write('/tmp/x', 'x');", "lacks the grant `write`"),
    ])
    .await;
    let world = World::new().skill(
        "t",
        &tools(&[
            ("t", "return data.read('link');"),
            ("w", "data.write('link', 'x');"),
        ]),
    );
    let secret = world.write("secret", "secret");
    let files = world.path().join("data/t/files");
    std::fs::create_dir_all(&files).unwrap();
    symlink(&secret, files.join("link")).unwrap();
    let host = world.start();
    for name in ["t__t", "t__w"] {
        assert!(call(&host, name, "{}").await.is_error);
    }
    assert_eq!(std::fs::read_to_string(secret).unwrap(), "secret");
    let granted = World::new();
    let place = granted.write("shared/a.txt", "granted");
    let folder = place.parent().unwrap().display().to_string();
    let granted = granted.skill_of(
        "t",
        &format!(r#""grants":{{"read":["{folder}"]}}"#),
        &tools(&[
            (
                "t",
                "return [fs.list(args.at), fs.read(args.at + '/a.txt')];",
            ),
            ("w", "fs.write(args.at + '/a.txt', 'x');"),
        ]),
    );
    let host = granted.start();
    let arguments = json!({ "at": folder }).to_string();
    assert_eq!(
        call(&host, "t__t", &arguments).await.text,
        r#"[["a.txt"],"granted"]"#
    );
    assert!(call(&host, "t__w", &arguments).await.is_error);
}

#[tokio::test]
async fn a_credential_is_never_shown_is_kept_on_stop_and_gone_once_revoked() {
    let source = tools(&[
        ("get", "return oauth.getCredential()?.access_token ?? 'none';"),
        (
            "leak",
            "const secret = oauth.getCredential().access_token;
             console.log('it is ' + secret); state.set('leaked', { secret, as: `Bearer ${secret}` });",
        ),
        ("revoke", "oauth.revoke();"),
    ]);
    let world = World::new().skill("t", &source);
    let host = world.start();
    host.skills().await;
    let credential = json!({"access_token": "s3cr3t-token", "token_type": "Bearer"});
    let answer = host.rpc("t", "oauth/complete", &credential).await.unwrap();
    assert!(matches!(answer, RpcAnswer::Missing));
    assert_eq!(call(&host, "t__get", "{}").await.text, "s3cr3t-token");
    call(&host, "t__leak", "{}").await;
    until("it is published", || {
        host.snapshot("t").unwrap().state.get().contains("leaked")
    })
    .await;
    let shown = serde_json::to_string(&host.snapshot("t").unwrap()).unwrap();
    assert!(!shown.contains("s3cr3t"), "{shown}");
    let log = world.log.text();
    assert!(
        log.contains("it is [secret]") && !log.contains("s3cr3t"),
        "{log}"
    );
    host.stop("t").await.unwrap();
    host.start("t").await.unwrap();
    assert_eq!(call(&host, "t__get", "{}").await.text, "s3cr3t-token");
    host.rpc("t", "oauth/revoked", &json!({})).await.unwrap();
    assert_eq!(call(&host, "t__get", "{}").await.text, "none");
    host.rpc("t", "oauth/complete", &credential).await.unwrap();
    call(&host, "t__revoke", "{}").await;
    assert_eq!(call(&host, "t__get", "{}").await.text, "none");
}

#[tokio::test]
async fn schedules_fire_and_end_with_the_skill() {
    let world = World::new().skill(
        "t",
        "let fired = [];
         const tools = [
           { name: 'register', execute: (args) => cron.register(args.id, args.at) },
           { name: 'list', execute: () => cron.list().map((one) => [one.id, one.expression, typeof one.next]) },
           { name: 'fired', execute: () => fired },
           { name: 'remove', execute: (args) => cron.unregister(args.id) },
         ];
         function onCronTrigger(id) { fired.push(id); throw new Error('seen ' + id); }",
    );
    let host = world.start();
    let every = r#"{"id":"every","at":"* * * * * *"}"#;
    assert_eq!(call(&host, "t__register", every).await.text, "");
    assert_eq!(
        call(&host, "t__list", "{}").await.text,
        r#"[["every","* * * * * *","string"]]"#
    );
    until("it fires", || {
        world
            .log
            .text()
            .contains("`onCronTrigger` failed: seen every")
    })
    .await;
    assert_eq!(
        call(&host, "t__remove", r#"{"id":"every"}"#).await.text,
        "true"
    );
    assert_eq!(call(&host, "t__list", "{}").await.text, "[]");
    for at in ["* * * * *", "nonsense", "99 * * * * *"] {
        let arguments = json!({"id": "x", "at": at}).to_string();
        let outcome = call(&host, "t__register", &arguments).await;
        assert!(
            outcome.is_error && outcome.text.contains("is no schedule"),
            "{outcome:?}"
        );
    }
    call(&host, "t__register", every).await;
    host.stop("t").await.unwrap();
    host.start("t").await.unwrap();
    assert_eq!(call(&host, "t__list", "{}").await.text, "[]");
}

#[tokio::test]
async fn the_environment_is_read_by_grant() {
    let world = World::new()
        .skill("t", &tools(&[("t", "return platform.env('PATH');")]))
        .skill_of(
            "g",
            r#""grants":{"env":["PATH"]}"#,
            &tools(&[("t", "return [typeof platform.env('PATH'), platform.os()];")]),
        );
    let host = world.start();
    let denied = call(&host, "t__t", "{}").await;
    assert!(
        denied.is_error && denied.text.contains("`env`"),
        "{denied:?}"
    );
    let os = std::env::consts::OS;
    assert_eq!(
        call(&host, "g__t", "{}").await.text,
        format!(r#"["string","{os}"]"#)
    );
}

#[tokio::test]
async fn who_has_an_answer_finds_the_state_kept() {
    let source = tools(&[("t", "state.set('n', args.n); return args.n;")]);
    let world = World::new().skill("t", &source);
    let host = world.start();
    for n in 1..=20 {
        let outcome = call(&host, "t__t", &format!(r#"{{"n":{n}}}"#)).await;
        assert_eq!(outcome.text, n.to_string());
        let kept = std::fs::read_to_string(world.path().join("data/t/state.json")).unwrap();
        assert_eq!(kept, format!(r#"{{"n":{n}}}"#));
        assert_eq!(host.snapshot("t").unwrap().state.get(), kept);
    }
}
