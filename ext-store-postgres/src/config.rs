//! The store's settings.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use haft_api::{Durability, Error, ErrorKind, NewRecord, Result};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The kind of record that ends a turn.
const TURN_ENDED: &str = "turn_ended";

/// The environment variable that holds the connection string, unless another
/// one is named.
const URL_ENV: &str = "HAFT_POSTGRES_URL";

/// The shortest lease: below, a slow network would cost writers their threads.
const SHORTEST_LEASE: Duration = Duration::from_millis(500);

/// When an append waits until the server has written it to its disk. A caller's
/// [`Durability`] is a wish; this decides.
///
/// What isn't waited for is committed with `synchronous_commit = off`: it is
/// visible to everybody at once and survives the end of this process, but a
/// crash of the database server may cost the last of it (about three times the
/// server's `wal_writer_delay`, which is 0.2 s unless set otherwise). What is
/// waited for makes all that was committed before durable as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DurabilityPolicy {
    /// At every append.
    EveryItem,
    /// At every append that asks for a barrier, at creation and at changes of
    /// metadata.
    #[default]
    Barriers,
    /// At an append that ends a turn, at creation and at closing. A crash of the
    /// server may cost the turn that was running.
    Turn,
    /// Never.
    Os,
}

impl DurabilityPolicy {
    /// Whether an append of this group waits for the disk.
    pub(crate) fn syncs_append(self, wish: Durability, group: &[NewRecord]) -> bool {
        match self {
            Self::EveryItem => true,
            Self::Barriers => wish == Durability::Barrier,
            Self::Turn => ends_turn(group),
            Self::Os => false,
        }
    }

    /// Whether a change of metadata waits for the disk.
    pub(crate) fn syncs_metadata(self) -> bool {
        self.keeps_barriers()
    }

    /// Whether creating, deleting and closing wait for the disk.
    pub(crate) fn syncs_life_cycle(self) -> bool {
        self != Self::Os
    }

    /// Whether what a barrier acknowledged survives a power cut.
    pub(crate) fn keeps_barriers(self) -> bool {
        matches!(self, Self::EveryItem | Self::Barriers)
    }
}

/// When other nodes are told of a thread that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NotifyPolicy {
    /// At the end of each turn, and when a writer lets go.
    #[default]
    Turn,
    /// After each append that waited for the disk, too.
    Barrier,
    /// Never.
    Off,
}

impl NotifyPolicy {
    /// Whether an append of this group is told of.
    pub(crate) fn tells(self, synced: bool, group: &[NewRecord]) -> bool {
        match self {
            Self::Turn => ends_turn(group),
            Self::Barrier => synced || ends_turn(group),
            Self::Off => false,
        }
    }
}

fn ends_turn(group: &[NewRecord]) -> bool {
    group.iter().any(|record| record.kind == TURN_ENDED)
}

/// Where a connection string comes from.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Url {
    /// An environment variable of this name.
    Env(String),
    /// A file that holds it.
    File(PathBuf),
    /// The string itself. Never shown.
    Text(String),
}

impl Url {
    /// The connection string.
    pub(crate) fn resolve(&self) -> Result<String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => Ok(text.trim().to_owned()),
                Err(e) => Err(Error::io(e, "the connection string can't be read")
                    .context("url_file", path.display())),
            },
            Self::Env(name) => match std::env::var(name) {
                Ok(text) if !text.trim().is_empty() => Ok(text),
                _ => Err(Error::new(
                    ErrorKind::InvalidInput,
                    "the postgres store needs a connection string; set the environment variable \
                     to one, such as `postgres://user:password@host:5432/database`",
                )
                .context("url_env", name)),
            },
        }
    }

    /// What to call it in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Env(name) => format!("the environment variable {name}"),
            Self::File(path) => format!("the file {}", path.display()),
            Self::Text(_) => "the connection string".to_owned(),
        }
    }
}

/// How a [`PostgresStore`](crate::PostgresStore) behaves. Its debug form doesn't
/// show the connection string.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresConfig {
    pub(crate) url: Url,
    pub(crate) schema: String,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) node: Option<String>,
    pub(crate) durability: DurabilityPolicy,
    pub(crate) notify: NotifyPolicy,
    pub(crate) lease: Duration,
    pub(crate) connections: usize,
    pub(crate) timeout: Duration,
}

