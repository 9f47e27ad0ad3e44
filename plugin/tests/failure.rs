//! A plug-in that fails costs the call that hit it, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use haft_api::{
    ErrorKind, Extension, ExtensionConfig, ExtensionRegistryBuilder, PolicyRequest, ThreadId,
    TurnId,
};
use haft_plugin::LoadOptions;

mod support;

use support::{Build, Kept, Loaded, context, eventually, tool_call, within};

#[tokio::test]
async fn a_panic_is_an_error_that_names_the_extension_and_a_line_in_the_log() {
    let loaded = Loaded::fixture();
    let check = async |name: &str, arguments: &str, text: &str| {
        let error = loaded.call(name, arguments).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unexpected, "{error}");
        assert_eq!(error.context_value("extension"), Some("fixture"), "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert!(loaded.log.contains(text), "{:?}", loaded.log.lines());
        // And the plug-in goes on.
        assert_eq!(loaded.text("echo", r#"{"text":"on"}"#).await, "on");
    };
    check("panic_poll", r#"{"text":"in poll"}"#, "panicked: in poll").await;
    check("panic_call", "{}", "panicked: called with nothing").await;
    check("panic_drop", "{}", "panicked: dropped").await;
    check("panic_payload", "{}", "panicked").await;
    assert_eq!(loaded.text("panic_spawned", "{}").await, "seen: true");
    loaded.at_rest().await;
}

#[tokio::test]
async fn a_panic_while_a_call_is_cancelled_goes_to_the_log() {
    let loaded = Loaded::fixture();
    let call = loaded.call("panic_drop", r#"{"ms":60000}"#);
    let cancelled = tokio::time::timeout(Duration::from_millis(20), call).await;
    assert!(cancelled.is_err());
    assert!(loaded.log.contains("panicked: dropped"));
    loaded.at_rest().await;
}

#[tokio::test]
async fn a_panic_in_policy_is_an_error() {
    let loaded = Loaded::fixture();
    let [policy] = loaded.registry.policies() else {
        panic!("one policy contributor");
    };
    let review = async |arguments: &str| {
        let request = PolicyRequest::new(
            ThreadId::new("t").unwrap(),
            TurnId::new("u").unwrap(),
            tool_call("read", arguments),
            haft_api::Effects::READS,
        );
        within(policy.part.review(request)).await
    };
    assert_eq!(review("{}").await.unwrap(), haft_api::Decision::Allow);
    let reason = "secrets stay where they are (read)".to_owned();
    assert_eq!(
        review(r#"{"path":".env"}"#).await.unwrap(),
        haft_api::Decision::Deny { reason }
    );
    let error = review(r#"{"path":"panic"}"#).await.unwrap_err();
    assert!(error.to_string().contains("no opinion"), "{error}");
}

#[tokio::test]
async fn registration_fails_as_it_does_when_linked_in() {
    let path = Build::Debug.path();
    let plugin = haft_plugin::load(&path, &LoadOptions::default()).unwrap();
    let check = |config: &str, expected: &str| {
        let config = ExtensionConfig::from_json(config).unwrap();
        let register = |extension: &dyn Extension| {
            let mut builder = ExtensionRegistryBuilder::new();
            let error = builder.extension(extension, &config).unwrap_err();
            assert!(builder.build().unwrap().engines().is_empty());
            error.to_string()
        };
        let plugged = register(plugin.extensions().next().unwrap());
        assert!(plugged.contains(expected), "{plugged}");
        assert_eq!(plugged, register(&haft_plugin_fixture::Fixture));
    };
    check(r#"{"register":"panic"}"#, "panicked: no registration today");
    check(r#"{"register":"not today"}"#, "not today");
    check(r#"{"regster":"x"}"#, "unknown field `regster`");
    // Nothing of it stays, on the plug-in's side either.
    assert_eq!(plugin.stats().plugin.objects, 0);
}

#[tokio::test]
async fn a_second_extension_of_the_same_id_is_refused_and_leaves_nothing() {
    let loaded = Loaded::fixture();
    let second = Loaded::fixture();
    let mut builder = ExtensionRegistryBuilder::new();
    let empty = ExtensionConfig::empty();
    let first = loaded.plugin.extensions().next().unwrap();
    builder.extension(first, &empty).unwrap();
    let objects = second.plugin.stats().plugin.objects;
    let error = builder
        .extension(second.plugin.extensions().next().unwrap(), &empty)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(second.plugin.stats().plugin.objects, objects);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_ends_calls_under_way_and_refuses_later_ones() {
    let loaded = Loaded::fixture();
    let mut running = Vec::new();
    for name in ["forever", "sleep", "timeout", "spawn"].repeat(5) {
        let tool = loaded.tool(name);
        running.push(tokio::spawn(async move {
            let call = tool_call(name, r#"{"ms":100000}"#);
            tool.execute(call, context()).await
        }));
    }
    let tasks = || loaded.plugin.stats().plugin.tasks;
    eventually("all calls are under way", || tasks() == running.len()).await;
    loaded.plugin.close();
    for call in running {
        let error = within(call).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(!error.is_temporary(), "{error}");
        assert!(error.to_string().contains("shut down"), "{error}");
    }
    let error = loaded.call("echo", "{}").await.unwrap_err();
    assert!(error.to_string().contains("shut down"), "{error}");
    assert_eq!(loaded.plugin.stats(), haft_plugin::PluginStats::default());
    loaded.plugin.close();
}

#[tokio::test]
async fn dropping_all_of_a_plug_in_closes_it() {
    let loaded = Loaded::fixture();
    let output = Arc::new(Kept::default());
    let context = context().with_output(Arc::clone(&output) as _);
    // A task of the plug-in's that has the host's object and never ends.
    loaded.text_in(context, "forever_spawned", "{}").await;
    let tool = loaded.tool("echo");
    drop(loaded);
    // One proxy is left: it works still, and so does the task.
    let again = tool.execute(tool_call("echo", "{}"), support::context());
    assert!(within(again).await.is_ok());
    assert_eq!(Arc::strong_count(&output), 2);
    drop(tool);
    assert_eq!(Arc::strong_count(&output), 1);
}

#[tokio::test]
async fn instances_of_one_file_share_nothing() {
    let (first, second) = (Loaded::fixture(), Loaded::fixture());
    first.text("keep", "{}").await;
    assert_eq!(second.text("let_go", "{}").await, "nothing was kept");
    first.plugin.close();
    assert_eq!(second.text("sleep", r#"{"ms":1}"#).await, "slept");
}

/// A panic of a store or a runner costs the call that hit it; the next one is
/// served.
#[tokio::test]
async fn a_panic_in_a_store_or_a_session_is_an_error() {
    use haft_api::{
        Durability, Error, ListThreads, NewThread, ReadOptions, ReadRange, StoreOptions,
    };
    use haft_testkit::{
        FaultStore, MemoryRunner, MemoryStore, MemoryStoreFactory, RunnerOperation as Runner,
        StoreOperation as Store,
    };

    let faulty = FaultStore::new(MemoryStore::new().shared());
    let runner = MemoryRunner::new();
    let (store, provider) = (faulty.shared(), runner.clone());
    let loaded = Loaded::in_process(move |registry| {
        registry.store(Arc::new(MemoryStoreFactory::new(Arc::clone(&store))));
        registry.runner(provider.shared());
    });
    let panicked = |error: Option<Error>| {
        let error = error.expect("a panic is an error");
        assert_eq!(error.kind(), ErrorKind::Unexpected, "{error}");
        assert_eq!(error.context_value("extension"), Some("parts"), "{error}");
        assert!(error.to_string().contains("panicked: a bug"), "{error}");
    };

    let store = within(
        loaded.registry.stores()[0]
            .part
            .open(StoreOptions::new("/h")),
    );
    let store = store.await.unwrap();
    let id = ThreadId::new("a").unwrap();
    let mut writer = store.create(NewThread::new(id.clone())).await.unwrap();
    let next = |operation| faulty.faults().on(operation).next().panic("a bug");
    let _ = next(Store::Append);
    panicked(writer.append(Vec::new(), Durability::Buffered).await.err());
    let _ = next(Store::Read);
    let all = ReadRange::Forward {
        seq: 0,
        limit: None,
    };
    panicked(store.read(&id, all).await.err());
    let _ = next(Store::List);
    panicked(store.list(ListThreads::default()).await.err());
    assert_eq!(store.read(&id, all).await.unwrap().records.len(), 1);

    let next = |operation| runner.faults().on(operation).next().panic("a bug");
    let provider = &loaded.registry.runners()[0].part;
    let _ = next(Runner::Create);
    panicked(within(provider.create(runner.binding("d"))).await.err());
    let session = within(provider.create(runner.binding("d"))).await.unwrap();
    let _ = next(Runner::ReadFile);
    panicked(session.read_file("x", ReadOptions::default()).await.err());
    let missing = session.read_file("x", ReadOptions::default()).await;
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
}
