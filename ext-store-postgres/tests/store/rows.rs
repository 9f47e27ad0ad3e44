//! The tables: made by many at once, changed by careless hands, read by SQL.

use haft_api::{DiagnosticCode, Durability, ErrorKind, NewRecord, NewThread, ReadRange};
use haft_api::{ThreadStore as _, raw_json};
use haft_ext_store_postgres::{DurabilityPolicy, PostgresConfig, PostgresStore};

use crate::support::*;

#[tokio::test]
async fn the_tables_are_made_once_by_many_at_once() {
    let server = server_or_skip!();
    let schema = fresh_schema();
    let opening = (0..12).map(|_| {
        let config = config(server.url(), &schema);
        tokio::spawn(async move { PostgresStore::open(config).await })
    });
    for opened in opening.collect::<Vec<_>>() {
        opened.await.unwrap().unwrap();
    }
    let query = format!("SELECT count(*) FROM {schema}.migrations");
    let row = sql(server).await.query_one(&query, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 1);
}

#[tokio::test]
async fn tables_of_a_newer_program_are_used_only_if_it_allows_that() {
    let server = server_or_skip!();
    let schema = fresh_schema();
    let opened = || PostgresStore::open(config(server.url(), &schema));
    opened().await.unwrap();
    let client = sql(server).await;
    let newer = |version: u32, needs: u32| {
        format!("INSERT INTO {schema}.migrations VALUES ({version}, {needs}, 'haft 99')")
    };
    client.batch_execute(&newer(98, 1)).await.unwrap();
    opened().await.unwrap();
    client.batch_execute(&newer(99, 99)).await.unwrap();
    let refused = opened().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("form 99"), "{refused}");
}

#[tokio::test]
async fn what_careless_hands_did_is_named_and_read_around() {
    use DiagnosticCode::*;

    let server = server_or_skip!();
    let client = sql(server).await;
    let check = async |change: &str, code: DiagnosticCode, lost: bool, seqs: &[u64]| {
        let schema = fresh_schema();
        let store = open(config(server.url(), &schema)).await;
        let thread = id("t");
        let mut writer = store.create(NewThread::new(thread.clone())).await.unwrap();
        for text in ["1", "2", "3"] {
            append(&mut *writer, text).await;
        }
        writer.close().await.unwrap();
        let change = change.replace("records", &format!("{schema}.records"));
        client.batch_execute(&change).await.unwrap();
        let found = store.check(&thread).await.unwrap();
        assert_eq!(found.len(), 1, "{change}: {found:?}");
        assert_eq!((found[0].code, found[0].lost), (code, lost), "{change}");
        for range in [
            ReadRange::ALL,
            ReadRange::Backward {
                before: None,
                limit: 10,
            },
        ] {
            let page = store.read(&thread, range).await.unwrap();
            let got: Vec<_> = page.records.iter().map(|record| record.seq).collect();
            assert_eq!(got, seqs, "{change}");
            let shown = page.diagnostics.iter().any(|d| d.code == code);
            assert_eq!(shown, code != Foreign, "{change}");
        }
        // Numbers go on where they were.
        if code != Foreign {
            let mut writer = store.open_writer(&thread).await.unwrap();
            assert_eq!(append(&mut *writer, "on").await, 4);
        }
    };
    let edit = r#"UPDATE records SET data = '"x"' WHERE seq = 2"#;
    check(edit, ChecksumMismatch, true, &[0, 1, 3]).await;
    let mend = r#"UPDATE records SET data = '"x"', crc = NULL WHERE seq = 2"#;
    check(mend, Unverified, false, &[0, 1, 2, 3]).await;
    let spoil = "UPDATE records SET data = '{', crc = NULL WHERE seq = 3";
    check(spoil, DamagedRecord, true, &[0, 1, 2]).await;
    check("DELETE FROM records WHERE seq = 2", Gap, true, &[0, 1, 3]).await;
    check("DELETE FROM records WHERE seq = 3", Gap, true, &[0, 1, 2]).await;
    check("DELETE FROM records WHERE seq = 0", Gap, true, &[1, 2, 3]).await;
    let add = "INSERT INTO records SELECT thread, 9, time_ms, kind, data FROM records LIMIT 1";
    check(add, Foreign, false, &[0, 1, 2, 3]).await;
}

