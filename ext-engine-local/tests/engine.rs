//! The engine as a runtime sees it before any model runs.

use std::path::Path;

use haft_api::{
    EngineRequest, ErrorKind, Extension as _, ExtensionConfig, ExtensionRegistryBuilder, History,
    InferenceEngine, Item, Readiness, Result, ThreadId, TurnId,
};
use haft_ext_engine_local::{LocalEngine, LocalExtension, LocalSettings, ServerChoice};

fn settings(home: Option<&Path>) -> LocalSettings {
    let mut settings = LocalSettings::default();
    settings.home = home.map(Path::to_owned);
    settings.server = ServerChoice::Fetched;
    settings
}

async fn stream_error(settings: LocalSettings, model: Option<&str>) -> haft_api::Error {
    let engine = LocalEngine::new(settings).unwrap();
    let history = History::new(1, vec![Item::user("Hello").into()]);
    let (thread, turn) = (ThreadId::new("t").unwrap(), TurnId::new("u").unwrap());
    let mut request = EngineRequest::new(thread, turn, history);
    request.model = model.map(str::to_owned);
    engine.stream_turn(request).await.err().unwrap()
}

#[test]
fn settings_are_checked_at_the_door() {
    let register = |json: &str| -> Result<usize> {
        let mut builder = ExtensionRegistryBuilder::new();
        builder.extension(&LocalExtension, &ExtensionConfig::from_json(json)?)?;
        Ok(builder.build()?.engines().len())
    };
    assert_eq!(register("{}").unwrap(), 1);
    let all = r#"{"home": "/nowhere", "model": "x.gguf", "server": "/usr/bin/llama-server",
        "python": "python3.12", "threads": 2, "context_tokens": 8192, "profile": "small",
        "download": false, "idle_shutdown_seconds": 0, "start_timeout_seconds": 60}"#;
    assert_eq!(register(all).unwrap(), 1);
    let check = |json: &str, word: &str| {
        let error = register(json).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(word), "{error}");
    };
    check(r#"{"thread": 2}"#, "thread");
    check(r#"{"threads": 0}"#, "threads");
    check(r#"{"profile": "tiny"}"#, "tiny");
    assert_eq!(LocalExtension.manifest().unwrap().id, "engine-local");
}

#[tokio::test]
async fn readiness_says_what_is_missing_and_downloads_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let readiness = async |settings| LocalEngine::new(settings).unwrap().readiness().await;
    let reason = |readiness| match readiness {
        Readiness::Unavailable { reason } => reason,
        other => panic!("{other:?}"),
    };
    match readiness(settings(Some(folder.path()))).await {
        Readiness::NeedsSetup {
            reason,
            download_bytes,
        } => {
            assert!(
                reason.contains("127 MB") && reason.contains("smollm2-135m"),
                "{reason}"
            );
            assert_eq!(download_bytes, Some(126_698_538));
        }
        Readiness::Unavailable { reason } => assert!(reason.contains("Python"), "{reason}"),
        Readiness::Ready => panic!("nothing was fetched"),
    }
    assert!(reason(readiness(settings(None)).await).contains("home"));
    let mut offline = settings(Some(folder.path()));
    offline.download = false;
    assert!(reason(readiness(offline).await).contains("haft models get"));
    let mut unknown = settings(Some(folder.path()));
    unknown.model = Some("huge".to_owned());
    assert!(reason(readiness(unknown).await).contains("smollm2-135m"));
    let mut file = settings(Some(folder.path()));
    file.model = Some("/nowhere/x.gguf".to_owned());
    assert!(reason(readiness(file).await).contains("/nowhere/x.gguf"));
    let mut python = settings(Some(folder.path()));
    python.python = Some("/nowhere/python".into());
    assert!(reason(readiness(python).await).contains("Python 3.10"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn models_are_the_catalog_and_what_the_settings_name() {
    let folder = tempfile::tempdir().unwrap();
    let engine = LocalEngine::new(settings(Some(folder.path()))).unwrap();
    let models = engine.models().await.unwrap();
    let names: Vec<_> = models.iter().map(|model| model.name.as_str()).collect();
    assert_eq!(names, ["smollm2-135m"]);
    assert_eq!(models[0].context_tokens, Some(4_096));
    assert!(models[0].hint.as_deref().unwrap().contains("tiny"));
    assert!(engine.model(Some("huge")).await.is_err());

    let path = folder.path().join("own.gguf");
    std::fs::write(&path, "GGUF").unwrap();
    let mut own = settings(Some(folder.path()));
    own.model = Some(path.to_str().unwrap().to_owned());
    own.context_tokens = Some(1_000);
    let models = LocalEngine::new(own).unwrap().models().await.unwrap();
    assert_eq!(models.len(), 2);
    assert_eq!(
        (&*models[0].name, &models[0].hint),
        (path.to_str().unwrap(), &None)
    );
    assert_eq!(models[0].context_tokens, Some(1_000));
}

#[tokio::test]
async fn a_request_that_cannot_run_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut offline = settings(Some(folder.path()));
    offline.download = false;
    let error = stream_error(offline.clone(), None).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        !error.is_temporary() && error.message().contains("haft models get"),
        "{error}"
    );
    let error = stream_error(settings(None), None).await;
    assert!(error.message().contains("home"), "{error}");
    assert_eq!(
        stream_error(offline.clone(), Some("huge")).await.kind(),
        ErrorKind::NotFound
    );
    let missing = stream_error(offline.clone(), Some("/nowhere/x.gguf")).await;
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let text = folder.path().join("text.gguf");
    std::fs::write(&text, "not a model").unwrap();
    let error = stream_error(offline, text.to_str()).await;
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}
