use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::args::{Approve, PlaceArgs};
use crate::failure::{Outcome, USAGE};

/// A user's home and a workspace, with whatever files a test writes.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("haft")).unwrap();
        std::fs::create_dir(folder.path().join("w")).unwrap();
        Self { folder }
    }

    fn with(files: &[(&str, &str)]) -> Self {
        let place = Self::new();
        for (name, text) in files {
            let name = match *name {
                "user" => "haft/config.toml",
                "workspace" => "w/haft.toml",
                other => other,
            };
            std::fs::write(place.folder.path().join(name), text).unwrap();
        }
        place
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("w")
    }

    fn load<const N: usize>(
        &self,
        variables: [(&str, &str); N],
        flags: Layer,
    ) -> Outcome<Settings> {
        let place = PlaceArgs {
            home: Some(self.folder.path().join("home")),
            config: None,
        };
        self.load_with(&place, variables, flags)
    }

    fn load_with<const N: usize>(
        &self,
        place: &PlaceArgs,
        variables: [(&str, &str); N],
        flags: Layer,
    ) -> Outcome<Settings> {
        let environment =
            Environment::from(variables).with("XDG_CONFIG_HOME", self.folder.path().as_os_str());
        Settings::load(Sources {
            place,
            environment: &environment,
            workspace: Some(&self.workspace()),
            flags,
        })
    }

    /// What is refused, and how.
    #[track_caller]
    fn refused(&self, words: &[&str]) {
        let failure = self.load([], Layer::default()).unwrap_err();
        assert_eq!(failure.status(), USAGE);
        let message = failure.message().unwrap();
        for word in words {
            assert!(message.contains(word), "no `{word}` in: {message}");
        }
    }
}

fn engine(name: &str) -> Layer {
    Layer {
        engine: Some(name.to_owned()),
        ..Layer::default()
    }
}

#[test]
fn nothing_said_is_what_is_built_in() {
    let settings = Place::new().load([], Layer::default()).unwrap();
    assert_eq!((settings.engine, settings.model), (None, None));
    assert_eq!(
        (settings.runner.as_str(), settings.store.as_str()),
        ("local", "jsonl")
    );
    assert_eq!((settings.approve, settings.deadline), (Approve::Ask, None));
}

#[test]
fn later_sources_win() {
    let place = Place::with(&[
        (
            "user",
            "engine = 'user'\nmodel = 'user'\nrunner = 'user'\napprove = 'all'\ndeadline = 9",
        ),
        (
            "workspace",
            "engine = 'workspace'\nmodel = 'workspace'\nrunner = 'workspace'",
        ),
    ]);
    let variables = [
        ("HAFT_ENGINE", "environment"),
        ("HAFT_MODEL", "environment"),
        ("HAFT_RUNNER", ""),
    ];
    let settings = place.load(variables, engine("flag")).unwrap();
    assert_eq!(settings.engine.as_deref(), Some("flag"));
    assert_eq!(settings.model.as_deref(), Some("environment"));
    assert_eq!(settings.runner, "workspace");
    assert_eq!(settings.approve, Approve::All);
    assert_eq!(settings.deadline, Some(Duration::from_secs(9)));
}

#[test]
fn prices_are_laid_over_the_known_ones() {
    let place = Place::with(&[
        ("user", "[prices.gpt-5]\ninput = 9.0\noutput = 9.0"),
        ("workspace", "[prices.mine]\ninput = 1.0\noutput = 1.0"),
    ]);
    let prices = place.load([], Layer::default()).unwrap().prices;
    let check = |model: &str, input: Option<f64>| {
        assert_eq!(
            prices.price(model).map(|price| price.input),
            input,
            "{model}"
        );
    };
    check("gpt-5", Some(9.0));
    check("mine-v2", Some(1.0));
    check("gpt-5-mini", Some(0.25));
    check("unheard-of", None);
}