#[tokio::test]
async fn a_page_has_a_bounded_size_whatever_the_records_are() {
    let server = server_or_skip!();
    let store = open(config(server.url(), &fresh_schema())).await;
    let thread = id("t");
    let mut writer = store.create(NewThread::new(thread.clone())).await.unwrap();
    let large = "x".repeat(3 * 1024 * 1024);
    for _ in 0..5 {
        append(&mut *writer, &large).await;
    }
    let page = store.read(&thread, ReadRange::ALL).await.unwrap();
    assert!((2..5).contains(&page.records.len()));
    assert_eq!(page.next, Some(page.records.len() as u64));
    assert_eq!(notes(&store, &thread).await.len(), 5);
    let (mut before, mut seen) = (None, 0);
    loop {
        let range = ReadRange::Backward { before, limit: 100 };
        let page = store.read(&thread, range).await.unwrap();
        seen += page.records.len();
        match page.next {
            Some(next) => before = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, 6);
}

#[tokio::test]
async fn data_are_text_that_sql_can_read() {
    let server = server_or_skip!();
    let schema = fresh_schema();
    let store = open(config(server.url(), &schema)).await;
    let mut writer = store.create(NewThread::new(id("t"))).await.unwrap();
    let text = r#"{"z":1.50,"a":[1e400,"\u0000"],"z":2}"#;
    let record = NewRecord {
        kind: "from_2099".to_owned(),
        data: raw_json(text).unwrap(),
    };
    writer
        .append(vec![record], Durability::Barrier)
        .await
        .unwrap();
    let query = format!(
        "SELECT data FROM {schema}.records r JOIN {schema}.threads t ON t.no = r.thread
         WHERE t.id = 't' AND kind = 'from_2099'"
    );
    let row = sql(server).await.query_one(&query, &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), text);
}

#[tokio::test]
async fn what_survives_a_power_cut_is_claimed_as_it_is() {
    let server = server_or_skip!();
    let schema = fresh_schema();
    let check = async |url: String, policy, expected| {
        let store = open(config(url, &schema).durability(policy)).await;
        let claimed = store.capabilities().survives_power_loss;
        assert_eq!(claimed, expected, "{policy:?}");
    };
    check(server.url(), DurabilityPolicy::EveryItem, true).await;
    check(server.url(), DurabilityPolicy::Barriers, true).await;
    check(server.url(), DurabilityPolicy::Turn, false).await;
    check(server.url(), DurabilityPolicy::Os, false).await;
    match Server::start_with(&[("fsync", "off")]) {
        Ok(careless) => check(careless.url(), DurabilityPolicy::Barriers, false).await,
        Err(reason) => eprintln!("skipped: {reason}"),
    }
}

#[tokio::test]
async fn a_title_that_the_database_cannot_hold_is_refused() {
    let server = server_or_skip!();
    let store = open(config(server.url(), &fresh_schema())).await;
    let mut writer = store.create(NewThread::new(id("t"))).await.unwrap();
    let patch = haft_api::MetadataPatch::default().title("a\0b");
    let refused = writer.patch_metadata(patch).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    append(&mut *writer, "the writer is as good as before").await;
}

#[tokio::test]
async fn a_database_that_cannot_be_had_is_named_without_its_secrets() {
    let check = async |config: PostgresConfig, kind: ErrorKind, word: &str| {
        let config = config.timeout(std::time::Duration::from_secs(5));
        let error = PostgresStore::open(config.clone()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let shown = format!("{error} {error:?} {config:?}");
        assert!(shown.contains(word), "{shown}");
        assert!(!shown.contains("geheim"), "{shown}");
    };
    let url = |text: &str| PostgresConfig::default().url(text);
    let nobody = url("postgres://u:geheim@127.0.0.1:1/d?connect_timeout=2");
    check(nobody, ErrorKind::Unavailable, "connection").await;
    let broken = url("postgres://u:geheim@[/geheim?x=geheim");
    check(broken, ErrorKind::InvalidInput, "looks like").await;
    let unset = PostgresConfig::default().url_env("HAFT_TEST_NO_SUCH_VARIABLE");
    check(unset, ErrorKind::InvalidInput, "HAFT_TEST_NO_SUCH_VARIABLE").await;
    let no_file = PostgresConfig::default().url_file("/no/such/file");
    check(no_file, ErrorKind::NotFound, "/no/such/file").await;
    let server = server_or_skip!();
    let wrong = server.url().replace("dbname=postgres", "dbname=nowhere");
    check(url(&wrong), ErrorKind::NotFound, "nowhere").await;
}
