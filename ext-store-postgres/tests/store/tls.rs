//! Connections by TLS: whom the store trusts, and what it says of the others.

use std::path::{Path, PathBuf};
use std::process::Command;

use haft_api::{Error, ThreadStore as _};
use haft_ext_store_postgres::{PostgresConfig, PostgresStore};
use haft_testkit::PostgresServer;

use crate::support::*;

/// Certificates and keys of the test's own, made by `openssl`.
struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    /// Two authorities, and a certificate for `localhost` by the first.
    fn new() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let certificates = Self { folder };
        const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        for name in ["right", "wrong"] {
            certificates.openssl(&format!(
                "req -x509 {KEY} -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"
            ))?;
        }
        certificates.openssl(&format!(
            "req {KEY} -subj /CN=localhost -addext subjectAltName=DNS:localhost \
             -keyout server.key -out server.csr"
        ))?;
        certificates.openssl(
            "x509 -req -in server.csr -CA right.pem -CAkey right.key -days 2 \
             -copy_extensions copy -out server.pem",
        )?;
        Ok(certificates)
    }

    fn openssl(&self, arguments: &str) -> Result<(), String> {
        let output = Command::new("openssl")
            .args(arguments.split_whitespace())
            .current_dir(self.folder.path())
            .output()
            .map_err(|e| format!("openssl can't be run: {e}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!(
                "openssl failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            )),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A server with the certificate for `localhost`, and not for 127.0.0.1.
    fn server(&self) -> Result<PostgresServer, String> {
        let read = |name| std::fs::read_to_string(self.path(name)).map_err(|e| e.to_string());
        PostgresServer::start_tls(&read("server.pem")?, &read("server.key")?)
    }
}

async fn open(host: &str, port: u16, mode: &str, ca_file: Option<&Path>) -> Result<(), Error> {
    let url = format!(
        "host={host} hostaddr=127.0.0.1 port={port} user=haft dbname=postgres sslmode={mode}"
    );
    let mut config = PostgresConfig::default().url(url);
    if let Some(path) = ca_file {
        config = config.ca_file(path);
    }
    let store = PostgresStore::open(config).await?;
    store.list(haft_api::ListThreads::default()).await.map(drop)
}

#[tokio::test]
async fn a_server_is_trusted_by_its_authority_and_its_name() {
    let made = Certificates::new().and_then(|made| Ok((made.server()?, made)));
    let (server, certificates) = match made {
        Ok(made) => made,
        Err(reason) => return skip(&reason),
    };
    let (right, wrong) = (
        certificates.path("right.pem"),
        certificates.path("wrong.pem"),
    );
    let none = certificates.path("none.pem");
    std::fs::write(&none, "nothing\n").unwrap();
    let port = server.port();

    for mode in ["require", "prefer"] {
        open("localhost", port, mode, Some(&right)).await.unwrap();
    }
    // Not encrypted, so there is nothing to trust.
    open("localhost", port, "disable", None).await.unwrap();

    for (host, mode, ca_file, words) in [
        (
            "localhost",
            "require",
            Some(&wrong),
            &["certificate", "ca_file", "UnknownIssuer"][..],
        ),
        (
            "localhost",
            "prefer",
            Some(&wrong),
            &["certificate", "ca_file"],
        ),
        ("localhost", "require", None, &["certificate", "ca_file"]),
        (
            "127.0.0.1",
            "require",
            Some(&right),
            &["certificate", "127.0.0.1"],
        ),
        (
            "localhost",
            "require",
            Some(&none),
            &["no certificate", "none.pem"],
        ),
    ] {
        let error = open(host, port, mode, ca_file.map(|path| &**path))
            .await
            .unwrap_err();
        let text = format!("{error} {:?}", error);
        for word in words {
            assert!(text.contains(word), "{host} {mode} {ca_file:?}: {text}");
        }
        assert!(!error.is_temporary(), "{host} {mode} {ca_file:?}: {text}");
    }
}
