//! Encrypted connections. The certificates beside this file are for these
//! tests alone; the key of the authority that signed them is kept nowhere.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use haft_api::ErrorKind;
use haft_ext_engine_openai::OpenAiConfig;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

use crate::{DONE, HELLO, Heard, STOP, engine, round};
use haft_testkit::loopback::read_request;

fn beside(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/wire/tls")
        .join(name)
}

/// A server whose certificate is for `localhost`, signed by an authority that no
/// system knows. Dropping it ends it.
pub(crate) struct TlsServer {
    pub(crate) base_url: String,
    requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TlsServer {
    /// The heads of the requests, in lower case.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Starts such a server.
pub(crate) async fn serve_tls() -> TlsServer {
    let certificate = CertificateDer::from_pem_file(beside("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(beside("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Fails where the client doesn't accept the certificate.
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            if let Some(request) = read_request(&mut stream).await {
                seen.lock().unwrap().push(request.head);
                let answer = format!("HTTP/1.1 200 OK\r\n\r\n{HELLO}{STOP}{DONE}");
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
            }
        }
    });
    TlsServer {
        base_url: format!("https://localhost:{port}/v1"),
        requests,
        task,
    }
}

/// Makes the authority known.
pub(crate) fn trusted(config: &mut OpenAiConfig) {
    config.ca_file = Some(beside("ca.pem"));
}

/// A round with such a server.
async fn with_tls(change: impl FnOnce(&mut OpenAiConfig)) -> Heard {
    let server = serve_tls().await;
    round(&engine(&server.base_url, change)).await
}

#[tokio::test]
async fn a_certificate_is_accepted_from_a_known_authority_alone() {
    with_tls(trusted).await.ends("hello");
    let heard = with_tls(|_| ()).await;
    heard.fails(
        "",
        ErrorKind::Unavailable,
        false,
        &["certificate", "ca_file"],
    );
}

#[tokio::test]
async fn a_file_of_certificates_that_is_none_is_named() {
    let check = async |name: &str, kind: ErrorKind, says: &str| {
        let path = beside(name);
        let heard = with_tls(|config| config.ca_file = Some(path)).await;
        heard.fails("", kind, false, &[says, name]);
    };
    check("missing.pem", ErrorKind::NotFound, "can't be read").await;
    check("server.key", ErrorKind::InvalidInput, "no certificate").await;
}
