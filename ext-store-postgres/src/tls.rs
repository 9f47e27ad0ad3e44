//! What makes a connection secure.
//!
//! The connection string's `sslmode` decides: `disable`, `prefer` (encrypted
//! where the server can) or `require`. Wherever a connection is encrypted the
//! server's certificate is verified.

#[cfg(feature = "tls")]
pub(crate) use with::{Tls, connector, is_about_certificate};
#[cfg(not(feature = "tls"))]
pub(crate) use without::{Tls, connector, is_about_certificate};

#[cfg(not(feature = "tls"))]
mod without {
    use std::path::Path;

    use haft_api::{Error, ErrorKind, Result};
    use tokio_postgres::config::SslMode;

    pub(crate) type Tls = tokio_postgres::NoTls;

    pub(crate) fn connector(ca_file: Option<&Path>, mode: SslMode) -> Result<Tls> {
        if mode == SslMode::Require || ca_file.is_some() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "TLS is asked for, and this program was built without the feature `tls` of \
                 haft-ext-store-postgres",
            ));
        }
        Ok(tokio_postgres::NoTls)
    }

    pub(crate) fn is_about_certificate(_: &tokio_postgres::Error) -> bool {
        false
    }
}

#[cfg(feature = "tls")]
mod with {
    use std::error::Error as _;
    use std::io;
    use std::path::Path;
    use std::sync::Arc;

    use haft_api::{Error, ErrorKind, Result};
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use rustls::{ClientConfig, RootCertStore};
    use rustls_platform_verifier::Verifier;
    use tokio_postgres::config::SslMode;
    use tokio_postgres_rustls::MakeRustlsConnect;

    pub(crate) type Tls = MakeRustlsConnect;

    /// TLS with the system's certificates and those of `ca_file`. Where no
    /// connection is to be encrypted no certificate is read, and none accepted.
    pub(crate) fn connector(ca_file: Option<&Path>, mode: SslMode) -> Result<Tls> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| unusable("TLS can't be set up", e))?;
        if mode == SslMode::Disable {
            let none = builder.with_root_certificates(RootCertStore::empty());
            return Ok(MakeRustlsConnect::new(none.with_no_client_auth()));
        }
        let extra = ca_file.map(read_certificates).transpose()?;
        let verifier = match Verifier::new_with_extra_roots(extra.unwrap_or_default(), provider) {
            Ok(verifier) => verifier,
            // Good enough for a server that offers no TLS; one that does is
            // then refused.
            Err(_) if mode == SslMode::Prefer && ca_file.is_none() => {
                let none = builder.with_root_certificates(RootCertStore::empty());
                return Ok(MakeRustlsConnect::new(none.with_no_client_auth()));
            }
            Err(e) => {
                return Err(unusable(
                    "the system's certificates can't be used (install `ca-certificates`, or set \
                     `ca_file`)",
                    e,
                ));
            }
        };
        let config = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok(MakeRustlsConnect::new(config))
    }

    /// Whether a connection failed because of the server's certificate.
    pub(crate) fn is_about_certificate(error: &tokio_postgres::Error) -> bool {
        let mut next = error.source();
        while let Some(error) = next {
            // What an I/O error was made of isn't its source.
            let inner = error
                .downcast_ref::<io::Error>()
                .and_then(|error| error.get_ref()?.downcast_ref());
            let found = error.downcast_ref().or(inner);
            if matches!(found, Some(rustls::Error::InvalidCertificate(_))) {
                return true;
            }
            next = error.source();
        }
        false
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
}