#[test]
fn a_runner_is_a_name_or_a_table_of_what_commands_may_do() {
    let check = |user: &str, workspace: &str, id: &str, expected: &str| {
        let place = Place::with(&[("user", user), ("workspace", workspace)]);
        let settings = place.load([], Layer::default()).unwrap();
        assert_eq!(settings.runner, id, "{user} {workspace}");
        let all = settings.extensions().unwrap();
        let of_runner = all.iter().find(|(id, _)| *id == "runner-local");
        let found: serde_json::Value =
            of_runner.map_or(serde_json::json!({}), |(_, config)| config.parse().unwrap());
        let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
        assert_eq!(found, expected, "{user} {workspace}");
    };
    check("runner = 'x'", "", "x", "{}");
    check("[runner]\nid = 'x'", "", "x", "{}");
    check(
        "[runner]\nsandbox = 'off'",
        "",
        "local",
        r#"{"sandbox": "off"}"#,
    );
    // A workspace's own word counts where it is the stricter one.
    check(
        "[runner]\nsandbox = 'off'\nnetwork = true\nread = ['/x']",
        "[runner]\nsandbox = 'require'\nnetwork = false",
        "local",
        r#"{"sandbox": "require", "network": false, "read": ["/x"]}"#,
    );
    check(
        "[runner.limits]\nprocesses = 9\n[ext.runner-local]\nkill_grace_ms = 5",
        "runner = 'y'",
        "y",
        r#"{"limits": {"processes": 9}, "kill_grace_ms": 5}"#,
    );
    let place = Place::with(&[("user", "[runner]\nsandbx = 'off'")]);
    let failure = place.load([], Layer::default()).unwrap_err();
    let text = failure.message().unwrap();
    assert!(text.contains("did you mean `sandbox`?"), "{text}");
}

