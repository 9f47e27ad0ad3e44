//! The store itself.

use std::fmt;
use std::sync::Arc;

use haft_api::{
    Diagnostic, ErrorKind, ListThreads, NewThread, ReadRange, RecordPage, Result,
    StoreCapabilities, ThreadId, ThreadMetadata, ThreadPage, ThreadStore, ThreadWriter,
    async_trait,
};

use crate::config::PostgresConfig;
use crate::create::{create, delete};
use crate::database::Database;
use crate::lease::{self, Leases, Taken, holder};
use crate::list::list;
use crate::log::{Log, Settings};
use crate::metadata::metadata;
use crate::migrate::migrate;
use crate::notify::Notifier;
use crate::read::{check, read_page};
use crate::watch::{self, Watch};
use crate::worker::Worker;
use crate::writer::PostgresWriter;

/// Threads in a PostgreSQL database; see the [crate's documentation](crate).
///
/// Several stores, in one process or on many machines, may share a database. A
/// clone is the same store. When the last clone and the last writer are dropped,
/// that waits up to two seconds until the leases are given back.
#[derive(Clone)]
pub struct PostgresStore {
    shared: Arc<Shared>,
}

struct Shared {
    database: Arc<Database>,
    settings: Arc<Settings>,
    leases: Arc<Leases>,
    notifier: Arc<Notifier>,
    holder: String,
    /// Whether the server waits for its disk when it is asked to.
    server_syncs: bool,
    worker: Arc<Worker>,
}

/// What the store has to know of the server.
struct Server {
    barrier: String,
    syncs: bool,
}

impl PostgresStore {
    /// Connects to the database, and makes the store's tables or brings them up
    /// to date.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the settings aren't right or there is no
    /// connection string; [`ErrorKind::Unavailable`] if the server can't be
    /// reached; [`ErrorKind::Denied`] if it refuses the user, or the user may not
    /// make tables where there are none; [`ErrorKind::Unsupported`] if the tables
    /// were made by a version that this one doesn't know, or the database isn't
    /// in UTF-8.
    pub async fn open(config: PostgresConfig) -> Result<Self> {
        Self::open_with(config)
            .await
            .map_err(|e| e.operation("open the postgres store"))
    }

    async fn open_with(config: PostgresConfig) -> Result<Self> {
        config.validate()?;
        let database = Arc::new(Database::new(&config)?);
        let worker = Arc::new(Worker::start()?);
        let server = {
            let database = Arc::clone(&database);
            worker
                .run(async move {
                    let server = ask_server(&database).await?;
                    migrate(&database).await?;
                    Ok(server)
                })
                .await?
        };
        let settings = Arc::new(Settings {
            durability: config.durability,
            notify: config.notify,
            lease: config.lease,
            barrier: server.barrier,
        });
        let leases = Arc::new(Leases::default());
        let renewal = lease::renew(Arc::clone(&database), Arc::clone(&leases), config.lease);
        worker.spawn_forever(renewal);
        let notifier = Arc::new(Notifier::new(Arc::clone(&database)));
        worker.spawn_forever(Arc::clone(&notifier).run());
        Ok(Self {
            shared: Arc::new(Shared {
                database,
                settings,
                leases,
                notifier,
                holder: holder(config.node.as_deref()),
                server_syncs: server.syncs,
                worker,
            }),
        })
    }

    /// Hears of threads that go on, on whatever node. Needs a connection of its
    /// own, and one that isn't shared by a pooler.
    ///
    /// # Errors
    /// If the server can't be reached.
    pub async fn watch(&self) -> Result<Watch> {
        let database = Arc::clone(&self.shared.database);
        let watch = self.shared.worker.run(watch::start(database)).await;
        watch.map_err(|e| e.operation("watch"))
    }
}

impl Shared {
    fn writer(&self, taken: Taken) -> Box<dyn ThreadWriter> {
        let lease = self.leases.add(taken.thread, taken.token.clone());
        let thread = taken.metadata.id.clone();
        let log = Log::new(
            Arc::clone(&self.database),
            Arc::clone(&self.settings),
            Arc::clone(&self.notifier),
            lease,
            taken,
        );
        Box::new(PostgresWriter::new(thread, log, Arc::clone(&self.worker)))
    }
}

