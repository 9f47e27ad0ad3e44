//! A plug-in's start: its own extensions, served within a runtime of its own.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use tokio::runtime::{Handle, Runtime};

use super::link::Link;
use super::server::{Enter, LogLevel};
use super::task::caught;
use super::wire::Hello;
use super::{EndpointRef, connect, export, is_compatible, serve_extensions};
use crate::error::{Error, ErrorKind, Result};

/// Code of a plug-in runs on the host's threads, and expects the timers, the
/// sockets and the `spawn` of the tokio that it was linked with.
struct InRuntime(Handle);

impl Enter for InRuntime {
    fn enter(&self, run: &mut dyn FnMut()) {
        let _entered = self.0.enter();
        run();
    }
}

/// What ends when the host closes the plug-in.
struct Ends {
    link: Weak<Link>,
    runtime: Mutex<Option<Runtime>>,
}

impl Ends {
    fn end(&self) {
        if let Some(link) = self.link.upgrade() {
            link.close();
        }
        let runtime = self
            .runtime
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(runtime) = runtime {
            // This is a thread of the host's, which may not block.
            runtime.shutdown_background();
        }
    }
}

/// Makes an instance that serves all extensions linked into this shared object.
pub(super) fn start(host: EndpointRef, host_minor: u32, config: &[u8]) -> Result<EndpointRef> {
    // There is one minor version yet, so nothing depends on it.
    let _ = host_minor;
    let Hello { api_version } = serde_json::from_slice(config)
        .map_err(|e| Error::new(ErrorKind::Corrupt, format!("the host's greeting: {e}")))?;
    if !is_compatible(&api_version) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "the host was built with an incompatible version of haft-api",
        )
        .context("wanted", crate::API_VERSION)
        .context("offered", api_version));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("haft-plugin")
        .enable_all()
        .build()
        .map_err(|e| Error::io(e, "the plug-in's runtime can't be started"))?;
    let enter = Arc::new(InRuntime(runtime.handle().clone()));

    let ends: Arc<OnceLock<Ends>> = Arc::default();
    let on_close = {
        let ends = Arc::clone(&ends);
        Box::new(move || {
            if let Some(ends) = ends.get() {
                ends.end();
            }
        })
    };
    // What a host writes into a plug-in's log is nobody's to read.
    let log = Box::new(|_: LogLevel, _: &str| {});
    let extensions = crate::linked_extensions()
        .into_iter()
        .map(|linked| {
            caught(|| (linked.make)()).map_err(|text| {
                Error::new(ErrorKind::Unexpected, text)
                    .operation("make an extension")
                    .context("type", linked.name)
                    .context("package", linked.package)
            })
        })
        .collect::<Result<_>>()?;
    let server = serve_extensions(extensions, Some(enter), log, on_close)?;
    let link = Link::new("the host".to_owned(), connect(host)?, Arc::clone(&server));
    ends.get_or_init(|| Ends {
        link: Arc::downgrade(&link),
        runtime: Mutex::new(Some(runtime)),
    });
    // It is the host that closes, and only the host.
    std::mem::forget(link);
    Ok(export(server))
}