impl Default for PostgresConfig {
    fn default() -> Self {
        Self {
            url: Url::Env(URL_ENV.to_owned()),
            schema: "haft".to_owned(),
            ca_file: None,
            node: None,
            durability: DurabilityPolicy::default(),
            notify: NotifyPolicy::default(),
            lease: Duration::from_secs(15),
            connections: 8,
            timeout: Duration::from_secs(30),
        }
    }
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("url", &format_args!("<{}>", self.url.name()))
            .field("schema", &self.schema)
            .field("ca_file", &self.ca_file)
            .field("node", &self.node)
            .field("durability", &self.durability)
            .field("notify", &self.notify)
            .field("lease", &self.lease)
            .field("connections", &self.connections)
            .field("timeout", &self.timeout)
            .finish()
    }
}

impl PostgresConfig {
    /// Connects by this string: a URL, or `key=value` pairs as libpq takes them.
    /// Without it the environment variable `HAFT_POSTGRES_URL` is read when the
    /// store is opened.
    #[must_use]
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Url::Text(url.into());
        self
    }

    /// Connects by the string in this environment variable.
    #[must_use]
    pub fn url_env(mut self, name: impl Into<String>) -> Self {
        self.url = Url::Env(name.into());
        self
    }

    /// Connects by the string that stands in this file, read when the store is
    /// opened.
    #[must_use]
    pub fn url_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.url = Url::File(path.into());
        self
    }

    /// Keeps the tables in this schema, which is made if it isn't there. Stores
    /// of different schemas know nothing of each other.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Trusts the certificates in this file too, in PEM.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// The name by which others are told who has a thread; else the host's.
    #[must_use]
    pub fn node(mut self, node: impl Into<String>) -> Self {
        self.node = Some(node.into());
        self
    }

    /// Sets when the store waits for the server's disk.
    #[must_use]
    pub fn durability(mut self, durability: DurabilityPolicy) -> Self {
        self.durability = durability;
        self
    }

    /// Sets when other nodes are told of changes.
    #[must_use]
    pub fn notify(mut self, notify: NotifyPolicy) -> Self {
        self.notify = notify;
        self
    }

    /// How long a thread stays taken after its writer's process has died; at
    /// least half a second. A living writer renews its lease three times in it.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Most connections at a time, besides one for notifications.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// How long one operation may wait for the server.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// These settings, changed by what stands in a JSON object.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an unknown key or a wrong value, naming
    /// it.
    pub(crate) fn overlay(mut self, json: &RawValue) -> Result<Self> {
        let settings: Settings = serde_json::from_str(json.get())
            .map_err(|e| refuse(format!("the settings of the postgres store don't fit: {e}")))?;
        if settings.url_env.is_some() && settings.url_file.is_some() {
            return Err(refuse("give `url_env` or `url_file`, not both".to_owned()));
        }
        if let Some(name) = settings.url_env {
            if name.contains("://") || name.contains('=') || name.is_empty() {
                // Not repeated: it may be the secret itself.
                return Err(refuse(
                    "`url_env` takes the name of an environment variable, not the connection \
                     string"
                        .to_owned(),
                ));
            }
            self.url = Url::Env(name);
        }
        if let Some(path) = settings.url_file {
            self.url = Url::File(path);
        }
        self.schema = settings.schema.unwrap_or(self.schema);
        self.ca_file = settings.ca_file.or(self.ca_file);
        self.node = settings.node.or(self.node);
        self.durability = settings.durability.unwrap_or(self.durability);
        self.notify = settings.notify.unwrap_or(self.notify);
        self.connections = settings.connections.unwrap_or(self.connections);
        if let Some(seconds) = settings.lease_seconds {
            self.lease = duration("lease_seconds", seconds)?;
        }
        if let Some(seconds) = settings.timeout_seconds {
            self.timeout = duration("timeout_seconds", seconds)?;
        }
        self.validate()?;
        Ok(self)
    }

    /// Refuses values that can't work.
    pub(crate) fn validate(&self) -> Result<()> {
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let starts = |c: char| c.is_ascii_lowercase() || c == '_';
        if !(1..=40).contains(&self.schema.len())
            || !self.schema.starts_with(starts)
            || !self.schema.chars().all(word)
            || self.schema.starts_with("pg_")
        {
            return Err(refuse(format!(
                "`schema` is 1 to 40 of a-z, 0-9 and _, begins with a letter or _ and not with \
                 pg_; got {:?}",
                self.schema
            )));
        }
        if self.connections == 0 {
            return Err(refuse("`connections` must be at least 1".to_owned()));
        }
        if self.lease < SHORTEST_LEASE {
            return Err(refuse("`lease_seconds` must be at least 0.5".to_owned()));
        }
        if self.timeout.is_zero() {
            return Err(refuse("`timeout_seconds` must be above 0".to_owned()));
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    url_env: Option<String>,
    url_file: Option<PathBuf>,
    schema: Option<String>,
    ca_file: Option<PathBuf>,
    node: Option<String>,
    durability: Option<DurabilityPolicy>,
    notify: Option<NotifyPolicy>,
    lease_seconds: Option<f64>,
    connections: Option<usize>,
    timeout_seconds: Option<f64>,
}

fn refuse(message: String) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

fn duration(key: &str, seconds: f64) -> Result<Duration> {
    const LONGEST: f64 = 86_400.0;
    if (0.0..=LONGEST).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(refuse(format!(
            "`{key}` is a number of seconds up to {LONGEST}, got {seconds}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_misspelt_ones_named() {
        let check = |json: &str, expected: Result<&dyn Fn(&PostgresConfig) -> bool, &str>| {
            let raw = RawValue::from_string(json.to_owned()).unwrap();
            match (PostgresConfig::default().overlay(&raw), expected) {
                (Ok(config), Ok(fits)) => assert!(fits(&config), "{json}: {config:?}"),
                (Err(error), Err(word)) => {
                    assert_eq!(error.kind(), ErrorKind::InvalidInput);
                    assert!(error.to_string().contains(word), "{error}");
                }
                (outcome, _) => panic!("{json}: {outcome:?}"),
            }
        };
        check("{}", Ok(&|c| *c == PostgresConfig::default()));
        check(
            r#"{"durability":"every-item","notify":"barrier"}"#,
            Ok(&|c| {
                c.durability == DurabilityPolicy::EveryItem && c.notify == NotifyPolicy::Barrier
            }),
        );
        check(
            r#"{"lease_seconds":2.5,"timeout_seconds":4}"#,
            Ok(&|c| c.lease == Duration::from_millis(2500) && c.timeout.as_secs() == 4),
        );
        check(r#"{"url_env":"X"}"#, Ok(&|c| c.url == Url::Env("X".into())));
        check(r#"{"url_env":"postgres://u:p@h/d"}"#, Err("url_env"));
        check(
            r#"{"url_file":"/f"}"#,
            Ok(&|c| c.url == Url::File("/f".into())),
        );
        check(r#"{"url_env":"X","url_file":"/f"}"#, Err("not both"));
        check(r#"{"lease_seconds":0.1}"#, Err("lease_seconds"));
        check(r#"{"lease_seconds":-1}"#, Err("lease_seconds"));
        check(r#"{"timeout_seconds":0}"#, Err("timeout_seconds"));
        check(r#"{"connections":0}"#, Err("connections"));
        check(r#"{"durabilty":"os"}"#, Err("durabilty"));
        check(r#"{"durability":"sometimes"}"#, Err("sometimes"));
        for schema in ["", "A", "a-b", "a\"b", "pg_x", "1a", "a; drop table x"] {
            let json = serde_json::json!({ "schema": schema }).to_string();
            check(&json, Err("schema"));
        }
    }

    #[test]
    fn a_connection_string_is_never_shown() {
        let config = PostgresConfig::default().url("postgres://u:geheim@h/d");
        let shown = format!("{config:?}");
        assert!(!shown.contains("geheim"), "{shown}");
        let raw = RawValue::from_string(r#"{"url_env":"postgres://u:geheim@h/d"}"#.to_owned());
        let refused = PostgresConfig::default()
            .overlay(&raw.unwrap())
            .unwrap_err();
        assert!(!refused.to_string().contains("geheim"), "{refused}");
    }

    #[test]
    fn the_policy_decides_what_a_wish_comes_to() {
        use Durability::{Barrier, Buffered};
        let group = |kind: &str| vec![NewRecord::new(kind, &1).unwrap()];
        let check = |policy: DurabilityPolicy, wish, kind: &str, syncs: bool| {
            assert_eq!(
                policy.syncs_append(wish, &group(kind)),
                syncs,
                "{policy:?} {wish:?} {kind}"
            );
        };
        check(DurabilityPolicy::EveryItem, Buffered, "item", true);
        check(DurabilityPolicy::Barriers, Buffered, "item", false);
        check(DurabilityPolicy::Barriers, Barrier, "item", true);
        check(DurabilityPolicy::Turn, Barrier, "item", false);
        check(DurabilityPolicy::Turn, Buffered, "turn_ended", true);
        check(DurabilityPolicy::Os, Barrier, "turn_ended", false);
        assert!(NotifyPolicy::Turn.tells(false, &group("turn_ended")));
        assert!(!NotifyPolicy::Turn.tells(true, &group("item")));
        assert!(NotifyPolicy::Barrier.tells(true, &group("item")));
        assert!(!NotifyPolicy::Off.tells(true, &group("turn_ended")));
    }
}