#[test]
fn an_extensions_settings_are_laid_over_each_other_key_by_key() {
    let place = Place::with(&[
        (
            "user",
            "[ext.engine-local]\nthreads = 1\nserver = 'fetched'",
        ),
        ("workspace", "[ext.engine-local]\nthreads = 4"),
    ]);
    let settings = place.load([], Layer::default()).unwrap();
    let (id, config) = settings.extensions().unwrap().remove(0);
    assert_eq!(
        (id, config.as_json()),
        ("engine-local", r#"{"server":"fetched","threads":4}"#)
    );
}

#[test]
fn an_unknown_key_is_told_with_the_nearest_known_one_its_file_and_line() {
    let check =
        |file: &str, text: &str, words: &[&str]| Place::with(&[(file, text)]).refused(words);
    check(
        "user",
        "model = 'x'\nenigne = 'y'",
        &["haft/config.toml:2:", "`enigne`", "did you mean `engine`?"],
    );
    check(
        "workspace",
        "modell = 'x'",
        &["w/haft.toml:1:", "did you mean `model`?"],
    );
    check("user", "zzz = 1", &["`zzz`", "known are", "approve"]);
    check(
        "user",
        "engine = 5",
        &["config.toml:1:", "expected a string"],
    );
    check("user", "approve = 'never'", &["never", "edits"]);
    check("user", "deadline = 0", &["more than 0"]);
    check("user", "engine = ", &["config.toml:1:"]);
    check(
        "user",
        "compact_at = 80",
        &["compact_at", "from 0 to 1", "80"],
    );
    check(
        "user",
        "[prices.m]\ninput = 1.0\noutptu = 2.0",
        &["config.toml:3", "output"],
    );
}

#[test]
fn an_unknown_extension_is_told_with_the_nearest_one() {
    let place = Place::with(&[("user", "[ext.store-json]\nx = 1")]);
    let settings = place.load([], Layer::default()).unwrap();
    let check = |known: &[&str], words: &str| {
        let failure = settings
            .check_extensions(known.iter().copied())
            .unwrap_err();
        assert!(failure.message().unwrap().contains(words), "{failure:?}");
    };
    check(
        &["engine-replay", "store-jsonl"],
        "did you mean `ext.store-jsonl`?",
    );
    check(&["runner-local"], "there are runner-local");
    assert!(settings.check_extensions(["store-json"]).is_ok());
}

#[test]
fn a_workspace_can_choose_but_neither_load_reach_nor_reveal() {
    let check = |text: &str, words: &[&str]| {
        let mut words = words.to_vec();
        words.push("haft.toml");
        Place::with(&[("workspace", text)]).refused(&words);
    };
    check("approve = 'all'", &["`approve`", "`all`"]);
    check("store = 'other'", &["`store`"]);
    check(
        "[ext.engine-openai]\napi_key = 'x'",
        &["`ext.engine-openai.api_key`", "secrets"],
    );
    check(
        "[ext.engine-openai]\nbase_url = 'http://x'",
        &["`ext.engine-openai.base_url`"],
    );
    check(
        "[ext.engine-local]\nserver = './evil'",
        &["`ext.engine-local.server`"],
    );
    check(
        "[ext.runner-local]\nsupervisor = '/x'",
        &["`ext.runner-local.supervisor`"],
    );
    check(
        "[runner]\nsandbox = 'off'",
        &["`runner.sandbox`", "tighten"],
    );
    check("[runner]\nsandbox = 'prefer'", &["`runner.sandbox`"]);
    check("[runner]\nnetwork = true", &["`runner.network`"]);
    check("[runner]\nread = ['/']", &["`runner.read`"]);
    check("[runner]\nhide = []", &["`runner.hide`"]);
    check("[runner.limits]\nprocesses = 9", &["`runner.limits`"]);
    check("[ext.other]\nanything = 1", &["`ext.other.anything`"]);
    // Refused by what it is, whatever the key is called.
    check("plugins = ['/x/y.so']", &["`plugins`", "shared object"]);
    check(
        "[[dylib]]\npath = '/x/libz.so.1'",
        &["`dylib.path`", "shared object"],
    );
    check("my_token = 'x'", &["`my_token`", "secrets"]);
    // Whatever it holds: what would be an entry, what wouldn't, and none at all.
    for plugin in ["[[plugin]]\npath = '/x/y'", "plugin = 1", "plugin = []"] {
        check(plugin, &["`plugin`", "load code", "your own configuration"]);
    }

    let fine = "engine = 'openai'\napprove = 'edits'\ninstructions = 'Mind the .so files.'\n\
                [ext.engine-local]\nthreads = 2";
    assert!(
        Place::with(&[("workspace", fine)])
            .load([], Layer::default())
            .is_ok()
    );
}

#[test]
fn the_user_names_shared_objects() {
    let digest = "ab".repeat(32);
    let text =
        format!("[[plugin]]\npath = '/x/a.so'\n[[plugin]]\npath = '/x/b.so'\nsha256 = '{digest}'");
    let settings = Place::with(&[("user", &text)]).load([], Layer::default());
    let plugins = settings.unwrap().plugins;
    let named: Vec<_> = plugins
        .iter()
        .map(|p| (&*p.path, p.sha256.as_deref()))
        .collect();
    assert_eq!(
        named,
        [
            (Path::new("/x/a.so"), None),
            (Path::new("/x/b.so"), Some(&*digest))
        ]
    );
    let check = |text: &str, words: &[&str]| Place::with(&[("user", text)]).refused(words);
    check("[[plugin]]\nsha256 = 'x'", &["path"]);
    check("[[plugin]]\npath = '/x'\nsha = 'x'", &["`sha`", "`sha256`"]);
}

#[test]
fn a_named_configuration_replaces_the_users_and_has_to_be_there() {
    let place = Place::with(&[
        ("user", "engine = 'user'"),
        ("other.toml", "model = 'other'"),
    ]);
    let named = |name: &str| PlaceArgs {
        home: None,
        config: Some(place.folder.path().join(name)),
    };
    let load = |name: &str| place.load_with(&named(name), [("HAFT_HOME", "/h")], Layer::default());
    let settings = load("other.toml").unwrap();
    assert_eq!(
        (settings.engine, settings.model.as_deref()),
        (None, Some("other"))
    );
    assert_eq!(settings.home, Path::new("/h"));
    let message = load("none.toml").unwrap_err().message().unwrap();
    assert!(message.contains("none.toml isn't there"), "{message}");
}

#[test]
fn a_wrong_variable_is_named() {
    let check = |name: &str, value: &str| {
        let failure = Place::new()
            .load([(name, value)], Layer::default())
            .unwrap_err();
        let message = failure.message().unwrap();
        assert!(
            message.contains(name) && message.contains(value),
            "{message}"
        );
    };
    check("HAFT_APPROVE", "never");
    check("HAFT_DEADLINE", "soon");
}

#[test]
fn the_home_is_the_flags_the_environments_or_the_usual_one() {
    let check = |flag: Option<&str>, variables: [(&str, &str); 3], expected: &str| {
        let place = PlaceArgs {
            home: flag.map(PathBuf::from),
            config: None,
        };
        let home = paths::home(&place, &Environment::from(variables)).unwrap();
        assert_eq!(home, Path::new(expected));
    };
    let all = [
        ("HAFT_HOME", "/env"),
        ("XDG_DATA_HOME", "/xdg"),
        ("HOME", "/me"),
    ];
    check(Some("/flag"), all, "/flag");
    check(None, all, "/env");
    check(
        None,
        [
            ("HAFT_HOME", ""),
            ("XDG_DATA_HOME", "/xdg"),
            ("HOME", "/me"),
        ],
        "/xdg/haft",
    );
    let relative = [("HAFT_HOME", ""), ("XDG_DATA_HOME", "xdg"), ("HOME", "/me")];
    check(None, relative, "/me/.local/share/haft");
    let nowhere = paths::home(&PlaceArgs::default(), &Environment::default()).unwrap_err();
    assert!(nowhere.message().unwrap().contains("HAFT_HOME"));
}

#[test]
fn a_workspace_is_a_folder_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(workspace(Some(folder.path())).unwrap().is_absolute());
    let check = |path: &Path, words: &str| {
        let failure = workspace(Some(path)).unwrap_err();
        assert_eq!(failure.status(), USAGE);
        assert!(failure.message().unwrap().contains(words), "{failure:?}");
    };
    check(&file, "is no folder");
    check(&folder.path().join("none"), "isn't there");
}
