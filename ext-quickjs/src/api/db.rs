//! `db`: a SQLite database of the skill's own.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rquickjs::{Array, BigInt, Ctx, Function, Object, Value};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{Value as Sql, ValueRef};
use rusqlite::{Connection, OpenFlags};

use super::raise;
use crate::native::Native;
use crate::thrown::text_from;
use crate::worker::Raised;

const FILE: &str = "skill.db";
/// How many steps of SQLite's machine run between two looks at the clock.
const LOOK_EVERY: i32 = 10_000;
/// Integers beyond this are no longer exact as numbers.
const SAFE: i64 = 1 << 53;
const MOST_ROWS: usize = 1_000_000;

/// A skill's open database.
pub(crate) struct Database {
    connection: Connection,
    /// When the statement that runs has to end, in milliseconds from `began`.
    until: Arc<AtomicU64>,
    began: Instant,
}

impl Database {
    fn open(folder: Option<&Path>) -> Result<Self, String> {
        let open = || -> rusqlite::Result<Connection> {
            let connection = match folder {
                Some(folder) => {
                    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
                        | OpenFlags::SQLITE_OPEN_CREATE
                        | OpenFlags::SQLITE_OPEN_NOFOLLOW
                        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                    let connection = Connection::open_with_flags(folder.join(FILE), flags)?;
                    connection.pragma_update(None, "journal_mode", "WAL")?;
                    connection.pragma_update(None, "synchronous", "NORMAL")?;
                    connection
                }
                None => Connection::open_in_memory()?,
            };
            connection.busy_timeout(Duration::from_secs(2))?;
            connection.pragma_update(None, "temp_store", "MEMORY")?;
            connection.pragma_update(None, "trusted_schema", false)?;
            connection.pragma_update(None, "cache_size", -2000)?;
            connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, 64 * 1024 * 1024)?;
            Ok(connection)
        };
        let said = |e: rusqlite::Error| format!("the database can't be opened: {e}");
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        let mut database = Self {
            connection: open().map_err(said)?,
            until: Arc::default(),
            began: Instant::now(),
        };
        database.guard().map_err(said)?;
        Ok(database)
    }

    /// Keeps statements within their file and their time.
    fn guard(&mut self) -> rusqlite::Result<()> {
        self.connection.authorizer(Some(authorize))?;
        let (until, began) = (Arc::clone(&self.until), self.began);
        let over = move || {
            let until = Duration::from_millis(until.load(Ordering::Relaxed));
            began.elapsed() > until
        };
        self.connection.progress_handler(LOOK_EVERY, Some(over))
    }

    /// Sets when the next statement has to end.
    fn until(&self, deadline: Instant) -> &Connection {
        let ms = deadline.saturating_duration_since(self.began).as_millis();
        let ms = u64::try_from(ms).unwrap_or(u64::MAX);
        self.until.store(ms, Ordering::Relaxed);
        &self.connection
    }
}

/// Other files can't be reached, nor code loaded. A database without a name is
/// one that SQLite makes for itself (`VACUUM`).
fn authorize(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Attach { filename } if !filename.is_empty() => Authorization::Deny,
        AuthAction::Pragma { pragma_name, .. }
            if [
                "temp_store_directory",
                "data_store_directory",
                "trusted_schema",
            ]
            .iter()
            .any(|denied| pragma_name.eq_ignore_ascii_case(denied)) =>
        {
            Authorization::Deny
        }
        AuthAction::Function { function_name }
            if function_name.eq_ignore_ascii_case("load_extension") =>
        {
            Authorization::Deny
        }
        _ => Authorization::Allow,
    }
}