/// Asks how the server is set up.
async fn ask_server(database: &Database) -> Result<Server> {
    let row = database
        .ask(async |client| {
            let sql = "SELECT current_setting('synchronous_commit'), current_setting('fsync'),
                              current_setting('server_encoding')";
            Ok(client.query_one(sql, &[]).await?)
        })
        .await?;
    let (commit, fsync, encoding): (&str, &str, &str) = (row.get(0), row.get(1), row.get(2));
    if encoding != "UTF8" {
        return Err(haft_api::Error::new(
            ErrorKind::Unsupported,
            format!("the database's encoding must be UTF8, not {encoding}; make another database"),
        ));
    }
    Ok(Server {
        barrier: if commit == "off" { "on" } else { commit }.to_owned(),
        syncs: fsync == "on",
    })
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("schema", &self.shared.database.schema())
            .field("durability", &self.shared.settings.durability)
            .field("holder", &self.shared.holder)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl ThreadStore for PostgresStore {
    fn capabilities(&self) -> StoreCapabilities {
        let mut capabilities = StoreCapabilities::default();
        capabilities.survives_restart = true;
        capabilities.survives_power_loss =
            self.shared.server_syncs && self.shared.settings.durability.keeps_barriers();
        capabilities.cross_process_lease = true;
        capabilities
    }

    async fn create(&self, thread: NewThread) -> Result<Box<dyn ThreadWriter>> {
        let shared = Arc::clone(&self.shared);
        let work = async move {
            let settings = &shared.settings;
            let commit = settings.commit(settings.durability.syncs_life_cycle());
            let (lease, holder) = (settings.lease, &shared.holder);
            let taken = create(&shared.database, &thread, holder, lease, commit).await?;
            Ok(shared.writer(taken))
        };
        let outcome = self.shared.worker.run(work).await;
        outcome.map_err(|e| e.operation("create"))
    }

    async fn open_writer(&self, thread: &ThreadId) -> Result<Box<dyn ThreadWriter>> {
        let (shared, thread) = (Arc::clone(&self.shared), thread.clone());
        let work = async move {
            let (lease, holder) = (shared.settings.lease, &shared.holder);
            let taken = lease::take(&shared.database, &thread, holder, lease).await?;
            Ok(shared.writer(taken))
        };
        let outcome = self.shared.worker.run(work).await;
        outcome.map_err(|e| e.operation("open_writer"))
    }

    async fn read(&self, thread: &ThreadId, range: ReadRange) -> Result<RecordPage> {
        let (database, thread) = (Arc::clone(&self.shared.database), thread.clone());
        let work = async move { read_page(&database, &thread, range).await };
        let outcome = self.shared.worker.run(work).await;
        outcome.map_err(|e| e.operation("read"))
    }

    async fn metadata(&self, thread: &ThreadId) -> Result<ThreadMetadata> {
        let (database, thread) = (Arc::clone(&self.shared.database), thread.clone());
        let work = async move { metadata(&database, &thread).await };
        let outcome = self.shared.worker.run(work).await;
        outcome.map_err(|e| e.operation("metadata"))
    }

    async fn list(&self, request: ListThreads) -> Result<ThreadPage> {
        let database = Arc::clone(&self.shared.database);
        let work = async move { list(&database, &request).await };
        let outcome = self.shared.worker.run(work).await;
        outcome.map_err(|e| e.operation("list"))
    }

    async fn delete(&self, thread: &ThreadId) -> Result<()> {
        let (shared, thread) = (Arc::clone(&self.shared), thread.clone());
        let work = async move {
            let settings = &shared.settings;
            let commit = settings.commit(settings.durability.syncs_life_cycle());
            delete(&shared.database, &thread, commit).await
        };
        let outcome = self.shared.worker.run(work).await;
        outcome.map_err(|e| e.operation("delete"))
    }

    async fn check(&self, thread: &ThreadId) -> Result<Vec<Diagnostic>> {
        let (database, thread) = (Arc::clone(&self.shared.database), thread.clone());
        let work = async move { check(&database, &thread).await };
        let outcome = self.shared.worker.run(work).await;
        outcome.map_err(|e| e.operation("check"))
    }
}
