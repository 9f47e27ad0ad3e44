//! What the database's errors mean.

use haft_api::{Error, ErrorKind};
use tokio_postgres::error::{Severity, SqlState};

use crate::tls::is_about_certificate;

/// A failed operation, by whether it is known to have changed nothing.
pub(crate) enum Failure {
    /// The server refused it.
    Refused(Error),
    /// It was never sent: there is no way to the server now.
    Unreachable(Error),
    /// The connection broke off, or time ran out: it may have been done.
    Unknown(Error),
}

impl Failure {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Refused(error) | Self::Unreachable(error) | Self::Unknown(error) => error,
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        // The server rolls back what it answers with an error. A fatal one ends
        // the connection, at whatever point.
        let rolled_back = error
            .as_db_error()
            .is_some_and(|db| db.parsed_severity() == Some(Severity::Error));
        let explained = explain(error);
        match rolled_back {
            true => Self::Refused(explained),
            false => Self::Unknown(explained),
        }
    }
}

/// A database's error as one of ours. Neither form repeats the connection
/// string: the library's errors name hosts, users and databases, and no
/// password.
pub(crate) fn explain(error: tokio_postgres::Error) -> Error {
    let Some(db) = error.as_db_error() else {
        if is_about_certificate(&error) {
            let text = "the database server's certificate isn't trusted: `ca_file` must have the \
                        certificate of who issued it, and the connection string the host's name \
                        that stands in it";
            return Error::new(ErrorKind::Denied, text)
                .permanent()
                .source(error);
        }
        let text = "the connection to the database failed or broke off";
        return Error::new(ErrorKind::Unavailable, text).source(error);
    };
    let code = db.code();
    let message = db.message().to_owned();
    let kind = kind_of(code);
    let hint = match (kind, code) {
        (_, code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
            "the database server takes no writes (a standby?): "
        }
        (_, code) if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::UNDEFINED_COLUMN => {
            "the store's tables aren't as they were made; somebody changed them: "
        }
        (ErrorKind::Denied, _) => "the database refuses this user: ",
        (ErrorKind::Unavailable, _) => "the database server can't do this now: ",
        _ => "the database refused: ",
    };
    let code = code.code().to_owned();
    let wrapped = Error::new(kind, format!("{hint}{message}")).context("sqlstate", code);
    match kind {
        ErrorKind::Unavailable => wrapped,
        _ => wrapped.source(error),
    }
}

fn kind_of(code: &SqlState) -> ErrorKind {
    match &code.code()[..2] {
        // Connection, resources, operator intervention, system, rollback.
        "08" | "53" | "57" | "58" | "40" => ErrorKind::Unavailable,
        "28" => ErrorKind::Denied,
        "3D" => ErrorKind::NotFound,
        "22" => ErrorKind::InvalidInput,
        "XX" => ErrorKind::Corrupt,
        _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => ErrorKind::Denied,
        _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => ErrorKind::Unavailable,
        // A lock wasn't granted in time.
        _ if *code == SqlState::LOCK_NOT_AVAILABLE => ErrorKind::Unavailable,
        _ => ErrorKind::Unexpected,
    }
}