/// Runs something with the database, which is opened when it is first needed.
fn with<T>(
    ctx: &Ctx<'_>,
    native: &Native,
    run: impl FnOnce(&Connection) -> rquickjs::Result<Result<T, rusqlite::Error>>,
) -> rquickjs::Result<T> {
    let mut slot = native.database.borrow_mut();
    let database = match &mut *slot {
        Some(database) => database,
        slot => {
            let opened = Database::open(native.setup.data.as_deref());
            slot.insert(raise(ctx, opened.map_err(Raised::error))?)
        }
    };
    let connection = database.until(native.deadline());
    run(connection)?.or_else(|error| {
        let words = match &error {
            rusqlite::Error::SqliteFailure(failure, _)
                if failure.code == rusqlite::ErrorCode::OperationInterrupted =>
            {
                "the statement was stopped: its time was over".to_owned()
            }
            rusqlite::Error::SqliteFailure(failure, _)
                if failure.code == rusqlite::ErrorCode::AuthorizationForStatementDenied =>
            {
                format!("denied: a skill reaches its own database alone ({error})")
            }
            error => error.to_string(),
        };
        raise(ctx, Err(Raised::error(words)))
    })
}

fn parameters<'js>(ctx: &Ctx<'js>, given: Option<Array<'js>>) -> rquickjs::Result<Vec<Sql>> {
    let Some(given) = given else {
        return Ok(Vec::new());
    };
    let mut values = Vec::with_capacity(given.len());
    for (at, value) in given.iter::<Value<'js>>().enumerate() {
        let value = value?;
        values.push(raise(
            ctx,
            parameter(ctx, &value)?.map_err(|words| {
                Raised::new("TypeError", format!("parameter {}: {words}", at + 1))
            }),
        )?);
    }
    Ok(values)
}

/// A whole number within a double's exact range is an INTEGER, any other a
/// REAL; a bigint is an INTEGER.
fn parameter<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> rquickjs::Result<Result<Sql, String>> {
    if value.is_null() || value.is_undefined() {
        return Ok(Ok(Sql::Null));
    }
    if let Some(truth) = value.as_bool() {
        return Ok(Ok(Sql::Integer(i64::from(truth))));
    }
    if let Some(int) = value.as_int() {
        return Ok(Ok(Sql::Integer(i64::from(int))));
    }
    if let Some(number) = value.as_float() {
        #[allow(clippy::cast_precision_loss, reason = "a power of two is exact")]
        let whole = number.fract() == 0.0 && number.abs() <= SAFE as f64;
        #[allow(
            clippy::cast_possible_truncation,
            reason = "it is whole and small enough"
        )]
        let sql = match whole {
            true => Sql::Integer(number as i64),
            false => Sql::Real(number),
        };
        return Ok(Ok(sql));
    }
    if let Some(text) = value.as_string() {
        return Ok(Ok(Sql::Text(text_from(ctx, text)?)));
    }
    if let Some(big) = value.as_big_int() {
        let text = crate::thrown::text_of(ctx, big.as_value());
        return Ok(match text.parse::<i64>() {
            Ok(number) => Ok(Sql::Integer(number)),
            Err(_) => Err(format!("{text} is no 64-bit integer")),
        });
    }
    if let Some(object) = value.as_object()
        && let Some(array) = object.as_typed_array::<u8>()
    {
        return Ok(Ok(Sql::Blob(super::bytes(ctx, array)?)));
    }
    Ok(Err(format!(
        "a {} can't be stored (strings, numbers, bigints, booleans, null and Uint8Array can)",
        value.type_name()
    )))
}

fn cell<'js>(ctx: &Ctx<'js>, value: ValueRef<'_>) -> rquickjs::Result<Value<'js>> {
    use rquickjs::IntoJs as _;
    Ok(match value {
        ValueRef::Null => Value::new_null(ctx.clone()),
        ValueRef::Integer(int) if int.abs_diff(0) > SAFE.unsigned_abs() => {
            BigInt::from_i64(ctx.clone(), int)?.into_value()
        }
        #[allow(clippy::cast_precision_loss, reason = "checked in the arm before")]
        ValueRef::Integer(int) => Value::new_number(ctx.clone(), int as f64),
        ValueRef::Real(real) => Value::new_float(ctx.clone(), real),
        ValueRef::Text(text) => String::from_utf8_lossy(text).as_ref().into_js(ctx)?,
        ValueRef::Blob(blob) => STANDARD.encode(blob).into_js(ctx)?,
    })
}

