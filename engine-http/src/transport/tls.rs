//! What makes a connection secure.

use std::path::Path;
use std::sync::Arc;

use haft_api::{Error, ErrorKind, Result};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;

/// TLS with the system's certificates and those of `ca_file`, all of which are
/// read here. HTTP/1.1 alone is offered.
pub(super) fn config(ca_file: Option<&Path>) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| unusable("TLS can't be set up", e))?;
    let extra = ca_file.map(read_certificates).transpose()?;
    let verifier =
        Verifier::new_with_extra_roots(extra.unwrap_or_default(), provider).map_err(|e| {
            unusable(
                "the system's certificates can't be used (install `ca-certificates`, or set \
                 `ca_file`)",
                e,
            )
        })?;
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn unusable(message: &str, error: rustls::Error) -> Error {
    Error::new(ErrorKind::Unavailable, message)
        .permanent()
        .source(error)
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let refuse = |message: String| {
        Error::new(ErrorKind::InvalidInput, message).context("ca_file", path.display())
    };
    let text = std::fs::read(path).map_err(|e| {
        Error::io(e, "the certificates can't be read").context("ca_file", path.display())
    })?;
    let certificates = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| refuse(format!("not certificates in PEM: {e}")))?;
    match certificates.is_empty() {
        true => Err(refuse("there is no certificate in it".to_owned())),
        false => Ok(certificates),
    }
}
