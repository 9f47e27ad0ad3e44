//! The store's tables, brought to the form that this version knows.

use deadpool_postgres::Object;
use haft_api::{Error, ErrorKind, Result};

use crate::database::Database;
use crate::failure::Failure;

/// A step from one form of the tables to the next.
struct Migration {
    /// The form after it.
    version: i32,
    /// The oldest form whose programs can go on with this one.
    needs: i32,
    sql: &'static str,
}

/// In order. A step that was ever released isn't changed.
const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    needs: 1,
    sql: include_str!("migrations/1.sql"),
}];

/// The form that this version of the crate is made for.
const VERSION: i32 = 1;

/// Held while tables are changed, in all schemas of a database: an arbitrary
/// number, the same in every version.
const LOCK: i64 = 0x6861_6674_0001;

/// What the tables say of themselves.
struct Form {
    version: i32,
    needs: i32,
}

/// Makes or changes the tables if need be. Safe when many do it at once: one
/// does it, the others wait; if it fails, nothing was changed.
pub(crate) async fn migrate(database: &Database) -> Result<()> {
    let form = database
        .ask(async |client| form(client, database).await)
        .await?;
    // The usual case needs neither a lock nor the right to create anything.
    if check(form.as_ref(), database)? == VERSION {
        return Ok(());
    }
    let failed = |e: Error| {
        e.context("schema", database.schema())
            .operation("make the store's tables")
    };
    database
        .ask(async |client| apply(client, database).await)
        .await
        .map_err(failed)?;
    let form = database
        .ask(async |client| form_known(client, database).await)
        .await?;
    check(form.as_ref(), database).map(|_| ())
}

/// The version of the tables, if this crate can work with them; 0 if there are
/// none, and no more than the one that is known here.
fn check(form: Option<&Form>, database: &Database) -> Result<i32> {
    let Some(form) = form else { return Ok(0) };
    if form.needs > VERSION {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "the store's tables have form {}, which needs a program that knows form {}; this \
                 one knows form {VERSION}: update it",
                form.version, form.needs
            ),
        )
        .context("schema", database.schema()));
    }
    Ok(form.version.min(VERSION))
}

async fn form(client: &mut Object, database: &Database) -> Result<Option<Form>, Failure> {
    let table = format!("{}.migrations", database.schema());
    let there = client
        .query_one("SELECT to_regclass($1) IS NOT NULL", &[&table])
        .await?;
    match there.get(0) {
        true => form_known(client, database).await,
        false => Ok(None),
    }
}

async fn form_known(client: &mut Object, database: &Database) -> Result<Option<Form>, Failure> {
    let sql = database.sql("SELECT max(version), max(needs) FROM {s}.migrations");
    let row = client.query_one(&sql, &[]).await?;
    let (version, needs): (Option<i32>, Option<i32>) = (row.get(0), row.get(1));
    Ok(version
        .zip(needs)
        .map(|(version, needs)| Form { version, needs }))
}

async fn apply(client: &mut Object, database: &Database) -> Result<(), Failure> {
    let transaction = client.transaction().await?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])
        .await?;
    transaction
        .batch_execute(&database.sql(
            "SET LOCAL client_min_messages = warning;
             CREATE SCHEMA IF NOT EXISTS {s};
             CREATE TABLE IF NOT EXISTS {s}.migrations (
                 version    integer PRIMARY KEY,
                 needs      integer NOT NULL,
                 made_by    text NOT NULL,
                 made_at    timestamptz NOT NULL DEFAULT now()
             )",
        ))
        .await?;
    let sql = database.sql("SELECT coalesce(max(version), 0) FROM {s}.migrations");
    let version: i32 = transaction.query_one(&sql, &[]).await?.get(0);
    for step in MIGRATIONS.iter().filter(|step| step.version > version) {
        transaction.batch_execute(&database.sql(step.sql)).await?;
        let sql = database
            .sql("INSERT INTO {s}.migrations (version, needs, made_by) VALUES ($1, $2, $3)");
        let program = concat!("haft ", env!("CARGO_PKG_VERSION"));
        transaction
            .execute(&sql, &[&step.version, &step.needs, &program])
            .await?;
    }
    transaction.commit().await?;
    Ok(())
}