/// Rows as objects, at most so many.
fn rows<'js>(
    ctx: &Ctx<'js>,
    native: &Native,
    sql: &str,
    given: Option<Array<'js>>,
    most: usize,
) -> rquickjs::Result<Array<'js>> {
    let values = parameters(ctx, given)?;
    with(ctx, native, |connection| {
        let read = || -> Result<rquickjs::Result<Array<'js>>, rusqlite::Error> {
            let mut statement = connection.prepare_cached(sql)?;
            let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
            let mut rows = statement.query(rusqlite::params_from_iter(values))?;
            let list = match Array::new(ctx.clone()) {
                Ok(list) => list,
                Err(error) => return Ok(Err(error)),
            };
            let mut count = 0;
            while let Some(row) = rows.next()? {
                let build = || -> rquickjs::Result<Result<Object<'js>, rusqlite::Error>> {
                    let object = Object::new(ctx.clone())?;
                    for (at, name) in names.iter().enumerate() {
                        match row.get_ref(at) {
                            Ok(value) => object.set(name, cell(ctx, value)?)?,
                            Err(error) => return Ok(Err(error)),
                        }
                    }
                    Ok(Ok(object))
                };
                match build() {
                    Ok(object) => {
                        if let Err(error) = list.set(count, object?) {
                            return Ok(Err(error));
                        }
                    }
                    Err(error) => return Ok(Err(error)),
                }
                count += 1;
                if count >= most {
                    break;
                }
            }
            Ok(Ok(list))
        };
        match read() {
            Ok(list) => list.map(Ok),
            Err(error) => Ok(Err(error)),
        }
    })
}

pub(super) fn equip<'js>(
    ctx: &Ctx<'js>,
    table: &Object<'js>,
    native: &Rc<Native>,
) -> rquickjs::Result<()> {
    let host = Rc::clone(native);
    let exec =
        move |ctx: Ctx<'js>, sql: String, given: Option<Array<'js>>| -> rquickjs::Result<f64> {
            match given {
                None => {
                    // Several statements, as in a script that makes tables.
                    with(&ctx, &host, |connection| {
                        let before = connection.total_changes();
                        let ran = connection.execute_batch(&sql);
                        Ok(ran.map(|()| changes(connection.total_changes() - before)))
                    })
                }
                given => {
                    let values = parameters(&ctx, given)?;
                    with(&ctx, &host, |connection| {
                        let run = || {
                            let mut statement = connection.prepare_cached(&sql)?;
                            let before = connection.total_changes();
                            let mut rows = statement.query(rusqlite::params_from_iter(values))?;
                            while rows.next()?.is_some() {}
                            Ok(changes(connection.total_changes() - before))
                        };
                        Ok(run())
                    })
                }
            }
        };
    table.set("dbExec", Function::new(ctx.clone(), exec)?)?;

    let host = Rc::clone(native);
    let get = move |ctx: Ctx<'js>,
                    sql: String,
                    given: Option<Array<'js>>|
          -> rquickjs::Result<Value<'js>> {
        let list = rows(&ctx, &host, &sql, given, 1)?;
        match list.is_empty() {
            true => Ok(Value::new_null(ctx)),
            false => list.get(0),
        }
    };
    table.set("dbGet", Function::new(ctx.clone(), get)?)?;

    let host = Rc::clone(native);
    let all = move |ctx: Ctx<'js>, sql: String, given: Option<Array<'js>>| {
        rows(&ctx, &host, &sql, given, MOST_ROWS)
    };
    table.set("dbAll", Function::new(ctx.clone(), all)?)
}

/// A count of rows.
#[allow(clippy::cast_precision_loss, reason = "a count never gets that far")]
fn changes(count: u64) -> f64 {
    count as f64
}
